//! The page provider: sees to it that frames are free before anybody wants them (rule 4.4).
//!
//! Invariants: one task of each instance at a time, for the instance's own partition; it writes what
//! has changed in long writes and evicts it when it lies on disk, unless it was used or changed
//! meanwhile. Nothing is latched while a write is awaited. It may fail (a full disk): then those who
//! want frames are told.

use std::sync::Arc;

use super::evict::Looked;
use super::pool::BufferPool;
use super::writer::{Equals, ImageWriter, Turn};
use crate::base::{HomeId, PAGE_BYTES, Result};
use crate::latch::PageBytes;
use crate::runtime::{InstanceState, TaskContext};
use crate::store::Term;
use crate::sync::AtomicU64;

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
    /// Of a partition of so many frames: two and four percent, but enough for a few writes.
    pub fn of(frames: usize) -> Watermarks {
        let low = (frames / 50).max(64).min(frames / 8);
        Watermarks { low, high: 2 * low }
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
    // Those of the present write.
    let mut gathered = Vec::new();
    let (frames, _) = pool.frames_of(home);
    let high = Watermarks::of(frames).high;
    // Everything is spared once, and something may be in the way.
    for looked in 0..4 * frames {
        if looked % LOOKS_TOGETHER == 0 {
            if pool.frames_of(home).1 >= high {
                break;
            }
            writer.breathe();
        }
        if let Looked::Dirty(read) = pool.look(home)
            && !gathered.contains(&read.frame())
        {
            read.racy().copy(0, &mut *page);
            if read.validate().is_ok() {
                gathered.push(read.frame());
                writer.add(&page, Equals::Contents(read))?;
            }
        }
        if evict_written(pool, &mut writer) > 0 {
            gathered.clear();
        }
    }
    writer.finish()?;
    evict_written(pool, &mut writer);
    pool.note_provided(home, writer.written.pages);
    Ok(())
}

/// Answers how many pages were written.
fn evict_written<S: InstanceState>(pool: &BufferPool, writer: &mut ImageWriter<'_, S>) -> usize {
    let cleaned = writer.take_cleaned();
    for (read, place) in &cleaned {
        if !read.frame().cool() {
            // Somebody is in the way: another time.
            let _ = pool.evict(*read, *place);
        }
    }
    cleaned.len()
}
