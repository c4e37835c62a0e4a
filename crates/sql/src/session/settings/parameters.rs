//! The parameters: their names, defaults, and what values they take.
//!
//! Invariants: names are in order, whatever their case.

use super::read_from::{CURRENT, READ_FROM};

/// What values a parameter takes.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Any text.
    Text,
    /// A boolean.
    Bool,
    /// An integer in a range, with a unit for memory (`k`) or time (`m`), or none.
    Int(i64, i64, char),
    /// A number.
    Real,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// Only this value, whatever its case; others are not built.
    Only(&'static [&'static str]),
    /// An encoding's name.
    Encoding,
    /// A list of schemas.
    Path,
    /// A time zone.
    Zone,
    /// What transactions read.
    ReadFrom,
    /// Never changed by SET.
    Fixed,
    /// As `Int`, but changed only where the server is started; these are defaults of its own.
    AtStart(i64, i64, char),
    /// A text of that kind.
    TextAtStart,
}

impl Kind {
    /// Whether it is changed only where the server is started.
    pub(super) fn is_at_start(self) -> bool {
        matches!(self, Kind::AtStart(..) | Kind::TextAtStart)
    }
}

/// One parameter.
pub(super) struct Parameter {
    pub name: &'static str,
    pub default: &'static str,
    pub kind: Kind,
    pub reported: bool,
}

const fn plain(name: &'static str, default: &'static str, kind: Kind) -> Parameter {
    Parameter { name, default, kind, reported: false }
}

const fn reported(name: &'static str, default: &'static str, kind: Kind) -> Parameter {
    Parameter { name, default, kind, reported: true }
}

const ISOLATION: &[&str] =
    &["serializable", "repeatable read", "read committed", "read uncommitted"];
const LEVELS: &[&str] =
    &["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"];
const SYNC: &[&str] = &["local", "remote_write", "remote_apply", "on", "off"];

/// Transactions that an instance may be told to run at once.
const ADMISSION_MOST: i64 = 10_000;
/// A week.
const CHECKPOINT_INTERVAL_MS_MAX: i64 = 7 * 86_400_000;
/// A petabyte.
const CHECKPOINT_WAL_KB_MAX: i64 = 1 << 40;

/// What PostgreSQL version clients are told.
pub const SERVER_VERSION: &str = "15.0";

pub(super) static PARAMETERS: &[Parameter] = &[
    plain("admission_max", "128", Kind::AtStart(1, ADMISSION_MOST, ' ')),
    reported("application_name", "", Kind::Text),
    plain("atoll.affinity", "", Kind::Text),
    plain(READ_FROM, CURRENT, Kind::ReadFrom),
    plain("archive_directory", "", Kind::TextAtStart),
    plain("array_nulls", "on", Kind::Only(&["on", "true", "1"])),
    plain("backslash_quote", "safe_encoding", Kind::Only(&["safe_encoding"])),
    plain("block_size", "8192", Kind::Fixed),
    plain("bytea_output", "hex", Kind::Only(&["hex"])),
    plain("check_function_bodies", "on", Kind::Bool),
    reported("client_encoding", "UTF8", Kind::Encoding),
    plain("checkpoint_interval", "60000", Kind::AtStart(0, CHECKPOINT_INTERVAL_MS_MAX, 'm')),
    plain("checkpoint_pin_limit", "0", Kind::AtStart(0, CHECKPOINT_WAL_KB_MAX, 'k')),
    plain("checkpoint_wal", "1048576", Kind::AtStart(0, CHECKPOINT_WAL_KB_MAX, 'k')),
    plain("client_min_messages", "notice", Kind::OneOf(LEVELS)),
    plain("cursor_tuple_fraction", "0.1", Kind::Real),
    reported("DateStyle", "ISO, MDY", Kind::Only(&["iso, mdy", "iso", "iso,mdy", "mdy"])),
    plain("default_table_access_method", "heap", Kind::Only(&["heap"])),
    plain("default_tablespace", "", Kind::Only(&["", "pg_default"])),
    plain("default_text_search_config", "pg_catalog.simple", Kind::Text),
    plain("default_transaction_deferrable", "off", Kind::Bool),
    plain("default_transaction_isolation", "read committed", Kind::OneOf(ISOLATION)),
    reported("default_transaction_read_only", "off", Kind::Bool),
    plain("effective_cache_size", "524288", Kind::Int(1, i32::MAX as i64, 'k')),
    plain("enable_bitmapscan", "on", Kind::Bool),
    plain("enable_hashagg", "on", Kind::Bool),
    plain("enable_hashjoin", "on", Kind::Bool),
    plain("enable_indexonlyscan", "on", Kind::Bool),
    plain("enable_indexscan", "on", Kind::Bool),
    plain("enable_material", "on", Kind::Bool),
    plain("enable_mergejoin", "on", Kind::Bool),
    plain("enable_nestloop", "on", Kind::Bool),
    plain("enable_seqscan", "on", Kind::Bool),
    plain("enable_sort", "on", Kind::Bool),
    plain("escape_string_warning", "on", Kind::Bool),
    plain("extra_float_digits", "1", Kind::Int(-15, 3, ' ')),
    plain("from_collapse_limit", "8", Kind::Int(1, i32::MAX as i64, ' ')),
    plain("geqo", "on", Kind::Bool),
    plain("idle_in_transaction_session_timeout", "0", Kind::Only(&["0"])),
    plain("idle_session_timeout", "0", Kind::Only(&["0"])),
    reported("in_hot_standby", "off", Kind::Fixed),
    reported("integer_datetimes", "on", Kind::Fixed),
    reported("IntervalStyle", "postgres", Kind::Only(&["postgres"])),
    reported("is_superuser", "on", Kind::Fixed),
    plain("jit", "off", Kind::Bool),
    plain("join_collapse_limit", "8", Kind::Int(1, i32::MAX as i64, ' ')),
    plain("lc_collate", "C", Kind::Fixed),
    plain("lc_ctype", "C", Kind::Fixed),
    plain("lc_messages", "C", Kind::Only(&["c", "posix", "en_us.utf8", "en_us.utf-8", "c.utf-8"])),
    plain("lc_monetary", "C", Kind::Only(&["c", "posix", "en_us.utf8", "en_us.utf-8", "c.utf-8"])),
    plain("lc_numeric", "C", Kind::Only(&["c", "posix", "en_us.utf8", "en_us.utf-8", "c.utf-8"])),
    plain("lc_time", "C", Kind::Only(&["c", "posix", "en_us.utf8", "en_us.utf-8", "c.utf-8"])),
    plain("lock_timeout", "0", Kind::Only(&["0", "0ms", "0s"])),
    plain("maintenance_work_mem", "65536", Kind::Int(1024, i32::MAX as i64, 'k')),
    plain("max_connections", "10000", Kind::Fixed),
    plain("max_identifier_length", "63", Kind::Fixed),
    plain("max_index_keys", "32", Kind::Fixed),
    plain("max_parallel_workers_per_gather", "0", Kind::Int(0, 1024, ' ')),
    plain("max_prepared_transactions", "0", Kind::Fixed),
    plain("parallel_setup_cost", "1000", Kind::Real),
    plain("password_encryption", "scram-sha-256", Kind::OneOf(&["md5", "scram-sha-256"])),
    plain(
        "plan_cache_mode",
        "auto",
        Kind::OneOf(&["auto", "force_generic_plan", "force_custom_plan"]),
    ),
    plain("quote_all_identifiers", "off", Kind::Bool),
    plain("random_page_cost", "4", Kind::Real),
    plain("row_security", "on", Kind::Bool),
    plain("search_path", "\"$user\", public", Kind::Path),
    reported("server_encoding", "UTF8", Kind::Fixed),
    reported("server_version", SERVER_VERSION, Kind::Fixed),
    plain("server_version_num", "150000", Kind::Fixed),
    reported("session_authorization", "postgres", Kind::Fixed),
    plain("session_replication_role", "origin", Kind::Only(&["origin"])),
    plain("seq_page_cost", "1", Kind::Real),
    plain("ssl", "off", Kind::Fixed),
    reported("standard_conforming_strings", "on", Kind::Only(&["on", "true", "1"])),
    plain("statement_timeout", "0", Kind::Int(0, i32::MAX as i64, 'm')),
    plain("synchronize_seqscans", "on", Kind::Bool),
    plain("synchronous_commit", "on", Kind::OneOf(SYNC)),
    plain("temp_buffers", "1024", Kind::Int(100, i32::MAX as i64, 'k')),
    reported("TimeZone", "UTC", Kind::Zone),
    plain("temp_file_limit", "-1", Kind::Int(-1, i32::MAX as i64, 'k')),
    plain("timezone_abbreviations", "Default", Kind::Fixed),
    plain("track_activities", "on", Kind::Bool),
    plain("transaction_deferrable", "off", Kind::Bool),
    plain("transaction_isolation", "read committed", Kind::OneOf(ISOLATION)),
    plain("transaction_read_only", "off", Kind::Bool),
    plain("transform_null_equals", "off", Kind::Only(&["off", "false", "0"])),
    plain("wal_level", "replica", Kind::Fixed),
    plain("work_mem", "4096", Kind::Int(64, i32::MAX as i64, 'k')),
    plain("xmloption", "content", Kind::OneOf(&["content", "document"])),
];
