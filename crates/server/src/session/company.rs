//! Which sessions of an instance send their messages together.
//!
//! Invariants: at most [`TOLD_APART_MAX`] sessions are told apart, the first that speak; whether more do is known. What is
//! noted is an instance's own, for some milliseconds.

/// Sessions that are told apart.
pub(super) const TOLD_APART_MAX: usize = 8;

/// A session stands out if it comes with fewer than so many hundredths of what the next one comes with.
const STANDS_OUT: u64 = 85;

/// Who came with whom since it began.
#[derive(Default)]
pub(super) struct Company {
    sessions: Vec<u32>,
    /// Those that spoke in this turn, as places in `sessions`.
    now: Vec<usize>,
    /// Turns in which each did, and how many did in these, itself among them.
    turns: [u64; TOLD_APART_MAX],
    together: [u64; TOLD_APART_MAX],
    /// Messages of others in this turn, and whether there were any.
    others: u64,
    has_strangers: bool,
}

impl Company {
    /// A message of the session of this number arrived in this turn.
    pub(super) fn hear(&mut self, number: u32) {
        match self.sessions.iter().position(|it| *it == number) {
            Some(place) => self.now.push(place),
            None if self.sessions.len() < TOLD_APART_MAX => {
                self.now.push(self.sessions.len());
                self.sessions.push(number);
            }
            None => {
                self.others += 1;
                self.has_strangers = true;
            }
        }
    }

    /// The turn ends.
    pub(super) fn end_turn(&mut self) {
        let count = self.now.len() as u64 + std::mem::take(&mut self.others);
        for place in self.now.drain(..) {
            self.turns[place] += 1;
            self.together[place] += count;
        }
    }

    /// The sessions that spoke, and with how many the messages of each came, in thousandths.
    pub(super) fn heard(&self) -> impl Iterator<Item = (u32, u64)> {
        let together = self.together.iter().zip(&self.turns);
        let together = together.map(|(sum, turns)| (sum * 1000).checked_div(*turns));
        self.sessions.iter().zip(together).filter_map(|(number, of)| Some((*number, of?)))
    }

    /// How many more spoke than are told apart: one stands for any number.
    pub(super) fn strangers(&self) -> usize {
        usize::from(self.has_strangers)
    }

    /// Whether the first of at least three, ascending, comes with clearly fewer than the others.
    pub(super) fn stands_out(&self, mut together: impl ExactSizeIterator<Item = u64>) -> bool {
        let enough = together.len() > 2;
        let (first, second) = (together.next().unwrap_or(0), together.next().unwrap_or(0));
        enough && first * 100 < second * STANDS_OUT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(turns: &[&[u32]]) -> Company {
        let mut company = Company::default();
        for turn in turns {
            turn.iter().for_each(|number| company.hear(*number));
            company.end_turn();
        }
        company
    }

    #[test]
    fn who_comes_with_whom_is_counted_by_turns() {
        let mut company = heard(&[&[7, 3, 9], &[3, 9], &[], &[7], &[5, 3, 9]]);
        // Its turn has not ended.
        company.hear(4);
        let counts: Vec<_> = company.heard().collect();
        assert_eq!(counts, [(7, 2000), (3, 2666), (9, 2666), (5, 3000)]);
        assert_eq!(company.strangers(), 0);
    }

    #[test]
    fn more_sessions_than_are_told_apart_are_noticed() {
        let company = heard(&[&[0, 1, 2, 3, 4, 5, 6, 7], &[0, 8, 9], &[8]]);
        let counts: Vec<_> = company.heard().collect();
        assert_eq!((counts.len(), counts[0], counts[7]), (8, (0, 5500), (7, 8000)));
        assert_eq!(company.strangers(), 1);
    }

    #[test]
    fn one_stands_out_if_it_comes_with_clearly_fewer() {
        let stands_out = |of: &[u64]| Company::default().stands_out(of.iter().copied());
        assert!(stands_out(&[2875, 3602, 3607, 3607]));
        assert!(!stands_out(&[3016, 3108, 3157, 3220]));
        assert!(!stands_out(&[1000, 2000]) && !stands_out(&[1000]) && !stands_out(&[]));
    }
}
