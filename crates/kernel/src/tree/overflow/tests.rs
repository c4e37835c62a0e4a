//! Chains against plain bytes: sizes around every border, full pools, frees, portions.

use std::sync::{Arc, Mutex};

use super::*;
use crate::base::{Error, HomeId, PAGE_BYTES, TreeId};
use crate::buffer::BufferPool;
use crate::io::{Fault, FaultOn, SimDisk, SimOptions};
use crate::page::overflow::{
    BLOCK_BYTES, CONTENT_BYTES, LongRef, StoredLong, blocks_len, encode_block,
};
use crate::store::PageStore;

const TREE: TreeId = TreeId(9);

fn pool(frames: usize) -> Arc<BufferPool> {
    BufferPool::new(2, 2 * frames * (PAGE_BYTES + 64)).expect("memory")
}

fn write(pool: &Arc<BufferPool>, value: &[u8]) -> crate::base::Result<(NewLong, Vec<u8>)> {
    let mut writer = LongWriter::new(pool, HomeId(1), TREE);
    let mut stored = Vec::new();
    for raw in value.chunks(BLOCK_BYTES) {
        let start = stored.len();
        encode_block(raw, &mut stored);
        writer.put(raw, &stored[start..])?;
    }
    Ok((writer.finish(), stored))
}

fn read(pool: &BufferPool, reference: LongRef) -> crate::base::Result<Vec<u8>> {
    let mut out = vec![7];
    read_whole(pool, LongOwner::newest(TREE), reference, &mut out)?;
    Ok(out.split_off(1))
}

fn values() -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut sizes = vec![1, 24, 8000, 10 * BLOCK_BYTES + 17];
    for border in [CONTENT_BYTES, 4 * CONTENT_BYTES, BLOCK_BYTES, 2 * BLOCK_BYTES] {
        sizes.extend(border - 6..border + 6);
    }
    let mut values = Vec::new();
    for size in sizes {
        values.push((0..size).map(|_| random.u8(..)).collect());
        values.push((0..size).map(|i| (i / 100) as u8).collect());
    }
    values
}

#[test]
fn values_of_all_sizes_read_back_and_leave_nothing() {
    let pool = pool(2000);
    for value in values() {
        let (mut long, stored) = write(&pool, &value).unwrap();
        let reference = long.reference();
        assert_eq!(reference.raw_bytes as usize, value.len());
        assert_eq!(reference.stored_bytes as usize, stored.len());
        assert_eq!(reference.pages as usize, stored.len().div_ceil(CONTENT_BYTES));
        assert_eq!(pool.overflow_pages().len(), reference.pages as usize);
        assert_eq!(read(&pool, reference).unwrap(), value);
        assert_eq!(blocks_len(&stored, value.len()), Some(stored.len()));
        // As recovery puts it back.
        let (raw_bytes, checksum) = (reference.raw_bytes, reference.checksum);
        let as_logged = StoredLong { raw_bytes, checksum, blocks: &stored };
        let again = write_stored(&pool, HomeId(0), TREE, &as_logged).unwrap();
        assert_eq!(read(&pool, again.reference()).unwrap(), value);
        drop(again);
        // A chain that a row has taken stays until it is freed, in portions too.
        long.adopt();
        drop(long);
        assert_eq!(pool.overflow_pages().len(), reference.pages as usize);
        let mut chain = FreeChain::new(reference.first);
        let mut freed = 0;
        while chain.free(&pool, 3) == Ok(3) {
            freed += 3;
            assert!(read(&pool, reference).is_err(), "a chain without its beginning");
        }
        assert!(freed <= reference.pages as usize);
        assert_eq!((pool.overflow_pages().len(), pool.stats().used), (0, 0));
    }
}

#[test]
fn a_full_pool_refuses_a_value_and_loses_nothing() {
    let pool = pool(20);
    let mut random = fastrand::Rng::with_seed(2);
    let noise: Vec<u8> = (0..60 * PAGE_BYTES).map(|_| random.u8(..)).collect();
    for _ in 0..5 {
        let refused = write(&pool, &noise).err();
        assert_eq!(refused, Some(Error::OutOfMemory { what: "buffer pool" }));
        assert_eq!((pool.overflow_pages().len(), pool.stats().used), (0, 0));
    }
    assert!(write(&pool, &noise[..30 * PAGE_BYTES]).is_ok());
}

#[test]
fn a_block_that_the_disk_has_no_room_for_is_not_begun_and_may_be_given_again() {
    let mut random = fastrand::Rng::with_seed(5);
    let noise: Vec<u8> = (0..3 * BLOCK_BYTES).map(|_| random.u8(..)).collect();
    let mut refused = 0;
    for after in 0..8 {
        let disk = SimDisk::new(SimOptions::seeded(5));
        let store = PageStore::new(Arc::new(disk.clone()), 7, 1, 1);
        let pool = BufferPool::over(1, 40 * (PAGE_BYTES + 64), Some(store)).unwrap();
        let (on, errno) = (FaultOn::Grow, libc::ENOSPC);
        disk.inject(Fault { on, name_contains: "pages", after, times: 1, errno });
        let mut writer = LongWriter::new(&pool, HomeId(0), TREE);
        for raw in noise.chunks(BLOCK_BYTES) {
            let mut block = Vec::new();
            encode_block(raw, &mut block);
            let before = pool.overflow_pages().len();
            if let Err(error) = writer.put(raw, &block) {
                assert!(matches!(error, Error::DiskFull { .. }), "{error:?}");
                assert_eq!(pool.overflow_pages().len(), before, "all pages of a block, or none");
                refused += 1;
                writer.put(raw, &block).unwrap();
            }
        }
        let long = writer.finish();
        assert_eq!(long.reference().pages as usize, pool.overflow_pages().len());
        assert_eq!(read(&pool, long.reference()).unwrap(), noise);
    }
    assert!(refused > 5, "{refused}");
}

#[test]
fn pids_of_freed_pages_are_given_again() {
    let pool = pool(100);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..1000 {
        let (long, _) = write(&pool, &[1; 3000]).unwrap();
        seen.insert(long.reference().first);
    }
    assert!(seen.len() <= 2, "{} PIDs for one page at a time", seen.len());
}

#[test]
fn a_value_that_is_not_whole_is_corrupt() {
    let pool = pool(100);
    let mut random = fastrand::Rng::with_seed(4);
    let noise: Vec<u8> = (0..3 * CONTENT_BYTES).map(|_| random.u8(..)).collect();
    let (long, _) = write(&pool, &noise).unwrap();
    let whole = long.reference();
    let damaged = [
        LongRef { checksum: whole.checksum ^ 1, ..whole },
        LongRef { raw_bytes: whole.raw_bytes + 1, ..whole },
        LongRef { raw_bytes: whole.raw_bytes - 1, ..whole },
        LongRef { pages: whole.pages - 1, ..whole },
        LongRef { pages: whole.pages + 1, ..whole },
        LongRef { first: crate::base::Pid(whole.first.0 + 1), ..whole },
        LongRef { first: crate::base::Pid(u64::MAX >> 1), ..whole },
    ];
    for reference in damaged {
        let result = read(&pool, reference);
        assert!(matches!(result, Err(Error::Corrupt { .. })), "{reference:?}");
    }
    assert_eq!(read(&pool, whole).unwrap(), noise);
}

fn on_disk(frames: usize) -> Arc<BufferPool> {
    let disk = SimDisk::new(SimOptions::seeded(6));
    let store = PageStore::new(Arc::new(disk), 7, 2, 16);
    BufferPool::over(2, 2 * frames * (PAGE_BYTES + 64), Some(store)).expect("memory")
}

#[test]
fn values_larger_than_the_pool_leave_memory_and_come_back() {
    let pool = on_disk(40);
    let mut random = fastrand::Rng::with_seed(6);
    let values: Vec<Vec<u8>> = (0..100)
        .map(|_| (0..random.usize(1..5 * PAGE_BYTES)).map(|_| random.u8(..)).collect())
        .collect();
    let longs: Vec<NewLong> = values.iter().map(|value| write(&pool, value).unwrap().0).collect();
    let pages: usize = longs.iter().map(|long| long.reference().pages as usize).sum();
    assert!(pages > 3 * pool.frames(), "{pages}");
    for turn in 0..3 {
        for (long, value) in longs.iter().zip(&values) {
            assert!(read(&pool, long.reference()).unwrap() == *value, "turn {turn}");
        }
    }
    let traffic = pool.traffic_sum();
    assert!(traffic.loads as usize > pages && traffic.evictions as usize > pages, "{traffic:?}");
    // Each is written once, for it does not change.
    assert!(traffic.written as usize <= pages, "{traffic:?}");
    let all: usize = longs
        .iter()
        .map(|long| pages_of(&pool, LongOwner::newest(TREE), long.reference()).len())
        .sum();
    assert_eq!((all, pool.overflow_pages().len()), (pages, pages));
    drop(longs);
    assert_eq!((pool.overflow_pages().len(), pool.stats().used), (0, 0));
}

/// Threads write, read and free values in a pool too small for them, and read some of the others',
/// which may be gone.
#[test]
fn values_come_and_go_while_others_look_for_them() {
    const THREADS: u64 = 4;
    let pool = on_disk(40);
    let seed: u64 = fastrand::u64(..);
    println!("seed {seed}");
    let known: Mutex<Vec<(LongRef, u8)>> = Mutex::default();
    let value = |random: &mut fastrand::Rng, tag: u8| {
        let mut bytes: Vec<u8> =
            (0..random.usize(1..4 * PAGE_BYTES)).map(|_| random.u8(..)).collect();
        bytes[0] = tag;
        bytes
    };
    let work = &|thread: u64| {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_add(thread));
        let (mut own, mut gone) = (Vec::new(), 0);
        for turn in 0..3000 {
            match random.u8(0..6) {
                0 | 1 if own.len() < 40 => {
                    let tag = random.u8(..);
                    let bytes = value(&mut random, tag);
                    // Too many pages may be incomplete at once.
                    let Ok((long, _)) = write(&pool, &bytes) else { continue };
                    known.lock().unwrap().push((long.reference(), tag));
                    own.push((long, bytes));
                }
                2 if own.len() > 20 => drop(own.swap_remove(random.usize(..own.len()))),
                3 => {
                    let other = {
                        let known = known.lock().unwrap();
                        (!known.is_empty()).then(|| known[random.usize(..known.len())])
                    };
                    let Some((reference, tag)) = other else { continue };
                    match read(&pool, reference) {
                        Ok(bytes) => assert_eq!(bytes[0], tag),
                        Err(Error::Corrupt { page: Some(_), .. }) => gone += 1,
                        Err(error) => panic!("turn {turn}: {error:?}"),
                    }
                }
                _ if !own.is_empty() => {
                    let (long, bytes) = &own[random.usize(..own.len())];
                    let found = read(&pool, long.reference());
                    assert!(found.as_ref() == Ok(bytes), "turn {turn}: {:?}", found.err());
                }
                _ => {}
            }
        }
        gone
    };
    let gone: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|at| scope.spawn(move || work(at))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let traffic = pool.traffic_sum();
    assert!(gone > 0 && traffic.loads > 100 && traffic.evictions > 100, "{gone}, {traffic:?}");
    assert_eq!(pool.overflow_pages().len(), 0);
    assert_eq!(pool.stats().used, 0);
}
