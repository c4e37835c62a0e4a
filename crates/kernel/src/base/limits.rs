//! Fixed limits, each with its reason. Layouts assert them at compile time.

/// Bytes of a page, on disk and in memory (rule 4.1; 4 and 8 KiB are measured in a later issue).
pub const PAGE_BYTES: usize = 16 * 1024;

/// Instances (and homes) of one database: nine bits of an [`crate::base::Xid`].
pub const INSTANCES_MAX: usize = 512;

/// Slots of one instance: sixteen bits of an [`crate::base::Xid`].
pub const SLOTS_PER_INSTANCE_MAX: usize = 1 << 16;

/// Uses of one slot before it is retired: 38 bits (section 0, "xid").
pub const SLOT_SEQUENCE_MAX: u64 = (1 << 38) - 1;

/// The exit status of a process that found the processors' clocks to disagree (rule 3.1): whoever
/// starts it again chooses the shared counter. The number is sysexits' EX_TEMPFAIL.
pub const EXIT_CLOCK_RAN_BACK: i32 = 75;
