//! Chains against plain bytes: sizes around every border, full pools, frees, portions.

use std::sync::Arc;

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
    read_whole(pool, LongOwner::in_memory(TREE), reference, &mut out)?;
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
        assert_eq!(pool.overflow_pages().count(), reference.pages as usize);
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
        assert_eq!(pool.overflow_pages().count(), reference.pages as usize);
        let mut chain = FreeChain::new(reference.first);
        let mut freed = 0;
        while chain.free(&pool, 3) == 3 {
            freed += 3;
            assert!(read(&pool, reference).is_err(), "a chain without its beginning");
        }
        assert!(freed <= reference.pages as usize);
        assert_eq!((pool.overflow_pages().count(), pool.stats().used), (0, 0));
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
        assert_eq!((pool.overflow_pages().count(), pool.stats().used), (0, 0));
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
            let before = pool.overflow_pages().count();
            if let Err(error) = writer.put(raw, &block) {
                assert!(matches!(error, Error::DiskFull { .. }), "{error:?}");
                assert_eq!(pool.overflow_pages().count(), before, "all pages of a block, or none");
                refused += 1;
                writer.put(raw, &block).unwrap();
            }
        }
        let long = writer.finish();
        assert_eq!(long.reference().pages as usize, pool.overflow_pages().count());
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
