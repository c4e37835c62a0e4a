//! The page provider: sees to it that frames are free before anybody wants them (rule 4.4).
//!
//! Invariants: one task of each instance at a time, for the instance's own partition; it writes what
//! has changed in long writes and evicts it when it lies on disk, unless it was used or changed
//! meanwhile. No more is written at once than is to be freed. Nothing is latched while a write is awaited. It may fail (a full disk): then those who
//! want frames are told, if they find none themselves, who write pages where they lie (rule 4). This does not:
//! it would for pages that nobody needs room for yet.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::evict::Looked;
use super::frame::HOT;
use super::inner::assert_writable;
use super::long::{WrittenLong, is_long};
use super::partition::kept_of;
use super::pool::BufferPool;
use super::writer::{Equals, ImageWriter, Turn};
use super::{FrameRef, Pace};
use crate::base::{HomeId, PAGE_BYTES, Result};
use crate::latch::PageBytes;
use crate::runtime::{InstanceState, TaskContext};
use crate::store::Term;
use crate::sync::{AtomicU64, within};

/// Looks between two chances for others to run.
const LOOKS_TOGETHER: usize = 32;

/// When the page provider begins and ends, in free frames of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// It begins below.
    pub low: usize,
    /// It ends here.
    pub high: usize,
}

impl Watermarks {
    /// Of a partition of so many frames: two and four percent, but enough for a few writes, above those
    /// that only loads get which cannot fail: for these nobody else comes below.
    pub fn of(frames: usize) -> Watermarks {
        let low = (frames / 50).max(64).min(frames / 8);
        let kept = kept_of(frames);
        Watermarks { low: kept + low, high: kept + 2 * low }
    }
}

/// Makes frames of the home's partition free, up to the high watermark, if there are pages that can
/// be evicted. Errors: `DiskFull`, `Io`, `ShuttingDown`.
pub fn provide<S: InstanceState>(
    context: &TaskContext<S>,
    pool: &BufferPool,
    home: HomeId,
) -> Result<()> {
    let Some(store) = pool.store() else { return Ok(()) };
    // No checkpoint's term: nothing of this is held by one.
    let turn = Turn { term: Term(0), beat_ns: Arc::new(AtomicU64::new(0)) };
    let mut writer = ImageWriter::new(context, store.clone(), turn, home);
    let mut page = Box::new([0; PAGE_BYTES]);
    // Those that are being written.
    let mut gathered = FxHashSet::default();
    let _providing = within("eviction");
    let (frames, _) = pool.frames_of(home);
    let high = Watermarks::of(frames).high;
    // Everything is spared some times, and something may be in the way.
    for looked in 0..4 * HOT as usize * frames {
        if looked % LOOKS_TOGETHER == 0 {
            evict_written(pool, &mut writer, &mut gathered);
            let free = pool.frames_of(home).1;
            if free >= high {
                break;
            }
            if free + gathered.len() >= high {
                // Enough, if nothing is in the way of any of them.
                writer.finish()?;
                evict_written(pool, &mut writer, &mut gathered);
                gathered.clear();
            }
            context.linger("eviction");
            writer.breathe();
        }
        if let Looked::Dirty(read) = pool.look(home, Pace::Slow)
            && !gathered.contains(&read.frame())
        {
            if is_long(&read) {
                if let WrittenLong::At(place) = writer.write_long(read, &mut page)? {
                    let _ = pool.evict(read, place);
                }
                continue;
            }
            read.racy().copy(0, &mut *page);
            if read.validate().is_ok() {
                assert_writable(&page);
                gathered.insert(read.frame());
                writer.add(&page, Equals::Contents(read))?;
            }
        }
    }
    writer.finish()?;
    context.linger("eviction");
    evict_written(pool, &mut writer, &mut gathered);
    pool.note_provided(home, writer.written.pages);
    Ok(())
}

/// Evicts the pages whose writes have ended, but for those that were used or changed meanwhile.
fn evict_written<S: InstanceState>(
    pool: &BufferPool,
    writer: &mut ImageWriter<'_, S>,
    gathered: &mut FxHashSet<FrameRef>,
) {
    for (read, place) in writer.take_cleaned() {
        gathered.remove(&read.frame());
        if !read.frame().cool(Pace::Slow) {
            // Somebody is in the way: another time.
            let _ = pool.evict(read, place);
        }
    }
}
