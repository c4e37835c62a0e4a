//! Deadlock detection (rule 6.6): a waiter that has waited `deadlock_timeout` follows the edges.
//!
//! The graph is read in place from the slots' wait words and the queues of rows and table locks,
//! while others change it. So a cycle that was found is read again: only if each member still is in the same
//! wait (same number) of the same use (same sequence) and each edge still leads on, all of them
//! waited at one moment, and a cycle of waits does not go away by itself. Its youngest member
//! (latest begin, then larger xid, so that all detectors agree) is ended with 40P01; the text
//! names every member.
//!
//! Invariants: reads shared words and takes one queue's mutex at a time; never waits.
//! Detection is rare; its cost does not matter, its correctness does.

use std::collections::HashSet;
use std::fmt::Write;

use super::locks::{Asker, TableLocks};
use super::row_queue::{RowName, RowQueues};
use super::slot::{Edge, SlotTable, Wait, Wake};
use crate::base::{Cts, Xid};
use crate::sync::{mutant, point};

/// One member of a cycle, as it was first read.
#[derive(Clone, Debug)]
struct Member {
    xid: Xid,
    wait: Wait,
    began: Cts,
}

/// What a detector found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Detected {
    /// No cycle through the asker that holds on a second reading.
    Nothing,
    /// The asker is the youngest: its wait ends with this error text.
    Asker {
        /// The transaction that the asker waits for.
        waited_for: Xid,
        /// The cycle, one edge a line.
        detail: String,
    },
    /// Another member was chosen and woken.
    Other(Xid),
}

/// Looks for a cycle through the waiting transaction `asker`, and ends its youngest member.
pub(super) fn detect<W: Wake + Clone>(
    slots: &SlotTable<W>,
    (locks, queues): (&TableLocks<W>, &RowQueues<W>),
    asker: Xid,
) -> Detected {
    detect_with(slots, (locks, queues), asker, || point("txn-cycle-found"))
}

/// As [`detect`]; `between` runs between the two readings.
fn detect_with<W: Wake + Clone>(
    slots: &SlotTable<W>,
    (locks, queues): (&TableLocks<W>, &RowQueues<W>),
    asker: Xid,
    between: impl FnOnce(),
) -> Detected {
    let graph = Graph { slots, locks, queues };
    let Some(cycle) = graph.find_cycle(asker) else { return Detected::Nothing };
    between();
    if !mutant("txn-cycle-read-once") && !graph.still_holds(&cycle) {
        return Detected::Nothing;
    }
    let order = |member: &&Member| (member.began, member.xid);
    let victim = if mutant("txn-oldest-is-victim") {
        cycle.iter().min_by_key(order)
    } else {
        cycle.iter().max_by_key(order)
    };
    let victim = victim.expect("a cycle has members");
    let detail = describe(&cycle);
    if victim.xid == asker {
        return Detected::Asker { waited_for: cycle[1 % cycle.len()].xid, detail };
    }
    if slots.get(victim.xid).wait.doom(victim.wait.number, &detail) {
        Detected::Other(victim.xid)
    } else {
        Detected::Nothing
    }
}

fn describe(cycle: &[Member]) -> String {
    let mut text = String::new();
    for (index, member) in cycle.iter().enumerate() {
        let next = cycle[(index + 1) % cycle.len()].xid;
        let (xid, end) = (member.xid, if index + 1 == cycle.len() { "." } else { ";\n" });
        // Writing to a string cannot fail.
        let _ = match member.wait.edge {
            Edge::Row(..) => {
                write!(text, "Transaction {xid} waits for the end of transaction {next}{end}")
            }
            Edge::Table(tree, mode, _) => write!(
                text,
                "Transaction {xid} waits for {mode} on table {tree}; blocked by transaction \
                 {next}{end}"
            ),
        };
    }
    text
}

struct Graph<'a, W> {
    slots: &'a SlotTable<W>,
    locks: &'a TableLocks<W>,
    queues: &'a RowQueues<W>,
}

impl<W: Wake + Clone> Graph<'_, W> {
    /// A path from `asker` back to it, in order of the edges.
    fn find_cycle(&self, asker: Xid) -> Option<Vec<Member>> {
        // Depth first, with the untried successors of each member of the path.
        let mut path = vec![self.member(asker)?];
        let mut untried = vec![self.successors(&path[0])];
        let mut seen = HashSet::from([asker]);
        while let Some(next) = untried.last_mut() {
            let Some(xid) = next.pop() else {
                untried.pop();
                path.pop();
                continue;
            };
            if xid == asker {
                return Some(path);
            }
            if !seen.insert(xid) {
                continue;
            }
            if let Some(member) = self.member(xid) {
                untried.push(self.successors(&member));
                path.push(member);
            }
        }
        None
    }

    /// The transaction as a waiter; none if it has ended or does not wait.
    fn member(&self, xid: Xid) -> Option<Member> {
        let entry = self.slots.get(xid);
        let wait = entry.wait.read()?;
        let began = entry.slot.began();
        // The word last: if the use is still this one, all that was read belongs to it.
        let word = entry.slot.word();
        (!word.has_ended(xid.sequence())).then_some(Member { xid, wait, began })
    }

    /// Whom the member waits for.
    fn successors(&self, member: &Member) -> Vec<Xid> {
        match member.wait.edge {
            Edge::Row(tree, row) => {
                let name = RowName { tree, row };
                self.queues.blocker(self.slots, name, member.xid).into_iter().collect()
            }
            Edge::Table(tree, mode, held) => {
                let lock = self.locks.get(tree);
                let blockers = lock.blockers(Asker { owner: member.xid, held }, mode);
                let mut successors = blockers.named;
                for (instance, modes) in blockers.weak {
                    for (xid, entry) in self.slots.open_uses(instance) {
                        if xid != member.xid && entry.held.on(tree).meets(modes) {
                            successors.push(xid);
                        }
                    }
                }
                successors
            }
        }
    }

    /// Reads the cycle again: the same waits, and each still leads to the next.
    fn still_holds(&self, cycle: &[Member]) -> bool {
        cycle.iter().enumerate().all(|(index, member)| {
            let next = cycle[(index + 1) % cycle.len()].xid;
            self.member(member.xid).is_some_and(|again| again.wait == member.wait)
                && self.successors(member).contains(&next)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::base::{InstanceId, RowId, TreeId};
    use crate::txn::locks::{Asked, LockMode, ModeSet};
    use crate::txn::row_queue::{Next, Wants};
    use crate::txn::slot::{Count, FreeSlots};

    struct World {
        slots: SlotTable<Count>,
        locks: TableLocks<Count>,
        queues: RowQueues<Count>,
        free: Vec<FreeSlots>,
    }

    impl World {
        fn new() -> World {
            World {
                slots: SlotTable::new(2),
                locks: TableLocks::new(2),
                queues: RowQueues::new(),
                free: (0..2).map(|instance| FreeSlots::new(InstanceId(instance))).collect(),
            }
        }

        fn begin(&self, instance: usize, clock: u64) -> Xid {
            self.free[instance].begin(&self.slots, Cts(clock)).expect("slots are free")
        }

        fn wait(&self, who: Xid, edge: Edge) -> Count {
            let waker = Count::default();
            self.slots.get(who).wait.begin(edge, waker.clone());
            waker
        }

        /// `who` stands at the one row that `holder` has.
        fn wait_for(&self, who: Xid, holder: Xid) -> Count {
            let name = RowName { tree: TreeId(1), row: RowId(holder.raw()) };
            if !self.queues.standing(name).contains(&who) {
                self.queues.stand(name, (who, Wants::Newest), Count::default());
            }
            while self.queues.found(&self.slots, name, who, holder) == Next::Look {}
            self.wait(who, Edge::Row(name.tree, name.row))
        }

        fn detect(&self, who: Xid) -> Detected {
            detect(&self.slots, (&self.locks, &self.queues), who)
        }
    }

    #[test]
    fn a_chain_is_no_cycle() {
        let world = World::new();
        let (a, b, c) = (world.begin(0, 1), world.begin(1, 2), world.begin(0, 3));
        world.wait_for(a, b);
        world.wait_for(b, c);
        assert_eq!(world.detect(a), Detected::Nothing);
        assert_eq!(world.detect(b), Detected::Nothing);
    }

    #[test]
    fn the_youngest_of_three_is_chosen_by_whoever_looks_and_the_text_names_all() {
        let world = World::new();
        let (a, b, c) = (world.begin(0, 1), world.begin(1, 7), world.begin(0, 3));
        world.wait_for(a, b);
        let waker = world.wait_for(b, c);
        world.wait_for(c, a);
        assert_eq!(world.detect(a), Detected::Other(b));
        assert_eq!(waker.times(), 1, "the victim is woken");
        let doomed = world.slots.get(b).wait.doomed().unwrap();
        for member in [a, b, c] {
            assert!(doomed.contains(&member.to_string()), "{doomed}");
        }
        let Detected::Asker { waited_for, detail } = world.detect(b) else {
            panic!("b is youngest")
        };
        assert_eq!(waited_for, c);
        assert_eq!(detail.lines().count(), 3);
    }

    #[test]
    fn a_cycle_elsewhere_is_left_to_its_members() {
        let world = World::new();
        let (a, b, c) = (world.begin(0, 1), world.begin(1, 2), world.begin(0, 3));
        world.wait_for(a, b);
        world.wait_for(b, c);
        world.wait_for(c, b);
        assert_eq!(world.detect(a), Detected::Nothing);
        assert_eq!(world.detect(b), Detected::Other(c));
    }

    #[test]
    fn edges_lead_through_table_locks_weak_and_strong() {
        let world = World::new();
        let tree = TreeId(9);
        let lock = world.locks.get(tree);
        // Both hold ROW EXCLUSIVE; a asks for ACCESS EXCLUSIVE, then b does: the classic upgrade.
        let (a, b) = (world.begin(0, 1), world.begin(1, 2));
        let held = ModeSet::NONE.with(LockMode::RowExclusive);
        for who in [a, b] {
            assert!(lock.try_weak(who, LockMode::RowExclusive));
            world.slots.get(who).held.set(0, tree, held);
        }
        let mode = LockMode::AccessExclusive;
        for who in [a, b] {
            let asked = lock.request(Asker { owner: who, held }, mode, Count::default());
            assert!(matches!(asked, Asked::Queued(_)));
            assert_eq!(world.detect(who), Detected::Nothing, "the edge is not shown yet");
            world.wait(who, Edge::Table(tree, mode, held));
        }
        assert_eq!(world.detect(a), Detected::Other(b));
        let Detected::Asker { waited_for, .. } = world.detect(b) else { panic!("b is youngest") };
        assert_eq!(waited_for, a);
    }

    /// A member's wait ends between the two readings: then there never was a deadlock.
    #[test]
    fn a_cycle_that_does_not_hold_on_a_second_reading_ends_nobody() {
        let world = World::new();
        let (a, b) = (world.begin(0, 1), world.begin(1, 2));
        world.wait_for(a, b);
        world.wait_for(b, a);
        let found = detect_with(&world.slots, (&world.locks, &world.queues), b, || {
            world.slots.get(b).wait.end();
            world.wait_for(b, a);
        });
        assert_eq!(found, Detected::Nothing, "the wait is another one, though it looks the same");
        assert_eq!(world.detect(a), Detected::Other(b), "now it is real");
    }

    /// The awaited transaction rolled back to a savepoint: the waiter has yet to notice, and its
    /// row is free.
    #[test]
    fn a_wait_for_rows_that_were_given_back_is_no_edge() {
        let world = World::new();
        let (a, b) = (world.begin(0, 1), world.begin(1, 2));
        world.wait_for(a, b);
        world.slots.get(b).slot.give_back();
        world.wait_for(b, a);
        assert_eq!(world.detect(a), Detected::Nothing);
        assert_eq!(world.detect(b), Detected::Nothing);
    }

    /// Two stand at a row; its holder waits for something that the last of them has.
    #[test]
    fn edges_lead_through_a_rows_queue_and_past_who_stands_in_front() {
        let world = World::new();
        let name = RowName { tree: TreeId(3), row: RowId(4) };
        let (holder, head) = (world.begin(0, 1), world.begin(1, 9));
        let last = world.begin(0, 3);
        for who in [head, last] {
            world.queues.stand(name, (who, Wants::Newest), Count::default());
            while world.queues.found(&world.slots, name, who, holder) == Next::Look {}
            world.wait(who, Edge::Row(name.tree, name.row));
        }
        assert_eq!(world.detect(last), Detected::Nothing);
        world.wait_for(holder, last);
        assert_eq!(world.detect(head), Detected::Nothing, "its end would help nobody");
        assert_eq!(world.detect(holder), Detected::Other(last), "not the head, who is younger");
        // The holder has gone back to a savepoint: the row is free.
        world.slots.get(holder).slot.give_back();
        assert_eq!(world.detect(holder), Detected::Nothing);
    }

    #[test]
    fn an_old_use_of_a_reused_slot_is_no_member() {
        let world = World::new();
        let (a, b) = (world.begin(0, 1), world.begin(1, 2));
        world.wait_for(a, b);
        world.slots.get(b).slot.end();
        world.free[1].give_back(b.slot());
        let again = world.begin(1, 3);
        assert_eq!(again.slot(), b.slot());
        world.wait_for(again, a);
        assert_eq!(world.detect(a), Detected::Nothing);
    }
}
