//! What functions ask of the session: clocks, settings, names of catalog objects.
//!
//! Invariants: shared between the session and a running statement, on one thread, through cells;
//! the catalog in it is the one that the running statement was bound against.

use super::settings::Settings;
use crate::error::SqlResult;
use crate::functions::{
    FunctionContext, ObjectClass, ObjectName, PatternCache, Qualified, SettingDescription,
    SettingScope,
};
use crate::relations::CatalogView;
use crate::relations::view::Found;
use crate::types::Text;
use crate::types::datetime::TimeZone;
use atoll_kernel::api::{Catalog, Oid, Relation, TableEntry};
use atoll_kernel::io::TimeSource;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Microseconds between the Unix epoch and 2000-01-01.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// A session as functions see it.
pub struct SessionContext {
    /// The settings.
    pub settings: RefCell<Settings>,
    /// What the running statement sees of the catalog.
    pub view: RefCell<CatalogView>,
    time: Arc<dyn TimeSource>,
    transaction_start: Cell<i64>,
    statement_start: Cell<i64>,
    random: Cell<u64>,
    user: Text,
    database: Text,
    process_id: i32,
    zone: RefCell<Option<(String, TimeZone)>>,
    digits: Cell<i32>,
    /// The running transaction's number.
    pub transaction_id: Cell<u64>,
    patterns: PatternCache,
}

impl SessionContext {
    /// Of a new session.
    pub fn new(
        time: Arc<dyn TimeSource>,
        settings: Settings,
        view: CatalogView,
        start: &super::SessionStart,
        seed: u64,
    ) -> SessionContext {
        let now = time.wall_micros() - EPOCH_MICROS;
        let digits = settings.integer("extra_float_digits") as i32;
        SessionContext {
            settings: RefCell::new(settings),
            view: RefCell::new(view),
            time,
            transaction_start: Cell::new(now),
            statement_start: Cell::new(now),
            random: Cell::new(seed | 1),
            user: Text::new(&start.user),
            database: Text::new(&start.database),
            process_id: start.process_id,
            zone: RefCell::new(None),
            digits: Cell::new(digits),
            transaction_id: Cell::new(0),
            patterns: PatternCache::default(),
        }
    }

    /// The role's name.
    pub fn user(&self) -> String {
        self.user.to_string()
    }

    /// A statement begins; a transaction, too, if there is none yet.
    pub fn begin_statement(&self, new_transaction: bool) {
        let now = self.time.wall_micros() - EPOCH_MICROS;
        self.statement_start.set(now);
        if new_transaction {
            self.transaction_start.set(now);
        }
    }

    /// Settings changed: forget what was derived from them.
    pub fn refresh(&self) {
        *self.zone.borrow_mut() = None;
        self.digits.set(self.settings.borrow().integer("extra_float_digits") as i32);
    }

    fn catalog(&self) -> Arc<Catalog> {
        self.view.borrow().catalog.clone()
    }
}

impl FunctionContext for SessionContext {
    fn transaction_timestamp(&self) -> i64 {
        self.transaction_start.get()
    }

    fn statement_timestamp(&self) -> i64 {
        self.statement_start.get()
    }

    fn clock_timestamp(&self) -> i64 {
        self.time.wall_micros() - EPOCH_MICROS
    }

    fn random_u64(&self) -> u64 {
        // xorshift*: plenty for random().
        let mut state = self.random.get();
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.random.set(state);
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn set_seed(&self, seed: f64) -> SqlResult<()> {
        self.random.set(seed.to_bits() | 1);
        Ok(())
    }

    fn time_zone(&self) -> TimeZone {
        if let Some((_, zone)) = &*self.zone.borrow() {
            return zone.clone();
        }
        let name = self.settings.borrow().known("TimeZone");
        let zone = TimeZone::named(&name).unwrap_or_else(TimeZone::utc);
        *self.zone.borrow_mut() = Some((name, zone.clone()));
        zone
    }

    fn extra_float_digits(&self) -> i32 {
        self.digits.get()
    }

    fn setting(&self, name: &str) -> Option<Text> {
        self.settings.borrow().show(name).ok().map(|(_, value)| Text::from(value))
    }

    fn set_setting(&self, name: &str, value: &str, scope: SettingScope) -> SqlResult<Text> {
        let values: Vec<String> = if name.eq_ignore_ascii_case("search_path") {
            value.split(',').map(|part| part.trim().trim_matches('"').to_owned()).collect()
        } else {
            vec![value.to_owned()]
        };
        let local = scope == SettingScope::Transaction;
        self.settings.borrow_mut().set(name, &values, local)?;
        self.refresh();
        Ok(self.setting(name).unwrap_or_default())
    }

    fn current_database(&self) -> Text {
        self.database.clone()
    }

    fn current_user(&self) -> Text {
        self.user.clone()
    }

    fn session_user(&self) -> Text {
        self.user.clone()
    }

    fn backend_pid(&self) -> i32 {
        self.process_id
    }

    fn search_path(&self, with_implicit: bool) -> Vec<Text> {
        let view = self.view.borrow();
        let exists = |schema: &&str| view.schema_exists(schema);
        if with_implicit {
            return view.effective_path().filter(exists).map(Text::new).collect();
        }
        view.path.iter().map(|schema| &**schema).filter(exists).map(Text::new).collect()
    }

    fn patterns(&self) -> Option<&PatternCache> {
        Some(&self.patterns)
    }

    fn transaction_id(&self) -> u64 {
        self.transaction_id.get()
    }

    fn object_name(&self, class: ObjectClass, oid: u32) -> Option<ObjectName> {
        let name = |schema: Option<&str>, name: &str, visible: bool| ObjectName {
            schema: schema.map(Text::new),
            name: Text::new(name),
            visible,
        };
        let view = self.view.borrow();
        match class {
            ObjectClass::Relation => {
                let (schema, relation) = relation_name(&view, oid)?;
                let visible = view.is_visible(&schema, &relation, oid);
                Some(name(Some(&schema), &relation, visible))
            }
            ObjectClass::Namespace => {
                let namespaces = crate::relations::namespaces(&view);
                let found = namespaces.into_iter().find(|(own, _)| *own == oid)?;
                Some(name(None, &found.1, true))
            }
            ObjectClass::Role => (oid == 10).then(|| name(None, "postgres", true)),
            ObjectClass::Database => {
                (oid == crate::relations::DATABASE_OID).then(|| name(None, &self.database, true))
            }
            ObjectClass::Tablespace => match oid {
                1663 => Some(name(None, "pg_default", true)),
                1664 => Some(name(None, "pg_global", true)),
                _ => None,
            },
            ObjectClass::Collation => match oid {
                100 => Some(name(Some("pg_catalog"), "default", true)),
                950 => Some(name(Some("pg_catalog"), "C", true)),
                951 => Some(name(Some("pg_catalog"), "POSIX", true)),
                _ => None,
            },
            ObjectClass::Function => crate::functions::function_by_oid(oid)
                .map(|row| name(Some("pg_catalog"), row.name, true)),
            ObjectClass::Operator => crate::functions::operator_by_oid(oid)
                .map(|row| name(Some("pg_catalog"), row.name, true)),
            ObjectClass::Constraint => {
                let index = view.catalog.index_by_oid(Oid(oid))?;
                Some(name(None, &index.def.name, true))
            }
            ObjectClass::Type => None,
        }
    }

    fn object_oid(&self, class: ObjectClass, schema: Option<&str>, name: &str) -> Option<u32> {
        let view = self.view.borrow();
        match class {
            ObjectClass::Relation => {
                let found = match schema {
                    Some(schema) => view.find_in(schema, name),
                    None => view.effective_path().find_map(|schema| view.find_in(schema, name)),
                };
                found.map(|found| match found {
                    Found::Relation(relation) => relation.oid,
                    Found::Index(index) => index.def.oid.0,
                })
            }
            ObjectClass::Namespace => {
                let namespaces = crate::relations::namespaces(&view);
                namespaces.into_iter().find(|(_, own)| own == name).map(|(oid, _)| oid)
            }
            ObjectClass::Role => (name == "postgres" || *name == *self.user).then_some(10),
            ObjectClass::Database => {
                (*name == *self.database).then_some(crate::relations::DATABASE_OID)
            }
            ObjectClass::Collation => match name {
                "default" => Some(100),
                "C" => Some(950),
                "POSIX" => Some(951),
                _ => None,
            },
            ObjectClass::Function => {
                crate::functions::functions().find(|row| row.name == name).map(|row| row.oid)
            }
            ObjectClass::Operator => {
                crate::functions::operators().find(|row| row.name == name).map(|row| row.oid)
            }
            _ => None,
        }
    }

    fn settings(&self) -> Vec<SettingDescription> {
        self.settings.borrow().describe()
    }

    fn index_definition(&self, index: u32, column: i32, qualified: Qualified) -> Option<String> {
        crate::relations::index_definition(&self.view.borrow(), index, column, qualified)
    }

    fn constraint_definition(&self, constraint: u32) -> Option<String> {
        crate::relations::constraint_definition(&self.view.borrow(), constraint)
    }

    fn relation_size(&self, oid: u32, _what: crate::functions::SizeOf) -> Option<i64> {
        let catalog = self.catalog();
        if oid == 0 {
            return Some(catalog.tables().map(|table| table_bytes(table)).sum());
        }
        match catalog.relation_by_oid(Oid(oid))? {
            Relation::Table(table) => Some(table_bytes(table)),
            Relation::Index(_) => Some(PAGE_BYTES),
        }
    }
}

const PAGE_BYTES: i64 = 16_384;

/// About: rows live in pages of which most are full.
fn table_bytes(table: &TableEntry) -> i64 {
    (table.approximate_rows() as i64 / 64 + 1) * PAGE_BYTES
}

fn relation_name(view: &CatalogView, oid: u32) -> Option<(String, String)> {
    if let Some(info) = view.registry.by_oid(oid) {
        return Some((info.schema.to_string(), info.name.to_string()));
    }
    match view.catalog.relation_by_oid(Oid(oid))? {
        Relation::Table(table) => {
            let schema = view.namespace_name(table.def.namespace).to_owned();
            Some((schema, table.def.name.clone()))
        }
        Relation::Index(index) => {
            let table = view.catalog.table_by_oid(index.def.table)?;
            let schema = view.namespace_name(table.def.namespace).to_owned();
            Some((schema, index.def.name.clone()))
        }
    }
}
