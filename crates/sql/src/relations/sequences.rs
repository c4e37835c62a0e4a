//! Sequences as SQL names them: by oid in stored defaults, by name towards people.
//!
//! Invariants: a stored default names a sequence only as [`reference`] writes it, so that renaming
//! the sequence changes nothing that is stored.

use super::CatalogView;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::quote_identifier;
use atoll_kernel::api::{Oid, SequenceEntry};
use std::sync::Arc;

const END: &str = "'::regclass";

/// How a stored default names a sequence.
pub fn reference(oid: Oid) -> String {
    format!("'{oid}{END}")
}

/// The default of a column that takes its values from a sequence.
pub fn default_from(oid: Oid) -> String {
    format!("nextval({})", reference(oid))
}

/// The sequence of such a default, if it is one and nothing else.
pub fn sequence_of_default(text: &str) -> Option<Oid> {
    let number = text.strip_prefix("nextval('")?.strip_suffix("'::regclass)")?;
    number.parse().ok().map(Oid)
}

/// The sequence with this oid; 42809 if it is something else, 42P01 if it is nothing.
pub fn sequence_of(view: &CatalogView, oid: u32) -> SqlResult<Arc<SequenceEntry>> {
    if let Some(sequence) = view.catalog.sequence_by_oid(Oid(oid)) {
        return Ok(sequence.clone());
    }
    let name = match view.catalog.relation_by_oid(Oid(oid)) {
        Some(atoll_kernel::api::Relation::Table(table)) => table.def.name.clone(),
        Some(atoll_kernel::api::Relation::Index(index)) => index.def.name.clone(),
        _ => match view.registry.by_oid(oid) {
            Some(info) => info.name.to_string(),
            None => {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_TABLE,
                    format!("could not open relation with OID {oid}"),
                ));
            }
        },
    };
    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a sequence")))
}

/// The name of a sequence as it is shown: qualified unless it is found without.
pub fn shown_name(view: &CatalogView, sequence: &SequenceEntry) -> String {
    let def = &sequence.def;
    let (schema, name) = (view.namespace_name(def.namespace), quote_identifier(&def.name));
    match view.is_visible(schema, &def.name, def.oid.0) {
        true => name,
        false => format!("{}.{name}", quote_identifier(schema)),
    }
}

/// A stored default as it is shown: sequences by name.
pub fn shown_default(view: &CatalogView, stored: &str) -> String {
    let mut shown = String::with_capacity(stored.len());
    let mut rest = stored;
    while let Some(at) = rest.find(END) {
        let (before, after) = rest.split_at(at);
        let digits = before.rfind('\'').map(|quote| (quote, &before[quote + 1..]));
        let sequence = digits.and_then(|(quote, digits)| {
            let oid = digits.parse().ok()?;
            Some((quote, view.catalog.sequence_by_oid(Oid(oid))?))
        });
        match sequence {
            Some((quote, sequence)) => {
                shown.push_str(&before[..quote]);
                let name = shown_name(view, sequence).replace('\'', "''");
                shown.push_str(&format!("'{name}{END}"));
            }
            None => {
                shown.push_str(before);
                shown.push_str(END);
            }
        }
        rest = &after[END.len()..];
    }
    shown + rest
}
