//! Names that PostgreSQL makes up: `table_column_key`, `table_pkey`, and the first that is free.

use super::Definer;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::ast::Name;
use atoll_kernel::api::Oid;

/// Bytes of an identifier at most.
const NAME_BYTES_MAX: usize = 63;

/// `first_second_label`, cut down as PostgreSQL's makeObjectName does: the longer part first, at
/// character boundaries.
pub fn object_name(first: &str, second: &str, label: &str) -> String {
    let extra = label.len() + 1 + if second.is_empty() { 0 } else { 1 };
    let room = NAME_BYTES_MAX - extra;
    let (mut one, mut two) = (first.len(), second.len());
    while one + two > room {
        if one > two { one -= 1 } else { two -= 1 }
    }
    let cut = |text: &str, mut bytes: usize| {
        while !text.is_char_boundary(bytes) {
            bytes -= 1;
        }
        text[..bytes].to_owned()
    };
    let (one, two) = (cut(first, one), cut(second, two));
    if two.is_empty() { format!("{one}_{label}") } else { format!("{one}_{two}_{label}") }
}

impl Definer<'_, '_> {
    /// The first of `base`, `base1`, `base2` ... that names nothing in the namespace.
    pub(super) fn free_name(
        &self,
        namespace: Oid,
        base: &dyn Fn(&str) -> String,
        label: &str,
    ) -> String {
        let catalog = self.statement.catalog();
        let mut number = 0;
        loop {
            let label = if number == 0 { label.to_owned() } else { format!("{label}{number}") };
            let name = base(&label);
            if catalog.relation(namespace, &name).is_none() {
                return name;
            }
            number += 1;
        }
    }

    /// The namespace in which a new object called `name` is made; 3F000, 42501.
    pub(super) fn creation_namespace(&self, name: &Name) -> SqlResult<Oid> {
        let Some(schema) = &name.schema else {
            return Ok(self.view().creation_schema()?.0);
        };
        if let Some(namespace) = self.statement.catalog().namespace(schema) {
            return Ok(namespace.oid);
        }
        if self.names.registry.has_schema(schema) {
            return Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied to create \"{schema}.{}\"", name.name),
            )
            .detail("System catalog modifications are currently disallowed."));
        }
        Err(SqlError::new(
            SqlState::INVALID_SCHEMA_NAME,
            format!("schema \"{schema}\" does not exist"),
        )
        .at(name.at.position()))
    }
}
