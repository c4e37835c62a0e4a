//! What functions may ask of the session and the catalog.
//!
//! The executor implements this trait; nothing else under `types` and `functions` reaches outside
//! its arguments. The defaults answer as an empty catalog would, so that tests and constant
//! folding need only the clock.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::session::RoutingCounts;
use crate::types::datetime::TimeZone;
use crate::types::{Text, TypeOid};
use atoll_kernel::api::{CheckpointStatus, MemoryPart};
use std::sync::Arc;

/// How `SET` looked: for the transaction or for the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettingScope {
    /// `SET LOCAL`, `set_config(.., true)`.
    Transaction,
    /// `SET`, `set_config(.., false)`.
    Session,
}

/// Classes of objects that functions name by oid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectClass {
    /// pg_class.
    Relation,
    /// pg_namespace.
    Namespace,
    /// pg_type (types that are not built in).
    Type,
    /// pg_authid.
    Role,
    /// pg_database.
    Database,
    /// pg_proc.
    Function,
    /// pg_operator.
    Operator,
    /// pg_collation.
    Collation,
    /// pg_tablespace.
    Tablespace,
    /// pg_constraint.
    Constraint,
}

/// The name of a catalog object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectName {
    /// Its schema, where objects of the class have one.
    pub schema: Option<Text>,
    /// Its name.
    pub name: Text,
    /// Is it found by its bare name on the search path?
    pub visible: bool,
}

/// Is a table's name written with its schema?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Qualified {
    /// Always.
    Always,
    /// Where the search path does not find it (the "pretty" forms).
    IfNeeded,
}

/// A cursor of the session, as pg_cursors describes it.
#[derive(Clone, Debug)]
pub struct CursorDescription {
    /// Its name.
    pub name: String,
    /// The text that declared it.
    pub text: Arc<str>,
    /// WITH HOLD.
    pub is_holdable: bool,
    /// BINARY.
    pub is_binary: bool,
    /// It can go back.
    pub is_scrollable: bool,
    /// Microseconds since 2000-01-01.
    pub created: i64,
}

/// A configuration parameter, as pg_settings describes it.
#[derive(Clone, Debug)]
pub struct SettingDescription {
    /// Its name.
    pub name: &'static str,
    /// Its value, in its unit.
    pub value: String,
    /// The unit, if it has one.
    pub unit: Option<&'static str>,
    /// When it can be changed: `user`, `postmaster` (when the server starts) or `internal`.
    pub context: &'static str,
    /// `bool`, `enum`, `integer`, `real` or `string`.
    pub kind: &'static str,
    /// Where the value is from: `default`, `client`, `session`, or `override` (set when the server
    /// started).
    pub source: &'static str,
    /// The least value.
    pub least: Option<String>,
    /// The largest value.
    pub most: Option<String>,
    /// The values of an enum.
    pub choices: Vec<String>,
    /// The value at the server's start.
    pub boot: &'static str,
    /// What RESET goes back to.
    pub reset: String,
}

/// What `pg_relation_size` and its family measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizeOf {
    /// The relation's main fork.
    Main,
    /// The table without its indexes.
    Table,
    /// The table's indexes.
    Indexes,
    /// Everything.
    Total,
}

/// The session and catalog a function runs in.
pub trait FunctionContext {
    /// Start of the transaction: `now()`. Microseconds since 2000-01-01 UTC.
    fn transaction_timestamp(&self) -> i64;
    /// Start of the statement. Microseconds since 2000-01-01 UTC.
    fn statement_timestamp(&self) -> i64;
    /// The wall clock. Microseconds since 2000-01-01 UTC.
    fn clock_timestamp(&self) -> i64;
    /// 64 random bits, of the sequence that `setseed()` sets.
    fn random_u64(&self) -> u64;

    /// 64 bits that nobody can foresee: what makes uuids unique.
    fn entropy_u64(&self) -> u64 {
        self.random_u64()
    }

    /// `setseed()`.
    fn set_seed(&self, _seed: f64) -> SqlResult<()> {
        Err(SqlError::not_supported("setseed"))
    }

    /// The session's TimeZone.
    fn time_zone(&self) -> TimeZone {
        TimeZone::utc()
    }

    /// extra_float_digits; 1 and above print the shortest exact form.
    fn extra_float_digits(&self) -> i32 {
        1
    }

    /// A setting's value (`current_setting`); None if there is no such setting.
    fn setting(&self, _name: &str) -> Option<Text> {
        None
    }

    /// Every parameter, for pg_settings.
    fn settings(&self) -> Vec<SettingDescription> {
        Vec::new()
    }

    /// The session's cursors, for pg_cursors.
    fn cursors(&self) -> Vec<CursorDescription> {
        Vec::new()
    }

    /// `set_config`: answers the new value.
    fn set_setting(&self, name: &str, _value: &str, _scope: SettingScope) -> SqlResult<Text> {
        Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("unrecognized configuration parameter \"{name}\""),
        ))
    }

    /// What `version()` says.
    fn version(&self) -> Text {
        Text::new(concat!("PostgreSQL 15.0 (Atoll ", env!("CARGO_PKG_VERSION"), ")"))
    }

    /// The database's name.
    fn current_database(&self) -> Text {
        Text::new("postgres")
    }

    /// The effective role.
    fn current_user(&self) -> Text {
        Text::new("postgres")
    }

    /// The role that connected.
    fn session_user(&self) -> Text {
        Text::new("postgres")
    }

    /// The session's process id as the protocol told it.
    fn backend_pid(&self) -> i32 {
        0
    }

    /// The instance that the session is on.
    fn instance(&self) -> i32 {
        0
    }

    /// What sessions have counted of their transactions' affinity, by instance.
    fn routing(&self) -> Vec<RoutingCounts> {
        Vec::new()
    }

    /// What became of the database's checkpoints; none for one in memory.
    fn checkpoints(&self) -> Option<CheckpointStatus> {
        None
    }

    /// The parts of the memory, by home.
    fn memory(&self) -> Vec<MemoryPart> {
        Vec::new()
    }

    /// The schemas of the search path that exist, in order; with pg_catalog where it is implicit.
    fn search_path(&self, with_implicit: bool) -> Vec<Text> {
        let implicit = with_implicit.then(|| Text::new("pg_catalog"));
        implicit.into_iter().chain([Text::new("public")]).collect()
    }

    /// The transaction's number, for `txid_current` and the like.
    fn transaction_id(&self) -> u64 {
        0
    }

    /// When the server started. Microseconds since 2000-01-01 UTC.
    fn server_start(&self) -> i64 {
        0
    }

    /// The name of the object with this oid.
    fn object_name(&self, _class: ObjectClass, _oid: u32) -> Option<ObjectName> {
        None
    }

    /// The oid of the object with this name (already folded), on the search path if no schema.
    fn object_oid(&self, _class: ObjectClass, _schema: Option<&str>, _name: &str) -> Option<u32> {
        None
    }

    /// `pg_get_indexdef`: the whole definition (column 0) or one column's.
    fn index_definition(&self, _index: u32, _column: i32, _qualified: Qualified) -> Option<String> {
        None
    }

    /// `pg_get_constraintdef`.
    fn constraint_definition(&self, _constraint: u32) -> Option<String> {
        None
    }

    /// `pg_get_viewdef`.
    fn view_definition(&self, _view: u32) -> Option<String> {
        None
    }

    /// `pg_get_expr`: a stored expression as SQL. Stored expressions are SQL text already.
    fn expression_text(&self, stored: &str, _relation: u32) -> Option<String> {
        Some(stored.to_owned())
    }

    /// `obj_description` (column 0) and `col_description`.
    fn comment(&self, _class: ObjectClass, _oid: u32, _column: i32) -> Option<Text> {
        None
    }

    /// `pg_relation_size` and its family, in bytes; of the database for oid 0.
    fn relation_size(&self, _oid: u32, _what: SizeOf) -> Option<i64> {
        None
    }

    /// `pg_get_serial_sequence`: the sequence behind a column.
    fn serial_sequence(&self, _table: u32, _column: &str) -> SqlResult<Option<Text>> {
        Ok(None)
    }

    /// `currval`.
    fn sequence_current(&self, _sequence: u32) -> SqlResult<i64> {
        Err(SqlError::not_supported("currval"))
    }

    /// `lastval`.
    fn sequence_last(&self) -> SqlResult<i64> {
        Err(SqlError::not_supported("lastval"))
    }

    /// The session had this value of a sequence: by nextval, else by setval.
    fn note_sequence(&self, _sequence: u32, _value: i64, _is_next: bool) {}

    /// Whether the transaction is read-only.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Has the role (None: the current one) the privilege on the object? Until roles exist,
    /// everybody may do everything.
    fn has_privilege(
        &self,
        _role: Option<u32>,
        _class: ObjectClass,
        _oid: u32,
        _privilege: &str,
    ) -> bool {
        true
    }

    /// A composite type's row type oid and the like: the printed name of a type that is not
    /// built in.
    fn type_name(&self, oid: TypeOid) -> Option<Text> {
        self.object_name(ObjectClass::Type, oid.0).map(|name| name.name)
    }

    /// Compiled regular expressions, if the session or instance keeps them.
    fn patterns(&self) -> Option<&super::PatternCache> {
        None
    }

    /// Called in long loops of one function; an error ends the statement (57014).
    fn check_cancel(&self) -> SqlResult<()> {
        Ok(())
    }
}

/// A context with a fixed clock and the empty catalog: for constant folding of immutable
/// functions and for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConstantContext;

impl FunctionContext for ConstantContext {
    fn transaction_timestamp(&self) -> i64 {
        0
    }

    fn statement_timestamp(&self) -> i64 {
        0
    }

    fn clock_timestamp(&self) -> i64 {
        0
    }

    fn random_u64(&self) -> u64 {
        0x9e37_79b9_7f4a_7c15
    }
}
