//! CHECKPOINT, its settings and what is shown of checkpoints.

use super::*;
use atoll_kernel::io::{Disk, IoChoice, MemoryDisk};

/// Runs `work` with a session of what is on `disk`, with checkpoints on request only.
fn on_disk(disk: &Arc<dyn Disk>, work: impl FnOnce(&Context, &mut Session) + Send) -> Database {
    let options = Options {
        instances: Instances::Count(1),
        buffer_pool_bytes: 64 << 20,
        undo_bytes: 16 << 20,
        log_segment_bytes: 8 << 20,
        checkpoint_interval_ms: 0,
        checkpoint_wal_bytes: 0,
        ..Options::default()
    };
    let database = Database::open_on(disk.clone(), options, &mut |_| ()).unwrap();
    let engine = Engine::new(&database);
    let ran = database.run(Target::Any, |context| {
        let mut session = Session::new(&Local::new(&engine), context.instance(), start()).unwrap();
        work(context, &mut session);
        session.settle(context).unwrap();
        session.end(context);
    });
    ran.unwrap();
    database.close().unwrap();
    database
}

/// The rows and tags of an answer.
fn rows(context: &Context, session: &mut Session, text: &str) -> String {
    let said = say(context, session, text).into_iter().filter(|line| !is_description(line));
    said.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_checkpoint_answers_where_postgresql_answers() {
    check(&[
        ("checkpoint", "CHECKPOINT"),
        ("checkpoint; checkpoint", "CHECKPOINT\nCHECKPOINT"),
        ("begin; checkpoint; commit", "BEGIN\nCHECKPOINT\nCOMMIT"),
        ("begin read only; checkpoint; commit", "BEGIN\nCHECKPOINT\nCOMMIT"),
        ("begin; select 1/0", "BEGIN\nERROR 22012: division by zero"),
        (
            "checkpoint",
            "ERROR 25P02: current transaction is aborted, commands ignored until end of transaction block",
        ),
        ("rollback", "ROLLBACK"),
        ("checkpoint now", "ERROR 42601: syntax error at or near \"now\" @12"),
        (
            "call atoll_backup('x')",
            "ERROR 42602: relative path not allowed for a backup on the server",
        ),
        (
            "begin; call atoll_backup('/tmp/x'); commit",
            "BEGIN\nERROR 25001: CALL atoll_backup cannot run inside a transaction block",
        ),
        ("rollback", "ROLLBACK"),
        ("call atoll_backup('/tmp/x')", "ERROR 55000: a database in memory has no files to copy"),
        (
            "call atoll_backup('/tmp/x', 1)",
            "ERROR 42601: atoll_backup takes one argument, a directory as a constant",
        ),
        (
            "call other()",
            "ERROR 0A000: CALL of another procedure than atoll_backup is not supported",
        ),
        // In memory there is nothing to tell.
        ("select count(*) from atoll_checkpoints", "0\nSELECT 1"),
        ("select count(*) from pg_stat_bgwriter", "0\nSELECT 1"),
        (
            "select home, pages_max > pages_free, pages_free > 0, pages_loaded, pages_loaded_blocking, pages_evicted, pages_written, evictions_awaited, undo_bytes > 0, inner_nodes_loaded, inner_nodes_evicted from atoll_memory where home = 0",
            "0|t|t|0|0|0|0|0|t|0|0\nSELECT 1",
        ),
    ]);
}

#[test]
fn a_restart_after_it_replays_only_what_came_later() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new(IoChoice::Threads));
    let shown = "select newest, is_running, published, by_request, abandoned, abandoned_because, \
                 pages_written > 0, last_pages > 0, last_ms > 0, pages_used > 0 and pages_on_disk >= pages_used \
                 and pages_dead < pages_used, page_bytes, \
                 pages_live >= pages_used - pages_dead, space_amplification >= 1, pages_moved, bytes_returned from atoll_checkpoints";
    let bytes = atoll_kernel::base::PAGE_BYTES;
    on_disk(&disk, |context, session| {
        let none = format!("NULL|f|0|0|0|NULL|f|NULL|NULL|f|{bytes}|t|t|0|0\nSELECT 1");
        assert_eq!(rows(context, session, shown), none);
        let setup = "create table t (a int primary key, b text); create sequence s";
        say(context, session, setup);
        for at in 0..50 {
            say(context, session, &format!("insert into t values ({at}, 'v{at}')"));
        }
        assert_eq!(rows(context, session, "select nextval('s')"), "1\nSELECT 1");
        // What is open is not in it, and does not keep it from being made.
        say(context, session, "begin; delete from t; create table u (a int)");
        assert_eq!(say(context, session, "checkpoint"), ["CHECKPOINT"]);
        say(context, session, "rollback");
        let one = format!("1|f|1|1|0|NULL|t|t|t|t|{bytes}|t|t|0|0\nSELECT 1");
        assert_eq!(rows(context, session, shown), one);
        let writer = "select checkpoints_timed, checkpoints_req, checkpoint_write_time > 0, \
                      checkpoint_sync_time >= 0, buffers_checkpoint > 0, buffers_clean from pg_stat_bgwriter";
        assert_eq!(rows(context, session, writer), "0|1|t|t|t|NULL\nSELECT 1");
        say(context, session, "insert into t values (100, 'later')");
    });
    let database = on_disk(&disk, |context, session| {
        let found = rows(context, session, "select count(*), max(b) from t");
        assert_eq!(found, "51|v9\nSELECT 1");
        assert_eq!(rows(context, session, "select b from t where a = 100"), "later\nSELECT 1");
        assert_eq!(rows(context, session, "select nextval('s') > 1"), "t\nSELECT 1");
        let gone = rows(context, session, "select * from u");
        assert!(gone.contains("42P01"), "{gone}");
        // Known from the start on, though not made by this process.
        assert_eq!(
            rows(context, session, "select newest, published from atoll_checkpoints"),
            "1|0\nSELECT 1"
        );
    });
    let report = database.recovery();
    assert!(report.pages > 0 && (1..10).contains(&report.commits), "{report:?}");
}

#[test]
fn its_settings_are_shown_and_set_where_the_server_is_started() {
    check(&[
        ("show checkpoint_interval", "1min\nSHOW"),
        ("show CHECKPOINT_WAL", "1GB\nSHOW"),
        ("select current_setting('checkpoint_wal')", "1GB\nSELECT 1"),
        ("show archive_directory", "\nSHOW"),
        (
            "select setting, context, vartype, source from pg_settings where name = 'archive_directory'",
            "|postmaster|string|default\nSELECT 1",
        ),
        (
            "set archive_directory = '/elsewhere'",
            "ERROR 55P02: parameter \"archive_directory\" cannot be changed without restarting the server",
        ),
        (
            "select name, setting, unit, context, vartype, source, min_val, boot_val, reset_val from pg_settings where name like 'checkpoint%' order by 1",
            "checkpoint_interval|60000|ms|postmaster|integer|default|0|60000|60000\ncheckpoint_pin_limit|0|kB|postmaster|integer|default|0|0|0\ncheckpoint_wal|1048576|kB|postmaster|integer|default|0|1048576|1048576\nSELECT 3",
        ),
        (
            "set checkpoint_interval = '5s'",
            "ERROR 55P02: parameter \"checkpoint_interval\" cannot be changed without restarting the server",
        ),
        (
            "reset checkpoint_wal",
            "ERROR 55P02: parameter \"checkpoint_wal\" cannot be changed without restarting the server",
        ),
        ("reset all; show checkpoint_interval", "RESET\n1min\nSHOW"),
    ]);
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new(IoChoice::Threads));
    on_disk(&disk, |context, session| {
        assert_eq!(rows(context, session, "show checkpoint_interval"), "0\nSHOW");
        say(context, session, "reset all");
        let told = "select setting, source from pg_settings where name = 'checkpoint_wal'";
        assert_eq!(rows(context, session, told), "0|override\nSELECT 1");
    });
}

#[test]
fn a_checkpoint_is_read_while_everything_changes() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new(IoChoice::Threads));
    let script = [
        ("create table t (id int primary key, v text)", "CREATE TABLE"),
        ("insert into t select n, 'old' from generate_series(1, 1000) n", "INSERT 0 1000"),
        ("set atoll.read_from = 'checkpoint'", "SET"),
        ("select 1 from t", "ERROR 55000: a checkpoint does not exist, or is not kept any more"),
        ("set atoll.read_from = 'current'", "SET"),
        ("checkpoint", "CHECKPOINT"),
        ("update t set v = 'new' where id % 2 = 0", "UPDATE 500"),
        ("delete from t where id > 900", "DELETE 100"),
        ("create table later (x int)", "CREATE TABLE"),
        ("alter table t rename column v to w", "ALTER TABLE"),
        ("select count(*), count(*) filter (where w = 'old') from t", "900|450\nSELECT 1"),
        ("set atoll.read_from = 'checkpoint'", "SET"),
        ("show atoll.read_from", "checkpoint\nSHOW"),
        ("select count(*), count(*) filter (where v = 'old') from t", "1000|1000\nSELECT 1"),
        ("select v from t where id = 950", "old\nSELECT 1"),
        ("select w from t", "ERROR 42703: column \"w\" does not exist @8"),
        ("select * from later", "ERROR 42P01: relation \"later\" does not exist @15"),
        ("select count(*) from pg_class where relname in ('t', 'later')", "1\nSELECT 1"),
        (
            "insert into t values (5000, 'x')",
            "ERROR 25006: cannot execute INSERT in a read-only transaction",
        ),
        ("begin; select count(*) from t", "BEGIN\n1000\nSELECT 1"),
        (
            "set atoll.read_from = 'current'",
            "ERROR 25001: \"atoll.read_from\" must be set before any query of the transaction",
        ),
        ("rollback", "ROLLBACK"),
        (
            "begin; set local atoll.read_from = 'current'; select count(*) from t; commit",
            "BEGIN\nSET\n900\nSELECT 1\nCOMMIT",
        ),
        (
            "begin isolation level repeatable read; select count(*) from t; show transaction_read_only; commit",
            "BEGIN\n1000\nSELECT 1\non\nSHOW\nCOMMIT",
        ),
        (
            "begin; set transaction read write",
            "BEGIN\nERROR 25001: cannot set transaction read-write mode while a checkpoint is read",
        ),
        ("rollback", "ROLLBACK"),
        // The newest one, at each beginning.
        ("checkpoint", "CHECKPOINT"),
        ("select count(*), max(w) from t", "900|old\nSELECT 1"),
        ("set atoll.read_from = 1", "SET"),
        ("select 1 from t", "ERROR 55000: checkpoint 1 does not exist, or is not kept any more"),
        ("set atoll.read_from = 2", "SET"),
        ("select count(*) from t", "900\nSELECT 1"),
        ("select count(*) from later", "0\nSELECT 1"),
        (
            "set atoll.read_from = 'yesterday'",
            "ERROR 22023: invalid value for parameter \"atoll.read_from\": \"yesterday\"",
        ),
        ("reset atoll.read_from", "RESET"),
        ("insert into later values (1)", "INSERT 0 1"),
    ];
    on_disk(&disk, |context, session| {
        for (text, expected) in script {
            assert_eq!(rows(context, session, text), expected, "{text}");
        }
    });
}
