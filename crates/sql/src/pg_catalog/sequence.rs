//! pg_sequence, pg_sequences and information_schema.sequences.
//!
//! Invariants: definitions come from the catalog; last_value is where the sequence stands now,
//! whatever any snapshot says, as in PostgreSQL.

use super::value::{NULL, bool, int, oid, text, yes_or_no};
use super::{DATABASE_NAME, OWNER_NAME, Rows, SystemRelation, Wanted, class};
use super::{table_columns, view_columns};
use crate::relations::CatalogView;
use crate::types::{Datum, Type, TypeOid, format_type};
use atoll_kernel::api::{Cycle, SequenceEntry};

const SEQRELID: usize = 0;

/// pg_sequence and pg_sequences.
pub(super) static RELATIONS: &[SystemRelation] = &[
    SystemRelation::table(2224, "pg_sequence", table_columns::PG_SEQUENCE)
        .rows(sequence_rows)
        .lookups(&[SEQRELID]),
    SystemRelation::view(12_048, "pg_sequences", view_columns::PG_SEQUENCES).rows(view_rows),
];

fn number(value: i64) -> Datum {
    Datum::Int8(value)
}

fn sequence_rows<'a>(view: &'a CatalogView, wanted: Wanted<'_>) -> Rows<'a> {
    if let Some(sequence) = wanted.object(SEQRELID) {
        let found = view.catalog.sequence_by_oid(sequence);
        return Box::new(found.into_iter().map(|sequence| sequence_row(sequence)));
    }
    Box::new(class::sequences(view).map(|sequence| sequence_row(sequence)))
}

fn sequence_row(sequence: &SequenceEntry) -> Vec<Datum> {
    let def = &sequence.def;
    vec![
        oid(def.oid.0),
        oid(def.type_oid),
        number(def.start),
        number(def.counting.increment),
        number(def.counting.max),
        number(def.counting.min),
        number(def.cache as i64),
        bool(def.counting.cycle == Cycle::Yes),
    ]
}

fn view_rows<'a>(view: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    Box::new(class::sequences(view).map(|sequence| {
        let def = &sequence.def;
        let state = sequence.values.state();
        vec![
            text(view.namespace_name(def.namespace)),
            text(&def.name),
            text(OWNER_NAME),
            oid(def.type_oid),
            number(def.start),
            number(def.counting.min),
            number(def.counting.max),
            number(def.counting.increment),
            bool(def.counting.cycle == Cycle::Yes),
            number(def.cache as i64),
            if state.called { number(state.last) } else { NULL },
        ]
    }))
}

/// Those of identity columns are not listed, as the standard asks.
pub(super) fn standard_rows<'a>(view: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    let own = |sequence: &&std::sync::Arc<SequenceEntry>| {
        let table = sequence
            .def
            .owner
            .and_then(|(table, column)| Some((view.catalog.table_by_oid(table)?, column)));
        table.is_none_or(|(table, column)| table.def.columns[column.index()].identity.is_none())
    };
    Box::new(class::sequences(view).filter(own).map(|sequence| {
        let def = &sequence.def;
        let ty = TypeOid(def.type_oid);
        let bits = match ty {
            TypeOid::INT2 => 16,
            TypeOid::INT4 => 32,
            _ => 64,
        };
        vec![
            text(DATABASE_NAME),
            text(view.namespace_name(def.namespace)),
            text(&def.name),
            text(format_type(Type::new(ty))),
            int(bits),
            int(2),
            int(0),
            text(def.start.to_string()),
            text(def.counting.min.to_string()),
            text(def.counting.max.to_string()),
            text(def.counting.increment.to_string()),
            yes_or_no(def.counting.cycle == Cycle::Yes),
        ]
    }))
}
