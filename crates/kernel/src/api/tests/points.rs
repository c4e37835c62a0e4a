//! Look-ups by whole keys: whatever is guessed of a row, what is answered is what the snapshot has.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::*;

const IDS: i64 = 700;

type Model = BTreeMap<i64, i64>;

/// The big integer in a column of the row of a look-up.
fn at_number(rows: &PointRows, at: usize, column: usize) -> i64 {
    let bytes = rows.view(at).column(column).and_then(|bytes| bytes.try_into().ok());
    i64::from_le_bytes(bytes.expect("eight bytes"))
}

/// Looks all ids up, alone and some together, and compares with the model.
fn compare(statement: &mut Statement<'_>, table: Oid, model: &Model) -> Result<()> {
    statement.lock_table(table, TableLockMode::AccessShare)?;
    let entry = statement.table(table)?;
    let index = &entry.indexes[0];
    let keys: Vec<KeyBytes> =
        (-3..IDS + 3).map(|id| KeyBytes::encode(index, &[Some(&bytes(id))])).collect();
    let columns = [ColumnId(1), ColumnId(0)];
    let (mut row, mut rows) = (RowBuffer::new(), PointRows::new());
    for together in [1, 40] {
        for (some, first) in keys.chunks(together).zip((-3..).step_by(together)) {
            let points: Vec<PointAhead<'_>> =
                some.iter().map(|key| PointAhead::new(&entry, index, key, &columns)).collect();
            if together > 1 {
                statement.prefetch_points(&points);
            }
            for (point, id) in points.iter().zip(first..) {
                let found = statement.index_point_ahead(point, &mut row)?;
                let found = found.map(|_| (number(&row, 1), number(&row, 0)));
                assert_eq!(found, model.get(&id).map(|balance| (id, *balance)), "id {id}");
            }
            statement.index_points(&points, &mut rows)?;
            for (at, id) in (first..).take(points.len()).enumerate() {
                let found =
                    rows.row(at).map(|_| (at_number(&rows, at, 1), at_number(&rows, at, 0)));
                assert_eq!(
                    found,
                    model.get(&id).map(|balance| (id, *balance)),
                    "id {id}, together"
                );
            }
        }
    }
    Ok(())
}

/// Moves rows to other ids and back to those that they had at first, takes rows away and puts others
/// there.
fn change(
    statement: &mut Statement<'_>,
    (table, model): (Oid, &mut Model),
    first_ids: &HashMap<RowId, i64>,
    random: &mut fastrand::Rng,
) -> Result<()> {
    statement.lock_table(table, TableLockMode::RowExclusive)?;
    let entry = statement.table(table)?;
    // A command does not see what it has done itself.
    let mut touched = HashSet::new();
    for _ in 0..60 {
        let (id, balance) = (random.i64(0..IDS), random.i64(..));
        let found = find(statement, table, id)?;
        let first = found.and_then(|(row, _)| first_ids.get(&row).copied());
        let to = first.filter(|first| *first != id).unwrap_or_else(|| random.i64(0..IDS));
        if !touched.insert(id) || !touched.insert(to) {
            continue;
        }
        match (found, model.contains_key(&to)) {
            (Some((row, _)), false) if random.u8(0..4) > 0 => {
                statement.update(&entry, row, &[(ColumnId(0), Some(&bytes(to)))])?;
                let moved = model.remove(&id).expect("it was found");
                model.insert(to, moved);
            }
            (Some((row, _)), _) => {
                statement.delete(&entry, row)?;
                model.remove(&id);
            }
            (None, _) => {
                insert(statement, table, id, balance)?;
                model.insert(id, balance);
            }
        }
    }
    Ok(())
}

#[test]
fn a_guessed_row_is_the_answer_only_if_it_has_the_key() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), options(1)).unwrap();
    let table = make_accounts(&database);
    // In the order of the keys, so that guesses are right at first.
    let filled = transact(&database, Isolation::ReadCommitted, |statement| {
        (0..IDS).map(|id| Ok((insert(statement, table, id, id)?, id))).collect()
    });
    let first_ids: HashMap<RowId, i64> = filled.unwrap();
    let run = move |context: &Context| {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut model: Model = (0..IDS).map(|id| (id, id)).collect();
        let (mut session, mut other) =
            (Session::new(context.instance()), Session::new(context.instance()));
        for _ in 0..30 {
            // An old snapshot goes on to see what it saw; a transaction sees its own changes, and
            // nobody what it takes back.
            let before = model.clone();
            let begun = other.begin(context, Isolation::RepeatableRead, Access::ReadOnly);
            let mut old = begun.unwrap();
            compare(&mut old.statement(&mut other, context).unwrap(), table, &before).unwrap();
            let begun = session.begin(context, Isolation::RepeatableRead, Access::ReadWrite);
            let mut transaction = begun.unwrap();
            for _ in 0..3 {
                let mut statement = transaction.statement(&mut session, context).unwrap();
                change(&mut statement, (table, &mut model), &first_ids, &mut random).unwrap();
                drop(statement);
                let mut statement = transaction.statement(&mut session, context).unwrap();
                compare(&mut statement, table, &model).unwrap();
            }
            compare(&mut old.statement(&mut other, context).unwrap(), table, &before).unwrap();
            if random.bool() {
                transaction.commit(&mut session, context).unwrap();
            } else {
                transaction.rollback(&mut session, context);
                model.clone_from(&before);
            }
            compare(&mut old.statement(&mut other, context).unwrap(), table, &before).unwrap();
            old.commit(&mut other, context).unwrap();
            session.settle(context).unwrap();
        }
    };
    database.run(Target::Any, run).unwrap();
    check(&database);
    database.close().unwrap();
}
