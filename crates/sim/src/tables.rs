//! The tables that simulated clients use, through the kernel's front door.
//!
//! `main` has rows (id, balance, grp, writer, pad) with a primary key on id and a plain index on
//! grp; pad has a length and bytes that follow from the others, so that rows grow, shrink and move,
//! to overflow pages and back;
//! `journal` has one row for each transaction that wrote; `side_0` to `side_2` come and go. Some of these
//! have a name besides, which follows from the key and is so long that the index on it has many levels: inner
//! nodes leave memory, too. In the
//! model all rows share one space of keys: those of a side table begin at [`side_base`], and a key
//! of its own says that the table is there.
//!
//! Invariants: nothing here looks below `kernel::api`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use atoll_kernel::api::{
    Access, ColumnDef, ColumnId, ColumnType, Context, Counting, Cycle, Direction, Error,
    IndexColumn, IndexEntry, IndexKind, Isolation, KeyRange, NewIndex, NewSequence, NewTable,
    Nulls, Oid, PUBLIC_NAMESPACE, PinnedCheckpoint, Result, RowBuffer, ScanDirection, Session,
    Statement, TableEntry, TableLockMode, WhichCheckpoint,
};

use atoll_kernel::base::Cts;

use crate::history::{Row, TransactionId};

/// Keys of `main` are below this.
pub const MAIN_KEYS: i64 = 40;
/// Groups are below this.
pub const GROUPS: i64 = 6;
/// How many side tables there are at most.
pub const SIDES: i64 = 3;
/// Rows of a side table have numbers from 1 on, below this.
pub const SIDE_KEYS: i64 = 160;

/// The sequences, and how many values an instance takes of each at a time.
pub const SEQUENCES: [(&str, u64); 2] = [("numbers", 1), ("cached", 4)];

/// The row of the model that says that a side table is there.
pub const THERE: Row = Row { balance: 0, group: -1, writer: TransactionId(0) };

/// All columns.
pub const ALL: [ColumnId; 5] = [ColumnId(0), ColumnId(1), ColumnId(2), ColumnId(3), ColumnId(4)];
/// The primary key.
pub const ID: ColumnId = ColumnId(0);
/// Money.
pub const BALANCE: ColumnId = ColumnId(1);
/// The indexed column.
pub const GROUP: ColumnId = ColumnId(2);
/// Who wrote the version.
pub const WRITER: ColumnId = ColumnId(3);

/// What follows from the others.
pub const PAD: ColumnId = ColumnId(4);

/// The long name, of tables that have one.
pub const NAME: ColumnId = ColumnId(5);

/// A balance that no row has: its pad was not what it must be.
pub const DAMAGED: i64 = i64::MIN;

/// From this number on transactions write no long values: in half of all runs, for with them checkpoints
/// let go of no undo.
pub const WITHOUT_LONGS: u64 = 1 << 32;

/// The pad of a row.
pub fn pad(row: &Row) -> Vec<u8> {
    let mix = row.writer.0.wrapping_mul(31).wrapping_add(row.balance as u64);
    let mix = mix.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    if mix & 31 == 0 && (1..WITHOUT_LONGS).contains(&row.writer.0) {
        // Too long for its row, more or less compressible.
        let (length, every) = (8_000 + mix % 30_000, 1 + mix % 5);
        let mut bytes = vec![7; length as usize];
        for at in (0..length).step_by(every as usize) {
            bytes[at as usize] = (at.wrapping_mul(mix) >> 7) as u8;
        }
        return bytes;
    }
    // Most are short, so that a leaf has room for many.
    let length = if mix & 7 == 0 { mix % 900 } else { mix % 90 };
    vec![mix as u8; length as usize]
}

/// The long name of a row: neighbours in order differ late, so what separates them in an index is long, and
/// those that are far from each other early.
fn name_of(key: i64) -> Vec<u8> {
    let mix = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (0..6).flat_map(|digit| vec![(mix >> (2 * digit) & 3) as u8 + 1; 310]).collect()
}

/// The key that says that a side table is there; its rows' keys follow.
pub fn side_base(side: i64) -> i64 {
    10_000 + side * 1000
}

/// Its name.
pub fn side_name(side: i64) -> String {
    format!("side_{side}")
}

/// The physical form of a number.
pub fn bytes(value: i64) -> [u8; 8] {
    value.to_le_bytes()
}

/// A number of a row; panics where the table promises one and has none.
pub fn number(row: &RowBuffer, column: usize) -> i64 {
    let bytes = row.column(column).expect("no column of these tables is ever null");
    i64::from_le_bytes(bytes.try_into().expect("an int8 has eight bytes"))
}

/// Key and row of what was read with [`ALL`].
pub fn row_of(buffer: &RowBuffer) -> (i64, Row) {
    let writer = TransactionId(number(buffer, 3) as u64);
    let mut row = Row { balance: number(buffer, 1), group: number(buffer, 2), writer };
    if buffer.column(4) != Some(pad(&row).as_slice()) {
        row.balance = DAMAGED;
    }
    (number(buffer, 0), row)
}

/// The index of a table by the end of its name.
pub fn index<'t>(table: &'t TableEntry, suffix: &str) -> Option<&'t Arc<IndexEntry>> {
    table.indexes.iter().find(|index| index.def.name.ends_with(suffix))
}

/// Looks a table up and locks it. None if there is none.
pub fn table(
    statement: &mut Statement<'_>,
    name: &str,
    mode: TableLockMode,
) -> Result<Option<Arc<TableEntry>>> {
    let Some(found) = statement.catalog().table(PUBLIC_NAMESPACE, name) else { return Ok(None) };
    let oid = found.def.oid;
    statement.lock_table(oid, mode)?;
    statement.table(oid).map(Some)
}

/// Inserts a row of the model.
pub fn insert(
    statement: &mut Statement<'_>,
    table: &TableEntry,
    key: i64,
    row: &Row,
) -> Result<()> {
    let fixed = [bytes(key), bytes(row.balance), bytes(row.group), bytes(row.writer.0 as i64)];
    let pad = pad(row);
    let [id, balance, group, writer] = fixed.each_ref().map(|value| Some(value.as_slice()));
    let long = name_of(key);
    let values = [id, balance, group, writer, Some(&pad), Some(&long)];
    statement.insert(table, &values[..table.def.columns.len()]).map(drop)
}

/// Makes a table of rows of the model with a primary key, and perhaps an index on groups or long names.
pub fn make(
    statement: &mut Statement<'_>,
    name: &str,
    (grouped, names): (Grouped, Names),
) -> Result<Oid> {
    let column = |name: &str| ColumnDef::plain(name, ColumnType::Int8);
    let table = statement.create_table(NewTable {
        namespace: PUBLIC_NAMESPACE,
        name: name.to_owned(),
        columns: ["id", "balance", "grp", "writer"]
            .map(column)
            .into_iter()
            .chain([ColumnDef::plain("pad", ColumnType::Bytes)])
            .chain((names == Names::Long).then(|| ColumnDef::plain("name", ColumnType::Bytes)))
            .collect(),
        options: Vec::new(),
    })?;
    make_index(statement, table, format!("{name}_pkey"), ID, IndexKind::Primary)?;
    if grouped == Grouped::Yes {
        make_index(statement, table, format!("{name}_grp"), GROUP, IndexKind::Plain)?;
    }
    if names == Names::Long {
        make_index(statement, table, format!("{name}_name"), NAME, IndexKind::Plain)?;
    }
    Ok(table)
}

/// Whether a table's rows have long names, and an index on them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Names {
    /// Yes.
    Long,
    /// No.
    None,
}

/// Whether a table has an index on its groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grouped {
    /// Yes.
    Yes,
    /// No.
    No,
}

/// Makes an index on one column.
pub fn make_index(
    statement: &mut Statement<'_>,
    table: Oid,
    name: String,
    column: ColumnId,
    kind: IndexKind,
) -> Result<()> {
    let column = IndexColumn { column, direction: Direction::Ascending, nulls: Nulls::Last };
    statement.create_index(NewIndex { table, name, columns: vec![column], kind }).map(drop)
}

/// Makes `main` with `rows`, and `journal`, in one transaction, unless they are there. Answers
/// when that is stable.
pub fn make_all(context: &Context, rows: &BTreeMap<i64, Row>, names: Names) -> Result<()> {
    let mut session = Session::new(context.instance());
    if session.catalog().table(PUBLIC_NAMESPACE, "main").is_some() {
        return Ok(());
    }
    let mut transaction = session.begin(context, Isolation::ReadCommitted, Access::ReadWrite)?;
    let mut statement = transaction.statement(&mut session, context)?;
    make(&mut statement, "main", (Grouped::Yes, Names::None))?;
    make(&mut statement, "journal", (Grouped::No, names))?;
    for (name, cache) in SEQUENCES {
        statement.create_sequence(NewSequence {
            namespace: PUBLIC_NAMESPACE,
            name: name.to_owned(),
            type_oid: 20,
            start: 1,
            counting: Counting { increment: 1, min: 1, max: i64::MAX, cycle: Cycle::No },
            cache,
            owner: None,
        })?;
    }
    let main = table(&mut statement, "main", TableLockMode::RowExclusive)?;
    let main = main.ok_or(Error::CatalogChanged)?;
    for (key, row) in rows {
        insert(&mut statement, &main, *key, row)?;
    }
    drop(statement);
    transaction.commit(&mut session, context)?;
    session.settle(context)
}

/// What a database holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Rows of the model.
    pub rows: BTreeMap<i64, Row>,
    /// The transactions in the journal.
    pub journal: BTreeSet<TransactionId>,
    /// What is wrong in itself: two rows with one key, an index that answers otherwise.
    pub problems: Vec<String>,
}

/// Reads everything.
pub fn read_all(context: &Context) -> Result<Contents> {
    let mut session = Session::new(context.instance());
    let mut transaction = session.begin(context, Isolation::RepeatableRead, Access::ReadOnly)?;
    let mut statement = transaction.statement(&mut session, context)?;
    let contents = read_tables(&mut statement)?;
    drop(statement);
    transaction.commit(&mut session, context)?;
    Ok(contents)
}

/// Reads everything that the newest checkpoint holds: its timestamp, and nothing else if there is too
/// little memory. None if there is no checkpoint with tables.
pub fn read_newest(context: &Context) -> Result<Option<(Cts, Option<Contents>)>> {
    let mut session = Session::new(context.instance());
    let Ok(pinned) = session.pin_checkpoint(WhichCheckpoint::Newest) else { return Ok(None) };
    let timestamp = pinned.timestamp();
    match read_pinned(context, &mut session, pinned) {
        Ok(contents) => Ok(contents.map(|it| (timestamp, Some(it)))),
        Err(Error::OutOfMemory { .. }) => Ok(Some((timestamp, None))),
        Err(error) => Err(error),
    }
}

fn read_pinned(
    context: &Context,
    session: &mut Session,
    pinned: PinnedCheckpoint,
) -> Result<Option<Contents>> {
    let mut transaction = session.begin(context, Isolation::ReadCommitted, Access::ReadOnly)?;
    transaction.read_checkpoint(pinned, context)?;
    let mut statement = transaction.statement(session, context)?;
    let there = statement.catalog().table(PUBLIC_NAMESPACE, "main").is_some();
    let contents = read_tables(&mut statement)?;
    drop(statement);
    transaction.commit(session, context)?;
    Ok(there.then_some(contents))
}

/// Reads each table in place and by its primary key.
pub fn read_tables(statement: &mut Statement<'_>) -> Result<Contents> {
    let mut contents = Contents::default();
    let sides = (0..SIDES).map(|side| (side_name(side), Some(side_base(side))));
    let tables = [("main".to_owned(), None), ("journal".to_owned(), None)];
    for (name, base) in tables.into_iter().chain(sides) {
        let Some(found) = table(statement, &name, TableLockMode::AccessShare)? else {
            continue;
        };
        let mut rows = BTreeMap::new();
        let mut cursor = statement.scan(&found, &ALL);
        let mut buffer = RowBuffer::new();
        while cursor.next(statement, &mut buffer)?.is_some() {
            let (key, row) = row_of(&buffer);
            if rows.insert(key, row).is_some() {
                contents.problems.push(format!("two rows of {name} have key {key}"));
            }
        }
        compare_with_index(statement, &found, &rows, &mut contents)?;
        if name == "journal" {
            contents.journal = rows.keys().map(|id| TransactionId(*id as u64)).collect();
            continue;
        }
        if let Some(base) = base {
            contents.rows.insert(base, THERE);
        }
        contents.rows.extend(rows);
    }
    Ok(contents)
}

fn compare_with_index(
    statement: &mut Statement<'_>,
    table: &TableEntry,
    rows: &BTreeMap<i64, Row>,
    contents: &mut Contents,
) -> Result<()> {
    let name = &table.def.name;
    for index in &table.indexes {
        let (mut buffer, mut found) = (RowBuffer::new(), BTreeMap::new());
        let all = KeyRange::all();
        let mut cursor = statement.index_scan(table, index, all, ScanDirection::Forward, &ALL);
        while cursor.next(statement, &mut buffer)?.is_some() {
            let (key, row) = row_of(&buffer);
            if found.insert(key, row).is_some() {
                let index = &index.def.name;
                contents.problems.push(format!("{index} gives row {key} of {name} twice"));
            }
        }
        if found != *rows {
            let index = &index.def.name;
            contents.problems.push(format!("{index} and {name} differ: {found:?}, {rows:?}"));
        }
    }
    Ok(())
}
