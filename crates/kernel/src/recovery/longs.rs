//! The long values of a checkpoint that is loaded.
//!
//! The manifest says which pages of long values the checkpoint has, and which of them come first
//! ([`LongPlaces`]); rows refer to first pages, and say how many follow. So what rows refer to is counted, not read.
//! The other first pages are of values that S does not see: their transactions had not committed, or their last
//! version waited for its collection. Their pages are followed, by several threads, and are dead. Of all this only bitmaps
//! are in memory, one for each thread ([`PlaceSet`]), whatever there are of values.
//!
//! Invariants: all that rows refer to is named in the manifest; else the checkpoint is damaged. No place that the
//! manifest names is given to another page before the next checkpoint: a start that is interrupted is followed
//! by one that reads all this again. A page that no row needs and that cannot be read keeps nobody from starting, and
//! no checkpoint after this one has it, so that it keeps backups from being made only until then. Which pages are behind
//! it is not known: they stay in use. All of this is told at each start.

use std::sync::Mutex;

use crate::base::{Error, HomeId, PAGE_BYTES, Pid, Place, Result, TreeId, Unread};
use crate::io::IoBuffer;
use crate::latch::OwnedPage;
use crate::log::manifest::Checkpoint;
use crate::page::overflow::{LongRef, OverflowPage};
use crate::page::{PageKind, header};
use crate::store::{LongPlaces, PageStore, PlaceSet};
use crate::sync::{in_parallel, mutant};

/// The long values that rows refer to, of the trees that one thread has loaded.
pub(super) struct Claims<'c> {
    /// What the manifest names, by home.
    named: &'c [LongPlaces],
    heads: PlaceSet,
    /// Pages of all of them.
    pages: u64,
}

impl<'c> Claims<'c> {
    /// Of none yet.
    pub fn new(checkpoint: &'c Checkpoint) -> Claims<'c> {
        Claims { named: &checkpoint.longs, heads: PlaceSet::default(), pages: 0 }
    }

    /// A row of `tree` refers to a value. `Corrupt`.
    pub fn add(&mut self, tree: TreeId, reference: &LongRef) -> Result<()> {
        let first = reference.first;
        let damaged = |what: &str| {
            let detail = format!("a long value of tree {tree} {what}");
            Error::Corrupt { page: Some(first), detail }
        };
        let place = first.place().filter(|first| is_head(self.named, *first));
        let place = place.ok_or_else(|| damaged("is none that the checkpoint has"))?;
        if !self.heads.insert(place) {
            return Err(damaged("is another row's, too"));
        }
        self.pages += u64::from(reference.pages);
        Ok(())
    }

    /// Takes those of another thread's trees. `Corrupt`.
    pub fn take(&mut self, other: &Claims<'_>) -> Result<()> {
        self.pages += other.pages;
        match self.heads.take(&other.heads) {
            None => Ok(()),
            Some(both) => {
                let detail = "a long value is a row's in each of two trees".to_owned();
                Err(Error::Corrupt { page: Some(Pid::of_place(both)), detail })
            }
        }
    }
}

fn is_head(named: &[LongPlaces], first: Place) -> bool {
    named.get(usize::from(first.home().0)).is_some_and(|places| places.is_head(first.number()))
}

/// What came of following values that nobody refers to.
#[derive(Default)]
pub(super) struct Followed {
    /// Their pages, and those that should be and cannot be read.
    pages: PlaceSet,
    /// Why some could not be followed to their end.
    pub unread: Unread,
}

impl Followed {
    /// How many pages were read.
    pub fn read(&self) -> u64 {
        self.pages.count()
    }
}

/// Finds the places of all long values, of which rows have `claims`, with `workers` threads. `Corrupt`.
pub(super) fn find_longs(
    store: &PageStore,
    checkpoint: &Checkpoint,
    claims: &Claims<'_>,
    workers: usize,
) -> Result<Followed> {
    let named = &*checkpoint.longs;
    let unclaimed = PlaceSet::heads_but(named, &claims.heads);
    let next = Mutex::new(Place::new(HomeId(0), 0));
    let parts = in_parallel((0..workers).map(|_| {
        || {
            let mut part = Followed::default();
            loop {
                let head = {
                    let mut from = next.lock().expect("no holder panics");
                    let Some(head) = unclaimed.first_from(*from) else { break };
                    *from = head.after(1);
                    head
                };
                follow(store, (named, head), &mut part);
            }
            Ok(part)
        }
    }))?;
    let mut followed = Followed::default();
    for part in parts {
        followed.pages.take(&part.pages);
        followed.unread.take(part.unread);
    }
    let all: u64 = named.iter().map(LongPlaces::count).sum();
    let (left, pages) = (all - followed.pages.count(), claims.pages);
    let said = format!("checkpoint {} has {left} pages of long values", checkpoint.number);
    if left < pages {
        let detail = format!("{said}, and its rows refer to {pages}");
        return Err(Error::Corrupt { page: None, detail });
    }
    if left > pages {
        let detail = format!("{said}, {} more than can be found to belong to any", left - pages);
        followed.unread.add(Error::Corrupt { page: None, detail });
    }
    store.found_longs(named, &followed.pages);
    Ok(followed)
}

/// Adds the pages of a value that nobody refers to, from `head` on, as far as they can be read. One that can, and is
/// another value's, is left alone.
fn follow(store: &PageStore, (named, head): (&[LongPlaces], Place), followed: &mut Followed) {
    let named = &named[usize::from(head.home().0)];
    let (mut next, mut owner) = (Some(head), None);
    while let Some(place) = next {
        if place.home() != head.home() || !named.has(place.number()) {
            return followed.unread.add(odd(place));
        }
        next = match read(store, place) {
            Ok(Some(page)) if *owner.get_or_insert(page.owner) == page.owner => page.next.place(),
            Ok(_) if place != head => return followed.unread.add(odd(place)),
            Ok(_) => {
                followed.unread.add(odd(place));
                None
            }
            Err(error) => {
                followed.unread.add(error);
                if mutant("unread-page-of-no-row-kept") {
                    return;
                }
                None
            }
        };
        if !followed.pages.insert(place) {
            // It leads to itself.
            return followed.unread.add(odd(place));
        }
    }
}

/// What the page says of its value; none if there lies another one. `Corrupt`, `Io`.
fn read(store: &PageStore, place: Place) -> Result<Option<OverflowPage>> {
    let mut buffer = IoBuffer::zeroed(PAGE_BYTES);
    let kind = store.read(place, &mut buffer)?;
    let view = OwnedPage(buffer.first_chunk().expect("a buffer of a page"));
    let is_it = kind == PageKind::Overflow && header::pid(view) == Pid::of_place(place);
    Ok(is_it.then(|| OverflowPage::read(view)))
}

fn odd(place: Place) -> Error {
    let (number, home) = (place.number(), place.home());
    let detail = format!("page {number} of home {home} is not of the long value that leads to it");
    Error::Corrupt { page: Some(Pid::of_place(place)), detail }
}
