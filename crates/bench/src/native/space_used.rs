//! The space that page files take while a workload runs: a look a second.
//!
//! Invariants: a figure is pages on disk by live pages (`SpaceStats::live`), those of the data without
//! copies; before the first page is written there is none.

use atoll_kernel::api::{Database, SpaceStats};
use serde_json::{Value, json};

/// What the looks found.
#[derive(Clone, Debug, Default)]
pub struct SpaceUsed {
    looks: Vec<SpaceStats>,
}

impl SpaceUsed {
    /// Looks; answers what there is to say.
    pub fn look(&mut self, database: &Database) -> Option<String> {
        let space = database.space().filter(|space| space.live() > 0)?;
        self.looks.push(space);
        Some(format!("{} pages on disk, {:.2} times the data", space.pages, space.amplification()))
    }

    /// The largest and the mean figure; none if nothing was found.
    pub fn amplification(&self) -> Option<(f64, f64)> {
        let figures = || self.looks.iter().map(SpaceStats::amplification);
        let most = figures().reduce(f64::max)?;
        Some((most, figures().sum::<f64>() / self.looks.len() as f64))
    }

    /// Pages on disk and live pages of each look, and the figures of them all.
    pub fn json(&self) -> Value {
        let (most, mean) = self.amplification().unzip();
        let looks = self.looks.iter().map(|space| json!([space.pages, space.live()]));
        json!({ "amplification_max": most, "amplification_mean": mean,
            "pages_and_live": looks.collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_told() {
        let look = |pages, used, dead| SpaceStats { pages, used, dead, pinned: 0, held: 1 };
        let looks = vec![look(300, 250, 50), look(300, 160, 10), look(200, 100, 0)];
        let used = SpaceUsed { looks };
        assert_eq!(used.amplification(), Some((2.0, (1.5 + 2.0 + 2.0) / 3.0)));
        assert_eq!(used.json()["pages_and_live"][1], json!([300, 150]));
        assert_eq!(SpaceUsed::default().amplification(), None);
    }
}
