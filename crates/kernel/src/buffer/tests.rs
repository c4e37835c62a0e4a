//! The pool's promises: a hard limit, nothing lost, PIDs never reused, latches counted.

use super::*;
use crate::base::{Error, HomeId, PAGE_BYTES, Pid, Place, Stop, TreeId};
use crate::latch::{PageBytes, held_latches};
use crate::page::{PageKind, header};

const FRAME: usize = PAGE_BYTES + 64;

#[test]
fn a_full_pool_refuses_and_loses_nothing() {
    let pool = BufferPool::new(2, 20 * FRAME).unwrap();
    assert_eq!(pool.stats(), PoolStats { used: 0, free: 20 });
    let half = pool.reserve(HomeId(0), 15).unwrap();
    assert_eq!(pool.stats(), PoolStats { used: 15, free: 5 });
    for _ in 0..3 {
        let refused = pool.reserve(HomeId(1), 6).err();
        assert_eq!(refused, Some(Error::OutOfMemory { what: "buffer pool" }));
        assert_eq!(pool.stats().free, 5, "a refused reservation gives back what it found");
    }
    drop(half);
    assert_eq!(pool.stats().free, 20);
    assert_eq!(pool.reserve(HomeId(1), 20).unwrap().len(), 20);
}

#[test]
fn pages_of_a_home_come_from_its_partition_first() {
    let pool = BufferPool::new(2, 20 * FRAME).unwrap();
    let mut frames = Vec::new();
    for home in [0, 1] {
        let mut reserved = pool.reserve(HomeId(home), 10).unwrap();
        for _ in 0..10 {
            let page = pool.allocate(&mut reserved, PageKind::TableLeaf, TreeId(1));
            assert_eq!(page.pid().home(), HomeId(home));
            frames.push(page.frame());
        }
    }
    let addresses: Vec<u64> = frames.iter().map(|frame| Swip::hot(*frame).raw()).collect();
    let span = |part: &[u64]| part.iter().max().unwrap() - part.iter().min().unwrap();
    assert!(span(&addresses[..10]) < 10 * FRAME as u64);
    assert!(span(&addresses[10..]) < 10 * FRAME as u64);
}

#[test]
fn pids_are_given_again_but_to_one_page_at_a_time_and_versions_never_go_back() {
    let pool = BufferPool::new(1, 4 * FRAME).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    let mut versions = std::collections::HashMap::new();
    for turn in 0..2000 {
        let mut reserved = pool.reserve(HomeId(0), 1 + turn % 4).unwrap();
        let page = pool.allocate(&mut reserved, PageKind::Inner, TreeId(7));
        seen.insert(page.pid());
        assert_ne!(page.pid(), Pid(0));
        assert_eq!(header::kind(page.owned()), Some(PageKind::Inner));
        assert_eq!(header::pid(page.owned()), page.pid());
        assert_eq!(header::tree(page.owned()), TreeId(7));
        let frame = page.frame();
        let stale = frame.latch().read();
        assert!(stale.is_err(), "held exclusively");
        pool.free(page);
        let version = frame.latch().read().unwrap().number();
        assert!(versions.insert(frame, version).is_none_or(|before| before < version));
    }
    assert_eq!(pool.stats().used, 0);
    assert_eq!(seen.len(), 1, "one page at a time");
    let mut reserved = pool.reserve(HomeId(0), 4).unwrap();
    for turn in 0..4 {
        let page = pool.allocate(&mut reserved, PageKind::Inner, TreeId(7));
        assert_eq!(seen.insert(page.pid()), turn > 0, "{} is in use", page.pid());
    }
}

#[test]
fn an_optimistic_read_fails_after_a_change_and_survives_an_unchanged_release() {
    let pool = BufferPool::new(1, 2 * FRAME).unwrap();
    let mut reserved = pool.reserve(HomeId(0), 1).unwrap();
    let frame = pool.allocate(&mut reserved, PageKind::Inner, TreeId(7)).frame();
    let read = PageRead::begin(frame).unwrap();
    PageWrite::lock(frame).unwrap().unchanged();
    assert!(read.validate().is_ok());
    let shared = PageShared::lock(frame).unwrap();
    assert!(read.validate().is_ok(), "shared holders do not disturb");
    assert!(matches!(PageWrite::try_lock(frame), Err(Stop::Retry)));
    assert!(read.upgrade().is_err());
    drop(shared);
    let mut page = read.upgrade().unwrap();
    assert!(read.validate().is_err(), "held exclusively");
    page.bytes_mut()[100] = 9;
    drop(page);
    assert!(matches!(read.validate(), Err(Stop::Retry)));
    assert!(read.upgrade().is_err());
    assert_eq!(frame.racy().u8(100), 9);
}

#[test]
fn held_latches_are_counted_on_their_thread() {
    let pool = BufferPool::new(1, 4 * FRAME).unwrap();
    let mut reserved = pool.reserve(HomeId(0), 2).unwrap();
    assert_eq!(held_latches(), 0);
    let first = pool.allocate(&mut reserved, PageKind::Inner, TreeId(7));
    let second = pool.allocate(&mut reserved, PageKind::Inner, TreeId(7));
    assert_eq!(held_latches(), 2);
    std::thread::scope(|scope| scope.spawn(|| assert_eq!(held_latches(), 0)).join().unwrap());
    let frame = first.frame();
    drop(first);
    let shared = PageShared::lock(frame).unwrap();
    assert_eq!(held_latches(), 2);
    pool.free(second);
    drop(shared);
    assert_eq!(held_latches(), 0);
}

#[test]
fn swips_say_what_they_were_made_of() {
    let pool = BufferPool::new(1, FRAME).unwrap();
    let mut reserved = pool.reserve(HomeId(0), 1).unwrap();
    let frame = pool.allocate(&mut reserved, PageKind::Inner, TreeId(7)).frame();
    assert_eq!(Swip::hot(frame).state(), SwipState::Hot(frame));
    assert_eq!(Swip::hot(frame).child_of(frame).unwrap(), frame);
    // SAFETY: the word is that of a swip made just now.
    let cooling = unsafe { Swip::from_raw(Swip::hot(frame).raw() | 1) };
    assert_eq!(cooling.state(), SwipState::Cooling(frame));
    let pid = Place::new(HomeId(511), (1 << 47) - 1);
    assert_eq!(Swip::evicted(pid).state(), SwipState::Evicted(pid));
    let needed = Swip::evicted(pid).child_of(frame);
    assert!(matches!(needed, Err(Stop::NeedPage(it)) if it.place == pid));
}

#[test]
fn threads_share_a_pool_without_losing_a_frame() {
    let pool = BufferPool::new(2, 64 * FRAME).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u16 {
            let pool = &pool;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(u64::from(thread));
                let mut mine: Vec<FrameRef> = Vec::new();
                for _ in 0..3000 {
                    if rng.bool()
                        && let Ok(mut reserved) = pool.reserve(HomeId(thread % 2), rng.usize(1..20))
                    {
                        let tree = TreeId(u32::from(thread));
                        let page = pool.allocate(&mut reserved, PageKind::TableLeaf, tree);
                        mine.push(page.frame());
                    } else if let Some(frame) = mine.pop() {
                        let page = PageWrite::lock(frame).unwrap();
                        assert_eq!(header::tree(page.owned()), TreeId(u32::from(thread)));
                        pool.free(page);
                    }
                }
                for frame in mine {
                    pool.free(PageWrite::lock(frame).unwrap());
                }
            });
        }
    });
    assert_eq!(pool.stats(), PoolStats { used: 0, free: 64 });
}
