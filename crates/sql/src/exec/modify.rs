//! INSERT, UPDATE and DELETE.
//!
//! Invariants: NOT NULL is checked before a row reaches the kernel (23502), uniqueness by the
//! kernel (23505, completed here with the constraint's name and the key). A row that changed
//! since the snapshot is read again, checked again and tried again (READ COMMITTED).

use super::gather::Gathered;
use super::lock::{read_again, row_of};
use super::program::Program;
use super::{Cx, Encoder, open};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::plan::node::{LockTarget, Plan};
use crate::plan::{ConflictPlan, InsertPlan, Modification, ModifyPlan, NewRow};
use crate::types::{Datum, TypeOid, text};
use atoll_kernel::api::{
    ColumnId, Error, Frozen, IndexEntry, Presence, RowId, TableEntry, WriteOutcome,
};
use std::collections::HashSet;

/// What takes the rows of RETURNING.
pub type Returned<'r> = &'r mut dyn FnMut(&[Datum], &mut Cx<'_, '_>) -> SqlResult<()>;

/// Runs a data change; answers how many rows it changed.
pub fn run(plan: &ModifyPlan, cx: &mut Cx<'_, '_>, returned: Returned<'_>) -> SqlResult<u64> {
    match &plan.modification {
        Modification::Insert { source, conflict: None, .. } if plan.returning.is_none() => {
            insert_all(plan, source, cx)
        }
        Modification::Insert { source: InsertPlan::Values(rows), new_row, conflict } => {
            let mut count = 0;
            for row in rows {
                cx.breathe()?;
                if put(plan, row, new_row, conflict.as_deref(), cx)? {
                    give(plan, cx, returned)?;
                    count += 1;
                }
            }
            Ok(count)
        }
        Modification::Insert { source: InsertPlan::Query(source, values), new_row, conflict } => {
            let mut operator = open(source, cx.opening())?;
            let mut count = 0;
            while operator.next(cx)? {
                cx.breathe()?;
                if put(plan, values, new_row, conflict.as_deref(), cx)? {
                    give(plan, cx, returned)?;
                    count += 1;
                }
            }
            Ok(count)
        }
        Modification::Update { plan: rows, target, assignments, recheck, joined, new_row } => {
            let update = Update { plan, target, assignments, recheck: recheck.as_ref(), new_row };
            each_row(rows, target, *joined, cx, |row, cx| {
                let changed = update.run(row, cx)?;
                if changed {
                    give(plan, cx, returned)?;
                }
                Ok(changed)
            })
        }
        Modification::Delete { plan: rows, target, recheck, joined } => {
            each_row(rows, target, *joined, cx, |row, cx| {
                let gone = delete(target, recheck.as_ref(), row, cx)?;
                if gone {
                    give(plan, cx, returned)?;
                }
                Ok(gone)
            })
        }
    }
}

/// Inserts rows that nobody looks at before the statement's end.
fn insert_all(plan: &ModifyPlan, source: &InsertPlan, cx: &mut Cx<'_, '_>) -> SqlResult<u64> {
    if let InsertPlan::Values(rows) = source
        && let [row] = &rows[..]
    {
        insert(plan, row, &NewRow::default(), cx)?;
        return Ok(1);
    }
    let mut gathered = Gathered::new(Frozen::No);
    let made = make_all(plan, source, &mut gathered, cx);
    gathered.flush(plan, cx)?;
    made
}

fn make_all(
    plan: &ModifyPlan,
    source: &InsertPlan,
    gathered: &mut Gathered,
    cx: &mut Cx<'_, '_>,
) -> SqlResult<u64> {
    let mut count = 0;
    let mut make = |programs: &[Program], cx: &mut Cx<'_, '_>| -> SqlResult<()> {
        cx.breathe()?;
        let mut values = std::mem::take(&mut cx.output);
        values.clear();
        for program in programs {
            let value = program.eval(cx)?;
            values.push(value);
        }
        let taken = gathered.take(plan, &values, count, cx);
        cx.output = values;
        count += 1;
        Ok(taken?)
    };
    match source {
        InsertPlan::Values(rows) => {
            for row in rows {
                make(row, cx)?;
            }
        }
        InsertPlan::Query(source, values) => {
            let mut operator = open(source, cx.opening())?;
            while operator.next(cx)? {
                make(values, cx)?;
            }
        }
    }
    Ok(count)
}

/// Inserts a row, or does what ON CONFLICT says; true if a row is new or changed.
fn put(
    plan: &ModifyPlan,
    programs: &[Program],
    new_row: &NewRow,
    conflict: Option<&ConflictPlan>,
    cx: &mut Cx<'_, '_>,
) -> SqlResult<bool> {
    match conflict {
        None => insert(plan, programs, new_row, cx).map(|_| true),
        Some(conflict) => super::conflict::put(plan, programs, new_row, conflict, cx),
    }
}

fn each_row(
    rows: &Plan,
    target: &LockTarget,
    joined: bool,
    cx: &mut Cx<'_, '_>,
    mut change: impl FnMut(RowId, &mut Cx<'_, '_>) -> SqlResult<bool>,
) -> SqlResult<u64> {
    let mut operator = open(rows, cx.opening())?;
    let mut seen = HashSet::new();
    let mut count = 0;
    while operator.next(cx)? {
        cx.breathe()?;
        let Some(row) = row_of(target, cx) else { continue };
        if joined && !seen.insert(row) {
            continue;
        }
        if change(row, cx)? {
            count += 1;
        }
    }
    Ok(count)
}

fn give(plan: &ModifyPlan, cx: &mut Cx<'_, '_>, returned: Returned<'_>) -> SqlResult<()> {
    let Some(returning) = &plan.returning else { return Ok(()) };
    let mut values = Vec::with_capacity(returning.programs.len());
    for program in &returning.programs {
        values.push(program.eval(cx)?);
    }
    returned(&values, cx)
}

/// Computes, checks and inserts one row.
pub(super) fn insert(
    plan: &ModifyPlan,
    programs: &[Program],
    new_row: &NewRow,
    cx: &mut Cx<'_, '_>,
) -> SqlResult<RowId> {
    let mut values = std::mem::take(&mut cx.output);
    values.clear();
    for program in programs {
        let value = program.eval(cx)?;
        values.push(value);
    }
    let inserted = insert_values(plan, &values, cx);
    for (column, slot) in &new_row.slots {
        if let Some(value) = values.get(*column) {
            cx.frame[*slot as usize] = value.clone();
        }
    }
    cx.output = values;
    inserted
}

/// Checks and inserts one row of values.
fn insert_values(plan: &ModifyPlan, values: &[Datum], cx: &mut Cx<'_, '_>) -> SqlResult<RowId> {
    check_not_null(plan, values, cx)?;
    let inserted = try_insert(plan, values, cx)?;
    inserted.map_err(|error| {
        let value = |column: ColumnId| values[column.index()].clone();
        complete(error, &plan.table, value, cx)
    })
}

/// Inserts one row of values; the inner error is the kernel's.
pub(super) fn try_insert(
    plan: &ModifyPlan,
    values: &[Datum],
    cx: &mut Cx<'_, '_>,
) -> SqlResult<Result<RowId, Error>> {
    let mut encoder = std::mem::take(&mut cx.encoder);
    encoder.clear();
    for (value, column) in values.iter().zip(&plan.table.def.columns) {
        encoder.push(column.physical, value)?;
    }
    let result = encoder.with_values(|bytes| cx.statement.insert(&plan.table, bytes));
    cx.encoder = encoder;
    Ok(result)
}

pub(super) fn check_not_null(
    plan: &ModifyPlan,
    values: &[Datum],
    cx: &Cx<'_, '_>,
) -> SqlResult<()> {
    for (index, column) in plan.info.columns.iter().enumerate() {
        if column.not_null && values[index].is_null() {
            return Err(null_value(plan, index, values, cx));
        }
    }
    Ok(())
}

/// 23502.
fn null_value(plan: &ModifyPlan, index: usize, values: &[Datum], cx: &Cx<'_, '_>) -> SqlError {
    let (info, column) = (&plan.info, &plan.info.columns[index]);
    let shown: Vec<String> = values
        .iter()
        .zip(&plan.types)
        .map(|(value, ty)| match value {
            Datum::Null => "null".to_owned(),
            value => text::output_string(ty.oid, value, cx.functions).to_string(),
        })
        .collect();
    SqlError::new(
        SqlState::NOT_NULL_VIOLATION,
        format!(
            "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
            column.name, info.name
        ),
    )
    .detail(format!("Failing row contains ({}).", shown.join(", ")))
    .table(&*info.schema, &*info.name)
    .column(&*column.name)
}

/// Completes a unique violation by the constraint's name and the key (23505), and a key that is too
/// long by the index's name (54000).
pub fn complete(
    error: Error,
    table: &TableEntry,
    value: impl Fn(ColumnId) -> Datum,
    cx: &Cx<'_, '_>,
) -> SqlError {
    let (Error::UniqueViolation { index } | Error::KeyTooLong { index, .. }) = &error else {
        return error.into();
    };
    let Some(index) = table.indexes.iter().find(|own| own.def.tree == *index) else {
        return error.into();
    };
    let schema = cx.view.namespace_name(table.def.namespace).to_owned();
    if let Error::KeyTooLong { bytes, bytes_max, .. } = error {
        return key_too_long(&index.def.name, (&schema, &table.def.name), (bytes, bytes_max));
    }
    duplicate_key(index, table, &schema, |column| {
        let ty = TypeOid(table.def.columns[column.index()].type_oid);
        match value(column) {
            Datum::Null => "null".to_owned(),
            value => text::output_string(ty, &value, cx.functions).to_string(),
        }
    })
}

/// A key of `bytes.0` where `bytes.1` fit (54000), as PostgreSQL tells it.
pub(crate) fn key_too_long(
    index: &str,
    (schema, table): (&str, &str),
    (bytes, bytes_max): (usize, usize),
) -> SqlError {
    let message =
        format!("index row size {bytes} exceeds maximum {bytes_max} for index \"{index}\"");
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
        .hint("Consider an index on a column that holds an MD5 hash of the value.")
        .table(schema, table)
        .constraint(index)
}

fn duplicate_key(
    index: &IndexEntry,
    table: &TableEntry,
    schema: &str,
    shown: impl Fn(ColumnId) -> String,
) -> SqlError {
    let parts = index.def.columns.iter().map(|part| part.column);
    let names: Vec<&str> =
        parts.clone().map(|c| table.def.columns[c.index()].name.as_str()).collect();
    let values: Vec<String> = parts.map(shown).collect();
    SqlError::new(
        SqlState::UNIQUE_VIOLATION,
        format!("duplicate key value violates unique constraint \"{}\"", index.def.name),
    )
    .detail(format!("Key ({})=({}) already exists.", names.join(", "), values.join(", ")))
    .table(schema, table.def.name.as_str())
    .constraint(index.def.name.as_str())
}

/// An UPDATE of found rows.
pub(super) struct Update<'p> {
    pub plan: &'p ModifyPlan,
    pub target: &'p LockTarget,
    pub assignments: &'p [(ColumnId, Program)],
    pub recheck: Option<&'p Program>,
    pub new_row: &'p NewRow,
}

impl Update<'_> {
    /// Changes the row whose columns are in the frame; false if it is gone or does not qualify
    /// any more.
    pub(super) fn run(&self, row: RowId, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        loop {
            let mut values = std::mem::take(&mut cx.output);
            values.clear();
            for (_, program) in self.assignments {
                let value = program.eval(cx)?;
                values.push(value);
            }
            let outcome = self.write(row, &values, cx);
            if matches!(outcome, Ok(WriteOutcome::Done)) {
                for (place, slot) in &self.new_row.slots {
                    cx.frame[*slot as usize] = values[*place].clone();
                }
            }
            cx.output = values;
            match outcome? {
                WriteOutcome::Done => return Ok(true),
                // Of several matches of a join the first has changed it.
                WriteOutcome::Gone | WriteOutcome::DoneByThisCommand => return Ok(false),
                WriteOutcome::Changed => {
                    if !read_again(self.target, row, self.recheck, cx)? {
                        return Ok(false);
                    }
                }
            }
        }
    }

    fn write(&self, row: RowId, values: &[Datum], cx: &mut Cx<'_, '_>) -> SqlResult<WriteOutcome> {
        let mut encoder = std::mem::take(&mut cx.encoder);
        encoder.clear();
        for ((column, _), value) in self.assignments.iter().zip(values) {
            let index = column.index();
            if value.is_null() && self.plan.info.columns[index].not_null {
                cx.encoder = encoder;
                return Err(self.null_error(row, values, index, cx));
            }
            encoder.push(self.target.table.def.columns[index].physical, value)?;
        }
        let result = with_changes(&encoder, self.assignments, |changes| {
            cx.statement.update(&self.target.table, row, changes)
        });
        cx.encoder = encoder;
        result.map_err(|error| self.error(error, row, values, cx))
    }

    /// The row as it would have become, for messages.
    fn whole_row(&self, row: RowId, values: &[Datum], cx: &mut Cx<'_, '_>) -> Vec<Datum> {
        let table = &self.target.table;
        let ids: Vec<ColumnId> = (0..table.def.columns.len() as u16).map(ColumnId).collect();
        let mut whole = vec![Datum::Null; ids.len()];
        let found = cx.statement.get(table, row, &ids, &mut cx.row);
        if found == Ok(Presence::Present) {
            let types: Vec<TypeOid> = self.plan.types.iter().map(|ty| ty.oid).collect();
            let slots: Vec<u32> = (0..ids.len() as u32).collect();
            // Only a message: what cannot be read is shown as null.
            let _ = super::decode_row(cx.row.view(), &types, &slots, &mut whole);
        }
        for ((column, _), value) in self.assignments.iter().zip(values) {
            whole[column.index()] = value.clone();
        }
        whole
    }

    fn null_error(
        &self,
        row: RowId,
        values: &[Datum],
        index: usize,
        cx: &mut Cx<'_, '_>,
    ) -> SqlError {
        let whole = self.whole_row(row, values, cx);
        null_value(self.plan, index, &whole, cx)
    }

    fn error(&self, error: Error, row: RowId, values: &[Datum], cx: &mut Cx<'_, '_>) -> SqlError {
        if !matches!(error, Error::UniqueViolation { .. } | Error::KeyTooLong { .. }) {
            return error.into();
        }
        let whole = self.whole_row(row, values, cx);
        complete(error, &self.target.table, |column| whole[column.index()].clone(), cx)
    }
}

/// Calls `run` with the changes of a row; a few need no allocation.
fn with_changes<R>(
    encoder: &Encoder,
    assignments: &[(ColumnId, Program)],
    run: impl FnOnce(&[(ColumnId, Option<&[u8]>)]) -> R,
) -> R {
    const FEW: usize = 8;
    if assignments.len() <= FEW {
        let mut changes = [(ColumnId(0), None); FEW];
        for (index, (column, _)) in assignments.iter().enumerate() {
            changes[index] = (*column, encoder.value(index));
        }
        return run(&changes[..assignments.len()]);
    }
    let changes: Vec<(ColumnId, Option<&[u8]>)> = assignments
        .iter()
        .enumerate()
        .map(|(index, (column, _))| (*column, encoder.value(index)))
        .collect();
    run(&changes)
}

/// Deletes a row; false if it is gone or does not qualify any more.
pub(super) fn delete(
    target: &LockTarget,
    recheck: Option<&Program>,
    row: RowId,
    cx: &mut Cx<'_, '_>,
) -> SqlResult<bool> {
    loop {
        match cx.statement.delete(&target.table, row)? {
            WriteOutcome::Done => return Ok(true),
            WriteOutcome::Gone | WriteOutcome::DoneByThisCommand => return Ok(false),
            WriteOutcome::Changed => {
                if !read_again(target, row, recheck, cx)? {
                    return Ok(false);
                }
            }
        }
    }
}
