//! PostgreSQL's own programs against the server: psql and pgbench, unmodified.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::Scratch;

/// What `pgbench` says of itself at the end of a run that went well.
fn processed(text: &str) -> u64 {
    let line = text.lines().find(|line| line.contains("number of transactions actually processed"));
    let line = line.unwrap_or_else(|| panic!("no transactions in {text}"));
    let digits = line.rsplit(": ").next().unwrap().split('/').next().unwrap();
    digits.trim().parse().unwrap()
}

#[test]
fn psql_describes_tables_indexes_and_databases() {
    let scratch = Scratch::new();
    scratch.succeeds(
        "psql",
        &["-c", "create table t (a int primary key, b varchar(10) not null default 'x')"],
    );
    scratch.succeeds("psql", &["-c", "create index t_b on t (b)"]);
    scratch.succeeds("psql", &["-c", "insert into t values (1, 'one'), (2, 'two')"]);
    let rows = scratch.succeeds("psql", &["-Atc", "select * from t order by a"]);
    assert_eq!(rows, "1|one\n2|two\n");
    let described = scratch.succeeds("psql", &["-c", "\\d t"]);
    for part in [
        "Table \"public.t\"",
        "character varying(10)",
        "'x'::character varying",
        "\"t_pkey\" PRIMARY KEY, btree (a)",
        "\"t_b\" btree (b)",
    ] {
        assert!(described.contains(part), "no {part} in {described}");
    }
    let tables = scratch.succeeds("psql", &["-Atc", "\\dt"]);
    assert_eq!(tables, "public|t|table|postgres\n");
    let indexes = scratch.succeeds("psql", &["-Atc", "\\di"]);
    assert_eq!(indexes, "public|t_b|index|postgres|t\npublic|t_pkey|index|postgres|t\n");
    scratch.succeeds("psql", &["-c", "create sequence s increment by 5 maxvalue 500"]);
    scratch.succeeds("psql", &["-c", "create table u (id serial, n bigint)"]);
    let sequences = scratch.succeeds("psql", &["-Atc", "\\ds"]);
    assert_eq!(sequences, "public|s|sequence|postgres\npublic|u_id_seq|sequence|postgres\n");
    let described = scratch.succeeds("psql", &["-Atc", "\\d s"]);
    assert_eq!(described, "bigint|1|1|500|5|no|1\n");
    let owned = scratch.succeeds("psql", &["-c", "\\d u_id_seq"]);
    assert!(owned.contains("Sequence \"public.u_id_seq\""), "{owned}");
    assert!(owned.contains("Owned by: public.u.id"), "{owned}");
    assert_eq!(scratch.succeeds("psql", &["-Atc", "table s"]), "1|0|f\n");
    assert!(scratch.succeeds("psql", &["-Atc", "\\l"]).contains("postgres|postgres|UTF8"));
    let info = scratch.succeeds("psql", &["-c", "\\conninfo"]);
    assert!(info.contains("connected to database \"postgres\" as user \"postgres\""), "{info}");
    assert!(scratch.succeeds("psql", &["-c", "\\d"]).contains("List of relations"));
}

#[test]
fn mistakes_have_their_codes_and_places() {
    let scratch = Scratch::new();
    let told = |statement: &str| {
        let arguments = ["-v", "VERBOSITY=verbose", "-c", statement];
        let output = scratch.client("psql", &arguments);
        assert!(!output.status.success(), "{statement}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (statement, code) in [
        ("selec 1", "42601"),
        ("select * from nowhere", "42P01"),
        ("create table t (a nosuchtype)", "42704"),
        ("select nosuchfunction(1)", "42883"),
        ("create view v as select 1", "0A000"),
        ("savepoint a", "25P01"),
        ("create rule r as on insert to t do nothing", "0A000"),
        ("begin isolation level serializable", "0A000"),
        ("select 1/0", "22012"),
        ("select 'x'::int", "22P02"),
    ] {
        let text = told(statement);
        assert!(text.contains(code), "{statement}: {text}");
    }
    assert!(told("select nosuchcolumn").contains("LINE 1: select nosuchcolumn"));
}

#[test]
fn pgbench_loads_and_runs_its_scripts_in_all_protocols() {
    let scratch = Scratch::new();
    let loaded = scratch.succeeds("pgbench", &["-i", "-s", "1", "-q"]);
    assert!(loaded.contains("done in"), "{loaded}");
    scratch.succeeds("pgbench", &["-i", "-s", "1", "-q", "-I", "dtGvp"]);
    for protocol in ["simple", "extended", "prepared"] {
        for script in ["tpcb-like", "simple-update", "select-only"] {
            let arguments = ["-M", protocol, "-b", script, "-c", "4", "-j", "2", "-t", "25", "-n"];
            let text = scratch.succeeds("pgbench", &arguments);
            assert_eq!(processed(&text), 100, "{protocol} {script}: {text}");
        }
    }
    // Afresh, because simple-update changes accounts only; with its own vacuum and the query for
    // partitions.
    scratch.succeeds("pgbench", &["-i", "-s", "1", "-q"]);
    scratch.succeeds("pgbench", &["-c", "2", "-t", "10"]);
    let sums = "select (select sum(abalance) from pgbench_accounts) = \
                (select sum(bbalance) from pgbench_branches), \
                (select count(*) from pgbench_accounts)";
    assert_eq!(scratch.succeeds("psql", &["-Atc", sums]), "t|100000\n");
}

#[test]
fn copy_goes_both_ways() {
    let scratch = Scratch::new();
    let mut client = scratch.connect();
    client.batch_execute("create table t (a int, b text)").unwrap();
    let mut writer = client.copy_in("copy t from stdin with (format csv)").unwrap();
    std::io::Write::write_all(&mut writer, b"1,\"a,b\"\n2,\n").unwrap();
    assert_eq!(writer.finish().unwrap(), 2);
    let out = scratch.succeeds("psql", &["-c", "copy t to stdout"]);
    assert_eq!(out, "1\ta,b\n2\t\\N\n");
}
