//! Who touched a cache line last: what tells shared words from own ones (the folder's `mod.rs`).
//!
//! Invariants: one word per line in a table that addresses hash to; an entry names its line, so a
//! foreign line is never mistaken for it, only forgotten. The table's words are written without a
//! lock (`mod.rs` says what that costs).
//!
//! A global, in builds that no user runs: a word does not know the database that it is part of,
//! and cache lines belong to the process.

use std::cell::Cell;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

const LINE_BITS: u32 = 6;
const TABLE_BITS: u32 = 22;

/// Line (41 bits), whether others have read it since (1 bit), who wrote it last (16 bits).
static LINES: [AtomicU64; 1 << TABLE_BITS] = [const { AtomicU64::new(0) }; 1 << TABLE_BITS];
static THREADS: AtomicU16 = AtomicU16::new(1);

const READ_BY_OTHERS: u64 = 1 << 16;
const WRITER: u64 = READ_BY_OTHERS - 1;

thread_local! {
    // This thread's number, 0 before it has one: it stands for the core that the thread runs on.
    static OWN: Cell<u16> = const { Cell::new(0) };
}

#[inline]
fn own() -> u64 {
    OWN.with(|own| {
        if own.get() == 0 {
            own.set(THREADS.fetch_add(1, Ordering::Relaxed));
        }
        u64::from(own.get())
    })
}

#[inline]
fn place(address: usize) -> (&'static AtomicU64, u64) {
    let line = address as u64 >> LINE_BITS;
    let hash = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - TABLE_BITS);
    (&LINES[hash as usize], line << 17)
}

/// The caller reads the word at `address`.
#[inline]
pub(super) fn read(address: usize) {
    let (place, line) = place(address);
    let word = place.load(Ordering::Relaxed);
    if word & !(WRITER | READ_BY_OTHERS) != line {
        return;
    }
    if word & WRITER != own() && word & READ_BY_OTHERS == 0 {
        place.store(word | READ_BY_OTHERS, Ordering::Relaxed);
    }
}

/// The caller writes the word at `address`; answers whether its line moves.
#[inline]
pub(super) fn write(address: usize) -> bool {
    let (place, line) = place(address);
    let word = place.load(Ordering::Relaxed);
    let own = own();
    place.store(line | own, Ordering::Relaxed);
    let known = word & !(WRITER | READ_BY_OTHERS) == line;
    known && (word & WRITER != own || word & READ_BY_OTHERS != 0)
}
