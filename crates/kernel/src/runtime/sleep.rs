//! The handshake by which an instance sleeps and a sender wakes it (rule 2.5), and the door that
//! carries it: everything about an instance that other threads need and that is not generic.
//!
//! Invariants: a sender pushes, fences, reads the word; a sleeper sets the word, fences, looks at
//! its queues again. The two fences are sequentially consistent and partners of each other, so at
//! least one side sees the other: either the sleeper finds the message, or the sender finds it
//! asleep and wakes it. Only the owner sets `ASLEEP` and `GONE`; a sender may change `ASLEEP` to
//! `AWAKE` (the one that does so pays for the wake-up). Once `GONE`, the sender drops what it
//! pushed. `loom_sleep` models it.

use std::sync::{Arc, OnceLock};

use crate::io::Wake;
use crate::sync::{AtomicU32, Ordering, fence, mutant, point};

use super::inbox::Inbox;
use super::park::ParkCell;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const GONE: u32 = 2;

/// What a sender found behind the door after its push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// The instance is running and looks at its queues before it sleeps.
    Awake,
    /// It slept; the caller is the one who must wake it.
    WakeIt,
    /// It has ended; the caller takes back (drops) what it pushed.
    Gone,
}

/// Whether the instance may really sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sleep {
    /// Nothing came in between: sleep.
    Deep,
    /// Something did: take another turn.
    Not,
}

/// Asleep, awake or gone.
pub(super) struct SleepWord {
    // `ASLEEP`, `GONE`: written by the owner. `AWAKE`: by the owner and by senders (CAS).
    word: AtomicU32,
}

impl SleepWord {
    pub(super) fn new() -> SleepWord {
        SleepWord { word: AtomicU32::new(AWAKE) }
    }

    /// Owner: about to sleep; `news` looks at every queue that senders push to before they knock.
    pub(super) fn fall_asleep(&self, news: impl FnOnce() -> bool) -> Sleep {
        self.word.store(ASLEEP, Ordering::Relaxed);
        point("runtime-asleep");
        if !mutant("sleep-without-fence") {
            fence(Ordering::SeqCst); // partner: the fence in `knock`
        }
        if !mutant("sleep-without-looking-again") && news() {
            self.word.store(AWAKE, Ordering::Relaxed);
            return Sleep::Not;
        }
        Sleep::Deep
    }

    /// Owner: awake again.
    pub(super) fn awake(&self) {
        self.word.store(AWAKE, Ordering::Relaxed);
    }

    /// Owner: will never look again. It drains its queues once more after this.
    pub(super) fn leave(&self) {
        self.word.store(GONE, Ordering::Relaxed);
        fence(Ordering::SeqCst); // partner: the fence in `knock`
    }

    /// Sender: after a push.
    pub(super) fn knock(&self) -> Heard {
        point("runtime-pushed");
        if !mutant("knock-without-fence") {
            fence(Ordering::SeqCst); // partner: the fences in `fall_asleep` and `leave`
        }
        match self.word.load(Ordering::Relaxed) {
            AWAKE => Heard::Awake,
            GONE => Heard::Gone,
            _ if mutant("wake-up-lost") => Heard::Awake,
            _ => {
                match self.word.compare_exchange(ASLEEP, AWAKE, Ordering::AcqRel, Ordering::Acquire)
                {
                    Ok(_) => Heard::WakeIt,
                    Err(GONE) => Heard::Gone,
                    Err(_) => Heard::Awake,
                }
            }
        }
    }
}

/// One instance as every thread sees it: woken tasks, the sleep word, the way to wake it. Aligned: its
/// instance writes it once a transaction, and a neighbour on the heap may be anybody's.
#[repr(align(128))]
pub(super) struct Door {
    /// Tasks that were unparked; pushed by any thread, taken by the instance.
    pub(super) wakes: Inbox<Arc<ParkCell>>,
    /// The handshake.
    pub(super) sleep: SleepWord,
    // Set once by the instance's own thread, before it can sleep for the first time.
    waker: OnceLock<Arc<dyn Wake>>,
}

impl Door {
    pub(super) fn new() -> Door {
        Door { wakes: Inbox::new(), sleep: SleepWord::new(), waker: OnceLock::new() }
    }

    /// The instance's ring exists now.
    pub(super) fn set_waker(&self, waker: Arc<dyn Wake>) {
        assert!(self.waker.set(waker).is_ok(), "an instance is opened once");
    }

    /// After a push to one of the instance's queues: wakes it if it sleeps.
    pub(super) fn knock(&self) -> Heard {
        let heard = self.sleep.knock();
        if heard == Heard::WakeIt {
            self.waker.get().expect("an instance sleeps only after its waker is set").wake();
        }
        heard
    }

    /// Queues an unparked task.
    pub(super) fn push_wake(&self, cell: Arc<ParkCell>) {
        self.wakes.push(cell);
        if self.knock() == Heard::Gone {
            drop(self.wakes.take());
        }
    }
}

#[cfg(all(test, loom))]
mod loom_sleep {
    //! `RUSTFLAGS="--cfg loom" cargo test -p atoll-kernel --lib loom_sleep`
    //!
    //! A lost wake-up shows as a deadlock: the sleeper waits for a notification nobody sends.

    use super::*;
    use crate::runtime::inbox::Letter;
    use loom::sync::Notify;
    use loom::thread;

    struct Shared {
        inbox: Inbox<Box<Letter<u32>>>,
        word: SleepWord,
        bell: Notify,
    }

    impl Shared {
        fn new() -> Arc<Shared> {
            Arc::new(Shared { inbox: Inbox::new(), word: SleepWord::new(), bell: Notify::new() })
        }

        fn send(&self, value: u32) -> Heard {
            self.inbox.push(Letter::new(value));
            let heard = self.word.knock();
            if heard == Heard::WakeIt {
                self.bell.notify();
            }
            heard
        }

        fn receive(&self, count: usize) -> Vec<u32> {
            let mut got = Vec::new();
            loop {
                got.extend(self.inbox.take().map(|letter| letter.content));
                if got.len() == count {
                    return got;
                }
                if self.word.fall_asleep(|| !self.inbox.is_empty()) == Sleep::Deep {
                    self.bell.wait();
                    self.word.awake();
                }
            }
        }
    }

    #[test]
    fn loom_sleep_one_sender() {
        loom::model(|| {
            let shared = Shared::new();
            let sender = {
                let shared = shared.clone();
                thread::spawn(move || {
                    shared.send(1);
                    shared.send(2);
                })
            };
            assert_eq!(shared.receive(2), [1, 2]);
            sender.join().unwrap();
        });
    }

    #[test]
    fn loom_sleep_two_senders() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let shared = Shared::new();
            let senders: Vec<_> = (1..3)
                .map(|value| {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        shared.send(value);
                    })
                })
                .collect();
            let mut got = shared.receive(2);
            got.sort_unstable();
            assert_eq!(got, [1, 2]);
            for sender in senders {
                sender.join().unwrap();
            }
        });
    }

    /// A letter that races with the end is dropped by the one or the other, never left behind.
    #[test]
    fn loom_sleep_leaving() {
        loom::model(|| {
            let shared = Shared::new();
            let sender = {
                let shared = shared.clone();
                thread::spawn(move || {
                    if shared.send(1) == Heard::Gone {
                        drop(shared.inbox.take());
                    }
                })
            };
            shared.word.leave();
            drop(shared.inbox.take());
            sender.join().unwrap();
            assert!(shared.inbox.is_empty());
        });
    }

    /// A task parks while another thread unparks it: it is woken, exactly once.
    #[test]
    fn loom_sleep_park_and_unpark() {
        loom::model(|| {
            let door = Arc::new(Door::new());
            let cell = Arc::new(ParkCell::for_task(door.clone(), 7));
            let waker = {
                let cell = cell.clone();
                thread::spawn(move || cell.unpark(crate::runtime::UnparkClass::Lock))
            };
            if cell.begin_park() {
                // Suspended: only a queued wake-up may resume it.
                let mut woken = 0;
                while woken == 0 {
                    woken += door.wakes.take().count();
                    thread::yield_now();
                }
                assert_eq!(woken, 1);
                cell.finish_park();
            }
            waker.join().unwrap();
            assert!(door.wakes.is_empty(), "no wake-up may be queued for a running task");
        });
    }

    /// Time-out against unpark: exactly one of them ends the wait.
    #[test]
    fn loom_sleep_time_out_against_unpark() {
        loom::model(|| {
            let door = Arc::new(Door::new());
            let cell = Arc::new(ParkCell::for_task(door.clone(), 7));
            assert!(cell.begin_park());
            let waker = {
                let cell = cell.clone();
                thread::spawn(move || cell.unpark(crate::runtime::UnparkClass::Io))
            };
            let timed_out = cell.time_out();
            waker.join().unwrap();
            assert_eq!(door.wakes.take().count(), usize::from(!timed_out));
        });
    }
}
