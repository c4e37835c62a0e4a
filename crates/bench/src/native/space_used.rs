//! The space that page files take while a workload runs: a look a second.
//!
//! Invariants: a figure is pages on disk by pages of the data, each once, without copies: the live ones on disk
//! (`SpaceStats::live`, which only the next checkpoint adds to while data grow in memory) or, if they are more, those in
//! memory. Before the first page is written there is none.

use atoll_kernel::api::{Database, SpaceStats};
use serde_json::{Value, json};

/// A look.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// Pages that the files have room for.
    on_disk: u64,
    /// Pages of the data.
    data: u64,
}

impl Look {
    /// Of a database with so many pages in memory; none if nothing of it is on disk.
    fn new(space: &SpaceStats, in_memory: u64) -> Option<Look> {
        let live = space.live();
        (live > 0).then(|| Look { on_disk: space.pages, data: live.max(in_memory) })
    }

    fn amplification(&self) -> f64 {
        self.on_disk as f64 / self.data as f64
    }
}

/// What the looks found.
#[derive(Clone, Debug, Default)]
pub struct SpaceUsed {
    looks: Vec<Look>,
}

impl SpaceUsed {
    /// Looks at a database that has so many pages in memory; answers what there is to say.
    pub fn look(&mut self, database: &Database, in_memory: u64) -> Option<String> {
        let look = Look::new(&database.space()?, in_memory)?;
        self.looks.push(look);
        Some(format!("{} pages on disk, {:.2} times the data", look.on_disk, look.amplification()))
    }

    /// The largest and the mean figure; none if nothing was found.
    pub fn amplification(&self) -> Option<(f64, f64)> {
        let figures = || self.looks.iter().map(Look::amplification);
        let most = figures().reduce(f64::max)?;
        Some((most, figures().sum::<f64>() / self.looks.len() as f64))
    }

    /// Pages on disk and pages of the data of each look, and the figures of them all.
    pub fn json(&self) -> Value {
        let (most, mean) = self.amplification().unzip();
        let looks = self.looks.iter().map(|look| json!([look.on_disk, look.data]));
        json!({ "amplification_max": most, "amplification_mean": mean,
            "pages_and_data": looks.collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_told() {
        let look = |pages, used, dead, in_memory| {
            Look::new(&SpaceStats { pages, used, dead, pinned: 0, held: 1 }, in_memory)
        };
        let looks = [look(300, 250, 50, 70), look(300, 160, 10, 150), look(200, 100, 0, 0)];
        let used = SpaceUsed { looks: looks.into_iter().flatten().collect() };
        assert_eq!(used.amplification(), Some((2.0, (1.5 + 2.0 + 2.0) / 3.0)));
        assert_eq!(used.json()["pages_and_data"][1], json!([300, 150]));
        // While the first checkpoint is made only copies are on disk.
        let growing = look(300, 250, 240, 200).map(|look| look.amplification());
        assert_eq!(growing, Some(1.5));
        assert_eq!(SpaceUsed::default().amplification(), None);
    }
}
