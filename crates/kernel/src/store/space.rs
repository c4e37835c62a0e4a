//! Which places of one home's page file are in use, and by what.
//!
//! Invariants: a place is given out only if nothing refers to it: no page's current contents, no
//! checkpoint that is published, pinned or being made (rule 8.5).
//!
//! ```text
//!   free --take--> used + dead --adopt--> used --replaced--> used + dead --> free
//! ```
//! The last step is taken when no checkpoint holds the place, also while one is being made: so a page that
//! leaves memory often takes no more room than what checkpoints have of it, and a place for itself. Who takes
//! a page as it lies into a checkpoint has read where that is, and the place may be another page's by then. So
//! it holds the place (`hold_as_it_lies`, refused unless some page's contents lie there), and looks afterwards
//! whether the page lies there still; if so the place was that page's when it was held, and is kept. (A page
//! could have left and come back: then what lies there is that page, too, for what was read has validated.) If
//! not, the checkpoint keeps another page's place, for nothing, until it ends.
//!
//! On a full disk the page of a used place may be written there anew (`retake`), if no checkpoint that
//! is published, pinned or being made has the place, and no write to it is under way. Why nothing is
//! lost: such a place is referred to by memory only, that is by the frame of its page, which has changed
//! since it was written there. A crash in the middle leaves half a page where no manifest refers to: the
//! published one has the places in `held` and no other; one whose swap is under way those in `next`, which
//! are held before what is read of a page is believed (`hold_as_it_lies`), so before the manifest is
//! written. From then on `retake` refuses the place; and it is not held while it is written. (A swap that
//! fails in part ends the process.) What is read of a place whose page is in memory is thrown away
//! (buffer rule 9).
//!
//! The file is made shorter at its end only (`compact.rs` decides how far), and only behind the last
//! place that is used. That nobody misses what is cut off: a place behind it is free, so it is no
//! page's contents and in no checkpoint that can be read; no write to it is under way (it would be
//! leased); and it is not given out afterwards, for `pages` is lowered under the mutex under which
//! the file is cut, and `take` gives only places below `pages`. A read of a page that has meanwhile
//! gone elsewhere finds the file's end where it would have found another page, and looks at its parent
//! again in both cases (buffer rule 9). After a crash the cut may have been lost: the file is longer
//! than it need be, and what lies there is free, as the checkpoint that was published before the cut
//! does not refer to it. If the crash keeps the cut, the checkpoint is below it for the same reason.

use std::sync::Arc;

use super::bits::Bits;
use super::compact::Fill;
use super::longs::LongPlaces;
use crate::sync::mutant;

/// The places of one home.
#[derive(Default)]
pub(super) struct Space {
    /// Pages that the file has room for; the first is its header.
    pub pages: u64,
    /// Not free.
    used: Bits,
    /// Used, but no page's current contents.
    dead: Bits,
    /// Used by a page that never moves: its place is its name.
    fixed: Bits,
    /// Those of them that are alive and of a long value that is complete.
    whole: Bits,
    /// Those of them that come first, of what is left of their value.
    heads: Bits,
    /// In the published checkpoint.
    held: Arc<Bits>,
    /// In checkpoints that were published before, or still are, and are pinned.
    pinned: Vec<(PinId, Arc<Bits>)>,
    /// In the checkpoint that is being made.
    next: Bits,
    /// Taken for a write that has not ended.
    leased: Bits,
    /// The term of the checkpoint that is being made.
    making: Option<Term>,
    /// Where the next search begins.
    cursor: u64,
    /// No place below is free.
    low: u64,
    /// Pages are to leave the places from here on, if there is room below; none: they may stay.
    boundary: Option<u64>,
    /// Nothing below the boundary was free when it was looked for.
    is_full_below: bool,
    /// Places that were used when the last checkpoint was published, those of the one before, too.
    peak: u64,
}

/// Which free place is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    /// So many that follow each other, at most.
    Run(u64),
    /// One for a page that never moves: the lowest, for it is in the way of giving back what lies
    /// behind no more than it must.
    Fixed,
}

/// Whose turn it is to make a checkpoint: grows whenever somebody takes the role over.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Term(pub u64);

/// Names one pin of one checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PinId(pub u64);

/// What recovery found at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// The contents of a page.
    Current,
    /// What only the checkpoint has.
    ImageOnly,
}

/// Page counts of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceStats {
    /// Pages the file has room for.
    pub pages: u64,
    /// Pages that something refers to.
    pub used: u64,
    /// Those of them that only a checkpoint refers to.
    pub dead: u64,
    /// Those of them that only pins of checkpoints keep.
    pub pinned: u64,
    /// Pages of the published checkpoint: each page of the database as of then, once.
    pub held: u64,
}

impl Space {
    /// Free places that exist; none if there is no free place.
    pub fn take(&mut self, wanted: Wanted) -> Option<(u64, u64)> {
        match wanted {
            Wanted::Fixed => {
                let first = self.used.first_free(self.low.max(1), self.pages)?;
                self.low = first + 1;
                Some(self.give(first, self.pages, 1))
            }
            Wanted::Run(count) => self.take_run(count),
        }
    }

    fn take_run(&mut self, wanted: u64) -> Option<(u64, u64)> {
        let boundary = self.boundary.unwrap_or(self.pages).min(self.pages);
        let run = if let Some(first) = self.next_free(boundary) {
            self.give(first, boundary, wanted)
        } else {
            self.is_full_below = true;
            let first = self.used.first_free(boundary.max(1), self.pages)?;
            self.give(first, self.pages, wanted)
        };
        self.cursor = run.0 + run.1;
        Some(run)
    }

    fn next_free(&self, end: u64) -> Option<u64> {
        let next = self.used.first_free(self.cursor.max(1), end);
        next.or_else(|| self.used.first_free(self.low.max(1), end))
    }

    fn give(&mut self, first: u64, limit: u64, wanted: u64) -> (u64, u64) {
        let mut end = first;
        while end < limit && end - first < wanted && !self.used.has(end) {
            self.used.set(end);
            self.dead.set(end);
            self.leased.set(end);
            end += 1;
        }
        (first, end - first)
    }

    /// Whether the checkpoint that is being made is to write the page there again, elsewhere.
    pub fn must_move(&self, number: u64) -> bool {
        let is_behind = self.boundary.is_some_and(|boundary| number >= boundary);
        is_behind && !self.is_full_below && self.making.is_some()
    }

    /// How many pages the file may be made to have, if that is fewer than it has, and worth it. The
    /// caller cuts the file before it lets anybody else near the places, and then says so.
    pub fn shorter(&self, extent: u64) -> Option<u64> {
        let boundary = self.boundary?;
        let last = match mutant("compaction-truncates-held") {
            true => self.used.difference(&self.dead).end(),
            false => self.used.end(),
        };
        // Whole extents behind the header, as it grows.
        let end = last.max(boundary).max(1);
        let end = 1 + (end - 1).next_multiple_of(extent);
        (end < self.pages).then_some(end)
    }

    /// The file has so many pages now, fewer than before.
    pub fn cut(&mut self, pages: u64) {
        assert!(self.used.end() <= pages || mutant("compaction-truncates-held"));
        self.pages = pages;
    }

    /// The write for which places were taken has ended.
    pub fn written(&mut self, first: u64, count: u64) {
        for number in first..first + count {
            self.leased.clear(number);
            if self.dead.has(number) {
                self.free_if_unheld(number);
            }
        }
    }

    /// Leases the place of a page that is in memory, and has changed, for it to be written there anew.
    /// False if a checkpoint has the place, or a write to it is under way.
    pub fn retake(&mut self, number: u64) -> bool {
        let may = self.may_retake(number) && !self.leased.has(number);
        if may {
            self.leased.set(number);
        }
        may
    }

    /// Leases the place of a page that never moves and is alive, for it to be written there. False if it is
    /// not alive, or a write to it is under way.
    pub fn lease_fixed(&mut self, number: u64) -> bool {
        let may = self.is_alive_fixed(number) && !self.leased.has(number);
        if may {
            self.leased.set(number);
        }
        may
    }

    /// Whether a page that never moves has this place, and is alive.
    pub fn is_alive_fixed(&self, number: u64) -> bool {
        self.fixed.has(number) && !self.dead.has(number)
    }

    /// All pages that never move and are alive.
    pub fn alive_fixed(&self) -> Vec<u64> {
        self.fixed.iter().filter(|number| !self.dead.has(*number)).collect()
    }

    /// Whether a place is a page's that may move, and nothing else refers to it.
    pub fn may_retake(&self, number: u64) -> bool {
        let may_move = self.is_current(number) && !self.fixed.has(number);
        let is_next = self.next.has(number) && !mutant("retaken-while-held");
        may_move && !is_next && !self.is_kept(number)
    }

    /// Whether a page's current contents lie there.
    fn is_current(&self, number: u64) -> bool {
        self.used.has(number) && !self.dead.has(number)
    }

    /// Whether a checkpoint that is published or pinned has it.
    fn is_kept(&self, number: u64) -> bool {
        self.held.has(number) || self.pinned.iter().any(|(_, held)| held.has(number))
    }

    /// A taken place has a page's current contents now.
    pub fn adopt(&mut self, number: u64) {
        self.dead.clear(number);
    }

    /// A taken place is a page for as long as that lives.
    pub fn fix(&mut self, number: u64) {
        self.dead.clear(number);
        self.leased.clear(number);
        self.fixed.set(number);
    }

    /// A long value with these pages, in their order, is complete.
    pub fn complete(&mut self, numbers: impl Iterator<Item = u64>) {
        for (at, number) in numbers.enumerate() {
            debug_assert!(self.is_alive_fixed(number));
            self.whole.set(number);
            if at == 0 {
                self.heads.set(number);
            }
        }
    }

    /// The checkpoint of `term` has all pages of long values that are complete.
    pub fn hold_longs(&mut self, term: Term) {
        if self.making == Some(term) {
            self.next.add(&self.whole);
        }
    }

    /// Of the pages that [`Space::hold_longs`] has taken into the checkpoint that is being made those
    /// whose values have not been freed since; it has no others from now on. What was freed may not have been
    /// written, and S does not see it. None, and nothing is let go of, if the term is over: what was freed since the
    /// next one took them in may be what its S sees.
    pub fn longs_held(&mut self, term: Term) -> LongPlaces {
        if self.making != Some(term) && !mutant("longs-held-of-any-term") {
            return LongPlaces::default();
        }
        let freed = self.fixed.intersection(&self.dead);
        self.next = self.next.difference(&freed);
        let (pages, heads) = (&self.whole, &self.heads);
        LongPlaces { pages: pages.intersection(&self.next), heads: heads.intersection(&self.next) }
    }

    /// A place has no page's current contents any more.
    pub fn replaced(&mut self, number: u64) {
        self.dead.set(number);
        self.whole.clear(number);
        self.heads.clear(number);
        self.free_if_unheld(number);
    }

    /// As [`Space::replaced`], of the first page of what is left of a long value, which `next` is from
    /// now on.
    pub fn beheaded(&mut self, number: u64, next: Option<u64>) {
        if let Some(next) = next
            && self.whole.has(number)
        {
            self.heads.set(next);
        }
        self.replaced(number);
    }

    fn free_if_unheld(&mut self, number: u64) {
        let is_next = self.next.has(number) && !mutant("freed-while-held");
        if !is_next && !self.is_kept(number) && !self.leased.has(number) {
            self.low = self.low.min(number);
            self.used.clear(number);
            self.dead.clear(number);
            self.fixed.clear(number);
        }
    }

    /// Recovery: the published checkpoint has this page, which is memory's too unless it is a
    /// node that is not kept.
    pub fn found(&mut self, number: u64, page: Found) {
        self.used.set(number);
        Arc::make_mut(&mut self.held).set(number);
        match page {
            Found::Current => {}
            Found::ImageOnly => self.dead.set(number),
        }
    }

    /// Recovery: the published checkpoint has these pages of long values, which are memory's, too, but for those that
    /// are `dead`.
    pub fn found_longs(&mut self, named: &LongPlaces, dead: Option<&Bits>) {
        self.used.add(&named.pages);
        Arc::make_mut(&mut self.held).add(&named.pages);
        let nothing = Bits::default();
        let dead = named.pages.intersection(dead.unwrap_or(&nothing));
        let alive = named.pages.difference(&dead);
        self.fixed.add(&alive);
        self.whole.add(&alive);
        self.heads.add(&named.heads.difference(&dead));
        self.dead.add(&dead);
    }

    /// A checkpoint is being made from now on; one that was, comes to nothing.
    pub fn begin(&mut self, term: Term, extent: u64) {
        self.next = Bits::default();
        self.making = Some(term);
        self.boundary = self.fill(extent).boundary();
        self.is_full_below = false;
    }

    fn fill(&self, extent: u64) -> Fill {
        let current = self.used.difference(&self.dead);
        let stays = self.pinned.iter().map(|(_, held)| held.end()).max().unwrap_or(0);
        let stays = stays.max(self.fixed.difference(&self.dead).end());
        let live = self.stats().live();
        Fill { pages: self.pages, live, current, peak: self.peak, stays, extent }
    }

    /// Whether the checkpoint of `term` is being made still.
    pub fn is_making(&self, term: Term) -> bool {
        self.making == Some(term)
    }

    /// The checkpoint of `term` has this page. Somebody whose term is over holds nothing.
    pub fn hold(&mut self, number: u64, term: Term) {
        if self.making == Some(term) {
            self.next.set(number);
        }
    }

    /// As [`Space::hold`], of a page that lies there already; the caller looks afterwards whether it does
    /// still. False if it cannot, for no page's contents lie there, or a write to the place is under way: then
    /// it is to look again.
    pub fn hold_as_it_lies(&mut self, number: u64, term: Term) -> bool {
        if self.making != Some(term) {
            return true;
        }
        let may = self.is_current(number) && !self.leased.has(number);
        if may {
            self.next.set(number);
        }
        may
    }

    /// Whether the published checkpoint has this page.
    pub fn is_held(&self, number: u64) -> bool {
        self.held.has(number)
    }

    /// The checkpoint of `term`, which is being made, takes the place of the published one.
    pub fn publish(&mut self, term: Term) {
        if self.making == Some(term) {
            self.held = Arc::new(std::mem::take(&mut self.next));
            // Both are there now, and what has changed since: about the most that are used.
            self.peak = self.used.count();
            self.end();
        }
    }

    /// The checkpoint of `term` comes to nothing, if it is being made still.
    pub fn abandon(&mut self, term: Term) {
        if self.making == Some(term) {
            self.next = Bits::default();
            self.end();
        }
    }

    fn end(&mut self) {
        self.making = None;
        self.free_dead();
    }

    fn free_dead(&mut self) {
        let dead: Vec<u64> = self.dead.iter().collect();
        dead.into_iter().for_each(|number| self.free_if_unheld(number));
    }

    /// The pages of the published checkpoint stay until [`Space::unpin`], whatever is published.
    pub fn pin(&mut self, pin: PinId) {
        if !mutant("pin-keeps-nothing") {
            self.pinned.push((pin, self.held.clone()));
        }
    }

    /// The first run of at most `wanted` pages from `from` on that the pinned checkpoint has.
    pub fn pinned_run(&self, pin: PinId, from: u64, wanted: u64) -> Option<(u64, u64)> {
        let (_, held) = self.pinned.iter().find(|(other, _)| *other == pin)?;
        let first = held.first_set(from)?;
        let end = held.first_free(first, first + wanted).unwrap_or(first + wanted);
        Some((first, end - first))
    }

    /// How many pages the pinned checkpoint has.
    pub fn pinned_count(&self, pin: PinId) -> u64 {
        self.pinned.iter().find(|(other, _)| *other == pin).map_or(0, |(_, held)| held.count())
    }

    /// Pages that are kept only for some of these pins.
    pub fn kept_for(&self, pins: &[PinId]) -> u64 {
        let meant = self.pinned.iter().filter(|(pin, _)| pins.contains(pin));
        let held: Vec<_> = meant.map(|(_, held)| held).collect();
        if held.is_empty() {
            return 0;
        }
        let is_kept =
            |number: &u64| !self.held.has(*number) && held.iter().any(|held| held.has(*number));
        self.dead.iter().filter(is_kept).count() as u64
    }

    /// The pin is over.
    pub fn unpin(&mut self, pin: PinId) {
        self.pinned.retain(|(other, _)| *other != pin);
        self.free_dead();
    }

    /// Whether nothing refers to any page.
    pub fn is_empty(&self) -> bool {
        self.used.first_set(0).is_none()
    }

    pub fn stats(&self) -> SpaceStats {
        let pins: Vec<PinId> = self.pinned.iter().map(|(pin, _)| *pin).collect();
        let pinned = self.kept_for(&pins);
        let (used, dead) = (self.used.count(), self.dead.count());
        SpaceStats { pages: self.pages, used, dead, pinned, held: self.held.count() }
    }
}

impl SpaceStats {
    /// Pages of the data: those of the newest checkpoint, or those that hold current contents if they
    /// are more. (The others are copies: a page that has changed lies on disk only as a checkpoint has it.)
    /// While the first checkpoint is made, those that it has so far, changed since or not.
    pub fn live(&self) -> u64 {
        match self.held {
            0 => self.used,
            held => held.max(self.used - self.dead),
        }
    }

    /// Pages on disk by live pages; 1 if there are none.
    pub fn amplification(&self) -> f64 {
        match self.live() {
            0 => 1.0,
            live => self.pages as f64 / live as f64,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const TERM: Term = Term(3);
    /// More than these files have, so that they are left as long as they are.
    const EXTENT: u64 = 64;

    /// A long value of these pages is found.
    fn find_long(space: &mut Space, pages: &[u64]) {
        let mut places = LongPlaces::default();
        pages.iter().for_each(|page| places.pages.set(*page));
        places.heads.set(pages[0]);
        space.found_longs(&places, None);
    }

    fn stats(pages: u64, used: u64, dead: u64, pinned: u64, held: u64) -> SpaceStats {
        SpaceStats { pages, used, dead, pinned, held }
    }

    /// A file of so many pages; a checkpoint that is being made, the first one, has written two of them.
    fn with_two_written(pages: u64) -> Space {
        let mut space = Space { pages, ..Space::default() };
        assert!(space.is_empty());
        space.begin(Term(1), EXTENT);
        assert_eq!(space.take(Wanted::Run(2)), Some((1, 2)));
        (1..3).for_each(|number| space.adopt(number));
        (1..3).for_each(|number| space.hold(number, Term(1)));
        space.written(1, 2);
        assert!(!space.is_empty());
        space
    }

    #[test]
    fn the_first_checkpoints_pages_are_data_though_they_have_changed_since() {
        let mut space = with_two_written(8);
        space.replaced(1);
        assert_eq!((space.stats(), space.stats().live()), (stats(8, 2, 1, 0, 0), 2));
        assert_eq!(space.stats().amplification(), 4.0);
        space.publish(Term(1));
        assert_eq!((space.stats(), space.stats().live()), (stats(8, 2, 1, 0, 2), 2));
    }

    #[test]
    fn what_is_pinned_stays_until_the_last_pin_is_over() {
        let mut space = with_two_written(4);
        space.publish(Term(1));
        space.pin(PinId(1));
        space.pin(PinId(2));
        assert_eq!(space.pinned_run(PinId(2), 0, 9), Some((1, 2)));
        assert_eq!(space.pinned_run(PinId(2), 0, 1), Some((1, 1)));
        assert_eq!((space.pinned_run(PinId(2), 3, 9), space.pinned_count(PinId(2))), (None, 2));
        space.replaced(1);
        // Another checkpoint without page 1.
        space.begin(Term(2), EXTENT);
        space.hold(2, Term(2));
        space.publish(Term(2));
        assert_eq!(space.stats(), stats(4, 2, 1, 1, 1));
        space.unpin(PinId(1));
        assert_eq!(space.take(Wanted::Run(9)), Some((3, 1)), "the second pin keeps page 1");
        space.begin(Term(3), EXTENT);
        space.unpin(PinId(2));
        assert_eq!(space.take(Wanted::Run(9)), Some((1, 1)), "also while a checkpoint is made");
        space.hold(2, Term(3));
        space.publish(Term(3));
        assert!(space.is_held(2));
    }

    #[test]
    fn a_place_that_a_checkpoint_has_is_not_written_anew() {
        let mut space = Space { pages: 4, ..Space::default() };
        assert!(!space.retake(1), "free");
        assert_eq!(space.take(Wanted::Run(3)), Some((1, 3)));
        assert!(!space.retake(1), "no page's contents");
        space.adopt(1);
        assert!(space.may_retake(1) && !space.retake(1), "its first write has not ended");
        space.begin(Term(1), EXTENT);
        assert!(!space.hold_as_it_lies(1, Term(1)));
        space.written(1, 1);
        assert!(space.retake(1) && !space.retake(1), "one writes it at a time");
        assert!(!space.hold_as_it_lies(1, Term(1)), "it is being written");
        space.written(1, 1);
        assert!(space.retake(1), "the checkpoint that is being made has it not yet");
        space.written(1, 1);
        assert!(space.hold_as_it_lies(1, Term(1)));
        assert!(!space.retake(1), "the checkpoint that is being made has it");
        space.abandon(Term(1));
        assert!(space.retake(1), "it came to nothing");
        space.written(1, 1);
        space.begin(Term(2), EXTENT);
        assert!(space.hold_as_it_lies(1, Term(1)), "nothing to the one that is being made");
        assert!(space.hold_as_it_lies(1, Term(2)));
        space.publish(Term(2));
        assert!(!space.retake(1), "the checkpoint has it");
        space.pin(PinId(1));
        space.begin(Term(3), EXTENT);
        space.publish(Term(3));
        assert!(!space.retake(1), "a pinned checkpoint has it");
        space.unpin(PinId(1));
        assert!(space.retake(1));
        // Its page went elsewhere meanwhile: it is free when the write has ended.
        space.replaced(1);
        assert_eq!(space.take(Wanted::Run(1)), None);
        space.written(1, 1);
        assert_eq!(space.take(Wanted::Run(1)), Some((1, 1)));
        space.written(2, 2);
        space.fix(2);
        assert!(!space.retake(2), "others write it in their own way");
    }

    #[test]
    fn a_place_is_free_when_no_checkpoint_and_no_page_has_it() {
        let mut space = Space { pages: 5, ..Space::default() };
        assert_eq!(space.take(Wanted::Run(3)), Some((1, 3)));
        space.adopt(1);
        space.written(1, 3);
        assert_eq!(space.take(Wanted::Run(2)), Some((4, 1)));
        assert_eq!(
            space.take(Wanted::Run(2)),
            Some((2, 2)),
            "nothing came of the first write to these"
        );
        space.replaced(1);
        space.begin(TERM, EXTENT);
        // 2 becomes a page's contents, 3 is an image only.
        space.adopt(2);
        space.hold(2, TERM);
        space.hold(3, TERM);
        space.written(2, 2);
        assert_eq!(space.take(Wanted::Run(9)), Some((1, 1)), "freed before the checkpoint began");
        space.adopt(1);
        space.written(1, 1);
        assert!(space.hold_as_it_lies(1, TERM), "somebody's contents lie there");
        space.replaced(1);
        space.replaced(2);
        assert_eq!(space.take(Wanted::Run(1)), None, "the checkpoint has them");
        assert!(!space.hold_as_it_lies(1, TERM), "no page's contents lie there");
        // A page that leaves memory twice while it is made.
        space.adopt(4);
        space.written(4, 1);
        space.replaced(4);
        assert!(!space.hold_as_it_lies(4, TERM), "it is free");
        assert_eq!(space.take(Wanted::Run(9)), Some((4, 1)), "freed while it is made");
        space.publish(TERM);
        // Of 4 the write has not ended.
        assert_eq!(space.stats(), stats(5, 4, 4, 0, 3));
        space.begin(Term(4), EXTENT);
        space.hold(2, Term(4));
        space.hold(3, Term(4));
        space.publish(Term(4));
        assert_eq!(space.take(Wanted::Run(9)), Some((1, 1)));
        space.written(4, 1);
        space.written(1, 1);
        assert_eq!(space.stats(), stats(5, 2, 2, 0, 2));
        assert!(space.is_held(2) && space.is_held(3));
        space.begin(Term(5), EXTENT);
        assert_eq!(space.take(Wanted::Run(2)), Some((4, 1)));
        space.adopt(4);
        space.hold(4, Term(5));
        space.written(4, 1);
        space.abandon(Term(5));
        assert_eq!(space.stats(), stats(5, 3, 2, 0, 2));
        space.begin(Term(6), EXTENT);
        space.publish(Term(6));
        assert_eq!(space.stats(), stats(5, 1, 0, 0, 0));
    }

    #[test]
    fn whose_term_is_over_holds_and_ends_nothing() {
        let mut space = Space { pages: 4, ..Space::default() };
        space.begin(Term(1), EXTENT);
        assert_eq!(space.take(Wanted::Run(1)), Some((1, 1)));
        space.hold(1, Term(1));
        space.begin(Term(2), EXTENT);
        assert_eq!(space.take(Wanted::Run(1)), Some((2, 1)));
        space.hold(2, Term(2));
        space.hold(3, Term(1));
        space.abandon(Term(1));
        space.publish(Term(1));
        space.written(2, 1);
        space.publish(Term(2));
        assert!(space.is_held(2) && !space.is_held(1) && !space.is_held(3));
        // The late writer's place is not given out before its write has ended.
        assert_eq!(space.take(Wanted::Run(3)), Some((3, 1)));
        assert_eq!(space.take(Wanted::Run(3)), None);
        space.written(1, 1);
        assert_eq!(space.take(Wanted::Run(3)), Some((1, 1)));
    }

    #[test]
    fn what_recovery_finds_is_kept() {
        let mut space = Space { pages: 5, ..Space::default() };
        space.found(1, Found::Current);
        space.found(3, Found::ImageOnly);
        find_long(&mut space, &[4]);
        assert_eq!(space.take(Wanted::Run(4)), Some((2, 1)));
        space.adopt(2);
        space.written(2, 1);
        space.begin(TERM, EXTENT);
        space.hold_longs(TERM);
        space.publish(TERM);
        assert_eq!(space.stats(), stats(5, 3, 0, 0, 1));
        space.replaced(4);
        space.replaced(1);
        assert_eq!(space.stats(), stats(5, 2, 1, 0, 1));
        assert!(space.is_held(4));
    }

    #[test]
    fn a_checkpoint_has_long_values_that_are_complete_and_not_freed() {
        let mut space = Space { pages: 20, ..Space::default() };
        for number in 1..10 {
            assert_eq!(space.take(Wanted::Fixed), Some((number, 1)));
            space.fix(number);
        }
        // One value of 2, 1, 3, one of 4, 5; 6 to 8 is being written.
        space.complete([2, 1, 3].into_iter());
        space.complete([4, 5].into_iter());
        space.begin(TERM, EXTENT);
        space.hold_longs(TERM);
        space.complete([6, 7, 8].into_iter());
        let held = |space: &mut Space, term| {
            let held = space.longs_held(term);
            (held.pages.iter().collect::<Vec<_>>(), held.heads.iter().collect::<Vec<_>>())
        };
        assert_eq!(held(&mut space, TERM), (vec![1, 2, 3, 4, 5], vec![2, 4]));
        space.beheaded(2, Some(1));
        assert_eq!(
            held(&mut space, TERM),
            (vec![1, 3, 4, 5], vec![1, 4]),
            "its rest begins with 1"
        );
        space.beheaded(4, Some(5));
        space.beheaded(5, None);
        assert_eq!(held(&mut space, TERM), (vec![1, 3], vec![1]));
        // What is freed later S may see.
        space.beheaded(1, Some(3));
        // One that never was complete has no head, however it goes.
        space.beheaded(9, Some(10));
        space.publish(TERM);
        assert!(space.is_held(1) && !space.is_held(7) && !space.is_held(5), "nobody sees it");
        space.begin(Term(4), EXTENT);
        space.hold_longs(Term(4));
        assert_eq!(held(&mut space, Term(4)), (vec![3, 6, 7, 8], vec![3, 6]));
        space.publish(Term(4));
        assert!(!space.is_held(1));
        assert_eq!(space.take(Wanted::Fixed), Some((1, 1)));
    }

    #[test]
    fn whose_term_is_over_lets_go_of_no_long_value_of_the_next() {
        let mut space = Space { pages: 3, ..Space::default() };
        assert_eq!(space.take(Wanted::Fixed), Some((1, 1)));
        space.fix(1);
        space.complete([1].into_iter());
        space.begin(Term(1), EXTENT);
        space.begin(Term(2), EXTENT);
        space.hold_longs(Term(2));
        assert_eq!(space.longs_held(Term(2)).count(), 1);
        // Its S sees the value, which goes afterwards; then the one that stood still for long goes on.
        space.beheaded(1, None);
        space.hold_longs(Term(1));
        assert_eq!(space.longs_held(Term(1)), LongPlaces::default());
        space.publish(Term(2));
        assert!(space.is_held(1));
        assert_eq!(space.take(Wanted::Fixed), Some((2, 1)), "the other is kept");
    }

    /// A file of 1,000 pages of which 100 are current, from `first` on, and no others are used.
    fn long(first: u64) -> Space {
        let mut space = Space { pages: 1000, ..Space::default() };
        (first..first + 100).for_each(|number| space.found(number, Found::Current));
        space
    }

    #[test]
    fn pages_leave_the_end_of_a_long_file() {
        let mut space = long(800);
        assert!(!space.must_move(899), "no checkpoint is made");
        space.begin(Term(1), 10);
        // 13 of the pages move with a checkpoint, the last.
        assert!(space.must_move(890) && space.must_move(899) && !space.must_move(880));
        assert_eq!(space.shorter(10), Some(901), "what is behind all that is used");
        let moved: Vec<u64> = (800..900).filter(|number| space.must_move(*number)).collect();
        assert_eq!(moved.len(), 12);
        (800..888).for_each(|number| space.hold(number, Term(1)));
        let (first, count) = space.take(Wanted::Run(12)).expect("there is room below");
        assert_eq!((first, count), (1, 12));
        for (from, to) in moved.into_iter().zip(first..) {
            space.adopt(to);
            space.hold(to, Term(1));
            space.replaced(from);
        }
        space.written(first, count);
        assert_eq!(space.shorter(10), Some(901), "the published one has them where they were");
        space.publish(Term(1));
        assert_eq!(space.shorter(10), Some(891));
        space.cut(891);
        assert_eq!(space.stats(), stats(891, 100, 0, 0, 100));
        assert_eq!(space.take(Wanted::Run(2)), Some((13, 2)), "below, still");
    }

    #[test]
    fn what_cannot_move_keeps_the_end() {
        let mut space = long(1);
        find_long(&mut space, &[950]);
        space.begin(Term(1), 10);
        assert_eq!(space.shorter(10), Some(951));
        assert!(!space.must_move(950));
        space.cut(951);
        // A pinned checkpoint is cut less short than the published one.
        space.pin(PinId(1));
        space.replaced(950);
        (1..101).for_each(|number| space.hold(number, Term(1)));
        space.publish(Term(1));
        space.begin(Term(2), 10);
        (1..101).for_each(|number| space.hold(number, Term(2)));
        space.publish(Term(2));
        assert_eq!(space.shorter(10), None);
        space.unpin(PinId(1));
        space.begin(Term(3), 10);
        assert_eq!(space.shorter(10), Some(141));
        // Those that never move take the lowest places.
        assert_eq!(space.take(Wanted::Run(5)), Some((101, 5)));
        space.abandon(Term(3));
        space.replaced(3);
        space.begin(Term(4), 10);
        space.publish(Term(4));
        assert_eq!(space.take(Wanted::Fixed), Some((3, 1)));
    }

    #[test]
    fn who_finds_no_room_below_moves_nothing_more() {
        let mut space = long(800);
        space.begin(Term(1), 10);
        let mut below = 0;
        while let Some((first, count)) = space.take(Wanted::Run(64)) {
            if !space.must_move(899) {
                assert!(first >= 888, "{first}");
                break;
            }
            below += count;
        }
        // All but the header and what stays below the boundary.
        assert_eq!(below, 887 - 88);
    }
}
