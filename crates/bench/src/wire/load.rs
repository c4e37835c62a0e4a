//! The four tables of pgbench, made and filled as `pgbench -i` does, with progress.

use std::io::Write;
use std::time::{Duration, Instant};

use postgres::Client;

use super::{Result, message};

const TABLES: &str = "
drop table if exists pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers;
create table pgbench_history(tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
create table pgbench_tellers(tid int not null, bid int, tbalance int, filler char(84)) with (fillfactor=100);
create table pgbench_accounts(aid int not null, bid int, abalance int, filler char(84)) with (fillfactor=100);
create table pgbench_branches(bid int not null, bbalance int, filler char(88)) with (fillfactor=100);
";

const KEYS: &str = "
alter table pgbench_branches add primary key (bid);
alter table pgbench_tellers add primary key (tid);
alter table pgbench_accounts add primary key (aid);
";

/// Rows of pgbench_accounts at scale 1.
pub const ACCOUNTS: u64 = 100_000;
/// Rows of pgbench_tellers at scale 1.
pub const TELLERS: u64 = 10;

/// Makes the tables at `scale`; `progress` gets (rows loaded, rows in all) now and then.
pub fn load(client: &mut Client, scale: u64, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
    let failed = |error: postgres::Error| format!("loading: {}", message(&error));
    client.batch_execute(TABLES).map_err(failed)?;
    let mut transaction = client.transaction().map_err(failed)?;
    transaction
        .batch_execute(
            "truncate table pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers",
        )
        .map_err(failed)?;
    let branches = (1..=scale).map(|bid| format!("{bid}\t0\t\n"));
    copy(&mut transaction, "pgbench_branches", branches, &mut |_| ())?;
    let tellers =
        (0..scale * TELLERS).map(|tid| format!("{}\t{}\t0\t\n", tid + 1, tid / TELLERS + 1));
    copy(&mut transaction, "pgbench_tellers", tellers, &mut |_| ())?;
    let all = scale * ACCOUNTS;
    let accounts = (0..all).map(|aid| format!("{}\t{}\t0\t\n", aid + 1, aid / ACCOUNTS + 1));
    copy(&mut transaction, "pgbench_accounts", accounts, &mut |rows| progress(rows, all))?;
    transaction.commit().map_err(failed)?;
    client.batch_execute("vacuum analyze").map_err(failed)?;
    client.batch_execute(KEYS).map_err(failed)
}

fn copy(
    transaction: &mut postgres::Transaction<'_>,
    table: &str,
    rows: impl Iterator<Item = String>,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let statement = format!("copy {table} from stdin with (freeze on)");
    let mut writer = transaction
        .copy_in(&statement)
        .map_err(|error| format!("copy into {table}: {}", message(&error)))?;
    let (mut loaded, mut said) = (0, Instant::now());
    for row in rows {
        writer.write_all(row.as_bytes()).map_err(|error| format!("copy into {table}: {error}"))?;
        loaded += 1;
        if said.elapsed() > Duration::from_millis(200) {
            said = Instant::now();
            progress(loaded);
        }
    }
    writer.finish().map_err(|error| format!("copy into {table}: {}", message(&error)))?;
    progress(loaded);
    Ok(())
}
