//! One-line faults that tests must catch (docs/testing.md); nothing without feature `mutants`.
//!
//! Invariants: at most one mutant is active in a process; it is chosen once, by the test or
//! simulator that runs, before any database is opened.

/// Whether the fault `name` is switched on. Constant `false` without feature `mutants`.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub fn mutant(_name: &'static str) -> bool {
    false
}

#[cfg(feature = "mutants")]
pub use on::{activate_mutant, mutant};

#[cfg(feature = "mutants")]
mod on {
    use std::sync::OnceLock;

    // The one global of the kernel, and only in builds that no user runs.
    static ACTIVE: OnceLock<String> = OnceLock::new();

    /// Whether the fault `name` is switched on; the first call reads `ATOLL_MUTANT` if nothing
    /// was activated, so that unmodified tests can run against a mutant.
    pub fn mutant(name: &'static str) -> bool {
        ACTIVE.get_or_init(|| std::env::var("ATOLL_MUTANT").unwrap_or_default()) == name
    }

    /// Switches the fault `name` on for the rest of the process.
    pub fn activate_mutant(name: &str) {
        let _ = ACTIVE.set(name.to_owned());
    }
}
