//! Random histories of several interleaved transactions against a simple multi-version model.
//!
//! The model keeps every committed version of every row and each transaction's own changes in
//! order; what an operation should answer follows from those by the rules' words alone.

mod checkpoint;
mod together;

use std::collections::BTreeMap;

use super::*;

/// A committed version: when, in which log, and what.
type Version = (Cts, HomeId, Option<Row>);

#[derive(Clone)]
enum What {
    Version(Option<Row>),
    Lock,
}

/// One own change, in order.
#[derive(Clone)]
struct Change {
    row: RowId,
    command: CommandId,
    what: What,
}

struct Running {
    txn: Txn,
    log: Vec<Change>,
    savepoints: Vec<(Mark, usize)>,
}

impl Running {
    fn own(&self, row: RowId) -> impl DoubleEndedIterator<Item = (&Option<Row>, CommandId)> {
        self.log.iter().filter(move |change| change.row == row).filter_map(|change| {
            match &change.what {
                What::Version(version) => Some((version, change.command)),
                What::Lock => None,
            }
        })
    }

    fn holds(&self, row: RowId) -> bool {
        self.log.iter().any(|change| change.row == row)
    }

    fn note(&mut self, row: RowId, what: What) {
        let command = self.txn.snapshot.command;
        self.log.push(Change { row, command, what });
    }
}

#[derive(PartialEq, Eq, Debug)]
enum Expected {
    Wait(Xid),
    Fails,
    Is(WriteOutcome),
}

struct Model {
    world: World,
    random: fastrand::Rng,
    running: Vec<Running>,
    committed: BTreeMap<RowId, Vec<Version>>,
    /// The one that is being made, if there is one.
    checkpoint: Option<checkpoint::Making>,
    /// Nothing at or above was ever collected.
    collected: Cts,
    step: u64,
    counts: BTreeMap<&'static str, u64>,
}

impl Model {
    fn new(seed: u64) -> Model {
        Model {
            world: World::new(2),
            random: fastrand::Rng::with_seed(seed),
            running: Vec::new(),
            committed: BTreeMap::new(),
            checkpoint: None,
            collected: Cts::ZERO,
            step: 0,
            counts: BTreeMap::new(),
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn newest(&self, row: RowId) -> Option<&Version> {
        self.committed.get(&row)?.last()
    }

    /// What the transaction's snapshot sees of the row.
    fn visible(&self, at: usize, row: RowId) -> Option<(Option<Row>, Option<Observed>)> {
        let running = &self.running[at];
        let snapshot = &running.txn.snapshot;
        let mut own = running.own(row).filter(|(_, command)| *command < snapshot.command);
        if let Some((version, _)) = own.next_back() {
            return Some((version.clone(), None));
        }
        let versions = self.committed.get(&row)?;
        let (cts, home, version) =
            versions.iter().rev().find(|(cts, ..)| *cts < snapshot.timestamp)?;
        Some((version.clone(), Some(Observed { home: *home, cts: *cts })))
    }

    fn visible_row(&self, at: usize, row: RowId) -> Option<Row> {
        self.visible(at, row).and_then(|(version, _)| version)
    }

    fn all_rows(&self) -> Vec<RowId> {
        let mut rows: Vec<RowId> = self.committed.keys().copied().collect();
        rows.extend(self.running.iter().flat_map(|r| r.log.iter().map(|change| change.row)));
        rows.sort();
        rows.dedup();
        rows
    }

    fn some_row(&mut self) -> Option<RowId> {
        let rows = self.all_rows();
        // Rather young rows, so that transactions meet.
        let from = rows.len().saturating_sub(40);
        (!rows.is_empty()).then(|| rows[self.random.usize(from..rows.len())])
    }

    /// What changing or locking the row should answer.
    fn expected_write(&self, at: usize, row: RowId) -> Expected {
        let holder = |(other, running): (usize, &Running)| {
            (other != at && running.holds(row)).then_some(running.txn.xid)
        };
        let running = &self.running[at];
        let snapshot = &running.txn.snapshot;
        if let Some(xid) = self.running.iter().enumerate().find_map(holder) {
            let outrun = self.newest(row).is_some_and(|(cts, ..)| *cts >= snapshot.timestamp)
                && running.txn.isolation == Isolation::RepeatableRead;
            return if outrun { Expected::Fails } else { Expected::Wait(xid) };
        }
        if let Some((version, command)) = running.own(row).next_back() {
            return Expected::Is(match version {
                _ if command >= snapshot.command => WriteOutcome::DoneByThisCommand,
                None => WriteOutcome::Gone,
                Some(_) => WriteOutcome::Done,
            });
        }
        match self.newest(row) {
            None => Expected::Is(WriteOutcome::Gone),
            Some(_) if running.holds(row) => Expected::Is(WriteOutcome::Done),
            Some((cts, _, version)) if *cts >= snapshot.timestamp => {
                match (running.txn.isolation, version) {
                    (Isolation::RepeatableRead, _) => Expected::Fails,
                    (_, None) => Expected::Is(WriteOutcome::Gone),
                    (_, Some(_)) => Expected::Is(WriteOutcome::Changed),
                }
            }
            Some((_, _, None)) => Expected::Is(WriteOutcome::Gone),
            Some(_) => Expected::Is(WriteOutcome::Done),
        }
    }

    /// Who must be waited for before `row` may have `key`, and whether somebody has it.
    fn key_obstacles(&self, at: usize, row: RowId, key: i32) -> (Vec<Xid>, bool) {
        let has = |version: &Option<Row>| version.as_ref().is_some_and(|r| r.key == Some(key));
        let (mut waits, mut taken) = (Vec::new(), false);
        for other in self.all_rows().into_iter().filter(|other| *other != row) {
            let committed = self.newest(other).is_some_and(|(.., version)| has(version));
            let changer = self.running.iter().position(|r| r.own(other).next().is_some());
            match changer {
                Some(changer) if changer == at => {
                    let newest = self.running[at].own(other).next_back();
                    taken |= newest.is_some_and(|(version, _)| has(version));
                }
                Some(changer) => {
                    let changer = &self.running[changer];
                    if committed && changer.own(other).all(|(version, _)| has(version)) {
                        taken = true;
                    } else if committed || changer.own(other).any(|(version, _)| has(version)) {
                        waits.push(changer.txn.xid);
                    }
                }
                None => taken |= committed,
            }
        }
        (waits, taken)
    }

    fn random_row(&mut self) -> Row {
        let long = if self.random.u8(..20) == 0 { 3000 } else { 60 };
        let note = vec![self.random.u8(..); self.random.usize(..long)];
        let text = vec![self.random.u8(b'a'..b'd'); self.random.usize(..6)];
        Row {
            key: (self.random.u8(..10) > 0).then(|| self.random.i32(0..60)),
            group: self.random.i32(0..3),
            text: (self.random.u8(..8) > 0).then_some(text),
            balance: self.random.i64(..),
            note: (self.random.u8(..8) > 0).then_some(note),
        }
    }

    /// Ends the transaction `xid`, either way.
    fn end(&mut self, xid: Xid) {
        let at = self.running.iter().position(|r| r.txn.xid == xid).expect("it runs");
        let running = self.running.remove(at);
        if self.random.bool() {
            self.world.abort(running.txn);
            return;
        }
        let home = HomeId(running.txn.instance as u16);
        let cts = self.world.commit(running.txn);
        let mut last = BTreeMap::new();
        for change in running.log {
            if let What::Version(version) = change.what {
                last.insert(change.row, version);
            }
        }
        for (row, version) in last {
            self.committed.entry(row).or_default().push((cts, home, version));
        }
    }

    /// Sees a change of rows to its end, whose unique check may meet others, by the keys that they
    /// get. `call` runs the operation (again); `log` is where the transaction's own changes were
    /// before it.
    fn settle_unique(
        &mut self,
        xid: Xid,
        keys: &[(RowId, Option<i32>)],
        (mark, log): (Mark, usize),
        call: &mut dyn FnMut(&mut Txn, &World) -> Outcome<()>,
    ) {
        loop {
            let at = self.running.iter().position(|r| r.txn.xid == xid).expect("it runs");
            let (mut waits, mut taken) = (Vec::new(), false);
            for (row, key) in keys.iter().filter_map(|(row, key)| Some((*row, (*key)?))) {
                let (more, is_taken) = self.key_obstacles(at, row, key);
                waits.extend(more);
                taken |= is_taken;
            }
            let outcome = call(&mut self.running[at].txn, &self.world);
            let free = waits.is_empty() && !taken;
            match outcome {
                Ok(()) => {
                    assert!(free, "step {}: {keys:?} not free: {waits:?} {taken}", self.step);
                    return;
                }
                Err(Stop::WaitFor(WaitFor::Key { holder: other, .. })) => {
                    self.count("unique wait");
                    assert!(waits.contains(&other), "step {}: no reason to wait", self.step);
                    if self.random.bool() {
                        self.end(other);
                        continue;
                    }
                }
                Err(Stop::Error(Error::UniqueViolation { .. })) => {
                    self.count("unique violation");
                    assert!(taken, "step {}: {keys:?} are free", self.step);
                }
                Err(stop) => panic!("step {}: {stop:?}", self.step),
            }
            // The statement fails.
            let running = &mut self.running[at];
            running.txn.changes.roll_back(mark, &self.world);
            running.log.truncate(log);
            return;
        }
    }

    /// Inserts a row, or many by one command.
    fn insert_some(&mut self, at: usize) {
        let xid = self.running[at].txn.xid;
        let rows = if self.random.u8(..8) == 0 { self.random.usize(2..40) } else { 1 };
        for _ in 0..rows {
            // Others may end meanwhile.
            let place = |model: &Model| model.running.iter().position(|r| r.txn.xid == xid);
            let at = place(self).expect("it runs");
            let before = self.running[at].txn.changes.arena.position();
            self.insert(at);
            let at = place(self).expect("it runs");
            if self.running[at].txn.changes.arena.position() == before {
                self.count("row of a run");
            }
        }
    }

    fn insert(&mut self, at: usize) {
        let row = self.random_row();
        let mut progress = Progress::default();
        let mark = self.running[at].txn.mark();
        let (xid, log) = (self.running[at].txn.xid, self.running[at].log.len());
        // The first call tells the row's id by the progress, even if it must wait.
        let first = self.running[at].txn.try_insert(&self.world, &row, &mut progress);
        let id = progress.row.expect("the row is inserted before anything can stop");
        self.running[at].note(id, What::Version(Some(row.clone())));
        let mut first = Some(first.map(|found| assert_eq!(found, id)));
        self.settle_unique(xid, &[(id, row.key)], (mark, log), &mut |txn, world| {
            first.take().unwrap_or_else(|| txn.try_insert(world, &row, &mut progress).map(|_| ()))
        });
    }

    fn random_changes(&mut self, old: &Row) -> (Row, Changed) {
        let mut new = old.clone();
        let other = self.random_row();
        let mut columns = Vec::new();
        for column in ALL {
            if self.random.u8(..4) == 0 || column == NOTE && columns.is_empty() {
                match column {
                    KEY => new.key = other.key,
                    GROUP => new.group = other.group,
                    TEXT => new.text = other.text.clone(),
                    NOTE => new.note = other.note.clone(),
                    _ => new.balance = other.balance,
                }
                columns.push(column);
            }
        }
        self.random.shuffle(&mut columns);
        let bytes = new.bytes();
        (new, columns.into_iter().map(|column| (column, bytes[column as usize].clone())).collect())
    }

    fn update(&mut self, at: usize) {
        let Some(row) = self.some_row() else { return };
        let own = self.running[at].own(row).next_back().map(|(version, _)| version.clone());
        let newest = own.or_else(|| self.newest(row).map(|(.., version)| version.clone()));
        let Some(old) = newest.flatten() else { return self.delete_or_lock(at) };
        let (new, changes) = self.random_changes(&old);
        let expected = self.expected_write(at, row);
        let mut progress = Progress::default();
        let mark = self.running[at].txn.mark();
        let (xid, log) = (self.running[at].txn.xid, self.running[at].log.len());
        let first = self.running[at].txn.try_update(&self.world, row, &changes, &mut progress);
        if expected != Expected::Is(WriteOutcome::Done) {
            return self.check_write(at, row, &expected, &first, What::Lock);
        }
        assert!(progress.row.is_some(), "step {}: {first:?}", self.step);
        self.running[at].note(row, What::Version(Some(new.clone())));
        let key = if new.key == old.key { None } else { new.key };
        let mut first = Some(first.map(|_| ()));
        self.settle_unique(xid, &[(row, key)], (mark, log), &mut |txn, world| {
            let again = || txn.try_update(world, row, &changes, &mut progress).map(|_| ());
            first.take().unwrap_or_else(again)
        });
    }

    fn check_write(
        &mut self,
        at: usize,
        row: RowId,
        expected: &Expected,
        found: &Outcome<WriteOutcome>,
        what: What,
    ) {
        let is = match found {
            Ok(outcome) => Expected::Is(*outcome),
            Err(Stop::WaitFor(WaitFor::Row { holder, row: of, .. })) if *of == row => {
                Expected::Wait(*holder)
            }
            Err(Stop::Error(Error::SerializationFailure { .. })) => Expected::Fails,
            Err(stop) => panic!("step {}: {stop:?}", self.step),
        };
        assert_eq!(is, *expected, "step {}: {row}", self.step);
        match is {
            Expected::Is(WriteOutcome::Done) => self.running[at].note(row, what),
            Expected::Is(WriteOutcome::Changed) => {
                self.count("changed");
                self.running[at].note(row, What::Lock);
            }
            Expected::Fails => self.count("serialization failure"),
            Expected::Wait(_) => self.count("row wait"),
            Expected::Is(_) => {}
        }
    }

    fn delete_or_lock(&mut self, at: usize) {
        let Some(row) = self.some_row() else { return };
        let expected = self.expected_write(at, row);
        let held = self.running[at].holds(row);
        let txn = &mut self.running[at].txn;
        if self.random.bool() {
            let found = txn.delete(&self.world, row);
            self.check_write(at, row, &expected, &found, What::Version(None));
        } else {
            let found = txn.lock(&self.world, row);
            self.check_write(at, row, &expected, &found, What::Lock);
            if held && matches!(found, Ok(WriteOutcome::Done)) {
                self.running[at].log.pop();
            }
        }
    }

    fn read(&mut self, at: usize) {
        let Some(row) = self.some_row() else { return };
        let expected = self.visible(at, row);
        self.running[at].txn.observed.clear();
        let found = self.running[at].txn.read(&self.world, row);
        let (version, observed) = expected.unwrap_or_default();
        assert_eq!(found, version, "step {}: {row}", self.step);
        if let Some(seen) = observed.filter(|seen| seen.cts >= self.collected) {
            let known = &self.running[at].txn.observed;
            assert!(known.contains(&seen), "step {}: {seen:?} not in {known:?}", self.step);
        }
    }

    fn scan(&mut self, at: usize) {
        let rows = self.all_rows();
        let see = |row| self.visible_row(at, row).map(|version| (row, version));
        let expected: Vec<_> = rows.into_iter().filter_map(see).collect();
        let found = self.running[at].txn.scan(&self.world);
        assert_eq!(found, expected, "step {}", self.step);
    }

    fn find(&mut self, at: usize) {
        let wanted = self.random_row();
        let index = self.random.usize(..2);
        let key = wanted.index_key(index);
        // The first of the second index's columns alone, too.
        let mut group = Vec::new();
        encode_key(&[part(GROUP)], &[Some(&wanted.group.to_le_bytes()[..])], &mut group);
        let key = if index == 1 && self.random.bool() { &group[..] } else { &key[..] };
        let rows = self.all_rows();
        let see = |row| self.visible_row(at, row).map(|version| (row, version));
        // Keys of the same columns are no prefixes of each other.
        let has = |(_, row): &(RowId, Row)| row.index_key(index).starts_with(key);
        let expected: Vec<_> = rows.into_iter().filter_map(see).filter(has).collect();
        let mut found = self.running[at].txn.find(&self.world, index, key);
        found.sort_by_key(|(row, _)| *row);
        let rows = |found: &[(RowId, Row)]| found.iter().map(|(row, _)| *row).collect::<Vec<_>>();
        assert_eq!(rows(&found), rows(&expected), "step {}: index {index}", self.step);
        assert_eq!(found, expected, "step {}: index {index}", self.step);
    }

    fn collect(&mut self) {
        let oldest = self.running.iter().map(|r| r.txn.snapshot.timestamp).min();
        let horizon = oldest.unwrap_or(Cts(self.world.clock));
        let horizon = Cts(horizon.0 - self.random.u64(..3).min(horizon.0));
        self.collected = self.collected.max(horizon);
        let instance = Rc::clone(&self.world.instances[self.random.usize(..2)]);
        let quota = self.random.usize(1..30);
        let limit = CollectLimit { horizon, stable: Cts::MAX };
        let done = instance.collect(limit, &self.world, quota);
        *self.counts.entry("collected").or_default() += done.transactions as u64;
        *self.counts.entry("twins dropped").or_default() += done.twins as u64;
    }

    fn savepoint(&mut self, at: usize) {
        let running = &mut self.running[at];
        if self.random.bool() {
            running.savepoints.push((running.txn.mark(), running.log.len()));
            return;
        }
        let Some((mark, log)) = running.savepoints.pop() else { return };
        running.txn.changes.roll_back(mark, &self.world);
        running.log.truncate(log);
        running.txn.next_command(&self.world);
        self.count("rolled back to a savepoint");
    }

    fn step(&mut self) {
        self.step += 1;
        if self.running.is_empty() || self.running.len() < 6 && self.random.u8(..20) == 0 {
            let isolation = match self.random.bool() {
                true => Isolation::ReadCommitted,
                false => Isolation::RepeatableRead,
            };
            let txn = self.world.begin(self.random.usize(..2), isolation);
            self.running.push(Running { txn, log: Vec::new(), savepoints: Vec::new() });
        }
        let at = self.random.usize(..self.running.len());
        match self.random.u8(..100) {
            0..17 => self.insert_some(at),
            17..20 => self.insert_together(at),
            20..41 => self.update(at),
            41..45 => self.update_together(at),
            45..58 => self.delete_or_lock(at),
            58..66 => self.read(at),
            66..68 => self.scan(at),
            68..70 => self.read_together(at),
            70..74 => self.find(at),
            74..84 => self.running[at].txn.next_command(&self.world),
            84..88 => self.savepoint(at),
            88..95 => {
                let xid = self.running[at].txn.xid;
                self.end(xid);
            }
            95..97 => self.go_on_with_checkpoint(),
            _ => self.collect(),
        }
    }

    fn finish(mut self, context: &str) {
        while let Some(running) = self.running.first() {
            let xid = running.txn.xid;
            self.end(xid);
        }
        self.end_checkpoint();
        let expected: Vec<(RowId, Option<Row>)> = self
            .committed
            .iter()
            .filter_map(|(row, versions)| Some((*row, Some(versions.last()?.2.clone()?))))
            .collect();
        self.world.collect(Cts(self.world.clock + 1));
        assert_eq!(self.world.page_rows(), expected, "{context}");
        self.world.assert_clean(context);
    }
}

#[test]
fn random_histories_agree_with_the_model() {
    let first = seed(1);
    let mut counts = BTreeMap::new();
    for seed in first..first + 12 {
        let mut model = Model::new(seed);
        println!("seed {seed}");
        for _ in 0..1500 {
            model.step();
        }
        for (what, count) in &model.counts {
            *counts.entry(*what).or_insert(0) += count;
        }
        model.finish(&format!("seed {seed}"));
    }
    println!("{counts:?}");
    for rare in [
        "changed",
        "checkpoint",
        "collected",
        "entry postponed",
        "rolled back to a savepoint",
        "rows together",
        "rows read together",
        "row changed in place",
        "rows changed together",
        "turn told at once",
        "row of a run",
        "row wait",
        "serialization failure",
        "twins dropped",
        "unique violation",
        "unique wait",
    ] {
        assert!(counts.get(rare).is_some_and(|count| *count > 3), "{rare}: {counts:?}");
    }
}
