//! Long values through the front door: every size, moves in and out of the row, rollback, keys,
//! full pools, restarts; and afterwards no page too many.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::*;

mod closing;
mod damage;
mod starts;

pub(super) fn options() -> Options {
    Options {
        instances: Instances::Count(2),
        buffer_pool_bytes: 128 << 20,
        undo_bytes: 32 << 20,
        log_segment_bytes: 8 << 20,
        deadlock_timeout_ms: 20,
        pin: Pin::No,
        ..Options::default()
    }
}

/// A transaction that commits and waits for the disk, or fails and rolls back.
pub(super) fn transact<T: Send>(
    database: &Database,
    work: impl Fn(&mut Statement<'_>) -> Result<T> + Send,
) -> Result<T> {
    steps(database, move |statement, step| (step == 0).then(|| work(statement)))
}

/// A transaction of several commands: `work` gets the command's number, and answers none at the
/// end. The answer is that of the last.
pub(super) fn steps<T: Send>(
    database: &Database,
    work: impl Fn(&mut Statement<'_>, u32) -> Option<Result<T>> + Send,
) -> Result<T> {
    database.run(Target::Any, move |context| {
        let mut session = Session::new(context.instance());
        let mut transaction =
            session.begin(context, Isolation::ReadCommitted, Access::ReadWrite)?;
        let mut last = None;
        for step in 0.. {
            let mut statement = transaction.statement(&mut session, context)?;
            let result = work(&mut statement, step);
            drop(statement);
            match result {
                Some(Err(error)) => {
                    transaction.rollback(&mut session, context);
                    return Err(error);
                }
                Some(done) => last = Some(done),
                None => break,
            }
        }
        transaction.commit(&mut session, context)?;
        session.settle(context)?;
        last.expect("a transaction has a command")
    })?
}

pub(super) const TEXTS: usize = 12;

/// A table (id, 12 texts) with a primary key on id and an index on the first text.
pub(super) fn make_table(database: &Database) -> Oid {
    let made = transact(database, |statement| {
        let mut columns = vec![ColumnDef::plain("id", ColumnType::Int8)];
        let text = |n| ColumnDef::plain(format!("t{n}").as_str(), ColumnType::Bytes);
        columns.extend((0..TEXTS).map(text));
        let (namespace, name) = (PUBLIC_NAMESPACE, "long".to_owned());
        let new = NewTable { namespace, name, columns, options: Vec::new() };
        let table = statement.create_table(new)?;
        make_index(statement, table, "long_pkey", 0, IndexKind::Primary)?;
        make_index(statement, table, "by_first", 1, IndexKind::Plain)?;
        Ok(table)
    });
    made.expect("an empty database has room for a table")
}

fn make_index(
    statement: &mut Statement<'_>,
    table: Oid,
    name: &str,
    column: u16,
    kind: IndexKind,
) -> Result<Oid> {
    let column = IndexColumn {
        column: ColumnId(column),
        direction: Direction::Ascending,
        nulls: Nulls::Last,
    };
    statement.create_index(NewIndex { table, name: name.to_owned(), columns: vec![column], kind })
}

pub(super) type Texts = Vec<Option<Vec<u8>>>;

/// `len` bytes that compress more or less well.
fn text(random: &mut fastrand::Rng, len: usize) -> Vec<u8> {
    let every = [1, 7, 1000][random.usize(0..3)];
    (0..len).map(|at| if at % every == 0 { random.u8(..) } else { b'x' }).collect()
}

pub(super) fn insert(
    statement: &mut Statement<'_>,
    table: Oid,
    id: i64,
    texts: &Texts,
) -> Result<RowId> {
    statement.lock_table(table, TableLockMode::RowExclusive)?;
    let table = statement.table(table)?;
    let id = id.to_le_bytes();
    let mut values: Vec<Option<&[u8]>> = vec![Some(&id)];
    values.extend(texts.iter().map(Option::as_deref));
    statement.insert(&table, &values)
}

fn find(statement: &mut Statement<'_>, table: Oid, id: i64) -> Result<Option<(RowId, Texts)>> {
    statement.lock_table(table, TableLockMode::RowExclusive)?;
    let table = statement.table(table)?;
    let key = KeyBytes::encode(&table.indexes[0], &[Some(&id.to_le_bytes())]);
    let columns: Vec<ColumnId> = (1..=TEXTS as u16).map(ColumnId).collect();
    let mut row = RowBuffer::new();
    let index = &table.indexes[0];
    let found = statement.index_point(&table, index, &key, &columns, &mut row)?;
    Ok(found.map(|at| (at, row.iter().map(|text| text.map(<[u8]>::to_vec)).collect())))
}

pub(super) fn update(
    statement: &mut Statement<'_>,
    table: Oid,
    id: i64,
    changes: &[(usize, Option<Vec<u8>>)],
) -> Result<()> {
    let (row, _) = find(statement, table, id)?.expect("the row is there");
    let table = statement.table(table)?;
    let changes: Vec<(ColumnId, Option<&[u8]>)> = changes
        .iter()
        .map(|(text, value)| (ColumnId(*text as u16 + 1), value.as_deref()))
        .collect();
    assert_eq!(statement.update(&table, row, &changes)?, WriteOutcome::Done);
    Ok(())
}

pub(super) fn delete(statement: &mut Statement<'_>, table: Oid, id: i64) -> Result<()> {
    let (row, _) = find(statement, table, id)?.expect("the row is there");
    let table = statement.table(table)?;
    assert_eq!(statement.delete(&table, row)?, WriteOutcome::Done);
    Ok(())
}

/// All rows, by a scan; look-ups of several at once answer the same.
pub(super) fn all(database: &Database, table: Oid) -> BTreeMap<i64, Texts> {
    let rows = transact(database, |statement| {
        statement.lock_table(table, TableLockMode::AccessShare)?;
        let table = statement.table(table)?;
        let columns: Vec<ColumnId> = (0..=TEXTS as u16).map(ColumnId).collect();
        let mut cursor = statement.scan(&table, &columns);
        let (mut row, mut rows) = (RowBuffer::new(), BTreeMap::new());
        while cursor.next(statement, &mut row)?.is_some() {
            let id = row.column(0).and_then(|bytes| bytes.try_into().ok()).expect("eight bytes");
            let texts: Texts = row.iter().skip(1).map(|text| text.map(<[u8]>::to_vec)).collect();
            rows.insert(i64::from_le_bytes(id), texts);
        }
        let index = &table.indexes[0];
        let key = |id: &i64| KeyBytes::encode(index, &[Some(&id.to_le_bytes())]);
        let keys: Vec<KeyBytes> = rows.keys().map(key).collect();
        let point = |key| PointAhead::new(&table, index, key, &columns[1..]);
        let points: Vec<PointAhead<'_>> = keys.iter().map(point).collect();
        let mut found = PointRows::new();
        statement.index_points(&points, &mut found)?;
        for (at, texts) in rows.values().enumerate() {
            assert!(found.row(at).is_some());
            for (column, text) in texts.iter().enumerate() {
                assert_eq!(found.view(at).column(column), text.as_deref());
            }
        }
        Ok(rows)
    });
    rows.expect("a scan finds no obstacle")
}

/// Everything is in order, and what no version needs any more is gone.
pub(super) fn check(database: &Database) -> u64 {
    let until = Instant::now() + Duration::from_secs(90);
    loop {
        let undo: u64 = database.metrics().expect("it is open").undo_bytes.iter().sum();
        let findings = database.check().expect("the check comes to its end");
        if undo == 0 && findings.overflow_pages_in_undo == 0 {
            assert_eq!(findings.problems, Vec::<String>::new());
            return findings.overflow_pages;
        }
        let left = findings.overflow_pages_in_undo;
        assert!(Instant::now() < until, "{left} pages and {undo} bytes of undo stay");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn values_of_every_size_come_and_go() {
    let database = Database::open_in_memory(options()).unwrap();
    let table = make_table(&database);
    let mut random = fastrand::Rng::with_seed(1);
    let mut model = BTreeMap::new();
    let sizes = [0, 1, 23, 24, 25, 7000, 8000, 8001, 16_000, 65_536, 65_537, 1 << 20, 20 << 20];
    for (id, size) in (0..).zip(sizes) {
        let mut texts: Texts = vec![None; TEXTS];
        texts[3] = Some(text(&mut random, size));
        texts[0] = Some(vec![b'k'; 100]);
        transact(&database, |it| insert(it, table, id, &texts)).unwrap();
        model.insert(id, texts);
    }
    assert!(all(&database, table) == model);
    assert!(check(&database) > 64);
    // Every size becomes every other one, and goes back.
    for round in 0..3 {
        for (id, _) in (0..).zip(sizes) {
            let size = sizes[(id as usize * 5 + round + 1) % (sizes.len() - 1)];
            let value = text(&mut random, size);
            let changes = [(3, Some(value.clone()))];
            let failed: Result<()> = transact(&database, |it| {
                update(it, table, id, &changes)?;
                Err(Error::Cancelled)
            });
            assert_eq!(failed, Err(Error::Cancelled));
            let found = transact(&database, |it| find(it, table, id)).unwrap().unwrap();
            assert!(found.1 == model[&id], "row {id} is as it was");
            transact(&database, |it| update(it, table, id, &changes)).unwrap();
            model.get_mut(&id).unwrap()[3] = Some(value);
        }
        check(&database);
    }
    assert!(all(&database, table) == model);
    for (id, _) in (0..).zip(sizes) {
        transact(&database, |it| delete(it, table, id)).unwrap();
    }
    assert_eq!(check(&database), 0);
    database.close().unwrap();
}

#[test]
fn rows_of_many_middling_values_fit_and_keep_their_keys() {
    let database = Database::open_in_memory(options()).unwrap();
    let table = make_table(&database);
    let mut random = fastrand::Rng::with_seed(2);
    let mut model = BTreeMap::new();
    for id in 0..40 {
        // 12 times up to 2,000 bytes: most must leave the row, the key too at times.
        let texts: Texts = (0..TEXTS)
            .map(|_| (random.u8(..) > 20).then(|| vec![random.u8(1..); random.usize(0..1990)]))
            .collect();
        transact(&database, |it| insert(it, table, id, &texts)).unwrap();
        model.insert(id, texts);
    }
    transact(&database, |it| make_index(it, table, "by_second", 2, IndexKind::Plain)).unwrap();
    check(&database);
    for turn in 0..400 {
        let id = random.i64(0..40);
        let at = random.usize(0..TEXTS);
        let value = (random.u8(..) > 20).then(|| vec![random.u8(1..); random.usize(0..1990)]);
        let other = (0, Some(vec![b'z'; random.usize(1..1990)]));
        let mut changes = vec![(at, value)];
        if at != 0 && random.bool() {
            changes.push(other);
        }
        let keep = turn % 3 != 0;
        let done = transact(&database, |it| {
            update(it, table, id, &changes)?;
            if keep { Ok(()) } else { Err(Error::Cancelled) }
        });
        assert_eq!(done, if keep { Ok(()) } else { Err(Error::Cancelled) });
        for (at, value) in changes.into_iter().filter(|_| keep) {
            model.get_mut(&id).unwrap()[at] = value;
        }
    }
    assert!(all(&database, table) == model);
    check(&database);
    // By the index, each row is found under its present key and no other.
    for (id, texts) in &model {
        let key = texts[1].clone();
        let found = transact(&database, |it| {
            it.lock_table(table, TableLockMode::AccessShare)?;
            let table = it.table(table)?;
            let index = table.indexes[2].clone();
            let range = KeyRange::prefix(KeyBytes::encode(&index, &[key.as_deref()]));
            let direction = ScanDirection::Forward;
            let mut cursor = it.index_scan(&table, &index, range, direction, &[ColumnId(0)]);
            let (mut row, mut found) = (RowBuffer::new(), Vec::new());
            while cursor.next(it, &mut row)?.is_some() {
                found.push(row.column(0).unwrap().to_vec());
            }
            Ok(found)
        });
        assert!(found.unwrap().contains(&id.to_le_bytes().to_vec()), "row {id}");
    }
    for id in model.into_keys() {
        transact(&database, |it| delete(it, table, id)).unwrap();
    }
    assert_eq!(check(&database), 0);
}

#[test]
fn keys_that_are_too_long_are_refused() {
    let database = Database::open_in_memory(options()).unwrap();
    let table = make_table(&database);
    let mut texts: Texts = vec![None; TEXTS];
    for len in [2000, 5000, 9000, 3 << 20] {
        texts[0] = Some(vec![b'k'; len]);
        let refused = transact(&database, |it| insert(it, table, 1, &texts));
        assert!(matches!(refused, Err(Error::KeyTooLong { .. })), "{refused:?}");
    }
    texts[0] = None;
    texts[2] = Some(vec![b'k'; 100_000]);
    transact(&database, |it| insert(it, table, 1, &texts)).unwrap();
    let refused = transact(&database, |it| make_index(it, table, "by_third", 3, IndexKind::Plain));
    assert!(matches!(refused, Err(Error::KeyTooLong { .. })), "{refused:?}");
    // A duplicate key after the long value was written: nothing stays of it.
    let twice = transact(&database, |it| insert(it, table, 1, &texts));
    assert!(matches!(twice, Err(Error::UniqueViolation { .. })), "{twice:?}");
    assert_eq!(check(&database), 1);
}

#[test]
fn one_transaction_changes_its_long_value_again_and_again() {
    let database = Database::open_in_memory(options()).unwrap();
    let table = make_table(&database);
    let mut texts: Texts = vec![None; TEXTS];
    let value = |step: u32| vec![step as u8; 300_000 + step as usize];
    for commits in [true, false] {
        let work = |it: &mut Statement<'_>, step: u32| match step {
            0 => {
                let mut texts = texts.clone();
                texts[4] = Some(value(0));
                Some(insert(it, table, 1, &texts).map(drop))
            }
            1..6 => Some(update(it, table, 1, &[(4, Some(value(step)))])),
            6 => {
                let found = find(it, table, 1).unwrap().unwrap();
                assert!(found.1[4] == Some(value(5)));
                Some(if commits { Ok(()) } else { Err(Error::Cancelled) })
            }
            _ => None,
        };
        let done = steps(&database, work);
        assert_eq!(done.is_ok(), commits);
        check(&database);
        if commits {
            texts[4] = Some(value(5));
            assert!(all(&database, table)[&1] == texts);
            transact(&database, |it| delete(it, table, 1)).unwrap();
            texts[4] = None;
        }
    }
    assert_eq!(check(&database), 0);
    // Truncated and dropped tables leave nothing either.
    texts[5] = Some(value(9));
    transact(&database, |it| insert(it, table, 1, &texts)).unwrap();
    transact(&database, |it| it.truncate(&[table])).unwrap();
    transact(&database, |it| insert(it, table, 1, &texts)).unwrap();
    let frozen: Result<()> = steps(&database, |it, step| match step {
        0 => Some(it.truncate(&[table])),
        1 => {
            it.lock_table(table, TableLockMode::RowExclusive).unwrap();
            let table = it.table(table).unwrap();
            let (id, long) = (7_i64.to_le_bytes(), value(3));
            let mut values: Vec<Option<&[u8]>> = vec![None; TEXTS + 1];
            values[0] = Some(&id);
            values[2] = Some(&long);
            Some(it.insert_frozen(&table, &values).map(drop))
        }
        2 => Some(Err(Error::Cancelled)),
        _ => None,
    });
    assert_eq!(frozen, Err(Error::Cancelled));
    assert!(all(&database, table)[&1] == texts);
    assert!(check(&database) > 0);
    transact(&database, |it| it.truncate(&[table])).unwrap();
    assert_eq!(check(&database), 0);
}

#[test]
fn an_old_snapshot_reads_the_old_value_while_it_is_replaced() {
    let database = Database::open_in_memory(options()).unwrap();
    let table = make_table(&database);
    let value = |turn: usize| Some(vec![turn as u8; 200_000 + turn]);
    let mut texts: Texts = vec![None; TEXTS];
    texts[6] = value(0);
    transact(&database, |it| insert(it, table, 1, &texts)).unwrap();
    let (writer, stop) = (database.clone(), crate::sync::AtomicBool::new(false));
    let relaxed = crate::sync::Ordering::Relaxed;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 1..200 {
                let done = transact(&writer, |it| update(it, table, 1, &[(6, value(turn))]));
                done.unwrap();
            }
            stop.store(true, relaxed);
        });
        let mut seen = std::collections::BTreeSet::new();
        while !stop.load(relaxed) {
            let read = database.run(Target::Any, |context| {
                let mut session = Session::new(context.instance());
                let isolation = Isolation::RepeatableRead;
                let mut transaction = session.begin(context, isolation, Access::ReadOnly).unwrap();
                let mut reads = Vec::new();
                for _ in 0..10 {
                    let mut statement = transaction.statement(&mut session, context).unwrap();
                    let found = find(&mut statement, table, 1).unwrap().unwrap();
                    reads.push(found.1[6].clone().unwrap());
                    context.yield_now();
                }
                transaction.rollback(&mut session, context);
                reads
            });
            let reads = read.unwrap();
            assert!(reads.iter().all(|read| *read == reads[0]), "one snapshot, one value");
            assert_eq!(Some(reads[0].clone()), value(reads[0].len() - 200_000));
            seen.insert(reads[0].len());
        }
        assert!(seen.len() > 1, "the reader met several versions");
    });
    texts[6] = value(199);
    assert!(all(&database, table)[&1] == texts);
    assert!(check(&database) > 0);
}

#[test]
fn a_full_pool_refuses_a_long_value_and_loses_nothing() {
    let small = Options { buffer_pool_bytes: 8 << 20, ..options() };
    let database = Database::open_in_memory(small).unwrap();
    let table = make_table(&database);
    let mut random = fastrand::Rng::with_seed(3);
    let mut texts: Texts = vec![None; TEXTS];
    let noise = |random: &mut fastrand::Rng, len| Some((0..len).map(|_| random.u8(..)).collect());
    texts[7] = noise(&mut random, 1 << 20);
    transact(&database, |it| insert(it, table, 0, &texts)).unwrap();
    let used = database.metrics().unwrap().pool.used;
    for _ in 0..4 {
        let mut large = texts.clone();
        large[8] = noise(&mut random, 9 << 20);
        let full = transact(&database, |it| insert(it, table, 1, &large));
        assert!(matches!(full, Err(Error::OutOfMemory { .. })), "{full:?}");
        let full = transact(&database, |it| update(it, table, 0, &[(8, large[8].clone())]));
        assert!(matches!(full, Err(Error::OutOfMemory { .. })), "{full:?}");
        assert!(all(&database, table) == BTreeMap::from([(0, texts.clone())]));
        check(&database);
        assert_eq!(database.metrics().unwrap().pool.used, used);
    }
    // What is replaced is freed when room is needed, not only when there is time.
    for round in 0..30 {
        let value = noise(&mut random, 2 << 20);
        let changes = [(8, value.clone())];
        let changed = transact(&database, |it| update(it, table, 0, &changes));
        changed.unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
}

#[test]
fn long_values_survive_restarts_and_their_redo_is_spilled() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), options()).unwrap();
    let table = make_table(&database);
    let mut random = fastrand::Rng::with_seed(4);
    let mut model: BTreeMap<i64, Texts> = BTreeMap::new();
    for id in 0..30 {
        let len = 1 << random.usize(0..22);
        let mut texts: Texts = vec![None; TEXTS];
        texts[random.usize(1..TEXTS)] = Some(text(&mut random, len));
        let committed = transact(&database, |it| {
            insert(it, table, id, &texts)?;
            if id % 5 == 4 { Err(Error::Cancelled) } else { Ok(()) }
        });
        if committed.is_ok() {
            model.insert(id, texts);
        }
    }
    for id in model.keys().copied().collect::<Vec<_>>() {
        match id % 3 {
            0 => {
                let value = Some(text(&mut random, 1 << (id % 20)));
                let changes = [(2, value.clone()), (3, None)];
                transact(&database, |it| update(it, table, id, &changes)).unwrap();
                model.get_mut(&id).unwrap()[2..4].clone_from_slice(&[value, None]);
            }
            1 if id > 20 => {
                transact(&database, |it| delete(it, table, id)).unwrap();
                model.remove(&id);
            }
            _ => {}
        }
    }
    let chunks: u64 = database.metrics().unwrap().logs.iter().map(|log| log.chunks).sum();
    assert!(chunks > 4, "{chunks} chunks");
    assert!(all(&database, table) == model);
    let pages = check(&database);
    database.close().unwrap();
    drop(database);
    for instances in [1, 3] {
        let options = Options { instances: Instances::Count(instances), ..options() };
        let database = Database::open(directory.path(), options).unwrap();
        assert!(all(&database, table) == model, "with {instances} instances");
        assert_eq!(check(&database), pages);
        database.close().unwrap();
    }
    let findings = Database::inspect(directory.path(), options(), &mut |_| ()).unwrap();
    assert_eq!(findings.problems, Vec::<String>::new());
    assert_eq!((findings.overflow_pages, findings.overflow_pages_in_undo), (pages, 0));
}

/// A change that fails after much of it was spilled, in a transaction that commits: recovery takes
/// what came before and after it.
#[test]
fn what_was_rolled_back_after_it_was_spilled_is_not_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), options()).unwrap();
    let table = make_table(&database);
    let mut random = fastrand::Rng::with_seed(6);
    let mut model: BTreeMap<i64, Texts> = BTreeMap::new();
    for id in 0..6 {
        let mut texts: Texts = vec![None; TEXTS];
        let len = random.usize(100..2 << 20);
        texts[5] = Some((0..len).map(|_| random.u8(..)).collect());
        model.insert(id, texts);
    }
    let rows = &model;
    let done = steps(&database, |it, step| {
        let (id, texts) = rows.iter().nth(step as usize / 2)?;
        if step % 2 == 0 {
            return Some(insert(it, table, *id, texts).map(drop));
        }
        // The key is taken: everything of this row goes, its spilled redo too.
        let twice = insert(it, table, *id, &rows[&(5 - id)]);
        assert!(matches!(twice, Err(Error::UniqueViolation { .. })), "{twice:?}");
        Some(Ok(()))
    });
    done.unwrap();
    assert!(all(&database, table) == model);
    database.close().unwrap();
    drop(database);
    let database = Database::open(directory.path(), options()).unwrap();
    assert!(all(&database, table) == model);
    check(&database);
}

/// More chunks than one record can name: with buffers of 16 KiB that is 128 times 4 KiB.
#[test]
fn a_transaction_has_any_number_of_chunks() {
    let directory = tempfile::tempdir().unwrap();
    let small = || Options { log_buffer_bytes: 16 << 10, log_segment_bytes: 1 << 20, ..options() };
    let database = Database::open(directory.path(), small()).unwrap();
    let table = make_table(&database);
    let mut random = fastrand::Rng::with_seed(8);
    let mut model: BTreeMap<i64, Texts> = BTreeMap::new();
    for id in 0..3 {
        let mut texts: Texts = vec![None; TEXTS];
        texts[4] = Some((0..3 << 20).map(|_| random.u8(..)).collect());
        model.insert(id, texts);
    }
    let rows = &model;
    steps(&database, |it, step| {
        let (id, texts) = rows.iter().nth(step as usize)?;
        Some(insert(it, table, *id, texts).map(drop))
    })
    .unwrap();
    let chunks: u64 = database.metrics().unwrap().logs.iter().map(|log| log.chunks).sum();
    assert!(chunks > 2000, "{chunks} chunks");
    database.close().unwrap();
    drop(database);
    let database = Database::open(directory.path(), small()).unwrap();
    assert!(all(&database, table) == model);
    check(&database);
}
