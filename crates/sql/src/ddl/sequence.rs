//! CREATE, ALTER and DROP SEQUENCE; the sequences of serial and identity columns.
//!
//! Invariants: options are checked as PostgreSQL checks them, before the kernel is asked. A default
//! names its sequence by oid, so that renaming the sequence does not matter.

use super::Definer;
use super::create::{exists, target_schema};
use super::names::free_name;
use crate::bind;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::ast::Name;
use crate::parse::statement::{SequenceBound, SequenceOption};
use crate::relations::reference;
use crate::relations::view::{Found, undefined_relation};
use crate::types::TypeOid;
use atoll_kernel::api::{
    ColumnId, Counting, Cycle, Error, NewSequence, Oid, SequenceDef, SequenceEntry, SequenceState,
};
use std::sync::Arc;

/// The values of an integer type.
fn range_of(ty: TypeOid) -> (i64, i64) {
    match ty {
        TypeOid::INT2 => (i16::MIN.into(), i16::MAX.into()),
        TypeOid::INT4 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}

fn wrong(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// What a sequence is, apart from its name.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    ty: TypeOid,
    start: i64,
    counting: Counting,
    cache: u64,
}

impl Shape {
    fn of(def: &SequenceDef) -> Shape {
        let (start, counting, cache) = (def.start, def.counting, def.cache);
        Shape { ty: TypeOid(def.type_oid), start, counting, cache }
    }
}

/// What options ask for besides the shape.
#[derive(Default)]
struct Asked<'o> {
    /// RESTART, and where.
    restart: Option<Option<i64>>,
    /// OWNED BY, and what.
    owner: Option<&'o Option<(Name, String)>>,
}

/// The shape that `options` make of `before`, or of nothing for a new sequence.
fn shape<'o>(
    options: &'o [SequenceOption],
    ty: TypeOid,
    before: Option<Shape>,
) -> SqlResult<(Shape, Asked<'o>)> {
    let mut asked = Asked::default();
    let (mut own, mut increment, mut cycle, mut cache) = (None, None, None, None);
    let (mut min, mut max, mut start) = (None, None, None);
    for option in options {
        match option {
            SequenceOption::Type(name) => own = Some(type_of(name)?),
            SequenceOption::Increment(value) => increment = Some(*value),
            SequenceOption::Min(bound) => min = Some(*bound),
            SequenceOption::Max(bound) => max = Some(*bound),
            SequenceOption::Start(value) => start = Some(*value),
            SequenceOption::Restart(value) => asked.restart = Some(*value),
            SequenceOption::Cache(value) => cache = Some(*value),
            SequenceOption::Cycle(value) => cycle = Some(*value),
            SequenceOption::OwnedBy(owner) => asked.owner = Some(owner),
        }
    }
    let old = before.map(|shape| shape.counting);
    let ty = own.or(before.map(|shape| shape.ty)).unwrap_or(ty);
    let increment = increment.or(old.map(|old| old.increment)).unwrap_or(1);
    if increment == 0 {
        return Err(wrong("INCREMENT must not be zero".to_owned()));
    }
    let cycle = match cycle {
        Some(true) => Cycle::Yes,
        Some(false) => Cycle::No,
        None => old.map_or(Cycle::No, |old| old.cycle),
    };
    let types = (ty, own.and(before).map(|shape| shape.ty));
    let (min, max) =
        bounds(types, increment, (min, old.map(|old| old.min)), (max, old.map(|old| old.max)))?;
    let first = if increment > 0 { min } else { max };
    let start = start.or(before.map(|shape| shape.start)).unwrap_or(first);
    check_between(("START", start), min, max)?;
    if let Some(Some(restart)) = asked.restart {
        check_between(("RESTART", restart), min, max)?;
    }
    let cache = match cache {
        Some(value) => u64::try_from(value)
            .ok()
            .filter(|value| *value > 0)
            .ok_or_else(|| wrong(format!("CACHE ({value}) must be greater than zero")))?,
        None => before.map_or(1, |shape| shape.cache),
    };
    let counting = Counting { increment, min, max, cycle };
    Ok((Shape { ty, start, counting, cache }, asked))
}

/// The smallest and largest value: as asked for, else as before, else the type's. `types` are the
/// type, and the one before if it changes: bounds that were that type's follow the type.
fn bounds(
    (ty, before): (TypeOid, Option<TypeOid>),
    increment: i64,
    (min, old_min): (Option<SequenceBound>, Option<i64>),
    (max, old_max): (Option<SequenceBound>, Option<i64>),
) -> SqlResult<(i64, i64)> {
    let (least, most) = range_of(ty);
    let old_range = before.map(range_of);
    let kept_min = old_min.filter(|kept| old_range.is_none_or(|(least, _)| *kept != least));
    let kept_max = old_max.filter(|kept| old_range.is_none_or(|(_, most)| *kept != most));
    let max = match (max, kept_max) {
        (Some(SequenceBound::At(value)), _) => value,
        (None, Some(kept)) => kept,
        _ if increment > 0 => most,
        _ => -1,
    };
    let min = match (min, kept_min) {
        (Some(SequenceBound::At(value)), _) => value,
        (None, Some(kept)) => kept,
        _ if increment > 0 => 1,
        _ => least,
    };
    for (word, value) in [("MAXVALUE", max), ("MINVALUE", min)] {
        if value < least || value > most {
            let text = format!("{word} ({value}) is out of range for sequence data type {ty}");
            return Err(wrong(text));
        }
    }
    if min >= max {
        return Err(wrong(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
    }
    Ok((min, max))
}

fn check_between((word, value): (&str, i64), min: i64, max: i64) -> SqlResult<()> {
    if value < min {
        return Err(wrong(format!("{word} value ({value}) cannot be less than MINVALUE ({min})")));
    }
    if value > max {
        return Err(wrong(format!(
            "{word} value ({value}) cannot be greater than MAXVALUE ({max})"
        )));
    }
    Ok(())
}

fn type_of(name: &crate::parse::ast::TypeName) -> SqlResult<TypeOid> {
    let ty = bind::type_of(name)?.oid;
    if matches!(ty, TypeOid::INT2 | TypeOid::INT4 | TypeOid::INT8) {
        return Ok(ty);
    }
    Err(wrong("sequence type must be smallint, integer, or bigint".to_owned()))
}

/// CREATE SEQUENCE.
pub(super) fn create(
    definer: &mut Definer<'_, '_>,
    name: &Name,
    if_not_exists: bool,
    options: &[SequenceOption],
) -> SqlResult<()> {
    let (namespace, _) = target_schema(definer.view, name)?;
    if definer.view.catalog.relation(namespace, &name.name).is_some() {
        if if_not_exists {
            let text = format!("relation \"{}\" already exists, skipping", name.name);
            definer.notice_exists(SqlState::DUPLICATE_TABLE, text);
            return Ok(());
        }
        return Err(exists(&name.name));
    }
    let (shape, asked) = shape(options, TypeOid::INT8, None)?;
    let owner = match asked.owner {
        Some(Some(owner)) => Some(owned_by(definer, owner, namespace)?),
        _ => None,
    };
    let (_, made) = make(definer, namespace, &name.name, shape, owner)?;
    if let Some(Some(last)) = asked.restart {
        let restart = SequenceState { last, called: false };
        definer.statement.alter_sequence(made, Some(restart))?;
    }
    Ok(())
}

fn make(
    definer: &mut Definer<'_, '_>,
    namespace: Oid,
    name: &str,
    shape: Shape,
    owner: Option<(Oid, ColumnId)>,
) -> SqlResult<(Oid, SequenceDef)> {
    let Shape { ty, start, counting, cache } = shape;
    let (name, type_oid) = (name.to_owned(), ty.0);
    let new = NewSequence { namespace, name, type_oid, start, counting, cache, owner };
    let oid = definer.statement.create_sequence(new).map_err(|error| match error {
        Error::AlreadyExists { name } => exists(&name),
        other => other.into(),
    })?;
    Ok((oid, definer.statement.sequence(oid)?.def.clone()))
}

/// The column that OWNED BY names.
fn owned_by(
    definer: &mut Definer<'_, '_>,
    (table, column): &(Name, String),
    namespace: Oid,
) -> SqlResult<(Oid, ColumnId)> {
    let view = definer.now();
    let info = match view.find(table) {
        Some(Found::Relation(info)) if info.table().is_some() => info,
        Some(_) => {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("sequence cannot be owned by relation \"{}\"", table.name),
            ));
        }
        None => return Err(undefined_relation(table)),
    };
    let Some(entry) = info.table() else { return Err(SqlError::internal("no table")) };
    if entry.def.namespace != namespace {
        return Err(SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            "sequence must be in same schema as table it is linked to",
        ));
    }
    let found = entry.def.column(column).ok_or_else(|| {
        SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{column}\" of relation \"{}\" does not exist", entry.def.name),
        )
    })?;
    Ok((entry.def.oid, found))
}

/// The sequence called `name`; 42809 if it is something else.
fn find(definer: &Definer<'_, '_>, name: &Name) -> SqlResult<Option<Arc<SequenceEntry>>> {
    match definer.now().find(name) {
        Some(Found::Sequence(sequence)) => Ok(Some(sequence)),
        None => Ok(None),
        Some(_) => Err(SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            format!("\"{}\" is not a sequence", name.name),
        )),
    }
}

/// ALTER SEQUENCE.
pub(super) fn alter(
    definer: &mut Definer<'_, '_>,
    name: &Name,
    if_exists: bool,
    options: &[SequenceOption],
) -> SqlResult<()> {
    let Some(found) = find(definer, name)? else {
        if if_exists {
            definer.notice(format!("relation \"{}\" does not exist, skipping", name.name));
            return Ok(());
        }
        return Err(undefined_relation(name));
    };
    if let Some(column) = identity_of(definer, &found.def)
        && options.iter().any(|option| matches!(option, SequenceOption::OwnedBy(_)))
    {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "cannot change ownership of identity sequence",
        )
        .detail(format!("Sequence \"{}\" is linked to table \"{column}\".", found.def.name)));
    }
    change(definer, &found, options)
}

/// Changes a sequence as options ask.
pub(super) fn change(
    definer: &mut Definer<'_, '_>,
    found: &SequenceEntry,
    options: &[SequenceOption],
) -> SqlResult<()> {
    let mut def = found.def.clone();
    let (shape, asked) = shape(options, TypeOid(def.type_oid), Some(Shape::of(&def)))?;
    if let Some(owner) = asked.owner {
        def.owner = match owner {
            Some(owner) => Some(owned_by(definer, owner, def.namespace)?),
            None => None,
        };
    }
    (def.type_oid, def.start) = (shape.ty.0, shape.start);
    (def.counting, def.cache) = (shape.counting, shape.cache);
    let restart = asked.restart.map(|to| to.unwrap_or(def.start));
    let restart = restart.map(|last| SequenceState { last, called: false });
    if restart.is_none() {
        // Where it stands must be between the new bounds.
        let last = found.values.state().last;
        check_between(("RESTART", last), def.counting.min, def.counting.max)?;
    }
    Ok(definer.statement.alter_sequence(def, restart)?)
}

/// The table whose identity column the sequence is of.
fn identity_of(definer: &Definer<'_, '_>, def: &SequenceDef) -> Option<String> {
    let (table, column) = def.owner?;
    let view = definer.now();
    let table = view.catalog.table_by_oid(table)?;
    table.def.columns[column.index()].identity?;
    Some(table.def.name.clone())
}

/// DROP SEQUENCE.
pub(super) fn drop(
    definer: &mut Definer<'_, '_>,
    name: &Name,
    cascade: bool,
) -> SqlResult<Option<()>> {
    let Some(found) = find(definer, name)? else { return Ok(None) };
    let (oid, own) = (found.def.oid, &found.def.name);
    if let Some(table) = identity_of(definer, &found.def) {
        let view = definer.now();
        let column = found.def.owner.and_then(|(table, column)| {
            let table = view.catalog.table_by_oid(table)?;
            Some(table.def.columns[column.index()].name.clone())
        });
        let column = column.unwrap_or_default();
        return Err(SqlError::new(
            SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
            format!(
                "cannot drop sequence {own} because column {column} of table {table} requires it"
            ),
        )
        .hint(format!("You can drop column {column} of table {table} instead.")));
    }
    let view = definer.now();
    let mut users = Vec::new();
    for table in view.catalog.tables() {
        for (at, column) in table.def.columns.iter().enumerate() {
            if column.default.as_deref().is_some_and(|text| text.contains(&reference(oid))) {
                users.push((
                    table.def.oid,
                    at,
                    format!("default value for column {} of table {}", column.name, table.def.name),
                ));
            }
        }
    }
    if let Some((_, _, first)) = users.first()
        && !cascade
    {
        return Err(SqlError::new(
            SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
            format!("cannot drop sequence {own} because other objects depend on it"),
        )
        .detail(format!("{first} depends on sequence {own}"))
        .hint("Use DROP ... CASCADE to drop the dependent objects too."));
    }
    for (table, at, what) in users {
        definer.notice(format!("drop cascades to {what}"));
        let mut def = definer.statement.table(table)?.def.clone();
        def.columns[at].default = None;
        definer.statement.alter_table(def)?;
    }
    definer.statement.drop_sequence(oid)?;
    Ok(Some(()))
}

/// ALTER SEQUENCE .. RENAME TO.
pub(super) fn rename(definer: &mut Definer<'_, '_>, name: &Name, to: &str) -> SqlResult<bool> {
    let Some(Found::Sequence(found)) = definer.now().find(name) else { return Ok(false) };
    super::alter::check_other_name(&found.def.name, to)?;
    let mut def = found.def.clone();
    to.clone_into(&mut def.name);
    let renamed = definer.statement.alter_sequence(def, None);
    renamed.map(|()| true).map_err(|error| match error {
        Error::AlreadyExists { name } => exists(&name),
        other => other.into(),
    })
}

/// Gives a sequence to a column, or to none.
pub(super) fn give(
    definer: &mut Definer<'_, '_>,
    def: &SequenceDef,
    owner: Option<(Oid, ColumnId)>,
) -> SqlResult<()> {
    Ok(definer.statement.alter_sequence(SequenceDef { owner, ..def.clone() }, None)?)
}

/// The sequences that a table owns begin again.
pub(super) fn restart_owned(definer: &mut Definer<'_, '_>, table: Oid) -> SqlResult<()> {
    for sequence in definer.now().catalog.sequences_of(table) {
        let restart = SequenceState { last: sequence.def.start, called: false };
        definer.statement.alter_sequence(sequence.def.clone(), Some(restart))?;
    }
    Ok(())
}

/// Makes the sequence of a serial or identity column of a new table, which is given it later.
pub(super) fn of_column(
    definer: &mut Definer<'_, '_>,
    namespace: Oid,
    (table, column): (&str, &str),
    ty: TypeOid,
    options: &[SequenceOption],
) -> SqlResult<SequenceDef> {
    let (shape, _) = shape(options, ty, None)?;
    let name = free_name(&definer.now(), namespace, &[], (table, column, "seq"));
    make(definer, namespace, &name, shape, None).map(|(_, def)| def)
}
