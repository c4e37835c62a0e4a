//! Fixed limits, each with its reason. Layouts assert them at compile time.

/// Bytes of a page, on disk and in memory (rule 4.1): 16 KiB (docs/adr/2026-11-22-page-size.md).
/// A build with `ATOLL_PAGE_KIB=4` or `8` in its environment has other pages, for measuring; what
/// else depends on them follows by constants that layouts assert. A database keeps the size that
/// it was made with, and other builds refuse it (`api::open`).
pub const PAGE_BYTES: usize = match option_env!("ATOLL_PAGE_KIB") {
    None => 16 * 1024,
    Some(kib) => match kib.as_bytes() {
        b"4" => 4 * 1024,
        b"8" => 8 * 1024,
        b"16" => 16 * 1024,
        _ => panic!("ATOLL_PAGE_KIB, when Atoll is built, is 4, 8 or 16"),
    },
};

/// Instances (and homes) of one database: nine bits of an [`crate::base::Xid`].
pub const INSTANCES_MAX: usize = 512;

/// Slots of one instance: sixteen bits of an [`crate::base::Xid`].
pub const SLOTS_PER_INSTANCE_MAX: usize = 1 << 16;

/// Uses of one slot before it is retired: 38 bits (section 0, "xid").
pub const SLOT_SEQUENCE_MAX: u64 = (1 << 38) - 1;

/// The exit status of a process that found the processors' clocks to disagree (rule 3.1): whoever
/// starts it again chooses the shared counter. The number is sysexits' EX_TEMPFAIL.
pub const EXIT_CLOCK_RAN_BACK: i32 = 75;
