//! The columns of PostgreSQL's system views.
//!
//! Invariants: names, types, order and NOT NULL are those of PostgreSQL 15's pg_attribute; inet
//! and pg_lsn, which do not exist here, are text.

use crate::relations::{VirtualColumn, nullable as n};
use crate::types::TypeOid as T;

/// The columns of pg_cursors.
#[rustfmt::skip]
pub(super) static PG_CURSORS: &[VirtualColumn] = &[
    n("name", T::TEXT), n("statement", T::TEXT), n("is_holdable", T::BOOL),
    n("is_binary", T::BOOL), n("is_scrollable", T::BOOL), n("creation_time", T::TIMESTAMPTZ),
];

/// The columns of pg_group.
#[rustfmt::skip]
pub(super) static PG_GROUP: &[VirtualColumn] = &[
    n("groname", T::NAME), n("grosysid", T::OID), n("grolist", T::OID_ARRAY),
];

/// The columns of pg_indexes.
#[rustfmt::skip]
pub(super) static PG_INDEXES: &[VirtualColumn] = &[
    n("schemaname", T::NAME), n("tablename", T::NAME), n("indexname", T::NAME),
    n("tablespace", T::NAME), n("indexdef", T::TEXT),
];

/// The columns of pg_matviews.
#[rustfmt::skip]
pub(super) static PG_MATVIEWS: &[VirtualColumn] = &[
    n("schemaname", T::NAME), n("matviewname", T::NAME), n("matviewowner", T::NAME),
    n("tablespace", T::NAME), n("hasindexes", T::BOOL), n("ispopulated", T::BOOL),
    n("definition", T::TEXT),
];

/// The columns of pg_policies.
#[rustfmt::skip]
pub(super) static PG_POLICIES: &[VirtualColumn] = &[
    n("schemaname", T::NAME), n("tablename", T::NAME), n("policyname", T::NAME),
    n("permissive", T::TEXT), n("roles", T::NAME_ARRAY), n("cmd", T::TEXT), n("qual", T::TEXT),
    n("with_check", T::TEXT),
];

/// The columns of pg_publication_tables.
#[rustfmt::skip]
pub(super) static PG_PUBLICATION_TABLES: &[VirtualColumn] = &[
    n("pubname", T::NAME), n("schemaname", T::NAME), n("tablename", T::NAME),
    n("attnames", T::NAME_ARRAY), n("rowfilter", T::TEXT),
];

/// The columns of pg_roles.
#[rustfmt::skip]
pub(super) static PG_ROLES: &[VirtualColumn] = &[
    n("rolname", T::NAME), n("rolsuper", T::BOOL), n("rolinherit", T::BOOL),
    n("rolcreaterole", T::BOOL), n("rolcreatedb", T::BOOL), n("rolcanlogin", T::BOOL),
    n("rolreplication", T::BOOL), n("rolconnlimit", T::INT4), n("rolpassword", T::TEXT),
    n("rolvaliduntil", T::TIMESTAMPTZ), n("rolbypassrls", T::BOOL), n("rolconfig", T::TEXT_ARRAY),
    n("oid", T::OID),
];

/// The columns of pg_rules.
#[rustfmt::skip]
pub(super) static PG_RULES: &[VirtualColumn] = &[
    n("schemaname", T::NAME), n("tablename", T::NAME), n("rulename", T::NAME),
    n("definition", T::TEXT),
];

/// The columns of pg_seclabels.
#[rustfmt::skip]
pub(super) static PG_SECLABELS: &[VirtualColumn] = &[
    n("objoid", T::OID), n("classoid", T::OID), n("objsubid", T::INT4), n("objtype", T::TEXT),
    n("objnamespace", T::OID), n("objname", T::TEXT), n("provider", T::TEXT), n("label", T::TEXT),
];

/// The columns of pg_sequences.
#[rustfmt::skip]
pub(super) static PG_SEQUENCES: &[VirtualColumn] = &[
    n("schemaname", T::NAME), n("sequencename", T::NAME), n("sequenceowner", T::NAME),
    n("data_type", T::REGTYPE), n("start_value", T::INT8), n("min_value", T::INT8),
    n("max_value", T::INT8), n("increment_by", T::INT8), n("cycle", T::BOOL),
    n("cache_size", T::INT8), n("last_value", T::INT8),
];

/// The columns of pg_settings.
#[rustfmt::skip]
pub(super) static PG_SETTINGS: &[VirtualColumn] = &[
    n("name", T::TEXT), n("setting", T::TEXT), n("unit", T::TEXT), n("category", T::TEXT),
    n("short_desc", T::TEXT), n("extra_desc", T::TEXT), n("context", T::TEXT),
    n("vartype", T::TEXT), n("source", T::TEXT), n("min_val", T::TEXT), n("max_val", T::TEXT),
    n("enumvals", T::TEXT_ARRAY), n("boot_val", T::TEXT), n("reset_val", T::TEXT),
    n("sourcefile", T::TEXT), n("sourceline", T::INT4), n("pending_restart", T::BOOL),
];

/// The columns of pg_shadow.
#[rustfmt::skip]
pub(super) static PG_SHADOW: &[VirtualColumn] = &[
    n("usename", T::NAME), n("usesysid", T::OID), n("usecreatedb", T::BOOL), n("usesuper", T::BOOL),
    n("userepl", T::BOOL), n("usebypassrls", T::BOOL), n("passwd", T::TEXT),
    n("valuntil", T::TIMESTAMPTZ), n("useconfig", T::TEXT_ARRAY),
];

/// The columns of pg_stat_activity.
#[rustfmt::skip]
pub(super) static PG_STAT_ACTIVITY: &[VirtualColumn] = &[
    n("datid", T::OID), n("datname", T::NAME), n("pid", T::INT4), n("leader_pid", T::INT4),
    n("usesysid", T::OID), n("usename", T::NAME), n("application_name", T::TEXT),
    n("client_addr", T::TEXT), n("client_hostname", T::TEXT), n("client_port", T::INT4),
    n("backend_start", T::TIMESTAMPTZ), n("xact_start", T::TIMESTAMPTZ),
    n("query_start", T::TIMESTAMPTZ), n("state_change", T::TIMESTAMPTZ),
    n("wait_event_type", T::TEXT), n("wait_event", T::TEXT), n("state", T::TEXT),
    n("backend_xid", T::XID), n("backend_xmin", T::XID), n("query_id", T::INT8),
    n("query", T::TEXT), n("backend_type", T::TEXT),
];

/// The columns of atoll_routing.
#[rustfmt::skip]
pub(super) static ATOLL_ROUTING: &[VirtualColumn] = &[
    n("instance", T::INT4), n("is_here", T::BOOL), n("transactions_near", T::INT8),
    n("transactions_far", T::INT8), n("sessions_arrived", T::INT8),
    n("sessions_departed", T::INT8), n("sessions_kept", T::INT8),
];

/// The columns of atoll_memory.
#[rustfmt::skip]
pub(super) static ATOLL_MEMORY: &[VirtualColumn] = &[
    n("home", T::INT4), n("pages_max", T::INT8), n("pages_free", T::INT8),
    n("pages_loaded", T::INT8), n("pages_loaded_blocking", T::INT8), n("pages_evicted", T::INT8),
    n("pages_written", T::INT8), n("evictions_awaited", T::INT8), n("undo_bytes", T::INT8),
    n("inner_nodes_loaded", T::INT8), n("inner_nodes_evicted", T::INT8),
];

/// The columns of atoll_checkpoints.
#[rustfmt::skip]
pub(super) static ATOLL_CHECKPOINTS: &[VirtualColumn] = &[
    n("newest", T::INT8), n("is_running", T::BOOL), n("published", T::INT8),
    n("by_interval", T::INT8), n("by_log", T::INT8), n("by_request", T::INT8),
    n("abandoned", T::INT8), n("abandoned_because", T::TEXT), n("pages_written", T::INT8),
    n("last_pages", T::INT8), n("last_ms", T::FLOAT8), n("page_bytes", T::INT8),
    n("pages_on_disk", T::INT8), n("pages_used", T::INT8), n("pages_dead", T::INT8),
    n("checkpoints_pinned", T::INT8), n("pages_pinned", T::INT8),
    n("checkpoints_given_up", T::INT8),
    n("pages_live", T::INT8), n("space_amplification", T::FLOAT8),
    n("pages_moved", T::INT8), n("bytes_returned", T::INT8),
    n("archived_segments", T::INT8), n("archived_checkpoint", T::INT8), n("archive_fails_because", T::TEXT),
];

/// The columns of pg_stat_bgwriter.
#[rustfmt::skip]
pub(super) static PG_STAT_BGWRITER: &[VirtualColumn] = &[
    n("checkpoints_timed", T::INT8), n("checkpoints_req", T::INT8),
    n("checkpoint_write_time", T::FLOAT8), n("checkpoint_sync_time", T::FLOAT8),
    n("buffers_checkpoint", T::INT8), n("buffers_clean", T::INT8), n("maxwritten_clean", T::INT8),
    n("buffers_backend", T::INT8), n("buffers_backend_fsync", T::INT8), n("buffers_alloc", T::INT8),
    n("stats_reset", T::TIMESTAMPTZ),
];

/// The columns of pg_stat_user_tables.
#[rustfmt::skip]
pub(super) static PG_STAT_USER_TABLES: &[VirtualColumn] = &[
    n("relid", T::OID), n("schemaname", T::NAME), n("relname", T::NAME), n("seq_scan", T::INT8),
    n("seq_tup_read", T::INT8), n("idx_scan", T::INT8), n("idx_tup_fetch", T::INT8),
    n("n_tup_ins", T::INT8), n("n_tup_upd", T::INT8), n("n_tup_del", T::INT8),
    n("n_tup_hot_upd", T::INT8), n("n_live_tup", T::INT8), n("n_dead_tup", T::INT8),
    n("n_mod_since_analyze", T::INT8), n("n_ins_since_vacuum", T::INT8),
    n("last_vacuum", T::TIMESTAMPTZ), n("last_autovacuum", T::TIMESTAMPTZ),
    n("last_analyze", T::TIMESTAMPTZ), n("last_autoanalyze", T::TIMESTAMPTZ),
    n("vacuum_count", T::INT8), n("autovacuum_count", T::INT8), n("analyze_count", T::INT8),
    n("autoanalyze_count", T::INT8),
];

/// The columns of pg_stat_all_tables.
#[rustfmt::skip]
pub(super) static PG_STAT_ALL_TABLES: &[VirtualColumn] = &[
    n("relid", T::OID), n("schemaname", T::NAME), n("relname", T::NAME), n("seq_scan", T::INT8),
    n("seq_tup_read", T::INT8), n("idx_scan", T::INT8), n("idx_tup_fetch", T::INT8),
    n("n_tup_ins", T::INT8), n("n_tup_upd", T::INT8), n("n_tup_del", T::INT8),
    n("n_tup_hot_upd", T::INT8), n("n_live_tup", T::INT8), n("n_dead_tup", T::INT8),
    n("n_mod_since_analyze", T::INT8), n("n_ins_since_vacuum", T::INT8),
    n("last_vacuum", T::TIMESTAMPTZ), n("last_autovacuum", T::TIMESTAMPTZ),
    n("last_analyze", T::TIMESTAMPTZ), n("last_autoanalyze", T::TIMESTAMPTZ),
    n("vacuum_count", T::INT8), n("autovacuum_count", T::INT8), n("analyze_count", T::INT8),
    n("autoanalyze_count", T::INT8),
];

/// The columns of pg_stats; PostgreSQL's anyarray is text[] here.
#[rustfmt::skip]
pub(super) static PG_STATS: &[VirtualColumn] = &[
    n("schemaname", T::NAME), n("tablename", T::NAME), n("attname", T::NAME), n("inherited", T::BOOL),
    n("null_frac", T::FLOAT4), n("avg_width", T::INT4), n("n_distinct", T::FLOAT4),
    n("most_common_vals", T::TEXT_ARRAY), n("most_common_freqs", T::FLOAT4_ARRAY),
    n("histogram_bounds", T::TEXT_ARRAY), n("correlation", T::FLOAT4),
    n("most_common_elems", T::TEXT_ARRAY), n("most_common_elem_freqs", T::FLOAT4_ARRAY),
    n("elem_count_histogram", T::FLOAT4_ARRAY),
];

/// The columns of pg_tables.
#[rustfmt::skip]
pub(super) static PG_TABLES: &[VirtualColumn] = &[
    n("schemaname", T::NAME), n("tablename", T::NAME), n("tableowner", T::NAME),
    n("tablespace", T::NAME), n("hasindexes", T::BOOL), n("hasrules", T::BOOL),
    n("hastriggers", T::BOOL), n("rowsecurity", T::BOOL),
];

/// The columns of pg_user.
#[rustfmt::skip]
pub(super) static PG_USER: &[VirtualColumn] = &[
    n("usename", T::NAME), n("usesysid", T::OID), n("usecreatedb", T::BOOL), n("usesuper", T::BOOL),
    n("userepl", T::BOOL), n("usebypassrls", T::BOOL), n("passwd", T::TEXT),
    n("valuntil", T::TIMESTAMPTZ), n("useconfig", T::TEXT_ARRAY),
];

/// The columns of pg_user_mappings.
#[rustfmt::skip]
pub(super) static PG_USER_MAPPINGS: &[VirtualColumn] = &[
    n("umid", T::OID), n("srvid", T::OID), n("srvname", T::NAME), n("umuser", T::OID),
    n("usename", T::NAME), n("umoptions", T::TEXT_ARRAY),
];

/// The columns of pg_views.
#[rustfmt::skip]
pub(super) static PG_VIEWS: &[VirtualColumn] = &[
    n("schemaname", T::NAME), n("viewname", T::NAME), n("viewowner", T::NAME),
    n("definition", T::TEXT),
];
