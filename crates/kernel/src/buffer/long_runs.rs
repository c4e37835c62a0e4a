//! Pages of long values written in runs, for checkpoints.
//!
//! Invariants: those of module `long`: the place of each page of a run is leased from before it is copied until the write
//! has ended, well or not, so that nobody else writes there and none of them is given to another page. A run's
//! places follow each other in one file. With leases held nothing is waited for but the run's own write. A page
//! counts as clean only if it is then what was copied; what was in use, or freed meanwhile, is looked for again.

use super::guard::PageRead;
use super::long::is_long;
use super::pool::BufferPool;
use super::writer::ImageWriter;
use crate::base::{HomeId, PAGE_BYTES, Pid, Place, Result};
use crate::io::IoBuffer;
use crate::latch::PageBytes;
use crate::page::header;
use crate::runtime::{InstanceState, Parker};
use crate::store::{PageStore, RUN_PAGES, Run};

/// Pages that are to be written together.
struct LongRun<'s> {
    store: &'s PageStore,
    home: HomeId,
    first: Place,
    reads: Vec<PageRead>,
    /// For the pages of a whole run; taken for the first.
    buffer: Option<IoBuffer>,
}

/// What came of adding a page.
enum Added {
    Yes,
    /// It does not lie behind the others.
    Elsewhere,
    /// It was in use, or is being written by another: to be looked for again.
    Busy,
    /// It is another page, or not complete, or lies there already.
    Needless,
}

impl LongRun<'_> {
    fn places(&self) -> Run {
        Run { first: self.first, count: self.reads.len() as u64 }
    }

    fn add(&mut self, read: PageRead) -> Added {
        let frame = read.frame();
        let is_meant = is_long(&read) && frame.is_complete() && read.clean_place().is_none();
        let place = frame.pid().place();
        if read.validate().is_err() {
            return Added::Busy;
        }
        let Some(place) = place.filter(|_| is_meant) else { return Added::Needless };
        let filled = self.reads.len();
        if filled > 0 && place != self.first.after(filled as u64) {
            return Added::Elsewhere;
        }
        let Some(lease) = self.store.lease_fixed(place) else { return Added::Busy };
        let (store, home) = (self.store, self.home);
        let buffer = self.buffer.get_or_insert_with(|| store.buffer(home, RUN_PAGES));
        let page = &mut buffer[filled * PAGE_BYTES..][..PAGE_BYTES];
        let page = page.first_chunk_mut().expect("a page of the buffer");
        read.racy().copy(0, page);
        if read.validate().is_err() {
            self.store.written(lease);
            return Added::Busy;
        }
        header::seal(page, place);
        if filled == 0 {
            self.first = place;
        }
        self.reads.push(read);
        Added::Yes
    }
}

impl Drop for LongRun<'_> {
    fn drop(&mut self) {
        if !self.reads.is_empty() {
            self.store.written(self.places());
        }
        if let Some(buffer) = self.buffer.take() {
            self.store.give_back(self.home, buffer);
        }
    }
}

impl<S: InstanceState> ImageWriter<'_, S> {
    /// Writes those of `pages`, which ascend and are the writer's home's, that are in memory, complete, and do not lie
    /// on disk; waits for that. `goes_on` is asked before each page: false ends it. `Io`, `DiskFull`, and its errors.
    pub fn write_longs(
        &mut self,
        pool: &BufferPool,
        mut pages: Vec<Pid>,
        goes_on: &dyn Fn() -> Result<bool>,
    ) -> Result<()> {
        let store = self.store().clone();
        let (home, first) = (self.home(), Place::NONE);
        let mut run = LongRun { store: &store, home, first, reads: Vec::new(), buffer: None };
        while !pages.is_empty() {
            let mut again = Vec::new();
            for pid in pages {
                if !goes_on()? {
                    return Ok(());
                }
                if run.reads.is_empty() {
                    self.breathe();
                }
                // Without a frame it has been freed meanwhile, or lies on disk.
                let Some(frame) = pool.find_overflow(pid) else { continue };
                let Ok(read) = PageRead::begin_cold(frame) else {
                    again.push(pid);
                    continue;
                };
                match run.add(read) {
                    Added::Yes if run.reads.len() < RUN_PAGES => {}
                    Added::Yes | Added::Needless => self.write_long_run(&mut run, &mut again)?,
                    Added::Elsewhere => {
                        self.write_long_run(&mut run, &mut again)?;
                        // Its turn comes with the next run, as if it had been in use.
                        if !matches!(run.add(read), Added::Yes | Added::Needless) {
                            again.push(pid);
                        }
                    }
                    Added::Busy => again.push(pid),
                }
            }
            self.write_long_run(&mut run, &mut again)?;
            if !again.is_empty() {
                again.sort_unstable();
                self.context().yield_now();
            }
            pages = again;
        }
        Ok(())
    }

    /// Writes the run, which is empty then. Those of its pages that were not what they had been are to be looked for `again`.
    fn write_long_run(&mut self, run: &mut LongRun<'_>, again: &mut Vec<Pid>) -> Result<()> {
        let places = run.places();
        if places.count == 0 {
            return Ok(());
        }
        let mut buffer = run.buffer.take().expect("a run with pages has a buffer");
        buffer.set_len(places.count as usize * PAGE_BYTES);
        // Who fails lets go of the places: `LongRun::drop`.
        let mut buffer = self.write_run(places.first, buffer)?;
        buffer.set_len(RUN_PAGES * PAGE_BYTES);
        run.buffer = Some(buffer);
        for (at, read) in std::mem::take(&mut run.reads).into_iter().enumerate() {
            let place = places.first.after(at as u64);
            // It may have been freed meanwhile: then it lies nowhere, and is looked for again.
            if read.set_clean(place).is_err() {
                again.push(Pid::of_place(place));
            }
        }
        run.store.written(places);
        Ok(())
    }
}
