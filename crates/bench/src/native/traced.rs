//! Misses of the buffer pool beside those of an exact LRU, on the same uses of pages.
//!
//! Invariants: only a build with feature `page-trace` records; there every use of a page takes one
//! mutex of the process, so its times say nothing.

use atoll_kernel::api::Metrics;
use atoll_kernel::buffer::trace::Comparison;

/// A recording from its making on.
pub struct Tracing(());

impl Tracing {
    /// From now on.
    pub fn begin() -> Tracing {
        #[cfg(feature = "page-trace")]
        atoll_kernel::buffer::trace::begin();
        Tracing(())
    }

    /// What comes from now on counts.
    pub fn mark(&self) {
        #[cfg(feature = "page-trace")]
        atoll_kernel::buffer::trace::mark();
    }

    /// Until now, beside an LRU with as many frames as the pool; none in a build that records nothing.
    pub fn end(self, metrics: &Metrics) -> Option<Comparison> {
        #[cfg(feature = "page-trace")]
        {
            let events = atoll_kernel::buffer::trace::end()?;
            return Some(Comparison::of(&events, metrics.pool.used + metrics.pool.free));
        }
        #[cfg(not(feature = "page-trace"))]
        {
            let _ = metrics;
            None
        }
    }
}

/// As a line for people.
pub fn line(comparison: &Comparison) -> String {
    let Comparison { uses, loads, lru_loads, is_exact } = *comparison;
    let ratio = loads as f64 / lru_loads.max(1) as f64;
    let doubt = if is_exact { "" } else { " (at most: fewer pages than fit were used before)" };
    format!(
        "{uses} uses of pages, {loads} loads, {ratio:.2} times the {lru_loads} of an LRU{doubt}"
    )
}
