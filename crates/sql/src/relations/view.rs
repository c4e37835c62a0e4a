//! What a statement sees of the catalog: one version of the kernel's, the search path, and the
//! virtual relations.
//!
//! Invariants: cheap to clone; never changes, so two look-ups in one statement agree. Name
//! look-up is PostgreSQL's: `pg_catalog` first unless the path names it, then the path in order.

use super::{ColumnInfo, Registry, RelationInfo, Source};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::ast::Name;
use crate::statistics::Statistics;
use crate::types::Type;
use atoll_kernel::api::{Catalog, IndexEntry, Oid, Relation, SequenceEntry, TableEntry};
use std::sync::Arc;

/// What a statement sees of the catalog.
#[derive(Clone)]
pub struct CatalogView {
    /// The kernel's catalog.
    pub catalog: Arc<Catalog>,
    /// The virtual relations.
    pub registry: Arc<Registry>,
    /// The schemas of `search_path` as set, `$user` replaced.
    pub path: Arc<[Arc<str>]>,
    /// What ANALYZE found.
    pub statistics: Arc<Statistics>,
}

/// What a name was found to be.
#[derive(Clone)]
pub enum Found {
    /// A table or a virtual relation.
    Relation(Arc<RelationInfo>),
    /// An index.
    Index(Arc<IndexEntry>),
    /// A sequence.
    Sequence(Arc<SequenceEntry>),
}

impl Found {
    /// Its oid in pg_class.
    pub fn oid(&self) -> u32 {
        match self {
            Found::Relation(relation) => relation.oid,
            Found::Index(index) => index.def.oid.0,
            Found::Sequence(sequence) => sequence.def.oid.0,
        }
    }
}

impl CatalogView {
    /// The schemas in which unqualified names are looked up, in order.
    pub fn effective_path(&self) -> impl Iterator<Item = &str> {
        let implicit = !self.path.iter().any(|schema| &**schema == super::PG_CATALOG);
        implicit.then_some(super::PG_CATALOG).into_iter().chain(self.path.iter().map(|s| &**s))
    }

    /// The first schema of the path that exists and can hold new objects.
    pub fn creation_schema(&self) -> SqlResult<(Oid, Arc<str>)> {
        let found = self.path.iter().find_map(|schema| {
            self.catalog.namespace(schema).map(|namespace| (namespace.oid, schema.clone()))
        });
        found.ok_or_else(|| {
            SqlError::new(SqlState::INVALID_SCHEMA_NAME, "no schema has been selected to create in")
        })
    }

    /// Does a schema of this name exist?
    pub fn schema_exists(&self, schema: &str) -> bool {
        self.registry.has_schema(schema) || self.catalog.namespace(schema).is_some()
    }

    /// The relation or index `name` of `schema`.
    pub fn find_in(&self, schema: &str, name: &str) -> Option<Found> {
        if let Some(found) = self.registry.find(schema, name) {
            return Some(Found::Relation(found));
        }
        let namespace = self.catalog.namespace(schema)?;
        match self.catalog.relation(namespace.oid, name)? {
            Relation::Table(table) => {
                Some(Found::Relation(Arc::new(RelationInfo::of_table(table, schema))))
            }
            Relation::Index(index) => Some(Found::Index(index.clone())),
            Relation::Sequence(sequence) => Some(Found::Sequence(sequence.clone())),
        }
    }

    /// What `name` means here, if anything.
    pub fn find(&self, name: &Name) -> Option<Found> {
        match &name.schema {
            Some(schema) => self.find_in(schema, &name.name),
            None => self.effective_path().find_map(|schema| self.find_in(schema, &name.name)),
        }
    }

    /// The relation `name`; 42P01 with its position, 42809 if it is an index.
    pub fn relation(&self, name: &Name) -> SqlResult<Arc<RelationInfo>> {
        match self.find(name) {
            Some(Found::Relation(relation)) => Ok(relation),
            Some(Found::Index(index)) => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("cannot open relation \"{}\"", index.def.name),
            )
            .detail("This operation is not supported for indexes.")
            .at(name.at.position())),
            Some(Found::Sequence(sequence)) => {
                let schema = self.namespace_name(sequence.def.namespace);
                Ok(Arc::new(RelationInfo::of_sequence(&sequence, schema)))
            }
            None => Err(undefined_relation(name)),
        }
    }

    /// The table of the kernel called `name`; virtual relations are 42501 as PostgreSQL's system
    /// catalogs are, sequences 42809.
    pub fn table(&self, name: &Name) -> SqlResult<Arc<RelationInfo>> {
        let relation = self.relation(name)?;
        match relation.source {
            Source::Table(_) => Ok(relation),
            Source::Virtual(_) => Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied: \"{}\" is a system catalog", relation.name),
            )),
            Source::Sequence(_) => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{}\" is not a table", relation.name),
            )),
        }
    }

    /// The name of a namespace of the kernel.
    pub fn namespace_name(&self, oid: Oid) -> &str {
        let found = self.catalog.namespaces().find(|namespace| namespace.oid == oid);
        found.map_or("", |namespace| namespace.name.as_str())
    }

    /// Is the relation found by its bare name?
    pub fn is_visible(&self, schema: &str, name: &str, oid: u32) -> bool {
        let first = self.effective_path().find_map(|candidate| {
            let found = self.find_in(candidate, name)?;
            Some(found.oid() == oid && candidate == schema)
        });
        first == Some(true)
    }

    /// The columns of a table as the binder sees them.
    pub fn columns_of(table: &TableEntry) -> impl Iterator<Item = ColumnInfo> + '_ {
        table.def.columns.iter().map(|column| ColumnInfo {
            name: column.name.as_str().into(),
            ty: Type::with(crate::types::TypeOid(column.type_oid), column.type_modifier),
            not_null: column.not_null,
            default: column.default.as_deref().map(Into::into),
            identity: column.identity,
        })
    }
}

/// 42P01.
pub fn undefined_relation(name: &Name) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
        .at(name.at.position())
}
