//! A set of places, as a bitmap for each home: an eighth of a byte a page, wherever it lies.
//!
//! Invariants: none but those of bitmaps. One thread's; several threads make one each, and these are put together.

use super::bits::Bits;
use super::longs::LongPlaces;
use crate::base::{HomeId, Place};

/// Places of all homes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceSet {
    homes: Vec<Bits>,
}

impl PlaceSet {
    /// The first pages of long values that are named, by home, and none of `others`.
    pub fn heads_but(named: &[LongPlaces], others: &PlaceSet) -> PlaceSet {
        let nothing = Bits::default();
        let homes = named.iter().enumerate().map(|(home, named)| {
            named.heads.difference(others.homes.get(home).unwrap_or(&nothing))
        });
        PlaceSet { homes: homes.collect() }
    }

    /// Puts a place in; false if it was there.
    pub fn insert(&mut self, place: Place) -> bool {
        let home = usize::from(place.home().0);
        if self.homes.len() <= home {
            self.homes.resize_with(home + 1, Bits::default);
        }
        let was = self.homes[home].has(place.number());
        self.homes[home].set(place.number());
        !was
    }

    /// Puts all of `other` in; answers one that was there, if there is one.
    pub fn take(&mut self, other: &PlaceSet) -> Option<Place> {
        self.homes.resize_with(self.homes.len().max(other.homes.len()), Bits::default);
        let mut both = None;
        for (home, (own, more)) in self.homes.iter_mut().zip(&other.homes).enumerate() {
            let first = own.intersection(more).first_set(0);
            both = both.or(first.map(|number| Place::new(HomeId(home as u16), number)));
            own.add(more);
        }
        both
    }

    /// Puts all pages of long values in, by home.
    pub fn add_longs(&mut self, longs: &[LongPlaces]) {
        self.homes.resize_with(self.homes.len().max(longs.len()), Bits::default);
        self.homes.iter_mut().zip(longs).for_each(|(own, longs)| own.add(&longs.pages));
    }

    /// The first, by home and number, that is none of `others`.
    pub fn first_but(&self, others: &PlaceSet) -> Option<Place> {
        let nothing = Bits::default();
        self.homes.iter().enumerate().find_map(|(home, own)| {
            let others = others.homes.get(home).unwrap_or(&nothing);
            let first = own.difference(others).first_set(0)?;
            Some(Place::new(HomeId(home as u16), first))
        })
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.homes.iter().map(Bits::count).sum()
    }

    /// The first from `from` on, by home and number.
    pub fn first_from(&self, from: Place) -> Option<Place> {
        let first = usize::from(from.home().0);
        self.homes.iter().enumerate().skip(first).find_map(|(home, bits)| {
            let from = if home == first { from.number() } else { 0 };
            bits.first_set(from).map(|number| Place::new(HomeId(home as u16), number))
        })
    }

    /// Those of one home.
    pub(super) fn of(&self, home: usize) -> Option<&Bits> {
        self.homes.get(home)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn place(home: u16, number: u64) -> Place {
        Place::new(HomeId(home), number)
    }

    fn all(set: &PlaceSet) -> Vec<Place> {
        let mut next = set.first_from(place(0, 0));
        let step = || {
            let found = next?;
            next = set.first_from(found.after(1));
            Some(found)
        };
        std::iter::from_fn(step).collect()
    }

    #[test]
    fn sets_of_several_threads_become_one() {
        let mut set = PlaceSet::default();
        assert!(set.insert(place(2, 70)) && set.insert(place(0, 3)) && !set.insert(place(2, 70)));
        assert_eq!(all(&set), [place(0, 3), place(2, 70)]);
        let mut other = PlaceSet::default();
        assert!(other.insert(place(2, 71)) && other.insert(place(3, 1)));
        assert_eq!((set.take(&other), set.count()), (None, 4));
        assert_eq!(set.take(&other), Some(place(2, 71)));
        assert_eq!(all(&set), [place(0, 3), place(2, 70), place(2, 71), place(3, 1)]);
        let named = |heads: &[u64]| {
            let mut places = LongPlaces::default();
            heads.iter().for_each(|head| places.heads.set(*head));
            places
        };
        let named = [named(&[3, 4]), named(&[9]), named(&[70])];
        assert_eq!(all(&PlaceSet::heads_but(&named, &set)), [place(0, 4), place(1, 9)]);
        assert_eq!(PlaceSet::heads_but(&named, &PlaceSet::default()).count(), 4);
    }
}
