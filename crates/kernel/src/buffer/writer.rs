//! Writing images: gathered into long writes, to places that nothing refers to (rule 8.5).
//!
//! Runs are written by tasks of their own while the next is gathered, a bounded number at a time, so
//! that a checkpoint's copying does not wait for the disk.
//!
//! Invariants: an image is at its place when its run has been written ([`ImageWriter::finish`] waits
//! for all); only then may its page count as clean, and only if it has not changed since it was copied. A
//! failed write is told, and nothing of its run counts. Nothing is latched while a write is awaited.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::PageRead;
use crate::base::{Error, HomeId, Outcome, PAGE_BYTES, Place, Result};
use crate::io::{Durability, IoBuffer, Op, Returned};
use crate::page::header;
use crate::runtime::{Class, InstanceState, Parker, TaskContext, UnparkClass};
use crate::store::{PageStore, RUN_PAGES, Run, Term, file_name, offset};
use crate::sync::{AtomicU64, Ordering, Within, mutant, within};

/// Whose checkpoint is being made, and the sign that it goes on.
#[derive(Clone)]
pub struct Turn {
    /// The term of the role.
    pub term: Term,
    /// When its work last went on, in nanoseconds of the database's clock.
    pub beat_ns: Arc<AtomicU64>,
}

/// Writes under way at most.
const FLIGHTS_MAX: usize = 32;
/// Pages of writes under way at most: what a commit adds to the log waits behind them. With sixteen
/// times as many a checkpoint was done no sooner, and a commit waited 50 to 200 ms.
const PAGES_MAX: usize = 2 * RUN_PAGES;
/// How often who waits for writes looks whether the database closes.
const LOOK_NS: u64 = 5_000_000;
/// How long a writer goes on before others run.
const SLICE_NS: u64 = 1_000_000;

/// What a writer has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Pages.
    pub pages: u64,
    /// Writes.
    pub writes: u64,
    /// Those of the pages that lay on disk as they are, and were written to be elsewhere.
    pub moved: u64,
}

/// Writes images to the page file of one home; where that cannot grow, to free places of others.
pub struct ImageWriter<'c, S: InstanceState> {
    context: &'c TaskContext<S>,
    store: Arc<PageStore>,
    turn: Turn,
    home: HomeId,
    buffer: Option<IoBuffer>,
    run: Option<Run>,
    /// Pages of the run that were filled.
    filled: usize,
    /// Those of them that equal the contents of their frames, as these were read.
    whole: Vec<(PageRead, Place)>,
    flights: Rc<Flights>,
    /// When it was last let go on.
    since_ns: Cell<u64>,
    /// What it has done.
    pub written: Written,
    // From the first page that it moves on.
    moving: Option<Within>,
}

/// Whether a page's image equals its contents.
pub enum Equals {
    /// As they were read so.
    Contents(PageRead),
    /// It does not, or the page is in no frame.
    Nothing,
}

impl<'c, S: InstanceState> ImageWriter<'c, S> {
    /// Writes as a task, to the page file of `home`.
    pub fn new(
        context: &'c TaskContext<S>,
        store: Arc<PageStore>,
        turn: Turn,
        home: HomeId,
    ) -> Self {
        ImageWriter {
            context,
            store,
            turn,
            home,
            buffer: None,
            run: None,
            filled: 0,
            whole: Vec::new(),
            flights: Rc::default(),
            since_ns: Cell::new(context.now_ns()),
            written: Written::default(),
            moving: None,
        }
    }

    /// The task that writes.
    pub fn context(&self) -> &'c TaskContext<S> {
        self.context
    }

    /// A page that lies on disk as it is is about to be added, to be elsewhere.
    pub fn note_moved(&mut self) {
        self.written.moved += 1;
        self.moving.get_or_insert_with(|| within("compaction"));
    }

    /// Whose page file it writes.
    pub(super) fn home(&self) -> HomeId {
        self.home
    }

    /// The page files.
    pub fn store(&self) -> &Arc<PageStore> {
        &self.store
    }

    /// The checkpoint being made has the page at `place`.
    pub fn hold(&self, place: Place) {
        self.store.hold(place, self.turn.term);
    }

    /// Whether the published checkpoint has the page at `place`.
    pub fn is_held(&self, place: Place) -> bool {
        self.store.is_held(place)
    }

    /// Whose checkpoint it is.
    pub fn term(&self) -> Term {
        self.turn.term
    }

    /// The page, as it was read, is not what lies at the place that it was written to last, if there
    /// is one: nobody needs that any more but checkpoints. Nothing if it has changed since, or if no
    /// checkpoint has the place, and it may stay: there the page can be written on a full disk.
    pub fn give_up_place(&self, read: PageRead) {
        let place = read.frame().place();
        let may_stay = || self.store.may_retake(place) && !self.store.must_move(place);
        if place.is_none() || may_stay() {
            return;
        }
        match read.give_up_place() {
            Ok(place) if !place.is_none() => self.store.replaced(place),
            Ok(_) | Err(_) => {}
        }
    }

    /// Adds an image to the checkpoint and answers its place. May write, and wait. `DiskFull`, `Io`.
    pub fn add(&mut self, image: &[u8; PAGE_BYTES], equals: Equals) -> Result<Place> {
        if self.run.is_none() {
            self.run = Some(self.store.take_anywhere(self.home, RUN_PAGES as u64)?);
        }
        let run = self.run.expect("just taken");
        let place = run.first.after(self.filled as u64);
        let at = self.filled * PAGE_BYTES;
        let new = || self.store.buffer(self.home, run.count as usize);
        let buffer = self.buffer.get_or_insert_with(new);
        let page = buffer[at..at + PAGE_BYTES].first_chunk_mut().expect("a page of the buffer");
        *page = *image;
        header::seal(page, place);
        self.filled += 1;
        self.hold(place);
        if let Equals::Contents(read) = equals {
            self.whole.push((read, place));
        }
        if self.filled as u64 == run.count {
            self.flush()?;
        }
        Ok(place)
    }

    /// Writes the page that has a place of its own, now. `Io`.
    pub fn write_own(&mut self, image: &[u8; PAGE_BYTES], place: Place) -> Result<()> {
        let mut buffer = self.store.buffer(place.home(), 1);
        let page = buffer.first_chunk_mut().expect("a page long");
        *page = *image;
        header::seal(page, place);
        let buffer = self.write_run(place, buffer)?;
        self.store.give_back(place.home(), buffer);
        Ok(())
    }

    /// Writes sealed pages to places that follow each other and are theirs, now; gives the buffer back. `Io`.
    pub(super) fn write_run(&mut self, first: Place, buffer: IoBuffer) -> Result<IoBuffer> {
        self.written.writes += 1;
        self.written.pages += (buffer.len() / PAGE_BYTES) as u64;
        self.turn.beat_ns.store(self.context.now_ns(), Ordering::Relaxed);
        write(self.context, &self.store, first, buffer)
    }

    /// Begins to write what was gathered, as a task of its own, and waits while too many writes are
    /// under way. Errors: of any write that has ended.
    pub fn flush(&mut self) -> Result<()> {
        self.flights.check()?;
        let Some(run) = self.run.take() else { return Ok(()) };
        if self.context.instance().is_stopping() {
            self.store.written(run);
            return Err(Error::ShuttingDown);
        }
        let pages = std::mem::take(&mut self.filled);
        let mut buffer = self.buffer.take().expect("a run has a buffer");
        buffer.set_len(pages * PAGE_BYTES);
        let (store, flights) = (self.store.clone(), self.flights.clone());
        let (whole, unparker) = (std::mem::take(&mut self.whole), self.context.unparker());
        self.written.writes += 1;
        self.written.pages += pages as u64;
        self.turn.beat_ns.store(self.context.now_ns(), Ordering::Relaxed);
        flights.under_way.set(flights.under_way.get() + 1);
        flights.pages.set(flights.pages.get() + pages);
        self.context.instance().spawn(Class::Run, move |context| {
            match write(context, &store, run.first, buffer) {
                Ok(buffer) => {
                    note_clean(&store, whole, &flights);
                    store.give_back(run.first.home(), buffer);
                }
                Err(error) => flights.failure.set(Some(error)),
            }
            store.written(run);
            flights.under_way.set(flights.under_way.get() - 1);
            flights.pages.set(flights.pages.get() - pages);
            unparker.unpark(UnparkClass::Io);
        });
        self.wait_while(|flights| {
            flights.under_way.get() >= FLIGHTS_MAX || flights.pages.get() >= PAGES_MAX
        })
    }

    /// Writes what was gathered and waits for all writes.
    pub fn finish(&mut self) -> Result<()> {
        self.flush()?;
        self.wait_while(|flights| flights.under_way.get() > 0)
    }

    fn wait_while(&self, is_so: impl Fn(&Flights) -> bool) -> Result<()> {
        while is_so(&self.flights) {
            if self.context.instance().is_stopping() {
                return Err(Error::ShuttingDown);
            }
            self.context.park(Some(self.context.now_ns() + LOOK_NS));
        }
        self.flights.check()
    }

    /// The pages that became clean since the last call, as they were read.
    pub fn take_cleaned(&mut self) -> Vec<(PageRead, Place)> {
        self.flights.cleaned.take()
    }

    /// Lets others run if this has gone on for long: longer than other tasks may, for it is seldom
    /// let go on while those are busy, and what it makes should be done soon. A sign that it goes on.
    pub fn breathe(&self) {
        let now_ns = self.context.now_ns();
        if now_ns >= self.since_ns.get() + SLICE_NS {
            self.turn.beat_ns.store(now_ns, Ordering::Relaxed);
            self.context.yield_now();
            self.since_ns.set(self.context.now_ns());
        }
    }
}

/// Writes that are under way, and what came of others.
#[derive(Default)]
struct Flights {
    under_way: Cell<usize>,
    /// Pages of them.
    pages: Cell<usize>,
    /// Pages that are clean now, for whoever wants to evict them.
    cleaned: RefCell<Vec<(PageRead, Place)>>,
    failure: Cell<Option<Error>>,
}

impl Flights {
    fn check(&self) -> Result<()> {
        match self.failure.take() {
            None => Ok(()),
            Some(error) => {
                self.failure.set(Some(error.clone()));
                Err(error)
            }
        }
    }
}

/// The pages of a run that was written lie there as they were copied.
fn note_clean(store: &PageStore, whole: Vec<(PageRead, Place)>, flights: &Flights) {
    for (read, place) in whole {
        // Another change since: then the page stays dirty, and the place is the checkpoint's.
        if note_written(store, read, place).is_ok() {
            flights.cleaned.borrow_mut().push((read, place));
        }
    }
}

/// The page lies at `place` now as it was read; `Retry` if it has changed since, and then nothing is
/// noted.
pub(super) fn note_written(store: &PageStore, read: PageRead, place: Place) -> Outcome<()> {
    // Before the frame says so: whoever writes the page elsewhere then gives this place up, and is not to
    // be overtaken.
    store.adopt(place);
    let noted = read.set_clean(place);
    match noted {
        Ok(before) if before.is_none() => {}
        Ok(before) => store.replaced(before),
        Err(_) => store.replaced(place),
    }
    noted.map(drop)
}

fn write<S: InstanceState>(
    context: &TaskContext<S>,
    store: &PageStore,
    place: Place,
    buffer: IoBuffer,
) -> Result<IoBuffer> {
    if mutant("checkpoint-image-not-written") {
        return Ok(buffer);
    }
    let (file, durability) = (store.file(place.home())?, Durability::Volatile);
    let done = context.io(Op::Write { file, offset: offset(place), buffer, durability });
    match (done.result, done.buffer) {
        (Ok(_), Returned::Io(buffer)) => Ok(buffer),
        (Err(errno), _) => Err(failed("write", place.home(), errno)),
        (Ok(_), _) => Err(Error::Internal { detail: "a write kept its buffer".to_owned() }),
    }
}

impl<S: InstanceState> Drop for ImageWriter<'_, S> {
    fn drop(&mut self) {
        // Given up: nothing of the run is written any more.
        if let Some(run) = self.run.take() {
            self.store.written(run);
        }
        if let Some(buffer) = self.buffer.take() {
            self.store.give_back(self.home, buffer);
        }
    }
}

/// Makes everything written to the page files durable. `Io`.
pub fn sync_all<S: InstanceState>(context: &TaskContext<S>, store: &PageStore) -> Result<()> {
    if mutant("checkpoint-pages-not-synced") {
        return Ok(());
    }
    for (number, file) in store.files().into_iter().enumerate() {
        if let Err(errno) = context.io(Op::Sync { file }).result {
            return Err(failed("sync", HomeId(number as u16), errno));
        }
    }
    Ok(())
}

fn failed(what: &str, home: HomeId, errno: i32) -> Error {
    let path = file_name(home);
    match errno {
        libc::ENOSPC | libc::EDQUOT => Error::DiskFull { path },
        errno => Error::Io { what: format!("{what} \"{path}\""), errno },
    }
}
