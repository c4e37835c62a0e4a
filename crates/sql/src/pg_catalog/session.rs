//! Relations about the session that asks, and what its server counts: pg_settings, pg_cursors,
//! pg_stat_activity, pg_stat_bgwriter.
//!
//! Invariants: pg_settings has the parameters that SHOW knows, with the session's values.
//! pg_cursors has the cursors of DECLARE, not the protocol's portals, and not one that is just
//! being fetched from.
//! atoll_routing is ours: where transactions hash to and which sessions moved, by instance.
//! atoll_memory, ours: each home's part of the memory, and what goes in and out of it.
//! atoll_checkpoints, ours too, has a row unless the database is in memory; so has pg_stat_bgwriter,
//! where what nobody counts is NULL.
//! pg_stat_activity has the asking session alone: sessions do not see each other's state.

use super::value::{NULL, bool, int, oid, text};
use super::{DATABASE_OID, OWNER_OID, Rows, SystemRelation, view_columns};
use crate::functions::{CursorDescription, FunctionContext, SettingDescription};
use crate::relations::CatalogView;
use crate::types::{Array, Datum, TypeOid};

/// pg_settings, pg_cursors, pg_stat_activity, pg_stat_bgwriter, atoll_routing, atoll_memory,
/// atoll_checkpoints.
pub(super) static RELATIONS: &[SystemRelation] = &[
    SystemRelation::view(12_104, "pg_settings", view_columns::PG_SETTINGS).of_session(setting_rows),
    SystemRelation::view(12_222, "pg_stat_activity", view_columns::PG_STAT_ACTIVITY)
        .of_session(activity_rows),
    SystemRelation::view(9001, "atoll_routing", view_columns::ATOLL_ROUTING)
        .of_session(routing_rows),
    SystemRelation::view(9002, "atoll_checkpoints", view_columns::ATOLL_CHECKPOINTS)
        .of_session(checkpoint_rows),
    SystemRelation::view(9003, "atoll_memory", view_columns::ATOLL_MEMORY).of_session(memory_rows),
    SystemRelation::view(12_219, "pg_stat_bgwriter", view_columns::PG_STAT_BGWRITER)
        .of_session(writer_rows),
    SystemRelation::view(12_077, "pg_cursors", view_columns::PG_CURSORS).of_session(cursor_rows),
];

fn routing_rows<'a>(_: &'a CatalogView, session: &'a dyn FunctionContext) -> Rows<'a> {
    let here = session.instance();
    let counts = session.routing().into_iter().enumerate();
    Box::new(counts.map(move |(instance, counts)| {
        vec![
            int(instance as i32),
            bool(instance as i32 == here),
            count(counts.near),
            count(counts.far),
            count(counts.arrived),
            count(counts.departed),
            count(counts.kept),
        ]
    }))
}

fn memory_rows<'a>(_: &'a CatalogView, session: &'a dyn FunctionContext) -> Rows<'a> {
    let parts = session.memory().into_iter().enumerate();
    Box::new(parts.map(|(home, part)| {
        vec![
            int(home as i32),
            count(part.frames as u64),
            count(part.free as u64),
            count(part.traffic.loads),
            count(part.traffic.blocking),
            count(part.traffic.evictions),
            count(part.traffic.written),
            count(part.traffic.inline),
            count(part.undo_bytes),
            count(part.traffic.nodes_loaded),
            count(part.traffic.nodes_evicted),
        ]
    }))
}

fn count(count: u64) -> Datum {
    Datum::Int8(count.cast_signed())
}

fn milliseconds(ns: u64) -> Datum {
    Datum::Float8(ns as f64 / 1e6)
}

fn checkpoint_rows<'a>(_: &'a CatalogView, session: &'a dyn FunctionContext) -> Rows<'a> {
    Box::new(session.checkpoints().into_iter().map(|known| {
        let (counters, space) = (known.counters, known.space);
        let last = counters.last;
        vec![
            if counters.newest == 0 { NULL } else { count(counters.newest) },
            bool(known.is_running),
            count(counters.published),
            count(counters.by_interval),
            count(counters.by_log),
            count(counters.published - counters.by_interval - counters.by_log),
            count(counters.abandoned),
            counters.failure.map_or(NULL, text),
            count(counters.pages),
            last.map_or(NULL, |last| count(last.pages)),
            last.map_or(NULL, |last| milliseconds(last.elapsed_ns)),
            count(atoll_kernel::base::PAGE_BYTES as u64),
            count(space.pages),
            count(space.used),
            count(space.dead),
            count(known.pinned.len() as u64),
            count(space.pinned),
            count(known.given_up),
            count(space.live()),
            Datum::Float8(space.amplification()),
            count(counters.moved),
            count(counters.returned * atoll_kernel::base::PAGE_BYTES as u64),
            known.archive.as_ref().map_or(NULL, |archive| count(archive.segments)),
            known.archive.as_ref().map_or(NULL, |archive| count(archive.checkpoint)),
            known.archive.and_then(|archive| archive.failure).map_or(NULL, text),
        ]
    }))
}

/// What is asked for counts as requested, and what the log's growth brought about, as PostgreSQL
/// counts it.
fn writer_rows<'a>(_: &'a CatalogView, session: &'a dyn FunctionContext) -> Rows<'a> {
    Box::new(session.checkpoints().into_iter().map(|known| {
        let counters = known.counters;
        vec![
            count(counters.by_interval),
            count(counters.published - counters.by_interval),
            milliseconds(counters.elapsed_ns - counters.sync_ns),
            milliseconds(counters.sync_ns),
            count(counters.pages),
            NULL, // buffers_clean
            NULL, // maxwritten_clean
            NULL, // buffers_backend
            NULL, // buffers_backend_fsync
            NULL, // buffers_alloc
            NULL, // stats_reset
        ]
    }))
}

fn cursor_rows<'a>(_: &'a CatalogView, session: &'a dyn FunctionContext) -> Rows<'a> {
    Box::new(session.cursors().into_iter().map(cursor_row))
}

fn cursor_row(cursor: CursorDescription) -> Vec<Datum> {
    vec![
        text(cursor.name),
        text(cursor.text),
        bool(cursor.is_holdable),
        bool(cursor.is_binary),
        bool(cursor.is_scrollable),
        Datum::Timestamptz(cursor.created),
    ]
}

fn setting_rows<'a>(_: &'a CatalogView, session: &'a dyn FunctionContext) -> Rows<'a> {
    Box::new(session.settings().into_iter().map(setting_row))
}

fn setting_row(setting: SettingDescription) -> Vec<Datum> {
    let optional = |value: Option<String>| value.map_or(NULL, text);
    let choices = setting.choices.iter().map(text).collect::<Vec<_>>();
    vec![
        text(setting.name),
        text(setting.value),
        setting.unit.map_or(NULL, text),
        NULL, // category
        NULL, // short_desc
        NULL, // extra_desc
        text(setting.context),
        text(setting.kind),
        text(setting.source),
        optional(setting.least),
        optional(setting.most),
        if choices.is_empty() { NULL } else { Array::of(TypeOid::TEXT, choices).into() },
        text(setting.boot),
        text(setting.reset),
        NULL, // sourcefile
        NULL, // sourceline
        bool(false),
    ]
}

fn activity_rows<'a>(_: &'a CatalogView, session: &'a dyn FunctionContext) -> Rows<'a> {
    let application = session.setting("application_name").unwrap_or_default();
    let statement = Datum::Timestamptz(session.statement_timestamp());
    let row = vec![
        oid(DATABASE_OID),
        Datum::Text(session.current_database()),
        int(session.backend_pid()),
        NULL, // leader_pid
        oid(OWNER_OID),
        Datum::Text(session.session_user()),
        Datum::Text(application),
        NULL, // client_addr
        NULL, // client_hostname
        NULL, // client_port
        NULL, // backend_start
        Datum::Timestamptz(session.transaction_timestamp()),
        statement.clone(),
        statement, // state_change
        NULL,      // wait_event_type
        NULL,      // wait_event
        text("active"),
        NULL, // backend_xid
        NULL, // backend_xmin
        NULL, // query_id
        NULL, // query
        text("client backend"),
    ];
    Box::new(std::iter::once(row))
}
