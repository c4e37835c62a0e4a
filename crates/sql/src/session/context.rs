//! What functions ask of the session: clocks, settings, names of catalog objects.
//!
//! Invariants: shared between the session and a running statement, on one thread, through cells;
//! the catalog in it is the one that the running statement was bound against.

use super::affinity::{Routing, RoutingCounts};
use super::settings::Settings;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::quote_identifier;
use crate::functions::{
    CursorDescription, FunctionContext, ObjectClass, ObjectName, PatternCache, Qualified,
    SettingDescription, SettingScope,
};
use crate::relations::CatalogView;
use crate::types::Text;
use crate::types::datetime::TimeZone;
use atoll_kernel::api::{
    Catalog, CheckpointStatus, CheckpointWatch, Instance, InstanceId, MemoryPart, MemoryWatch, Oid,
    Relation, TableEntry,
};
use atoll_kernel::io::{Entropy, RealEntropy, TimeSource};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
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
    // The last value that this session had of each sequence, and which it had last.
    sequences: RefCell<HashMap<u32, i64>>,
    last_sequence: Cell<Option<u32>>,
    /// Whether the running transaction is read-only.
    pub read_only: Cell<bool>,
    /// The session's cursors as they were when the running statement began, if it may ask.
    pub cursors: RefCell<Vec<CursorDescription>>,
    /// The instance that the session is on.
    pub place: Cell<InstanceId>,
    /// What sessions count of their affinity.
    pub routing: RefCell<Option<Arc<Routing>>>,
    /// A look at the database's checkpoints.
    checkpoints: CheckpointWatch,
    memory: MemoryWatch,
}

/// What a session remembers of its past when it moves to another instance.
pub struct Remembered {
    random: u64,
    sequences: HashMap<u32, i64>,
    last_sequence: Option<u32>,
}

impl SessionContext {
    /// Of a new session.
    pub fn new(
        settings: Settings,
        view: CatalogView,
        start: &super::SessionStart,
        instance: &Instance,
    ) -> SessionContext {
        let time = instance.time().clone();
        let seed = time.now_ns() ^ (start.process_id as u64).rotate_left(32);
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
            sequences: RefCell::default(),
            last_sequence: Cell::new(None),
            read_only: Cell::new(false),
            cursors: RefCell::default(),
            place: Cell::new(instance.id()),
            routing: RefCell::default(),
            checkpoints: CheckpointWatch::new(instance),
            memory: MemoryWatch::new(instance),
        }
    }

    /// How the session began, without its settings.
    pub fn start(&self) -> super::SessionStart {
        super::SessionStart {
            user: self.user.to_string(),
            database: self.database.to_string(),
            process_id: self.process_id,
            ..Default::default()
        }
    }

    /// Takes what is remembered.
    pub fn remembered(&self) -> Remembered {
        Remembered {
            random: self.random.get(),
            sequences: self.sequences.take(),
            last_sequence: self.last_sequence.take(),
        }
    }

    /// Goes on with what was remembered.
    pub fn remember(&self, remembered: Remembered) {
        self.random.set(remembered.random);
        *self.sequences.borrow_mut() = remembered.sequences;
        self.last_sequence.set(remembered.last_sequence);
    }

    /// DISCARD SEQUENCES.
    pub fn forget_sequences(&self) {
        self.sequences.borrow_mut().clear();
        self.last_sequence.set(None);
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

    fn entropy_u64(&self) -> u64 {
        RealEntropy.u64()
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

    fn cursors(&self) -> Vec<CursorDescription> {
        self.cursors.borrow().clone()
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

    fn instance(&self) -> i32 {
        i32::from(self.place.get().0)
    }

    fn routing(&self) -> Vec<RoutingCounts> {
        self.routing.borrow().as_ref().map(|routing| routing.counts()).unwrap_or_default()
    }

    fn checkpoints(&self) -> Option<CheckpointStatus> {
        self.checkpoints.status()
    }

    fn memory(&self) -> Vec<MemoryPart> {
        self.memory.parts()
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
                found.map(|found| found.oid())
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
            Relation::Sequence(_) => Some(SEQUENCE_BYTES),
        }
    }

    fn expression_text(&self, stored: &str, _relation: u32) -> Option<String> {
        Some(crate::relations::shown_default(&self.view.borrow(), stored))
    }

    fn serial_sequence(&self, table: u32, column: &str) -> SqlResult<Option<Text>> {
        let view = self.view.borrow();
        let Some(entry) = view.catalog.table_by_oid(Oid(table)) else { return Ok(None) };
        let Some(at) = entry.def.column(column) else {
            return Err(SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{column}\" of relation \"{}\" does not exist", entry.def.name),
            ));
        };
        let owned = view.catalog.sequences_of(Oid(table));
        let found = owned.iter().find(|it| it.def.owner == Some((Oid(table), at)));
        Ok(found.map(|found| {
            let schema = view.namespace_name(found.def.namespace);
            Text::from(format!(
                "{}.{}",
                quote_identifier(schema),
                quote_identifier(&found.def.name)
            ))
        }))
    }

    fn sequence_current(&self, sequence: u32) -> SqlResult<i64> {
        let view = self.view.borrow();
        let name = crate::relations::sequence_of(&view, sequence)?.def.name.clone();
        self.sequences.borrow().get(&sequence).copied().ok_or_else(|| {
            SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("currval of sequence \"{name}\" is not yet defined in this session"),
            )
        })
    }

    fn sequence_last(&self) -> SqlResult<i64> {
        let there = |oid: &u32| self.view.borrow().catalog.sequence_by_oid(Oid(*oid)).is_some();
        let last = self.last_sequence.get().filter(there);
        last.and_then(|oid| self.sequences.borrow().get(&oid).copied()).ok_or_else(|| {
            SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "lastval is not yet defined in this session",
            )
        })
    }

    fn note_sequence(&self, sequence: u32, value: i64, is_next: bool) {
        self.sequences.borrow_mut().insert(sequence, value);
        if is_next {
            self.last_sequence.set(Some(sequence));
        }
    }

    fn is_read_only(&self) -> bool {
        self.read_only.get()
    }
}

/// What PostgreSQL's sequences take: a page.
const SEQUENCE_BYTES: i64 = 8192;

const PAGE_BYTES: i64 = atoll_kernel::base::PAGE_BYTES as i64;

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
        Relation::Sequence(sequence) => {
            let schema = view.namespace_name(sequence.def.namespace).to_owned();
            Some((schema, sequence.def.name.clone()))
        }
        Relation::Index(index) => {
            let table = view.catalog.table_by_oid(index.def.table)?;
            let schema = view.namespace_name(table.def.namespace).to_owned();
            Some((schema, index.def.name.clone()))
        }
    }
}
