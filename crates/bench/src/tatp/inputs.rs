//! What TATP's clients ask, and how often it fails.
//!
//! Invariants: shares and expected failures are the description's (its tables of the transaction
//! mix, and of success rates).

use std::fmt::Write;

use super::{Choice, STARTS, Tatp};
use crate::random::Random;

/// The kinds of transactions, in the order of the description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A subscriber's row.
    GetSubscriberData,
    /// Where a call is forwarded to now.
    GetNewDestination,
    /// One of a subscriber's access data.
    GetAccessData,
    /// Sets a bit of the subscriber and a facility's data.
    UpdateSubscriberData,
    /// Sets where a subscriber is.
    UpdateLocation,
    /// Forwards calls from a time on.
    InsertCallForwarding,
    /// Ends that.
    DeleteCallForwarding,
}

impl Kind {
    /// All, in order.
    pub const ALL: [Kind; 7] = [
        Kind::GetSubscriberData,
        Kind::GetNewDestination,
        Kind::GetAccessData,
        Kind::UpdateSubscriberData,
        Kind::UpdateLocation,
        Kind::InsertCallForwarding,
        Kind::DeleteCallForwarding,
    ];
    /// Their names in reports.
    pub const NAMES: [&str; 7] = [
        "get_subscriber_data",
        "get_new_destination",
        "get_access_data",
        "update_subscriber_data",
        "update_location",
        "insert_call_forwarding",
        "delete_call_forwarding",
    ];
    /// Percent of each.
    pub const SHARES: [u32; 7] = [35, 10, 35, 2, 14, 2, 2];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        Kind::NAMES[self as usize]
    }

    /// Percent of it that fails, as the description publishes it.
    pub fn fails(self) -> f64 {
        match self {
            Kind::GetSubscriberData | Kind::UpdateLocation => 0.0,
            Kind::GetNewDestination => 76.1,
            Kind::GetAccessData | Kind::UpdateSubscriberData => 37.5,
            Kind::InsertCallForwarding | Kind::DeleteCallForwarding => 68.75,
        }
    }

    /// Percent of it that fails, as follows from the description's rows and parameters, at least
    /// and at most. For all but one that is what it publishes. A new destination is found in 14.8
    /// of 100 cases as the tables are loaded (a facility is there in 62.5 and active in 85 of 100;
    /// a forwarding that has begun ends after an hour of 1 to 24), and in 19.1 when forwardings
    /// have been replaced by inserted ones, which end at any hour; 23.9 are published.
    pub fn fails_between(self) -> (f64, f64) {
        match self {
            Kind::GetNewDestination => (80.9, 85.2),
            other => (other.fails(), other.fails()),
        }
    }
}

/// What a transaction is asked to do; subscribers by s_id, or by sub_nbr where it says so.
#[derive(Debug)]
#[allow(missing_docs, reason = "the parameters of the description, by their names")]
pub enum Input {
    GetSubscriberData {
        s_id: i32,
    },
    GetNewDestination {
        s_id: i32,
        sf_type: i16,
        start_time: i16,
        end_time: i16,
    },
    GetAccessData {
        s_id: i32,
        ai_type: i16,
    },
    UpdateSubscriberData {
        s_id: i32,
        bit_1: i16,
        sf_type: i16,
        data_a: i16,
    },
    UpdateLocation {
        sub_nbr: String,
        vlr_location: i32,
    },
    InsertCallForwarding {
        sub_nbr: String,
        sf_type: i16,
        start_time: i16,
        end_time: i16,
        numberx: String,
    },
    DeleteCallForwarding {
        sub_nbr: String,
        sf_type: i16,
        start_time: i16,
    },
}

/// A subscriber's number: s_id in fifteen digits.
pub fn sub_nbr(s_id: i32, out: &mut String) {
    out.clear();
    // Writing to memory does not fail.
    let _ = write!(out, "{s_id:015}");
}

impl Input {
    /// The next of the description's mix.
    pub fn draw(random: &mut Random, workload: &Tatp) -> Input {
        let s_id = subscriber(random, workload);
        let of_type = |random: &mut Random| random.number(1, 4) as i16;
        let number = || {
            let mut text = String::with_capacity(15);
            sub_nbr(s_id, &mut text);
            text
        };
        let start = |random: &mut Random| STARTS[random.inner().usize(0..STARTS.len())];
        match Kind::ALL[random.share(&Kind::SHARES)] {
            Kind::GetSubscriberData => Input::GetSubscriberData { s_id },
            Kind::GetNewDestination => Input::GetNewDestination {
                s_id,
                sf_type: of_type(random),
                start_time: start(random),
                end_time: random.number(1, 24) as i16,
            },
            Kind::GetAccessData => Input::GetAccessData { s_id, ai_type: of_type(random) },
            Kind::UpdateSubscriberData => Input::UpdateSubscriberData {
                s_id,
                bit_1: random.number(0, 1) as i16,
                sf_type: of_type(random),
                data_a: random.number(0, 255) as i16,
            },
            Kind::UpdateLocation => Input::UpdateLocation {
                sub_nbr: number(),
                vlr_location: random.number(1, i32::MAX),
            },
            Kind::InsertCallForwarding => {
                let mut numberx = String::with_capacity(15);
                random.digits(15, &mut numberx);
                let (sf_type, start_time) = (of_type(random), start(random));
                let end_time = random.number(1, 24) as i16;
                Input::InsertCallForwarding {
                    sub_nbr: number(),
                    sf_type,
                    start_time,
                    end_time,
                    numberx,
                }
            }
            Kind::DeleteCallForwarding => Input::DeleteCallForwarding {
                sub_nbr: number(),
                sf_type: of_type(random),
                start_time: start(random),
            },
        }
    }

    /// Which kind it is.
    pub fn kind(&self) -> Kind {
        match self {
            Input::GetSubscriberData { .. } => Kind::GetSubscriberData,
            Input::GetNewDestination { .. } => Kind::GetNewDestination,
            Input::GetAccessData { .. } => Kind::GetAccessData,
            Input::UpdateSubscriberData { .. } => Kind::UpdateSubscriberData,
            Input::UpdateLocation { .. } => Kind::UpdateLocation,
            Input::InsertCallForwarding { .. } => Kind::InsertCallForwarding,
            Input::DeleteCallForwarding { .. } => Kind::DeleteCallForwarding,
        }
    }
}

/// A subscriber: evenly, or by the description's NURand.
fn subscriber(random: &mut Random, workload: &Tatp) -> i32 {
    let count = workload.subscribers;
    let drawn = random.inner().u32(1..=count);
    if workload.choice == Choice::Uniform {
        return drawn as i32;
    }
    let a = match count {
        0..=1_000_000 => 65_535,
        1_000_001..=10_000_000 => 1_048_575,
        _ => 2_097_151,
    };
    ((random.inner().u32(0..=a) | drawn) % count + 1) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_and_the_subscribers_are_the_descriptions() {
        let mut random = Random::new(2);
        for choice in [Choice::Uneven, Choice::Uniform] {
            let workload = Tatp { subscribers: 100_000, choice };
            let (mut kinds, mut counts) = ([0_u32; 7], vec![0_u32; 100_000]);
            for _ in 0..200_000 {
                kinds[Input::draw(&mut random, &workload).kind() as usize] += 1;
                counts[subscriber(&mut random, &workload) as usize - 1] += 1;
            }
            for (count, share) in kinds.iter().zip(Kind::SHARES) {
                assert!(count.abs_diff(share * 2000) < 900, "{kinds:?}");
            }
            let most = counts.iter().max().copied().unwrap_or_default();
            assert_eq!(most > 40, choice == Choice::Uneven, "{most}: two would be even");
        }
        assert_eq!(Kind::SHARES.iter().sum::<u32>(), 100);
    }
}
