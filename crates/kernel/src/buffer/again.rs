//! Loads of one operation that drive each other out.
//!
//! In a pool in which hardly a page can leave (it is full of what stays, of what a full disk has no room
//! for, or of what a failing one does not take), what an operation loads may be what its next load or
//! reservation evicts, for ever. Invariant: an operation that goes on needing the same few pages ends.

use crate::base::{Error, NeededPage, Result};

/// How many of an operation's last loads are remembered, and how often it may need one of them again.
const LOADS_REMEMBERED: usize = 8;
const LOADS_AGAIN_MAX: u32 = 500;

/// What one operation has loaded.
#[derive(Default)]
pub struct LoadsAgain {
    last: [Option<NeededPage>; LOADS_REMEMBERED],
    made: usize,
    again: u32,
}

impl LoadsAgain {
    /// Call it before each load. `OutOfMemory` if pages were needed again too often.
    #[cold]
    pub fn check(&mut self, page: NeededPage) -> Result<()> {
        if self.last.contains(&Some(page)) {
            self.again += 1;
        } else {
            self.last[self.made % LOADS_REMEMBERED] = Some(page);
            self.made += 1;
        }
        match self.again > LOADS_AGAIN_MAX {
            true => Err(Error::OutOfMemory { what: "buffer pool" }),
            false => Ok(()),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::base::Place;

    #[test]
    fn the_same_few_pages_end_and_many_do_not() {
        let page = |number: usize| NeededPage { place: Place(number as u64), parent: 1 };
        let mut many = LoadsAgain::default();
        assert!((0..10_000).all(|number| many.check(page(number)).is_ok()));
        let mut few = LoadsAgain::default();
        let mut rounds = (0..10_000).map(|number| few.check(page(number % 3)));
        assert_eq!(rounds.position(|it| it.is_err()), Some(3 + LOADS_AGAIN_MAX as usize));
    }
}
