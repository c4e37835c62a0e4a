//! pgbench's transactions, each with a number of its own: TPC-B's changes, a row of a journal, and a
//! row of its client's that says which one was the last.
//!
//! Invariants: a client's transactions have the numbers 1, 2, 3, ... of its life; pgbench's log has those
//! that it was told of, written by pgbench, which outlives the server. What was found after a kill
//! must be found for ever, whether its answer came or not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use postgres::GenericClient;

use crate::CLIENTS;
use crate::common::Scratch;

const TABLES: &str = "
create table journal (life int, client int, sequence int, tid int, bid int, aid int, delta int,
    primary key (life, client, sequence));
create table latest (client int primary key, life int, sequence int);
insert into latest select g, 0, 0 from generate_series(0, 3) g;
";

/// pgbench's own transaction, and its number.
const SCRIPT: &str = r"
\set sequence :sequence + 1
\set aid random(1, 100000)
\set bid 1
\set tid random(1, 10)
\set delta random(-5000, 5000)
begin;
update pgbench_accounts set abalance = abalance + :delta where aid = :aid;
select abalance from pgbench_accounts where aid = :aid;
update pgbench_tellers set tbalance = tbalance + :delta where tid = :tid;
update pgbench_branches set bbalance = bbalance + :delta where bid = :bid;
insert into pgbench_history (tid, bid, aid, delta, mtime)
    values (:tid, :bid, :aid, :delta, current_timestamp);
update latest set life = :life, sequence = :sequence where client = :client_id;
insert into journal values (:life, :client_id, :sequence, :tid, :bid, :aid, :delta);
end;
";

/// What is there of more than one table if transactions are there whole: each answers 0.
const WHOLE: [(&str, &str); 6] = [
    (
        "rows of the journal without one of history",
        "select count(*) from (select tid, bid, aid, delta from journal
            except all select tid, bid, aid, delta from pgbench_history) x",
    ),
    (
        "rows of history without one of the journal",
        "select count(*) from (select tid, bid, aid, delta from pgbench_history
            except all select tid, bid, aid, delta from journal) x",
    ),
    (
        "accounts that are not what the journal says",
        "select count(*) from pgbench_accounts a left join
            (select aid, sum(delta) as delta from journal group by aid) j on j.aid = a.aid
            where a.abalance <> coalesce(j.delta, 0)",
    ),
    (
        "tellers that are not what the journal says",
        "select count(*) from pgbench_tellers t left join
            (select tid, sum(delta) as delta from journal group by tid) j on j.tid = t.tid
            where t.tbalance <> coalesce(j.delta, 0)",
    ),
    (
        "branches that are not what the journal says",
        "select count(*) from pgbench_branches b left join
            (select bid, sum(delta) as delta from journal group by bid) j on j.bid = b.bid
            where b.bbalance <> coalesce(j.delta, 0)",
    ),
    (
        "clients whose last transaction is another",
        "select count(*) from latest l left join
            (select client, max(life * 10000000::int8 + sequence) as last from journal group by client) j
            on j.client = l.client
            where l.life * 10000000::int8 + l.sequence <> coalesce(j.last, 0)",
    ),
];

/// A client in a life.
type Who = (i32, i32);

pub struct Journal {
    folder: PathBuf,
    /// How many transactions of each were found after its life, those among them whose answer did
    /// not come.
    found: BTreeMap<Who, i32>,
}

impl Journal {
    /// Makes all tables.
    pub fn new(scratch: &Scratch) -> Journal {
        scratch.succeeds("pgbench", &["-i", "-s", "1", "-q"]);
        scratch.connect().batch_execute(TABLES).unwrap();
        let folder = scratch.folder.path().join("pgbench");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("script"), SCRIPT).unwrap();
        Journal { folder, found: BTreeMap::new() }
    }

    /// pgbench's load, until it has done so much (`-T` seconds, `-t` transactions) or its server goes.
    pub fn load(&self, scratch: &Scratch, life: i32, until: [&str; 2]) -> Child {
        let logs = self.logs(life);
        std::fs::create_dir(&logs).unwrap();
        let mut command = Command::new("pgbench");
        command.args(["-n", "-c", CLIENTS, "-j", "2", "-s", "1"]).args(until);
        command.arg("-f").arg(self.folder.join("script"));
        command.args(["-D", "sequence=0", "-D", &format!("life={life}")]);
        command.args(["-l", "--log-prefix"]).arg(logs.join("log"));
        command.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &scratch.port().to_string()]);
        command.arg("postgres").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap_or_else(|error| panic!("pgbench: {error}; run .ci/setup"))
    }

    fn logs(&self, life: i32) -> PathBuf {
        self.folder.join(life.to_string())
    }

    /// How many transactions each client was told of in a life, by pgbench's logs.
    pub fn told(&self, life: i32) -> BTreeMap<Who, i32> {
        let clients: i32 = CLIENTS.parse().unwrap();
        let mut told: BTreeMap<Who, i32> = (0..clients).map(|it| ((life, it), 0)).collect();
        for file in std::fs::read_dir(self.logs(life)).unwrap() {
            of_log(&file.unwrap().path(), life, &mut told);
        }
        told
    }

    /// Whether the tables have every transaction that was acknowledged in this life, at most one a
    /// client besides, and of earlier lives what was found before; each whole. Answers how many are
    /// there of all lives.
    pub fn verify<C: GenericClient>(&mut self, client: &mut C, life: i32) -> Result<usize, String> {
        let rows = client.query("select life, client, sequence from journal", &[]).unwrap();
        let there = rows.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect();
        let now = judge(&there, &self.found, &self.told(life))?;
        for (what, question) in WHOLE {
            let count: i64 = client.query_one(question, &[]).unwrap().get(0);
            if count > 0 {
                return Err(format!("{count} {what}"));
            }
        }
        self.found = now;
        Ok(there.len())
    }
}

/// The transactions of a log: "client number microseconds ...", in each client's order.
fn of_log(file: &Path, life: i32, told: &mut BTreeMap<Who, i32>) {
    let text = std::fs::read_to_string(file).unwrap();
    for line in text.lines() {
        let mut words = line.split(' ');
        let mut number = || words.next().and_then(|word| word.parse::<i32>().ok());
        let (client, number, took) = (number(), number(), number());
        assert!(took.is_some(), "it did not end well: {line}");
        let told = told.get_mut(&(life, client.unwrap())).unwrap();
        *told += 1;
        assert_eq!(number, Some(*told), "not the client's next: {line}");
    }
}

/// Compares the journal with what was found after earlier lives and what was acknowledged in this
/// one. Answers what has been found now, or names what is lost or nobody has asked for.
pub fn judge(
    there: &BTreeSet<(Who, i32)>,
    found: &BTreeMap<Who, i32>,
    told: &BTreeMap<Who, i32>,
) -> Result<BTreeMap<Who, i32>, String> {
    let mut now: BTreeMap<Who, i32> = found.clone();
    for (who, told) in told {
        // The one that it had asked for when the server went.
        let unanswered = i32::from(there.contains(&(*who, told + 1)));
        now.insert(*who, told + unanswered);
    }
    let all = now.iter().flat_map(|(who, count)| (1..=*count).map(|number| (*who, number)));
    let all: BTreeSet<(Who, i32)> = all.collect();
    let names = |them: &mut dyn Iterator<Item = &(Who, i32)>| {
        let name = |((life, client), number): &(Who, i32)| format!("{life}/{client}/{number}");
        them.map(name).collect::<Vec<String>>().join(", ")
    };
    let lost = names(&mut all.difference(there));
    let strange = names(&mut there.difference(&all));
    if lost.is_empty() && strange.is_empty() {
        return Ok(now);
    }
    Err(format!("life/client/number: lost [{lost}], never asked for [{strange}]"))
}
