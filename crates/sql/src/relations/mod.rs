//! The border between names in SQL and what holds the rows: kernel tables, and relations that are
//! computed from the catalog (pg_catalog, information_schema).
//!
//! Invariants: a [`RelationInfo`] is immutable and belongs to one version of the catalog; virtual
//! relations have no state of their own, they compute their rows from the [`CatalogView`] that
//! they are given. To add a virtual relation: list it in `pg_catalog`; nothing else needs to know it.

mod registry;
mod sequences;
pub mod view;

use crate::error::SqlResult;
use crate::functions::FunctionContext;
pub use crate::pg_catalog::{DATABASE_OID, constraint_definition, index_definition, namespaces};
use crate::types::{Datum, Type, TypeOid};
use atoll_kernel::api::{Identity, SequenceEntry, TableEntry};
pub use registry::{INFORMATION_SCHEMA, PG_CATALOG, Registry};
pub use sequences::{
    default_from, reference, sequence_of, sequence_of_default, shown_default, shown_name,
};
use std::sync::Arc;
pub use view::CatalogView;

/// The columns of every sequence.
pub const SEQUENCE_COLUMNS: [(&str, TypeOid); 3] =
    [("last_value", TypeOid::INT8), ("log_cnt", TypeOid::INT8), ("is_called", TypeOid::BOOL)];

/// A column of a relation as the binder sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Its name.
    pub name: Arc<str>,
    /// Its type.
    pub ty: Type,
    /// NULL is refused.
    pub not_null: bool,
    /// The default, as SQL text.
    pub default: Option<Arc<str>>,
    /// An identity column.
    pub identity: Option<Identity>,
}

/// Where a relation's rows are.
#[derive(Clone)]
pub enum Source {
    /// In a table of the kernel.
    Table(Arc<TableEntry>),
    /// Computed.
    Virtual(&'static dyn VirtualRelation),
    /// Where a sequence stands: one row.
    Sequence(Arc<SequenceEntry>),
}

/// A relation that a statement can name.
#[derive(Clone)]
pub struct RelationInfo {
    /// Its oid in pg_class.
    pub oid: u32,
    /// Its schema's name.
    pub schema: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its columns.
    pub columns: Arc<[ColumnInfo]>,
    /// Its rows.
    pub source: Source,
}

impl std::fmt::Debug for RelationInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

impl RelationInfo {
    /// The table of the kernel, if it is one.
    pub fn table(&self) -> Option<&Arc<TableEntry>> {
        match &self.source {
            Source::Table(table) => Some(table),
            Source::Virtual(_) | Source::Sequence(_) => None,
        }
    }

    /// What a sequence looks like to the binder.
    pub fn of_sequence(sequence: &Arc<SequenceEntry>, schema: &str) -> RelationInfo {
        let columns = SEQUENCE_COLUMNS.iter().map(|(name, ty)| ColumnInfo {
            name: (*name).into(),
            ty: Type::new(*ty),
            not_null: true,
            default: None,
            identity: None,
        });
        RelationInfo {
            oid: sequence.def.oid.0,
            schema: schema.into(),
            name: sequence.def.name.as_str().into(),
            columns: columns.collect(),
            source: Source::Sequence(sequence.clone()),
        }
    }

    /// The position of the column called `name`.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| &*column.name == name)
    }

    /// What a table of the kernel looks like to the binder.
    pub fn of_table(table: &Arc<TableEntry>, schema: &str) -> RelationInfo {
        let columns = table.def.columns.iter().map(|column| ColumnInfo {
            name: column.name.as_str().into(),
            ty: Type::with(TypeOid(column.type_oid), column.type_modifier),
            not_null: column.not_null,
            default: column.default.as_deref().map(Into::into),
            identity: column.identity,
        });
        RelationInfo {
            oid: table.def.oid.0,
            schema: schema.into(),
            name: table.def.name.as_str().into(),
            columns: columns.collect(),
            source: Source::Table(table.clone()),
        }
    }
}

/// A column of a virtual relation: name, type, never NULL.
#[derive(Clone, Copy, Debug)]
pub struct VirtualColumn {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub ty: TypeOid,
    /// NULL never occurs.
    pub not_null: bool,
}

/// A column that never holds NULL.
pub const fn column(name: &'static str, ty: TypeOid) -> VirtualColumn {
    VirtualColumn { name, ty, not_null: true }
}

/// A column that may hold NULL.
pub const fn nullable(name: &'static str, ty: TypeOid) -> VirtualColumn {
    VirtualColumn { name, ty, not_null: false }
}

/// The rows of a virtual relation, one at a time; each has every column in order.
pub type VirtualRows<'a> = Box<dyn Iterator<Item = SqlResult<Vec<Datum>>> + 'a>;

/// A relation whose rows are computed from the catalog.
pub trait VirtualRelation: Send + Sync {
    /// Its oid: PostgreSQL's own for catalogs that it has.
    fn oid(&self) -> u32;

    /// Its schema, `pg_catalog` or `information_schema`.
    fn schema(&self) -> &'static str {
        PG_CATALOG
    }

    /// Its name.
    fn name(&self) -> &'static str;

    /// `v` for PostgreSQL's views, `r` for its tables.
    fn kind(&self) -> u8 {
        b'r'
    }

    /// Its columns.
    fn columns(&self) -> &'static [VirtualColumn];

    /// Columns (by position) for which [`Self::rows_where`] is cheaper than a scan: the planner
    /// then looks rows up by equality.
    fn lookups(&self) -> &'static [usize] {
        &[]
    }

    /// About how many rows there are.
    fn estimated_rows(&self, _view: &CatalogView) -> u64 {
        100
    }

    /// All rows. Waits for nothing.
    fn rows<'a>(&'a self, view: &'a CatalogView) -> VirtualRows<'a>;

    /// The rows, of a relation that is about the session that asks: then [`Self::rows`] is
    /// empty and not asked. Waits for nothing.
    fn session_rows<'a>(
        &'a self,
        _view: &'a CatalogView,
        _session: &'a dyn FunctionContext,
    ) -> Option<VirtualRows<'a>> {
        None
    }

    /// The rows whose column `column` (one of [`Self::lookups`]) equals `value`, which is of that
    /// column's type and not NULL. May give others too: the executor checks.
    fn rows_where<'a>(
        &'a self,
        view: &'a CatalogView,
        _column: usize,
        _value: &Datum,
    ) -> VirtualRows<'a> {
        self.rows(view)
    }
}
