//! The eight table-lock modes and PostgreSQL's conflict table (rule 6.6).
//!
//! Invariants: the table is symmetric; the three *weak* modes (those a plain statement takes)
//! conflict with none of each other, which is what makes per-instance stripes possible. Pure
//! data: no state, no waiting; every module may use it.

/// A table lock's mode, weakest first, numbered as PostgreSQL numbers them (1 to 8).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum LockMode {
    /// SELECT.
    AccessShare = 1,
    /// SELECT ... FOR UPDATE and its weaker forms.
    RowShare = 2,
    /// INSERT, UPDATE, DELETE, COPY FROM.
    RowExclusive = 3,
    /// VACUUM, ANALYZE, CREATE INDEX CONCURRENTLY.
    ShareUpdateExclusive = 4,
    /// CREATE INDEX.
    Share = 5,
    /// CREATE TRIGGER and some forms of ALTER TABLE.
    ShareRowExclusive = 6,
    /// REFRESH MATERIALIZED VIEW CONCURRENTLY.
    Exclusive = 7,
    /// DROP, TRUNCATE, most of ALTER TABLE, plain LOCK TABLE.
    AccessExclusive = 8,
}

/// A set of modes, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ModeSet(u8);

impl LockMode {
    /// All eight, weakest first.
    pub const ALL: [LockMode; 8] = [
        LockMode::AccessShare,
        LockMode::RowShare,
        LockMode::RowExclusive,
        LockMode::ShareUpdateExclusive,
        LockMode::Share,
        LockMode::ShareRowExclusive,
        LockMode::Exclusive,
        LockMode::AccessExclusive,
    ];

    /// The weak modes, which are striped per instance.
    pub const WEAK: [LockMode; 3] =
        [LockMode::AccessShare, LockMode::RowShare, LockMode::RowExclusive];

    /// Whether the mode is one of [`LockMode::WEAK`].
    pub const fn is_weak(self) -> bool {
        (self as u8) <= LockMode::RowExclusive as u8
    }

    /// Position in [`LockMode::WEAK`], for a weak mode; position among all otherwise.
    pub const fn index(self) -> usize {
        self as usize - 1
    }

    /// The modes that conflict with this one.
    pub const fn conflicts(self) -> ModeSet {
        // Bit i stands for mode i + 1. PostgreSQL's manual, table 13.2.
        ModeSet(match self {
            LockMode::AccessShare => 0b1000_0000,
            LockMode::RowShare => 0b1100_0000,
            LockMode::RowExclusive => 0b1111_0000,
            LockMode::ShareUpdateExclusive => 0b1111_1000,
            LockMode::Share => 0b1110_1100,
            LockMode::ShareRowExclusive => 0b1111_1100,
            LockMode::Exclusive => 0b1111_1110,
            LockMode::AccessExclusive => 0b1111_1111,
        })
    }

    /// Whether two transactions cannot hold `self` and `other` on one table together.
    pub const fn conflicts_with(self, other: LockMode) -> bool {
        self.conflicts().has(other)
    }

    /// The name as in `LOCK TABLE ... IN <name> MODE`.
    pub const fn name(self) -> &'static str {
        match self {
            LockMode::AccessShare => "ACCESS SHARE",
            LockMode::RowShare => "ROW SHARE",
            LockMode::RowExclusive => "ROW EXCLUSIVE",
            LockMode::ShareUpdateExclusive => "SHARE UPDATE EXCLUSIVE",
            LockMode::Share => "SHARE",
            LockMode::ShareRowExclusive => "SHARE ROW EXCLUSIVE",
            LockMode::Exclusive => "EXCLUSIVE",
            LockMode::AccessExclusive => "ACCESS EXCLUSIVE",
        }
    }
}

impl std::fmt::Display for LockMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl ModeSet {
    /// No mode.
    pub const NONE: ModeSet = ModeSet(0);

    /// The set whose bits are `bits`, mode 1 lowest.
    pub const fn from_bits(bits: u8) -> ModeSet {
        ModeSet(bits)
    }

    /// The bits, mode 1 lowest.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether `mode` is in the set.
    pub const fn has(self, mode: LockMode) -> bool {
        self.0 & 1 << mode.index() != 0
    }

    /// The set with `mode`.
    pub const fn with(self, mode: LockMode) -> ModeSet {
        ModeSet(self.0 | 1 << mode.index())
    }

    /// The set without `mode`.
    pub const fn without(self, mode: LockMode) -> ModeSet {
        ModeSet(self.0 & !(1 << mode.index()))
    }

    /// Whether the sets share a mode.
    pub const fn meets(self, other: ModeSet) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether no mode is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members, weakest first.
    pub fn iter(self) -> impl Iterator<Item = LockMode> {
        LockMode::ALL.into_iter().filter(move |mode| self.has(*mode))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflict_table_is_symmetric_and_is_postgresqls() {
        for one in LockMode::ALL {
            for other in LockMode::ALL {
                assert_eq!(one.conflicts_with(other), other.conflicts_with(one), "{one} {other}");
            }
        }
        // PostgreSQL's table row by row, as the manual prints it.
        let counts: Vec<u32> =
            LockMode::ALL.iter().map(|mode| mode.conflicts().bits().count_ones()).collect();
        assert_eq!(counts, [1, 2, 4, 5, 5, 6, 7, 8]);
        assert!(!LockMode::Share.conflicts_with(LockMode::Share));
        assert!(LockMode::ShareUpdateExclusive.conflicts_with(LockMode::ShareUpdateExclusive));
        assert!(!LockMode::RowShare.conflicts_with(LockMode::ShareRowExclusive));
    }

    #[test]
    fn weak_modes_conflict_with_no_weak_mode() {
        for one in LockMode::WEAK {
            for other in LockMode::WEAK {
                assert!(!one.conflicts_with(other));
            }
        }
    }
}
