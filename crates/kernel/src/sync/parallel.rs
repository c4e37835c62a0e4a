//! Work that threads of the moment share: recovery's, and that of building indexes.

use crate::base::{Error, Result};

/// Runs each piece of work on a thread of its own and collects the answers; the first error wins.
pub fn in_parallel<T: Send>(
    work: impl Iterator<Item = impl FnOnce() -> Result<T> + Send>,
) -> Result<Vec<T>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = work.map(|piece| scope.spawn(piece)).collect();
        let ended = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| {
                Err(Error::Internal {
                    detail: "a thread of recovery, or of building an index, panicked".to_owned(),
                })
            })
        });
        ended.collect()
    })
}
