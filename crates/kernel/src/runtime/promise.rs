//! Letters that must be read: what is lost if nobody reads it (a session that moves, with its
//! socket) is sent as a promised letter, which its receiver waits for before it ends.
//!
//! ```text
//!   sender                               closer             receiver
//!   promised += 1                        closing = true     reads closing = true
//!   fence                                                   fence
//!   reads closing: if set, promised -= 1                    ends only if promised = 0
//!   else sends; the letter, when run,
//!   does promised -= 1
//! ```
//!
//! Invariants: a promise is made before the sender looks whether the database closes; a receiver
//! looks at the promises after it has seen that. The two fences are sequentially consistent and
//! partners of each other, so at least one side sees the other: either the sender sees the closing
//! and keeps what it has, or the receiver sees the promise and stays until the letter has come (or
//! `close_grace_ns` is over: then the letter is dropped, as all are). `loom_promise` models it.
//! The word is written once a letter, by its sender and its receiver; nothing else touches it but
//! a closing receiver.

use std::sync::Arc;

use crate::base::InstanceId;
use crate::sync::{AtomicBool, AtomicUsize, Ordering, fence, mutant};

use super::hub::{Hub, Message};
use super::instance::{Instance, InstanceState};

/// The letters that one instance will still read.
pub(super) struct Promises {
    // Raised by senders, lowered by the letter's reader (or a sender that gives up).
    count: AtomicUsize,
}

impl Promises {
    pub(super) fn new() -> Promises {
        Promises { count: AtomicUsize::new(0) }
    }

    /// Sender: makes a promise; false if the database closes, and then there is none.
    pub(super) fn make(&self, closing: &AtomicBool) -> bool {
        self.count.fetch_add(1, Ordering::Relaxed);
        if !mutant("promise-without-fence") {
            fence(Ordering::SeqCst); // partner: the fence in `are_kept`
        }
        if closing.load(Ordering::Relaxed) {
            self.keep();
            return false;
        }
        true
    }

    /// A letter was read, or is not sent.
    pub(super) fn keep(&self) {
        // Release: what the reader made of the letter is there before the instance may end.
        self.count.fetch_sub(1, Ordering::Release);
    }

    /// Receiver, after it has seen that the database closes: whether nothing is to come.
    pub(super) fn are_kept(&self) -> bool {
        if !mutant("kept-without-fence") {
            fence(Ordering::SeqCst); // partner: the fence in `make`
        }
        self.count.load(Ordering::Acquire) == 0
    }
}

/// The right to send one letter that is read before its receiver ends. Dropped, it is given back.
pub struct Promise<S: InstanceState> {
    hub: Arc<Hub<S>>,
    to: InstanceId,
}

impl<S: InstanceState> Promise<S> {
    pub(super) fn new(hub: Arc<Hub<S>>, to: InstanceId) -> Promise<S> {
        Promise { hub, to }
    }

    /// Sends the letter; as [`Hub::send`], but the receiver does not end before it has run.
    pub fn send(self, message: impl FnOnce(&Instance<S>) + Send + 'static) {
        let (hub, to) = (self.hub.clone(), self.to);
        let letter: Message<S> = Box::new(move |instance| {
            message(instance);
            drop(self);
        });
        hub.send(to, letter);
    }
}

impl<S: InstanceState> Drop for Promise<S> {
    fn drop(&mut self) {
        self.hub.mailbox(self.to).promises.keep();
    }
}

#[cfg(all(test, loom))]
mod loom_promise {
    //! `RUSTFLAGS="--cfg loom" cargo test -p atoll-kernel --lib loom_promise`

    use super::*;
    use crate::runtime::inbox::{Inbox, Letter};
    use loom::thread;

    struct Shared {
        inbox: Inbox<Box<Letter<u32>>>,
        promises: Promises,
        closing: AtomicBool,
    }

    /// Sends unless the database closes; answers whether it did.
    fn send(shared: &Shared) -> bool {
        let made = shared.promises.make(&shared.closing);
        if made {
            shared.inbox.push(Letter::new(1));
        }
        made
    }

    /// Reads until the database closes and nothing is promised; answers how many letters came.
    fn receive(shared: &Shared) -> usize {
        let mut got = 0;
        loop {
            for _ in shared.inbox.take() {
                got += 1;
                shared.promises.keep();
            }
            if shared.closing.load(Ordering::Relaxed) && shared.promises.are_kept() {
                return got;
            }
            thread::yield_now();
        }
    }

    #[test]
    fn loom_promise_is_kept_or_not_made() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Arc::new(Shared {
                inbox: Inbox::new(),
                promises: Promises::new(),
                closing: AtomicBool::new(false),
            });
            let sender = {
                let shared = shared.clone();
                thread::spawn(move || send(&shared))
            };
            let closer = {
                let shared = shared.clone();
                thread::spawn(move || shared.closing.store(true, Ordering::SeqCst))
            };
            let got = receive(&shared);
            closer.join().unwrap();
            let sent = sender.join().unwrap();
            assert_eq!(got, usize::from(sent), "what was sent is read, by one who had not ended");
            assert!(shared.inbox.is_empty());
        });
    }
}
