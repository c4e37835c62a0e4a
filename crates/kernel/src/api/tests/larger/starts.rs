//! Starts in a pool that what the log changes does not fit.

use super::*;

/// Changed pages cannot leave memory, so replay does not fit: the start fails, soon, and has changed nothing.
/// (That a step does not evict what it has just loaded for ever is `buffer::again`'s, by chance met here.)
#[test]
fn a_start_on_a_disk_that_takes_no_page_ends() {
    const ROWS: i64 = 7_000;
    let disk = SimDisk::new(SimOptions::seeded(11));
    let open = |pool_bytes: u64| {
        let options = Options { buffer_pool_bytes: pool_bytes, ..by_hand() };
        Database::open_on(Arc::new(disk.clone()), options, &mut |_| ())
    };
    let database = open(64 << 20).expect("it opens");
    let table = make_padded(&database);
    // Everywhere in the index, so that replay splits leaves everywhere.
    for first in (0..ROWS).step_by(500) {
        let put_some = |statement: &mut Statement<'_>| {
            (first..first + 500)
                .try_for_each(|at| put(statement, table, at * 4_001 % ROWS).map(drop))
        };
        transact(&database, Isolation::ReadCommitted, put_some).expect("there is room");
    }
    database.close().unwrap();
    drop(database);

    // Some of what is in memory when the disk takes no more may be on it as it is, or nothing.
    let mut refused = 0;
    for after in [0, 50, 100] {
        let (on, errno) = (FaultOn::Write, libc::EIO);
        disk.inject(Fault { on, name_contains: "pages", after, times: u64::MAX, errno });
        match open(1 << 20) {
            Err(Error::OutOfMemory { .. } | Error::Io { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
            Ok(database) => drop(database),
        }
        disk.heal();
    }
    assert!(refused > 0, "{refused}");

    let database = open(1 << 20).expect("it is as it was");
    assert_eq!(balances(&database, table), vec![0; ROWS as usize]);
    database.close().unwrap();
}
