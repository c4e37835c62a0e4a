//! The intrusive queue by which threads hand things to one instance: it never refuses (rule 2.5).
//!
//! Invariants: a node is in at most one inbox; whoever takes it owns it again. Pushing is a CAS on
//! one word and allocates nothing; taking swaps the whole list out and reverses it, so what one
//! thread pushed comes out in its order. Taking everything at once leaves no ABA window, so any
//! number of threads may take (only the owner and, once it is gone, senders do).
//!
//! Tried first: Vyukov's queue with a stub node. One exchange a push instead of a CAS, but a
//! producer that is preempted between its exchange and its link hides everything behind it from
//! the consumer, and "empty" then has three meanings in the sleep protocol.

use crate::sync::{AtomicPtr, Ordering};

/// A node that has room for the queue's link.
///
/// # Safety
/// `next` always answers the same field of the same node, which nothing but an inbox touches.
pub(super) unsafe trait Linked: Sized {
    /// The link; written by whoever owns the node, read by whoever took it.
    fn next(&self) -> &AtomicPtr<Self>;
}

/// An owning pointer to a node.
///
/// # Safety
/// `from_raw(into_raw(x))` gives `x` back, and the node does not move in between.
pub(super) unsafe trait Parcel: Sized {
    /// What is queued.
    type Node: Linked;
    /// Gives the ownership to the pointer.
    fn into_raw(self) -> *mut Self::Node;
    /// Takes the ownership back.
    ///
    /// # Safety
    /// `node` came from `into_raw` and its ownership was not taken back since.
    unsafe fn from_raw(node: *mut Self::Node) -> Self;
}

/// Many producers, one taker at a time.
pub(super) struct Inbox<P: Parcel> {
    // Written by producers (CAS, Release, partner: the taker's Acquire swap) and takers.
    head: AtomicPtr<P::Node>,
}

// SAFETY: the inbox owns its parcels and hands each to exactly one taker; parcels cross threads,
// so they must be `Send`; nobody gets a shared reference into a queued node.
unsafe impl<P: Parcel + Send> Send for Inbox<P> {}
// SAFETY: as above; all access to `head` is atomic.
unsafe impl<P: Parcel + Send> Sync for Inbox<P> {}

impl<P: Parcel> Inbox<P> {
    /// An empty inbox.
    pub(super) fn new() -> Inbox<P> {
        Inbox { head: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Adds `parcel`; any thread. The caller then wakes the taker (`SleepWord::knock`).
    pub(super) fn push(&self, parcel: P) {
        let node = parcel.into_raw();
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: we own the node until the exchange below publishes it.
            unsafe { (*node).next().store(head, Ordering::Relaxed) };
            match self.head.compare_exchange_weak(
                head,
                node,
                Ordering::Release, // partner: the Acquire swap in `take`
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Whether nothing is queued, as far as this thread can see.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Takes everything, oldest first.
    pub(super) fn take(&self) -> Taken<P> {
        if self.is_empty() {
            return Taken { head: std::ptr::null_mut() };
        }
        // Partner: the Release exchange in `push`.
        let mut newest = self.head.swap(std::ptr::null_mut(), Ordering::Acquire);
        let mut oldest = std::ptr::null_mut();
        while !newest.is_null() {
            // SAFETY: the swap made every node of the list ours.
            let link = unsafe { (*newest).next() };
            let older = link.load(Ordering::Relaxed);
            link.store(oldest, Ordering::Relaxed);
            oldest = newest;
            newest = older;
        }
        Taken { head: oldest }
    }
}

impl<P: Parcel> Drop for Inbox<P> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// What was taken, oldest first; dropping it drops the rest.
pub(super) struct Taken<P: Parcel> {
    head: *mut P::Node,
}

impl<P: Parcel> Iterator for Taken<P> {
    type Item = P;

    fn next(&mut self) -> Option<P> {
        if self.head.is_null() {
            return None;
        }
        let node = self.head;
        // SAFETY: every node from `head` on is ours and was made by `into_raw`.
        unsafe {
            self.head = (*node).next().load(Ordering::Relaxed);
            Some(P::from_raw(node))
        }
    }
}

impl<P: Parcel> Drop for Taken<P> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

/// A boxed message with its link.
pub(super) struct Letter<T> {
    next: AtomicPtr<Letter<T>>,
    /// What is sent.
    pub(super) content: T,
}

impl<T> Letter<T> {
    /// A letter that holds `content`.
    pub(super) fn new(content: T) -> Box<Letter<T>> {
        Box::new(Letter { next: AtomicPtr::new(std::ptr::null_mut()), content })
    }
}

// SAFETY: `next` is that field.
unsafe impl<T> Linked for Letter<T> {
    fn next(&self) -> &AtomicPtr<Self> {
        &self.next
    }
}

// SAFETY: `Box::into_raw` and `Box::from_raw` are inverses and the box does not move its content.
unsafe impl<T> Parcel for Box<Letter<T>> {
    type Node = Letter<T>;

    fn into_raw(self) -> *mut Letter<T> {
        Box::into_raw(self)
    }

    unsafe fn from_raw(node: *mut Letter<T>) -> Self {
        // SAFETY: the caller says that `node` came from `into_raw`.
        unsafe { Box::from_raw(node) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn each_threads_letters_come_out_in_its_order_and_none_is_lost() {
        type Numbered = Box<Letter<(u32, u32)>>;
        let inbox: Arc<Inbox<Numbered>> = Arc::new(Inbox::new());
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let inbox = inbox.clone();
                std::thread::spawn(move || {
                    for number in 0..2000 {
                        inbox.push(Letter::new((thread, number)));
                    }
                })
            })
            .collect();
        let mut next = [0; 3];
        let mut taken = 0;
        while taken < 6000 {
            for letter in inbox.take() {
                let (thread, number) = letter.content;
                assert_eq!(next[thread as usize], number);
                next[thread as usize] += 1;
                taken += 1;
            }
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(inbox.is_empty());
    }

    #[test]
    fn what_is_left_is_dropped_with_the_inbox() {
        let witness = Arc::new(());
        let inbox = Inbox::new();
        inbox.push(Letter::new(witness.clone()));
        inbox.push(Letter::new(witness.clone()));
        let mut taken = inbox.take();
        drop(taken.next());
        drop(taken);
        inbox.push(Letter::new(witness.clone()));
        drop(inbox);
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}
