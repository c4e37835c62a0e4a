//! Work that threads of the moment share: recovery's, and that of building indexes.

use super::{AtomicUsize, Ordering};
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

/// Gives `pieces` out to so many threads, to each the next one when it asks, and collects what each thread makes of its
/// own; the first error wins.
pub fn in_turns<'p, P: Sync, T: Send>(
    pieces: &'p [P],
    threads: usize,
    work: impl Fn(&mut dyn Iterator<Item = &'p P>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let (given, work) = (&AtomicUsize::new(0), &work);
    in_parallel((0..threads.min(pieces.len())).map(|_| {
        move || {
            let next = || pieces.get(given.fetch_add(1, Ordering::Relaxed));
            work(&mut std::iter::from_fn(next))
        }
    }))
}
