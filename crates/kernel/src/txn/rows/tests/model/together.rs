//! Steps of the model that insert, change or read several rows by one call.
//!
//! Invariants: as if row by row, in order; a call that stops has done all rows before.

use super::*;
use std::cell::Cell;

impl Model {
    /// Inserts several rows by one call.
    pub(super) fn insert_together(&mut self, at: usize) {
        // Mostly keys that are free, else hardly any call would come to its end.
        let fresh = self.random.i32(1000..9000) * 100;
        let strange = self.random.u8(..4) == 0;
        let rows: Vec<Row> = (0..self.random.i32(1..30))
            .map(|number| {
                let row = self.random_row();
                let keeps = row.key.is_none() || strange && self.random.u8(..8) == 0;
                Row { key: if keeps { row.key } else { Some(fresh + number) }, ..row }
            })
            .collect();
        let mut progress = RowsProgress::default();
        let mut ids = Vec::new();
        let mark = self.running[at].txn.mark();
        let (xid, log) = (self.running[at].txn.xid, self.running[at].log.len());
        let txn = &mut self.running[at].txn;
        let first = txn.try_insert_rows(&self.world, &rows, &mut ids, &mut progress);
        assert_eq!(ids.len(), rows.len(), "rows are inserted before anything can stop");
        for (id, row) in ids.iter().zip(&rows) {
            self.running[at].note(*id, What::Version(Some(row.clone())));
        }
        let keys: Vec<_> = ids.iter().zip(&rows).map(|(id, row)| (*id, row.key)).collect();
        let mut first = Some(first);
        self.settle_unique(xid, &keys, (mark, log), &mut |txn, world| {
            let again = || txn.try_insert_rows(world, &rows, &mut ids, &mut progress);
            first.take().unwrap_or_else(again)
        });
        self.count("rows together");
    }

    /// Reads rows from some row on, with ids between that are no rows' any more or never were, in
    /// their order or in any.
    pub(super) fn read_together(&mut self, at: usize) {
        let known = self.all_rows();
        let Some(from) = self.some_row() else { return };
        let mut rows: Vec<RowId> = known.into_iter().filter(|row| *row >= from).collect();
        for _ in 0..self.random.usize(..3) {
            let place = self.random.usize(..rows.len());
            rows.insert(place, RowId(rows[place].0 + self.random.u64(..3)));
        }
        if self.random.bool() {
            self.random.shuffle(&mut rows);
        }
        let see = |row: &RowId| self.visible_row(at, *row).map(|version| (*row, version));
        let expected: Vec<_> = rows.iter().filter_map(see).collect();
        let (mut batch, mut out) = Default::default();
        let (mut found, mut looked, mut begun) = (Vec::new(), 0, Vec::new());
        while looked < rows.len() {
            let mut reader = self.running[at].txn.reader(&self.world);
            let read = reader.read_together(&self.world.table, &rows[looked..], &ALL, &mut batch);
            let read = read.expect("nobody is deciding");
            assert!((1..=rows.len() - looked).contains(&read), "{read} of {}", rows.len() - looked);
            for row in 0..batch.len() {
                batch.copy_to(row, &mut out);
                found.push((batch.row(row), Row::of(&out)));
                let (tree, row) = (&self.world.table.tree, batch.row(row));
                let hints = &self.running[at].txn.changes.versions.hints;
                let near = Cell::new(hints.of_row(tree.id(), row).get());
                let known = format!("{:?}", near.get());
                tree.write_near(&near, row).expect("alone here").unchanged();
                let cell = std::ptr::from_ref(hints.of_row(tree.id(), row)).addr();
                begun.push((cell, known, format!("{:?}", near.get())));
            }
            if read > 1 {
                self.count("rows read together");
            }
            // A change begins where its row was read, and need not look elsewhere: unless it shares its hint
            // with the rows of another leaf.
            for (cell, known, there) in &begun {
                let alone = begun.iter().all(|other| other.0 != *cell || other.2 == *there);
                assert!(!alone || known == there, "{known}, not {there}");
            }
            begun.clear();
            looked += read;
        }
        assert_eq!(found, expected, "step {}", self.step);
    }

    /// Changes a column of several rows by one call, in place.
    pub(super) fn update_together(&mut self, at: usize) {
        let xid = self.running[at].txn.xid;
        let count = self.random.usize(1..12);
        let rows: Vec<RowId> = (0..count).filter_map(|_| self.some_row()).collect();
        let balances: Vec<i64> = rows.iter().map(|_| self.random.i64(..)).collect();
        let (mut progress, mut done) = (UpdatesProgress::default(), 0);
        while done < rows.len() {
            let at = self.running.iter().position(|r| r.txn.xid == xid).expect("it runs");
            let txn = &mut self.running[at].txn;
            let found = txn.try_update_rows(&self.world, (&rows, &balances), &mut progress);
            for number in done..progress.done {
                let row = rows[number];
                let expected = self.expected_write(at, row);
                assert_eq!(Expected::Is(WriteOutcome::Done), expected, "step {}: {row}", self.step);
                let own = self.running[at].own(row).next_back().map(|(version, _)| version.clone());
                let newest = own.or_else(|| self.newest(row).map(|(.., version)| version.clone()));
                let old = newest.flatten().expect("it was changed");
                let new = Row { balance: balances[number], ..old };
                self.running[at].note(row, What::Version(Some(new)));
                self.count("row changed in place");
            }
            done = progress.done;
            if matches!(found, Ok(WriteOutcome::Done)) {
                self.count(if done < rows.len() {
                    "turn told at once"
                } else {
                    "rows changed together"
                });
                continue;
            }
            let expected = self.expected_write(at, rows[done]);
            self.check_write(at, rows[done], &expected, &found, What::Lock);
            match expected {
                Expected::Wait(other) if self.random.bool() => self.end(other),
                _ => return,
            }
        }
    }
}
