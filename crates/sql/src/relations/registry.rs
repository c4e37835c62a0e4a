//! The virtual relations, by schema and name.
//!
//! Invariants: built once per database and never changed; oids and names are unique.

use super::{ColumnInfo, RelationInfo, Source, VirtualRelation};
use crate::types::Type;
use std::collections::HashMap;
use std::sync::Arc;

/// The schema of PostgreSQL's system catalogs.
pub const PG_CATALOG: &str = "pg_catalog";
/// The schema of the standard's views.
pub const INFORMATION_SCHEMA: &str = "information_schema";

/// All virtual relations.
pub struct Registry {
    by_name: HashMap<(&'static str, &'static str), Arc<RelationInfo>>,
    by_oid: HashMap<u32, Arc<RelationInfo>>,
}

impl Registry {
    /// With these relations.
    pub fn new(relations: &[&'static dyn VirtualRelation]) -> Registry {
        let mut registry = Registry { by_name: HashMap::new(), by_oid: HashMap::new() };
        for &relation in relations {
            let info = Arc::new(info_of(relation));
            registry.by_oid.insert(relation.oid(), info.clone());
            let before = registry.by_name.insert((relation.schema(), relation.name()), info);
            debug_assert!(before.is_none(), "{} is registered twice", relation.name());
        }
        registry
    }

    /// With everything that this crate has.
    pub fn standard() -> Registry {
        let mut relations: Vec<&'static dyn VirtualRelation> = Vec::new();
        let standard = crate::pg_catalog::relations();
        relations.extend(standard.map(|relation| relation as &'static dyn VirtualRelation));
        Registry::new(&relations)
    }

    /// The relation `name` of `schema`.
    pub fn find(&self, schema: &str, name: &str) -> Option<Arc<RelationInfo>> {
        self.by_name.get(&(schema, name)).cloned()
    }

    /// The relation with this oid.
    pub fn by_oid(&self, oid: u32) -> Option<&Arc<RelationInfo>> {
        self.by_oid.get(&oid)
    }

    /// Is it one of the built-in schemas?
    pub fn has_schema(&self, schema: &str) -> bool {
        schema == PG_CATALOG || schema == INFORMATION_SCHEMA
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<RelationInfo>> {
        self.by_oid.values()
    }
}

fn info_of(relation: &'static dyn VirtualRelation) -> RelationInfo {
    let columns = relation.columns().iter().map(|column| ColumnInfo {
        name: column.name.into(),
        ty: Type::new(column.ty),
        not_null: column.not_null,
        default: None,
        identity: None,
    });
    RelationInfo {
        oid: relation.oid(),
        schema: relation.schema().into(),
        name: relation.name().into(),
        columns: columns.collect(),
        source: Source::Virtual(relation),
    }
}
