//! The long values of a checkpoint that is loaded.
//!
//! The manifest says which pages of long values the checkpoint has, and which of them come first
//! ([`LongPlaces`]); rows refer to first pages, and say how many follow. So what rows refer to is counted, not read.
//! The other first pages are of values that S does not see: their transactions had not committed, or their last
//! version waited for its collection. Their pages are followed, few as they are, and are dead.
//!
//! Invariants: all that rows refer to is named in the manifest; else the checkpoint is damaged. No place that the
//! manifest names is given to another page before the next checkpoint: a start that is interrupted is followed
//! by one that reads all this again. A page that no row needs and that cannot be read keeps nobody from starting, and
//! no checkpoint after this one has it, so that it keeps backups from being made only until then. Which pages are behind
//! it is not known: they stay in use. All of this is told at each start.

use std::sync::Arc;

use crate::base::{Error, HomeId, PAGE_BYTES, Pid, Place, Result, TreeId, Unread};
use crate::io::IoBuffer;
use crate::latch::OwnedPage;
use crate::log::manifest::Checkpoint;
use crate::page::overflow::{LongRef, OverflowPage};
use crate::page::{PageKind, header};
use crate::store::{Found, LongPlaces, PageStore};

/// A long value that a row refers to.
#[derive(Clone, Copy)]
pub(super) struct Referred {
    tree: TreeId,
    first: Pid,
    pages: u32,
}

impl Referred {
    /// What a row of `tree` refers to.
    pub fn new(tree: TreeId, reference: &LongRef) -> Referred {
        Referred { tree, first: reference.first, pages: reference.pages }
    }

    fn damaged(self, what: &str) -> Error {
        let detail = format!("a long value of tree {} {what}", self.tree);
        Error::Corrupt { page: Some(self.first), detail }
    }
}

/// What came of following values that nobody refers to.
#[derive(Default)]
pub(super) struct Followed {
    /// Their pages, and those that should be and cannot be read.
    pages: Vec<Place>,
    /// Why some could not be followed to their end.
    pub unread: Unread,
}

impl Followed {
    /// How many pages were read.
    pub fn read(&self) -> u64 {
        self.pages.len() as u64
    }
}

/// Finds the places of all long values. `Corrupt`.
pub(super) fn find_longs(
    store: &Arc<PageStore>,
    checkpoint: &Checkpoint,
    referred: Vec<Referred>,
) -> Result<Followed> {
    let (mut unclaimed, mut pages) = (checkpoint.longs.clone(), 0);
    for value in referred {
        let place = value.first.place().filter(|first| is_head(&checkpoint.longs, *first));
        let place = place.ok_or_else(|| value.damaged("is none that the checkpoint has"))?;
        if !unclaimed[usize::from(place.home().0)].claim(place.number()) {
            return Err(value.damaged("is another row's, too"));
        }
        pages += u64::from(value.pages);
    }
    let (mut named, mut followed) = (checkpoint.longs.clone(), Followed::default());
    for (home, (named, left)) in named.iter_mut().zip(&unclaimed).enumerate() {
        for head in left.heads() {
            follow(store, (named, Place::new(HomeId(home as u16), head)), &mut followed);
        }
    }
    let left: u64 = named.iter().map(LongPlaces::count).sum();
    let said = format!("checkpoint {} has {left} pages of long values", checkpoint.number);
    if left < pages {
        let detail = format!("{said}, and its rows refer to {pages}");
        return Err(Error::Corrupt { page: None, detail });
    }
    if left > pages {
        let detail = format!("{said}, {} more than can be found to belong to any", left - pages);
        followed.unread.add(Error::Corrupt { page: None, detail });
    }
    followed.pages.iter().for_each(|place| store.found(*place, Found::ImageOnly));
    for (home, places) in named.iter().enumerate() {
        let place = |number| Place::new(HomeId(home as u16), number);
        places.pages().for_each(|page| store.found(place(page), Found::Fixed));
        places.heads().for_each(|head| store.found_head(place(head)));
    }
    Ok(followed)
}

fn is_head(named: &[LongPlaces], first: Place) -> bool {
    named.get(usize::from(first.home().0)).is_some_and(|places| places.is_head(first.number()))
}

/// Takes the pages of a value that nobody refers to out of those that are named, from `head` on, as far as they can be
/// read. One that can, and is another value's, is left alone.
fn follow(store: &PageStore, (named, head): (&mut LongPlaces, Place), followed: &mut Followed) {
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
                None
            }
        };
        named.remove(place.number());
        followed.pages.push(place);
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
