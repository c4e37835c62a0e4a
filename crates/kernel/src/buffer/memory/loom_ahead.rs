//! Model of memory asked for ahead of its use (ahead.rs): an asking that is lost leaves the thread asleep for good, which loom reports.

use loom::sync::Arc;
use loom::thread;

use super::ahead::{Asks, Fresh};
use crate::latch::SpinLock;

const FRAMES: u32 = 6;

/// An instance takes frames, as `Partition::take` does, while the thread looks, makes ready and sleeps, as `keep_ahead` does.
#[test]
fn no_asking_for_memory_is_lost() {
    loom::model(|| {
        let fresh = Arc::new(SpinLock::new(Fresh::new(FRAMES)));
        let shared = fresh.clone();
        let keeper = thread::spawn(move || {
            let mut ready = 0;
            loop {
                let look = |fresh: &mut Fresh| (fresh.due(ready), fresh.left());
                match shared.with(look) {
                    (Some(due), _) => ready = due.end,
                    // It ends with the last frame, of which it has to be told, unless that is ready.
                    (None, left) if left == 0 || ready == FRAMES => return,
                    (None, _) => thread::park(),
                }
            }
        });
        for _ in 0..FRAMES {
            let asks = fresh.with(|fresh| {
                fresh.take().expect("one of six");
                fresh.asks()
            });
            if asks == Asks::ForMemory {
                keeper.thread().unpark();
            }
        }
        keeper.join().expect("the keeper ends");
    });
}
