//! Sorted runs as one sequence.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::keys::{Keyed, Run};

/// The entries of sorted runs, ascending. All were sorted with the same heads.
pub fn merged(runs: &[Run]) -> impl Iterator<Item = Keyed<'_>> {
    let mut nexts = BinaryHeap::with_capacity(runs.len());
    for run in runs {
        let mut rest: Rest<'_> = Box::new(run.iter());
        if let Some(entry) = rest.next() {
            nexts.push(Reverse(Next { entry, rest }));
        }
    }
    std::iter::from_fn(move || {
        let mut next = nexts.peek_mut()?;
        let entry = next.0.entry;
        match next.0.rest.next() {
            // Put into its place when `next` is dropped.
            Some(following) => next.0.entry = following,
            None => drop(std::collections::binary_heap::PeekMut::pop(next)),
        }
        Some(entry)
    })
}

type Rest<'a> = Box<dyn Iterator<Item = Keyed<'a>> + 'a>;

/// A run's next entry, and those after it.
struct Next<'a> {
    entry: Keyed<'a>,
    rest: Rest<'a>,
}

impl Ord for Next<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.entry.order(&other.entry)
    }
}

impl PartialOrd for Next<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Next<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Next<'_> {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::base::RowId;

    #[test]
    fn all_entries_come_in_order() {
        let mut random = fastrand::Rng::with_seed(5);
        for runs in 0..5 {
            let mut runs: Vec<Run> = (0..runs).map(|_| Run::default()).collect();
            let mut rows = if runs.is_empty() { 0 } else { 100 };
            for row in 0..rows {
                let at = random.usize(..runs.len());
                let key = random.u16(..40).to_be_bytes();
                runs[at].push(RowId(row), false, |out| out.extend(key));
            }
            let differing = runs
                .iter()
                .fold(Default::default(), |differing, run: &Run| run.differing().and(&differing));
            runs.iter_mut().for_each(|run| run.sort(&differing));
            let entries: Vec<_> = merged(&runs).map(|it| (it.key.to_vec(), it.row)).collect();
            assert!(entries.is_sorted());
            rows -= entries.len() as u64;
            assert_eq!(rows, 0);
        }
    }
}
