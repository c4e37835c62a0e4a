//! Identifiers and stamps as newtypes.
//!
//! Invariants: a [`Cts`] has its top bit clear and an [`Xid`] has it set, so one 64-bit word can
//! hold either ([`Stamp`]); (cts, instance) is unique over the life of a database.

use super::limits::SLOT_SEQUENCE_MAX;

const XID_MARK: u64 = 1 << 63;
const SEQUENCE_BITS: u32 = 38;
const SLOT_BITS: u32 = 16;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($width:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, bytemuck::Zeroable,
        )]
        pub struct $name(pub $width);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id! {
    /// One running instance: a pinned thread with its executor, ring, partition, undo and log.
    InstanceId(u16)
}
id! {
    /// A fixed share of the PIDs, with its own log; served by instance `home mod instances`.
    HomeId(u16)
}
id! {
    /// One active transaction's place on an instance; reused with a new sequence number.
    SlotId(u16)
}
id! {
    /// A tree (table or index) for ever: TRUNCATE and rewrites make new ones (rule 9.5).
    TreeId(u32)
}
id! {
    /// A row of one table tree, never reused (rule 5.2).
    RowId(u64)
}
id! {
    /// A byte position in one home's log stream; never goes back, across segments and restarts.
    LogPosition(u64)
}
id! {
    /// The number of a command within its transaction; a command sees the effects of earlier ones.
    CommandId(u32)
}
id! {
    /// A page's permanent number: home in the high 16 bits, number within the home below.
    Pid(u64)
}
id! {
    /// Where a page lies on disk: home in the high 16 bits, number of the page in that home's page
    /// file below. Zero is no place: every file's first page is its header.
    Place(u64)
}
id! {
    /// A commit timestamp: raw clock cycles plus the database's offset; the top bit is clear.
    Cts(u64)
}

id! {
    /// Stands for a whole key of one index where those who wait for it are kept. Two keys may have
    /// the same one: then who waits for the one waits its turn behind who waits for the other.
    KeyHash(u64)
}

impl KeyHash {
    /// Of a key's bytes (FNV-1a). The same in every run: simulations repeat.
    pub fn of(key: &[u8]) -> KeyHash {
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        KeyHash(key.iter().fold(0xcbf2_9ce4_8422_2325, mix))
    }
}

impl TreeId {
    /// The number, in memory, of the `number`-th tree of a checkpoint that is read: tables and indexes
    /// have numbers below all of these.
    pub fn of_view(number: u32) -> TreeId {
        TreeId(1 << 31 | number)
    }

    /// Whether it is a checkpoint's tree that is read.
    pub fn is_view(self) -> bool {
        self.0 >> 31 != 0
    }
}

impl Pid {
    /// The PID of page `number` of `home`; `number` has 48 bits.
    pub const fn new(home: HomeId, number: u64) -> Pid {
        assert!(number < 1 << 48, "a home has 2^48 pages at most");
        Pid((home.0 as u64) << 48 | number)
    }

    /// The page of a long value whose one place on disk this is: such pages are named by rows, in
    /// memory and on disk alike, and never change once they are complete, so they never move.
    pub const fn of_place(place: Place) -> Pid {
        Pid(place.0 | Pid::PLACED)
    }

    /// The place of a page that [`Pid::of_place`] named; none for others.
    pub const fn place(self) -> Option<Place> {
        if self.0 & Pid::PLACED == 0 { None } else { Some(Place(self.0 & !Pid::PLACED)) }
    }

    /// Marks PIDs that are places; no number of another page gets so far.
    const PLACED: u64 = 1 << 47;

    /// The home whose log, files and partition this page belongs to.
    pub const fn home(self) -> HomeId {
        HomeId((self.0 >> 48) as u16)
    }

    /// The page's number within its home.
    pub const fn number(self) -> u64 {
        self.0 & ((1 << 48) - 1)
    }
}

impl Place {
    /// In no file.
    pub const NONE: Place = Place(0);

    /// The page `number` of the page file of `home`; `number` has 47 bits.
    pub const fn new(home: HomeId, number: u64) -> Place {
        assert!(number < 1 << 47, "a page file has 2^47 pages at most");
        Place((home.0 as u64) << 48 | number)
    }

    /// The home whose file it is in.
    pub const fn home(self) -> HomeId {
        HomeId((self.0 >> 48) as u16)
    }

    /// The page's number in the file.
    pub const fn number(self) -> u64 {
        self.0 & ((1 << 48) - 1)
    }

    /// The place `count` pages behind, in the same file.
    pub const fn after(self, count: u64) -> Place {
        Place::new(self.home(), self.number() + count)
    }

    /// Whether it is none.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl Cts {
    /// Below every commit.
    pub const ZERO: Cts = Cts(0);
    /// Above every commit.
    pub const MAX: Cts = Cts(XID_MARK - 1);

    /// The next larger timestamp.
    pub const fn next(self) -> Cts {
        Cts(self.0 + 1)
    }
}

/// Names one use of one slot: instance (9 bits), slot (16), sequence (38); the top bit is set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid(u64);

impl Xid {
    /// The transaction that uses `slot` of `instance` for the `sequence`-th time.
    pub const fn new(instance: InstanceId, slot: SlotId, sequence: u64) -> Xid {
        assert!(instance.0 < 512 && sequence <= SLOT_SEQUENCE_MAX, "parts fit their bits");
        Xid(XID_MARK
            | (instance.0 as u64) << (SEQUENCE_BITS + SLOT_BITS)
            | (slot.0 as u64) << SEQUENCE_BITS
            | sequence)
    }

    /// The raw word, top bit set.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The instance that runs the transaction.
    pub const fn instance(self) -> InstanceId {
        InstanceId((self.0 >> (SEQUENCE_BITS + SLOT_BITS) & 0x1ff) as u16)
    }

    /// The slot on that instance.
    pub const fn slot(self) -> SlotId {
        SlotId((self.0 >> SEQUENCE_BITS & 0xffff) as u16)
    }

    /// Which use of the slot.
    pub const fn sequence(self) -> u64 {
        self.0 & SLOT_SEQUENCE_MAX
    }
}

impl std::fmt::Debug for Xid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.instance(), self.slot(), self.sequence())
    }
}

impl std::fmt::Display for Xid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// Who wrote a version: a transaction in flight, or the timestamp at which it committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stamp {
    /// Written by a transaction that had not stamped the version when it was read.
    InFlight(Xid),
    /// Committed at this timestamp.
    Committed(Cts),
}

impl Stamp {
    /// Decodes the word an undo record holds.
    pub const fn from_raw(word: u64) -> Stamp {
        if word & XID_MARK != 0 { Stamp::InFlight(Xid(word)) } else { Stamp::Committed(Cts(word)) }
    }

    /// The word an undo record holds.
    pub const fn raw(self) -> u64 {
        match self {
            Stamp::InFlight(xid) => xid.0,
            Stamp::Committed(cts) => cts.0,
        }
    }
}

/// A commit that was observed (rule 7.4): log `home`, timestamp `cts`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Observed {
    /// The log that holds the commit.
    pub home: HomeId,
    /// Its timestamp.
    pub cts: Cts,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xid_parts_survive_packing() {
        let xid = Xid::new(InstanceId(511), SlotId(65_535), SLOT_SEQUENCE_MAX);
        assert_eq!(xid.instance(), InstanceId(511));
        assert_eq!(xid.slot(), SlotId(65_535));
        assert_eq!(xid.sequence(), SLOT_SEQUENCE_MAX);
        assert_eq!(Stamp::from_raw(xid.raw()), Stamp::InFlight(xid));
        assert_eq!(Stamp::from_raw(7), Stamp::Committed(Cts(7)));
    }

    #[test]
    fn pid_parts_survive_packing() {
        let pid = Pid::new(HomeId(3), 77);
        assert_eq!((pid.home(), pid.number()), (HomeId(3), 77));
    }
}
