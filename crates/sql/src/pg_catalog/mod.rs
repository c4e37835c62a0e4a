//! The relations of `pg_catalog` and `information_schema`, with PostgreSQL 15's columns.
//!
//! Invariants: rows are computed from the [`CatalogView`] that a statement was bound against, and
//! say what is there, nothing that is not: a relation is empty only if the database can have no
//! object of its kind. What Atoll does not know is NULL, or PostgreSQL's word for unknown. A
//! constraint has the oid of the index behind it (oids are unique per catalog, as in PostgreSQL).
//! Nothing here reads rows of users' tables, waits, or keeps state.

mod attribute;
mod class;
mod constraint;
mod describe;
mod empty;
mod functions;
mod index;
mod sequence;
mod session;
mod shared;
mod standard;
mod standard_columns;
mod table_columns;
mod types;
mod value;
mod view_columns;
mod views;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod client_tests;

pub use describe::{constraint_definition, index_definition};
pub use shared::{DATABASE_NAME, DATABASE_OID, OWNER_NAME, OWNER_OID, namespaces};

use crate::functions::FunctionContext;
use crate::relations::{CatalogView, PG_CATALOG, VirtualColumn, VirtualRelation, VirtualRows};
use crate::types::Datum;

/// Which rows are asked for.
pub(crate) enum Wanted<'a> {
    /// All.
    All,
    /// Those whose column at this position, one of the relation's look-ups, has this value.
    Equal(usize, &'a Datum),
}

/// The rows as every relation here gives them.
type Rows<'a> = Box<dyn Iterator<Item = Vec<Datum>> + 'a>;

/// Makes the rows of a relation that is about the session.
type SessionRows = for<'a> fn(&'a CatalogView, &'a dyn FunctionContext) -> Rows<'a>;

/// A relation as a row of data.
pub(crate) struct SystemRelation {
    oid: u32,
    schema: &'static str,
    name: &'static str,
    kind: u8,
    columns: &'static [VirtualColumn],
    lookups: &'static [usize],
    estimate: fn(&CatalogView) -> u64,
    rows: for<'a> fn(&'a CatalogView, Wanted<'_>) -> Rows<'a>,
    session_rows: Option<SessionRows>,
}

impl SystemRelation {
    /// A system catalog that is empty as long as nobody says where its rows come from.
    const fn table(
        oid: u32,
        name: &'static str,
        columns: &'static [VirtualColumn],
    ) -> SystemRelation {
        SystemRelation {
            oid,
            schema: PG_CATALOG,
            name,
            kind: b'r',
            columns,
            lookups: &[],
            estimate: |_| 10,
            rows: |_, _| Box::new(std::iter::empty()),
            session_rows: None,
        }
    }

    /// A system view.
    const fn view(
        oid: u32,
        name: &'static str,
        columns: &'static [VirtualColumn],
    ) -> SystemRelation {
        let mut relation = SystemRelation::table(oid, name, columns);
        relation.kind = b'v';
        relation
    }

    /// The relation in another schema.
    const fn of(mut self, schema: &'static str) -> SystemRelation {
        self.schema = schema;
        self
    }

    /// The relation with its rows.
    const fn rows(
        mut self,
        rows: for<'a> fn(&'a CatalogView, Wanted<'_>) -> Rows<'a>,
    ) -> SystemRelation {
        self.rows = rows;
        self
    }

    /// The relation with rows that depend on the session.
    const fn of_session(mut self, rows: SessionRows) -> SystemRelation {
        self.session_rows = Some(rows);
        self
    }

    /// The relation with columns by which its rows are found fast.
    const fn lookups(mut self, lookups: &'static [usize]) -> SystemRelation {
        self.lookups = lookups;
        self
    }

    /// The relation with an estimate of its rows.
    const fn estimate(mut self, estimate: fn(&CatalogView) -> u64) -> SystemRelation {
        self.estimate = estimate;
        self
    }
}

impl VirtualRelation for SystemRelation {
    fn oid(&self) -> u32 {
        self.oid
    }

    fn schema(&self) -> &'static str {
        self.schema
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn kind(&self) -> u8 {
        self.kind
    }

    fn columns(&self) -> &'static [VirtualColumn] {
        self.columns
    }

    fn lookups(&self) -> &'static [usize] {
        self.lookups
    }

    fn estimated_rows(&self, view: &CatalogView) -> u64 {
        (self.estimate)(view)
    }

    fn rows<'a>(&'a self, view: &'a CatalogView) -> VirtualRows<'a> {
        Box::new((self.rows)(view, Wanted::All).map(Ok))
    }

    fn session_rows<'a>(
        &'a self,
        view: &'a CatalogView,
        session: &'a dyn FunctionContext,
    ) -> Option<VirtualRows<'a>> {
        let rows = self.session_rows?;
        Some(Box::new(rows(view, session).map(Ok)))
    }

    fn rows_where<'a>(
        &'a self,
        view: &'a CatalogView,
        column: usize,
        value: &Datum,
    ) -> VirtualRows<'a> {
        Box::new((self.rows)(view, Wanted::Equal(column, value)).map(Ok))
    }
}

/// Every relation of this module.
pub(crate) fn relations() -> impl Iterator<Item = &'static SystemRelation> {
    let groups: [&'static [SystemRelation]; 11] = [
        class::RELATIONS,
        attribute::RELATIONS,
        index::RELATIONS,
        sequence::RELATIONS,
        constraint::RELATIONS,
        types::RELATIONS,
        functions::RELATIONS,
        shared::RELATIONS,
        session::RELATIONS,
        views::RELATIONS,
        standard::RELATIONS,
    ];
    groups.into_iter().flatten().chain(empty::RELATIONS)
}
