//! The statements of simulated clients.
//!
//! Invariants: as a statement of SQL would do it: READ COMMITTED goes on with the newest version
//! of a row that it had to wait for, if that still has the key it looked for; REPEATABLE READ
//! fails. Everything read or changed is written down at once.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;

use atoll_kernel::api::{
    ColumnId, Context, IndexEntry, Isolation, KeyBytes, KeyRange, PUBLIC_NAMESPACE, Parker,
    Presence, Relation, Result, RowBuffer, RowId, ScanDirection, Statement, TableEntry,
    TableLockMode, WriteOutcome,
};
use atoll_kernel::io::Seeded;

use crate::clients::Clients;
use crate::history::{Read, Row, TransactionId};
use crate::tables::{
    self, ALL, BALANCE, GROUP, GROUPS, Grouped, ID, MAIN_KEYS, Names, PAD, SEQUENCES, SIDE_KEYS,
    SIDES, THERE, WRITER, bytes, row_of, side_base, side_name,
};

/// One statement and whose it is.
pub struct Op<'o> {
    /// What all clients share.
    pub clients: &'o Clients,
    /// The client's choices.
    pub random: &'o mut Seeded,
    /// The transaction.
    pub id: TransactionId,
    /// Its changes before this statement.
    pub own_writes: usize,
    /// How much it sees of others.
    pub isolation: Isolation,
}

/// What a change makes of a row.
#[derive(Clone, Copy)]
enum To {
    Balance(i64),
    Group(i64),
    Key(i64),
    Delete,
    Lock,
}

impl Op<'_> {
    fn read(
        &self,
        statement: &Statement<'_>,
        keys: RangeInclusive<i64>,
        group: Option<i64>,
        found: BTreeMap<i64, Row>,
    ) {
        let snapshot = statement.snapshot_timestamp();
        let own_writes = self.own_writes;
        self.clients.read(self.id, Read { own_writes, snapshot, keys, group, found });
    }

    fn wrote(&self, key: i64, replaced: Option<Row>, row: Option<Row>) {
        self.clients.history.borrow_mut().wrote(self.id, key, replaced, row);
    }

    fn key(&mut self) -> i64 {
        self.random.below(MAIN_KEYS as u64) as i64
    }

    fn group(&mut self) -> i64 {
        self.random.below(GROUPS as u64) as i64
    }

    fn new_row(&mut self) -> Row {
        Row { balance: self.random.below(1000) as i64, group: self.group(), writer: self.id }
    }

    /// Lets other tasks of the instance run, sometimes.
    fn breathe(&mut self, context: &Context) {
        if self.random.one_in(6) {
            context.yield_now();
        }
    }
}

/// A random statement.
pub fn random(op: &mut Op<'_>, statement: &mut Statement<'_>) -> Result<()> {
    if op.isolation == Isolation::ReadCommitted && op.random.one_in(8) {
        return on_side_table(op, statement);
    }
    if op.random.one_in(10) {
        return take_values(op, statement);
    }
    let kind = op.random.below(20);
    let mode = match kind {
        0..8 => TableLockMode::AccessShare,
        _ if op.random.one_in(100) => TableLockMode::AccessExclusive,
        _ => TableLockMode::RowExclusive,
    };
    let Some(main) = tables::table(statement, "main", mode)? else {
        op.clients.complain("there is no table main".to_owned());
        return Ok(());
    };
    match kind {
        0..3 => {
            let key = op.key();
            find(op, statement, &main, key).map(drop)
        }
        3..5 => scan_keys(op, statement, &main),
        5..7 => {
            let group = op.group();
            scan_group(op, statement, &main, group)
        }
        7 => scan_table(op, statement, &main, 0..=9_999).map(drop),
        8..12 => transfer(op, statement, &main),
        12 => pay_group(op, statement, &main),
        13..15 => insert(op, statement, &main),
        15 => change_one(op, statement, &main, |_| To::Delete),
        16 => change_one(op, statement, &main, |op| To::Key(op.key())),
        17..19 => change_one(op, statement, &main, |op| To::Group(op.group())),
        _ => change_one(op, statement, &main, |_| To::Lock),
    }
}

/// A random statement that only reads.
pub fn look(op: &mut Op<'_>, statement: &mut Statement<'_>) -> Result<()> {
    let main = tables::table(statement, "main", TableLockMode::AccessShare)?;
    let Some(main) = main else {
        op.clients.complain("a checkpoint has no table main".to_owned());
        return Ok(());
    };
    match op.random.below(5) {
        0 => {
            let key = op.key();
            find(op, statement, &main, key).map(drop)
        }
        1 => scan_keys(op, statement, &main),
        2..4 => {
            let group = op.group();
            scan_group(op, statement, &main, group)
        }
        _ => scan_table(op, statement, &main, 0..=9_999).map(drop),
    }
}

/// Takes some values of a sequence.
fn take_values(op: &mut Op<'_>, statement: &mut Statement<'_>) -> Result<()> {
    let which = op.random.below(SEQUENCES.len() as u64) as usize;
    let (name, _) = SEQUENCES[which];
    let found = statement.catalog().relation(PUBLIC_NAMESPACE, name).cloned();
    let Some(Relation::Sequence(sequence)) = found else {
        op.clients.complain(format!("there is no sequence {name}"));
        return Ok(());
    };
    for _ in 0..1 + op.random.below(20) {
        match statement.next_value(sequence.def.oid)? {
            Some(value) => op.clients.given(op.id, which, value),
            None => op.clients.complain(format!("sequence {name} came to its end")),
        }
        op.breathe(statement.context());
    }
    Ok(())
}

fn find(
    op: &mut Op<'_>,
    statement: &mut Statement<'_>,
    table: &Arc<TableEntry>,
    key: i64,
) -> Result<Option<(RowId, Row)>> {
    let Some(index) = tables::index(table, "_pkey").filter(|it| statement.may_read(table, it))
    else {
        return Ok(None);
    };
    let mut buffer = RowBuffer::new();
    let bytes = KeyBytes::encode(index, &[Some(&bytes(key))]);
    let at = statement.index_point(table, index, &bytes, &ALL, &mut buffer)?;
    let found = at.map(|at| {
        let (read, row) = row_of(&buffer);
        if read != key {
            op.clients.complain(format!("asked for key {key}, got {read}"));
        }
        (at, row)
    });
    let rows = found.iter().map(|(_, row)| (key, row.clone())).collect();
    op.read(statement, key..=key, None, rows);
    Ok(found)
}

/// Takes a row of a scan in; a key that comes twice is wrong.
fn take(
    op: &Op<'_>,
    statement: &Statement<'_>,
    found: &mut BTreeMap<i64, Row>,
    (at, buffer): (RowId, &RowBuffer),
) -> i64 {
    let (key, row) = row_of(buffer);
    let Some(other) = found.insert(key, row.clone()) else { return key };
    // REPEATABLE READ sees its own new row beside the one that its snapshot still has and somebody
    // deleted since, as in PostgreSQL. Keep the own one.
    let inserted = op.clients.history.borrow_mut().of(op.id).writes[..op.own_writes]
        .iter()
        .any(|write| write.key == key && write.replaced.is_none() && write.undone.is_none());
    let own = [&other, &row].into_iter().find(|it| it.writer == op.id).cloned();
    if let (Isolation::RepeatableRead, true, Some(own)) = (op.isolation, inserted, own) {
        op.clients.count("own row beside an old one");
        found.insert(key, own);
    } else {
        op.clients.complain(format!(
            "transaction {} ({:?}, snapshot {}): a scan met key {key} twice: {other:?}, then \
             {row:?} in row {at}",
            op.id.0,
            op.isolation,
            statement.snapshot_timestamp()
        ));
    }
    key
}

fn scan_keys(
    op: &mut Op<'_>,
    statement: &mut Statement<'_>,
    table: &Arc<TableEntry>,
) -> Result<()> {
    let Some(index) = tables::index(table, "_pkey") else { return Ok(()) };
    let (a, b) = (op.key(), op.key());
    let keys = a.min(b)..=a.max(b);
    let key = |key: i64| KeyBytes::encode(index, &[Some(&bytes(key))]);
    let range = KeyRange {
        from: Bound::Included(key(*keys.start())),
        to: Bound::Included(key(*keys.end())),
    };
    let backward = op.random.one_in(2);
    let direction = if backward { ScanDirection::Backward } else { ScanDirection::Forward };
    let by_keys_first = keys_alone(op, statement, (table, index), range.clone(), direction)?;
    let mut cursor = statement.index_scan(table, index, range.clone(), direction, &ALL);
    let (mut buffer, mut found, mut order) = (RowBuffer::new(), BTreeMap::new(), Vec::new());
    while let Some(at) = cursor.next(statement, &mut buffer)? {
        order.push(take(op, statement, &mut found, (at, &buffer)));
        op.breathe(statement.context());
    }
    let by_keys_last = keys_alone(op, statement, (table, index), range, direction)?;
    for by_keys in [by_keys_first, by_keys_last] {
        if by_keys != order {
            op.clients.complain(format!(
                "transaction {} (snapshot {}): keys alone {by_keys:?}, with their rows {order:?}",
                op.id.0,
                statement.snapshot_timestamp()
            ));
        }
    }
    if backward {
        order.reverse();
    }
    if !order.is_sorted() {
        op.clients.complain(format!("a scan by key is not in order: {order:?}"));
    }
    op.read(statement, keys, None, found);
    Ok(())
}

/// The keys in a range, read from the index's entries where they answer for their rows: what the
/// same snapshot sees by the rows, which the model judges.
fn keys_alone(
    op: &mut Op<'_>,
    statement: &mut Statement<'_>,
    (table, index): (&Arc<TableEntry>, &IndexEntry),
    range: KeyRange,
    direction: ScanDirection,
) -> Result<Vec<i64>> {
    let mut cursor = statement.index_scan(table, index, range, direction, &[ID]);
    let (mut buffer, mut keys) = (RowBuffer::new(), Vec::new());
    while cursor.next(statement, &mut buffer)?.is_some() {
        keys.push(tables::number(&buffer, 0));
        op.breathe(statement.context());
    }
    if cursor.fetched() < keys.len() as u64 {
        op.clients.count("rows told by an index alone");
    }
    Ok(keys)
}

fn scan_group(
    op: &mut Op<'_>,
    statement: &mut Statement<'_>,
    table: &Arc<TableEntry>,
    group: i64,
) -> Result<()> {
    let Some(index) = tables::index(table, "_grp") else { return Ok(()) };
    let range = KeyRange::prefix(KeyBytes::encode(index, &[Some(&bytes(group))]));
    let mut cursor = statement.index_scan(table, index, range, ScanDirection::Forward, &ALL);
    let (mut buffer, mut found) = (RowBuffer::new(), BTreeMap::new());
    while let Some(at) = cursor.next(statement, &mut buffer)? {
        take(op, statement, &mut found, (at, &buffer));
        op.breathe(statement.context());
    }
    op.read(statement, 0..=9_999, Some(group), found);
    Ok(())
}

fn scan_table(
    op: &mut Op<'_>,
    statement: &mut Statement<'_>,
    table: &Arc<TableEntry>,
    keys: RangeInclusive<i64>,
) -> Result<BTreeMap<i64, Row>> {
    let mut cursor = statement.scan(table, &ALL);
    let (mut buffer, mut found) = (RowBuffer::new(), BTreeMap::new());
    while let Some(at) = cursor.next(statement, &mut buffer)? {
        take(op, statement, &mut found, (at, &buffer));
        op.breathe(statement.context());
    }
    op.read(statement, keys, None, found.clone());
    Ok(found)
}

/// Changes a row that was read. False if it is not there any more.
fn change(
    op: &Op<'_>,
    statement: &mut Statement<'_>,
    table: &Arc<TableEntry>,
    (at, key, mut row): (RowId, i64, Row),
    to: To,
) -> Result<bool> {
    let mut buffer = RowBuffer::new();
    loop {
        let (new_key, new) = made(op, key, &row, to);
        let outcome = match (to, &new) {
            (To::Lock, _) => statement.lock_row(table, at)?,
            (_, None) => statement.delete(table, at)?,
            (_, Some(new)) => update(statement, table, at, (key, &row), (new_key, new))?,
        };
        match outcome {
            WriteOutcome::Done => {
                op.clients.locked(table.def.tree.0, at, op.id);
                match to {
                    To::Lock => {}
                    To::Key(_) if new_key != key => {
                        op.wrote(key, Some(row), None);
                        op.wrote(new_key, None, new);
                    }
                    _ => op.wrote(key, Some(row), new),
                }
                return Ok(true);
            }
            WriteOutcome::Changed => {
                op.clients.count("newer version locked");
                op.clients.locked(table.def.tree.0, at, op.id);
                if op.isolation != Isolation::ReadCommitted {
                    op.clients.complain("REPEATABLE READ was offered a newer version".to_owned());
                }
                if statement.get_newest(table, at, &ALL, &mut buffer)? == Presence::Absent {
                    return Ok(false);
                }
                let (newest_key, newest) = row_of(&buffer);
                op.clients.history.borrow_mut().of(op.id).seen.insert(newest.writer);
                if newest_key != key {
                    return Ok(false);
                }
                row = newest;
            }
            WriteOutcome::Gone | WriteOutcome::DoneByThisCommand => return Ok(false),
        }
    }
}

fn made(op: &Op<'_>, key: i64, row: &Row, to: To) -> (i64, Option<Row>) {
    let row = Row { writer: op.id, ..row.clone() };
    match to {
        To::Balance(more) => (key, Some(Row { balance: row.balance + more, ..row })),
        To::Group(group) => (key, Some(Row { group, ..row })),
        To::Key(new) => (new, Some(row)),
        To::Delete | To::Lock => (key, None),
    }
}

fn update(
    statement: &mut Statement<'_>,
    table: &TableEntry,
    at: RowId,
    (old_key, old): (i64, &Row),
    (key, row): (i64, &Row),
) -> Result<WriteOutcome> {
    let (id, balance) = (bytes(key), bytes(row.balance));
    let (group, writer) = (bytes(row.group), bytes(row.writer.0 as i64));
    let pad = tables::pad(row);
    let mut changes: Vec<(ColumnId, Option<&[u8]>)> =
        vec![(WRITER, Some(&writer)), (PAD, Some(&pad))];
    if key != old_key {
        changes.push((ID, Some(&id)));
    }
    if row.balance != old.balance {
        changes.push((BALANCE, Some(&balance)));
    }
    if row.group != old.group {
        changes.push((GROUP, Some(&group)));
    }
    statement.update(table, at, &changes)
}

/// Moves money between two accounts.
fn transfer(op: &mut Op<'_>, statement: &mut Statement<'_>, table: &Arc<TableEntry>) -> Result<()> {
    // A few accounts are wanted by everybody.
    let near = if op.random.one_in(2) { 5 } else { MAIN_KEYS as u64 };
    let (from, to) = (op.random.below(near) as i64, op.random.below(near) as i64);
    if from == to {
        return Ok(());
    }
    let amount = op.random.below(100) as i64;
    for (key, amount) in [(from, -amount), (to, amount)] {
        let Some((at, row)) = find(op, statement, table, key)? else { return Ok(()) };
        op.breathe(statement.context());
        if !change(op, statement, table, (at, key, row), To::Balance(amount))? {
            return Ok(());
        }
    }
    Ok(())
}

/// Changes every row of a group while it goes along the index that the change itself touches:
/// a statement must not meet its own work.
fn pay_group(
    op: &mut Op<'_>,
    statement: &mut Statement<'_>,
    table: &Arc<TableEntry>,
) -> Result<()> {
    let Some(index) = tables::index(table, "_grp") else { return Ok(()) };
    // One group, or all: then rows move on to where the statement has not been yet.
    let group = op.random.one_in(2).then(|| op.group());
    let range = match group {
        Some(group) => KeyRange::prefix(KeyBytes::encode(index, &[Some(&bytes(group))])),
        None => KeyRange::all(),
    };
    let mut cursor = statement.index_scan(table, index, range, ScanDirection::Forward, &ALL);
    let (mut buffer, mut found) = (RowBuffer::new(), BTreeMap::new());
    while let Some(at) = cursor.next(statement, &mut buffer)? {
        let key = take(op, statement, &mut found, (at, &buffer));
        let row = found[&key].clone();
        let to = match group {
            Some(_) => To::Balance(1),
            None => To::Group((row.group + 1) % GROUPS),
        };
        change(op, statement, table, (at, key, row), to)?;
        op.breathe(statement.context());
    }
    op.read(statement, 0..=9_999, group, found);
    Ok(())
}

fn insert(op: &mut Op<'_>, statement: &mut Statement<'_>, table: &Arc<TableEntry>) -> Result<()> {
    let (key, row) = (op.key(), op.new_row());
    tables::insert(statement, table, key, &row)?;
    op.wrote(key, None, Some(row));
    Ok(())
}

fn change_one(
    op: &mut Op<'_>,
    statement: &mut Statement<'_>,
    table: &Arc<TableEntry>,
    to: impl Fn(&mut Op<'_>) -> To,
) -> Result<()> {
    let key = op.key();
    let Some((at, row)) = find(op, statement, table, key)? else { return Ok(()) };
    let to = to(op);
    change(op, statement, table, (at, key, row), to).map(drop)
}

/// Says in the journal that the transaction wrote.
pub fn journal(statement: &mut Statement<'_>, id: TransactionId) -> Result<()> {
    let found = tables::table(statement, "journal", TableLockMode::RowExclusive)?;
    let journal = found.ok_or(atoll_kernel::api::Error::CatalogChanged)?;
    let row = Row { balance: 0, group: 0, writer: id };
    tables::insert(statement, &journal, id.0 as i64, &row)
}

/// Reads or fills a side table. READ COMMITTED only: a truncation is seen by old snapshots too.
fn on_side_table(op: &mut Op<'_>, statement: &mut Statement<'_>) -> Result<()> {
    let side = op.random.below(SIDES as u64) as i64;
    let base = side_base(side);
    let mode = TableLockMode::RowExclusive;
    let Some(table) = tables::table(statement, &side_name(side), mode)? else { return Ok(()) };
    let key = base + 1 + op.random.below(SIDE_KEYS as u64 - 1) as i64;
    match op.random.below(3) {
        0 => scan_table(op, statement, &table, base + 1..=base + SIDE_KEYS).map(drop),
        1 => {
            let row = op.new_row();
            tables::insert(statement, &table, key, &row)?;
            op.wrote(key, None, Some(row));
            Ok(())
        }
        _ => {
            let Some((at, row)) = find(op, statement, &table, key)? else { return Ok(()) };
            let to = if op.random.one_in(3) { To::Delete } else { To::Balance(1) };
            change(op, statement, &table, (at, key, row), to).map(drop)
        }
    }
}

/// Makes a side table, or drops, truncates or indexes it.
pub fn definitions(op: &mut Op<'_>, statement: &mut Statement<'_>) -> Result<()> {
    let side = op.random.below(SIDES as u64) as i64;
    let (name, base) = (side_name(side), side_base(side));
    let Some(found) = statement.catalog().table(PUBLIC_NAMESPACE, &name).cloned() else {
        let names = if op.id.0.is_multiple_of(3) { Names::Long } else { Names::None };
        tables::make(statement, &name, (Grouped::No, names))?;
        op.wrote(base, None, Some(THERE));
        op.clients.count("table made");
        return fill(op, statement, &name, base);
    };
    let oid = found.def.oid;
    statement.lock_table(oid, TableLockMode::AccessExclusive)?;
    let table = statement.table(oid)?;
    let keys = base + 1..=base + SIDE_KEYS;
    match op.random.below(3) {
        0 => {
            let rows = scan_table(op, statement, &table, keys)?;
            statement.drop_table(oid)?;
            forget(op, rows);
            op.wrote(base, Some(THERE), None);
            op.clients.count("table dropped");
            Ok(())
        }
        1 => {
            let rows = scan_table(op, statement, &table, keys)?;
            statement.truncate(&[oid])?;
            forget(op, rows);
            op.clients.count("table truncated");
            fill(op, statement, &name, base)
        }
        _ => {
            if tables::index(&table, "_grp").is_none() {
                let kind = atoll_kernel::api::IndexKind::Plain;
                tables::make_index(statement, oid, format!("{name}_grp"), GROUP, kind)?;
                op.clients.count("index made");
            }
            // So that it leaves a trace in the model.
            fill(op, statement, &name, base)
        }
    }
}

fn forget(op: &Op<'_>, rows: BTreeMap<i64, Row>) {
    for (key, row) in rows {
        op.wrote(key, Some(row), None);
    }
}

/// Rows of a table that this transaction has to itself.
fn fill(op: &mut Op<'_>, statement: &mut Statement<'_>, name: &str, base: i64) -> Result<()> {
    let Some(table) = tables::table(statement, name, TableLockMode::RowExclusive)? else {
        op.clients.complain(format!("{name} was just made or locked and is not there"));
        return Ok(());
    };
    // Many rows are more redo than one record holds.
    let rows = if op.random.one_in(3) { SIDE_KEYS as u64 - 1 } else { 4 };
    for number in 0..op.random.below(rows) as i64 {
        let (key, row) = (base + 1 + number, op.new_row());
        tables::insert(statement, &table, key, &row)?;
        op.wrote(key, None, Some(row));
    }
    Ok(())
}
