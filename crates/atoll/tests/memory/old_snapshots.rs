//! Snapshots that hold back too much undo, through the wire (rule 6.9).

use std::sync::Arc;

use crate::common::embedded::Embedded;
use atoll_kernel::io::IoChoice;
use atoll_kernel::io::MemoryDisk;
use atoll_server::SqlBackend;
use postgres::error::SqlState;

const ROWS: i64 = 500;

fn sum(client: &mut postgres::Client) -> Result<i64, postgres::Error> {
    client.query_one("select sum(v)::int8 from t", &[]).map(|row| row.get(0))
}

#[test]
fn an_old_snapshot_ends_with_72000_and_writers_go_on() {
    let disk = Arc::new(MemoryDisk::new(IoChoice::Auto));
    let server = Embedded::serve_with::<SqlBackend>(disk, 2 << 20);
    let (mut writer, mut old, mut idle) = (server.connect(), server.connect(), server.connect());
    let fill = format!(
        "create table t (id int primary key, v int8);
         insert into t select g, 1 from generate_series(1, {ROWS}) g"
    );
    writer.batch_execute(&fill).unwrap();
    old.batch_execute("begin isolation level repeatable read").unwrap();
    idle.batch_execute("begin").unwrap();
    assert_eq!(sum(&mut old).unwrap(), ROWS);
    assert_eq!(sum(&mut idle).unwrap(), ROWS);
    let mut written = 0;
    let refused = loop {
        // It never fails, though it writes many times the undo that there is.
        writer.batch_execute("update t set v = v + 1").unwrap();
        written += 1;
        match sum(&mut old) {
            Ok(seen) => assert_eq!(seen, ROWS, "after {written} rounds"),
            Err(error) => break error,
        }
        assert!(written < 10_000, "the old snapshot is ended at some time");
    };
    assert_eq!(refused.code(), Some(&SqlState::from_code("72000")));
    assert_eq!(refused.as_db_error().unwrap().message(), "snapshot too old");
    // As after any error: the block is over, the session goes on.
    let failed = sum(&mut old).unwrap_err();
    assert_eq!(failed.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
    old.batch_execute("rollback; begin isolation level repeatable read").unwrap();
    assert_eq!(sum(&mut old).unwrap(), ROWS * (1 + written));
    // Read committed has no snapshot between its statements.
    assert_eq!(sum(&mut idle).unwrap(), ROWS * (1 + written));
    idle.batch_execute("commit").unwrap();
    drop((writer, old, idle));
    server.close();
}
