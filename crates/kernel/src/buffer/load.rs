//! Loading a page that somebody needs, once however many ask (rule 4.5).
//!
//! Invariants: nothing is latched while a read is awaited; a load that has begun ends, however its
//! task does, and wakes those who wait for it. A page is verified before anybody sees it. Pages that are only
//! about to be needed are loaded as far as that is possible without waiting for another who loads: who needs one finds
//! out what came of it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use super::evict::{LoadId, LoadTurn, nowhere};
use super::pool::BufferPool;
use crate::base::{Error, NeededPage, PAGE_BYTES, Place, Result, Stop};
use crate::io::{Op, Returned};
use crate::latch::held_latches;
use crate::runtime::{Class, InstanceState, Parker, TaskContext, UnparkClass, Unparker};
use crate::store::{PageStore, RUN_PAGES, Run, file_name, offset, verify};
use crate::sync::{Ordering, ledger};

/// Pages that lie so near behind each other are read together, with what is between them: a read costs
/// about as much as 16 pages (some 100 us of a device that reads a gigabyte a second).
const NEAR_PAGES: u64 = 8;

/// Ends a load when it is dropped.
struct Loading<'p> {
    pool: &'p BufferPool,
    place: Place,
    id: LoadId,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.pool.end_load(self.place, self.id);
    }
}

/// Loads that were begun together and have not ended.
struct Together {
    left: Rc<Cell<usize>>,
    unparker: Unparker,
}

impl Drop for Together {
    fn drop(&mut self) {
        self.left.set(self.left.get() - 1);
        self.unparker.unpark(UnparkClass::Io);
    }
}

impl BufferPool {
    /// Loads pages at the same time, each as a task of its own, and waits for all of them. Whoever
    /// needs one of them finds out what came of it: errors are not told here.
    pub fn load_together<S: InstanceState>(
        self: &Arc<Self>,
        context: &TaskContext<S>,
        pages: &[NeededPage],
    ) {
        let Some((first, others)) = pages.split_first() else { return };
        let left = Rc::new(Cell::new(others.len()));
        for page in others.iter().copied() {
            let (pool, left) = (self.clone(), left.clone());
            let together = Together { left, unparker: context.unparker() };
            context.instance().spawn(Class::Run, move |context| {
                let _ = pool.load(page, context);
                drop(together);
            });
        }
        let _ = self.load(*first, context);
        while left.get() > 0 {
            context.park(None);
        }
    }

    /// Begins to load pages, each as a task of its own, and does not wait: for whoever is about to
    /// need them. Errors are not told: whoever needs a page finds out what came of it.
    pub fn load_soon<S: InstanceState>(
        self: &Arc<Self>,
        context: &TaskContext<S>,
        pages: &[NeededPage],
    ) {
        for page in pages.iter().copied() {
            let pool = self.clone();
            context.instance().spawn(Class::Run, move |context| {
                let _ = context.uncounted(|| pool.load(page, context));
            });
        }
    }

    /// Loads pages, in order of their places, that threads are about to need, and blocks the caller meanwhile: those
    /// that lie near each other are read together. Errors are not told, and pages that somebody else loads, or for
    /// which there is no frame, are left out.
    pub fn load_runs(&self, pages: &[NeededPage]) {
        if cfg!(any(feature = "invariants", feature = "interleave")) {
            assert_eq!(held_latches(), 0, "a thread is blocked with a latch held");
        }
        let Some(store) = self.store() else { return };
        let mut rest = pages;
        while let Some(first) = rest.first() {
            let most = first.place.number() + RUN_PAGES as u64;
            let is_near = |a: &NeededPage, b: &NeededPage| {
                let (last, next) = (a.place, b.place);
                last.home() == next.home()
                    && next.number() - last.number() <= NEAR_PAGES
                    && next.number() < most
            };
            let run = rest.chunk_by(is_near).next().unwrap_or(rest);
            self.load_run(store, run);
            rest = &rest[run.len()..];
        }
    }

    /// Pages of one home, in order of their places.
    fn load_run(&self, store: &PageStore, pages: &[NeededPage]) {
        let free = pages.iter().filter(|page| self.load_as_thread_if_nobody(page.place));
        let pages: Vec<NeededPage> = free.copied().collect();
        let (Some(first), Some(last)) = (pages.first(), pages.last()) else { return };
        let (first, home) = (first.place, first.place.home());
        let count = last.place.number() - first.number() + 1;
        let mut buffer = store.buffer(home, count as usize);
        let read = store.read_run(Run { first, count }, &mut buffer).unwrap_or(0);
        for page in &pages {
            let start = (page.place.number() - first.number()) as usize * PAGE_BYTES;
            let contents = buffer[..read].get(start..).and_then(|rest| rest.first_chunk());
            if let Some(contents) = contents
                && verify(page.place, contents).is_ok()
                && let Ok(mut reserved) = self.reserve_shared(home, 1)
            {
                let _ = self.install_now(*page, contents, &mut reserved);
                self.put_back_all(reserved);
            }
            self.end_load_as_thread(page.place);
        }
        self.traffic(home).blocking.fetch_add(1, Ordering::Relaxed);
        store.give_back(home, buffer);
    }

    /// Loads a page, or waits while another does; then the operation that needed it is to be called
    /// again, and may need it again. `Corrupt`, `Io`, `OutOfMemory`.
    pub fn load(&self, needed: NeededPage, parker: &dyn Parker) -> Result<()> {
        let place = needed.place;
        let unparker = parker.unparker();
        let wake = Box::new(move || unparker.unpark(UnparkClass::Io));
        let LoadTurn::Yours(id) = self.begin_load(place, wake) else {
            parker.park(None);
            return Ok(());
        };
        let _loading = Loading { pool: self, place, id };
        let store = self.store().ok_or_else(|| nowhere(needed))?;
        let (file, buffer) = (store.file(place.home())?, store.buffer(place.home(), 1));
        let done = parker.wait_io(Op::Read { file, offset: offset(place), buffer });
        let buffer = match (done.result, done.buffer) {
            (Ok(bytes), Returned::Io(mut buffer)) => {
                buffer.set_len(bytes as usize);
                buffer
            }
            (Err(errno), _) => {
                let what = format!("read \"{}\"", file_name(place.home()));
                return Err(Error::Io { what, errno });
            }
            (Ok(_), _) => {
                return Err(Error::Internal { detail: "a read kept its buffer".to_owned() });
            }
        };
        if let Err(error) = verify(place, &buffer) {
            // It may have been loaded, changed and written elsewhere since it was asked for; or by a
            // thread, which has written it to the same place again, perhaps just when it was read.
            let is_damaged = self.is_still_loading(place, id) && self.is_needed(needed);
            return if is_damaged { Err(error) } else { Ok(()) };
        }
        let contents = buffer.first_chunk().expect("a whole page was verified");
        let mut reserved = self.reserve_shared(place.home(), 1)?;
        let mut installed = Ok(());
        while self.begin_install(place, id) {
            match self.install(needed, contents, &mut reserved) {
                Ok(()) => break,
                Err(Stop::Error(error)) => {
                    installed = Err(error);
                    break;
                }
                Err(_) => {
                    self.pause_install(place, id);
                    let _pause = ledger::timed(ledger::What::Retry);
                    parker.yield_now();
                }
            }
        }
        self.put_back_all(reserved);
        store.give_back(place.home(), buffer);
        installed
    }
}
