//! `RUSTFLAGS="--cfg loom" cargo test -p atoll-kernel --lib loom_holds`
//!
//! A checkpoint takes a page as it lies while the page is written elsewhere, unchanged, and its place becomes
//! another page's. What the checkpoint believes to have is that page, or the model fails.

use super::space::{Space, Term, Wanted};
use crate::sync::{AtomicU64, Mutex, Ordering};
use loom::sync::Arc;
use loom::thread;

const TERM: Term = Term(1);
/// What a write puts to a place: the page that is taken, or another.
const PAGE: u64 = 7;
const OTHER: u64 = 8;

/// Whether the one who holds looks at the page's place again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looks {
    Again,
    Once,
}

struct World {
    space: Mutex<Space>,
    /// What lies at places 1 to 3.
    disk: [AtomicU64; 3],
    /// Where the page lies, says its frame.
    place: AtomicU64,
}

impl World {
    fn new() -> World {
        let mut space = Space::default();
        space.pages = 3;
        assert_eq!(space.take(Wanted::Run(1)), Some((1, 1)));
        space.adopt(1);
        space.written(1, 1);
        space.begin(TERM, 64);
        let disk = [AtomicU64::new(0), AtomicU64::new(PAGE), AtomicU64::new(0)];
        World { space: Mutex::new(space), disk, place: AtomicU64::new(1) }
    }

    fn with<T>(&self, look: impl FnOnce(&mut Space) -> T) -> T {
        look(&mut self.space.lock().expect("no holder panics"))
    }

    /// Writes to a free place, if there is one, and answers which.
    fn write(&self, page: u64) -> Option<u64> {
        let (place, _) = self.with(|space| space.take(Wanted::Run(1)))?;
        self.disk[place as usize].store(page, Ordering::Relaxed);
        self.with(|space| {
            space.adopt(place);
            space.written(place, 1);
        });
        Some(place)
    }

    /// The page is written elsewhere, as `note_written` notes it, and another page comes to where it was.
    fn moves(&self) {
        if let Some(place) = self.write(PAGE) {
            let before = self.place.load(Ordering::Relaxed);
            self.place.store(place, Ordering::Relaxed);
            self.with(|space| space.replaced(before));
        }
        self.write(OTHER);
    }

    /// What the checkpoint believes to have, as `Moves::keep` and its callers take it.
    fn keep(&self, looks: Looks) -> Option<u64> {
        let place = self.place.load(Ordering::Relaxed);
        if !self.with(|space| space.hold_as_it_lies(place, TERM)) {
            return None;
        }
        let lies_there = self.place.load(Ordering::Relaxed) == place;
        (lies_there || looks == Looks::Once).then_some(place)
    }
}

fn model(looks: Looks) {
    loom::model(move || {
        let world = Arc::new(World::new());
        let mover = {
            let world = world.clone();
            thread::spawn(move || world.moves())
        };
        let kept = world.keep(looks);
        mover.join().unwrap();
        if let Some(place) = kept {
            world.with(|space| space.publish(TERM));
            let lies = world.disk[place as usize].load(Ordering::Relaxed);
            assert_eq!(lies, PAGE, "another page is in the checkpoint");
        }
    });
}

#[test]
fn loom_holds_what_lies_there() {
    model(Looks::Again);
}

#[test]
#[should_panic(expected = "another page")]
fn loom_holds_looked_at_once_is_found() {
    model(Looks::Once);
}
