//! `atoll bench compare` and `atoll bench restart` as whole programs: tiny measurements beside PostgreSQL and
//! itself, and that nothing is written and nothing left running when one fails.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const ATOLL: &str = env!("CARGO_BIN_EXE_atoll");
const HEAD: &str = "# Benchmarks\n\nmeasured before\n";
/// Short runs of one client program on small tables.
const SHORT: [&str; 14] = [
    "--clients",
    "2",
    "--seconds",
    "1",
    "--warmup",
    "0",
    "--rounds",
    "1",
    "--scale",
    "1",
    "--memory",
    "256",
    "--workloads",
    "pgbench-simple-update",
];

/// A folder with a document and a place for servers, which another account may enter.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Desk {
        let desk = Desk(tempfile::tempdir().unwrap());
        let all_may_enter = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(desk.0.path(), all_may_enter).unwrap();
        std::fs::create_dir(desk.path("servers")).unwrap();
        std::fs::write(desk.path("doc.md"), HEAD).unwrap();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A comparison with these options; what is said twice counts the second time.
    fn command(&self, against: &str, more: &[&str]) -> Command {
        self.bench("compare", against, more)
    }

    fn bench(&self, benchmark: &str, against: &str, more: &[&str]) -> Command {
        let mut command = Command::new(ATOLL);
        command.args(["bench", benchmark, "--against", against]).args(more);
        command.arg("--folder").arg(self.path("servers"));
        command.arg("--output").arg(self.path("doc.md")).arg("--json").arg(self.path("all.json"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A program that says a version of Atoll's, and runs this script when it is to serve.
    fn script(&self, serve: &str) -> String {
        let path = self.path("server.sh");
        let text =
            format!("#!/bin/sh\n[ \"$1\" = --version ] && exec {ATOLL} --version\n{serve}\n");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        format!("atoll={}", path.display())
    }

    /// It failed with one line that holds this; nothing was written, nothing is left.
    fn failed(&self, output: &Output, expect: &str) {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && output.stdout.is_empty(), "{said}");
        let said: Vec<&str> = said.lines().filter(|it| !it.starts_with('*')).collect();
        assert!(said.len() == 1 && said[0].contains(expect), "\"{expect}\" is not in {said:?}");
        assert_eq!(std::fs::read_to_string(self.path("doc.md")).unwrap(), HEAD);
        assert!(!self.path("all.json").exists() && !self.path("plots").exists());
        self.is_left_alone();
    }

    /// No data, and no process that has its place here.
    fn is_left_alone(&self) {
        assert_eq!(self.path("servers").read_dir().unwrap().count(), 0);
        let place = self.path("servers").to_string_lossy().into_owned();
        for entry in Path::new("/proc").read_dir().unwrap().flatten() {
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            assert!(!command.contains(&place), "still there: {command}");
        }
    }
}

/// With pgbench, with our own driver, and with PostgreSQL, which .ci/setup has installed.
#[test]
fn a_comparison_is_measured_and_written() {
    let desk = Desk::new();
    let arguments = [&SHORT[..12], &["--workloads", "pgbench-simple-update,smallbank"]].concat();
    // Named from here, run in a folder of its own.
    let (folder, against) = (Path::new(ATOLL).parent().unwrap(), "postgres,atoll=./atoll");
    let output = desk.command(against, &arguments).current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}; is there no PostgreSQL? run .ci/setup tests");
    let json = std::fs::read_to_string(desk.path("all.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let (text, report) = (
        std::fs::read_to_string(desk.path("doc.md")).unwrap(),
        String::from_utf8(output.stdout).unwrap(),
    );
    assert!(text.starts_with(HEAD) && text.contains(report.trim_end()), "{text}");
    assert!(report.contains("bench compare --against postgres,atoll="), "{report}");
    assert_eq!(json["results"].as_array().unwrap().len(), 2);
    for result in json["results"].as_array().unwrap() {
        let name = result["workload"].as_str().unwrap();
        let picture = desk.path("plots").join(format!("compare-{name}.svg"));
        assert!(std::fs::read_to_string(picture).unwrap().ends_with("</svg>\n"));
        assert_eq!(result["series"].as_array().unwrap().len(), 3, "{result}");
        for series in result["series"].as_array().unwrap() {
            let number = |pointer: &str| series.pointer(pointer).unwrap().as_f64().unwrap();
            assert!(number("/tps/median") > 0.0, "{series}");
            let (p50, p99) = (number("/latency_us/p50"), number("/latency_us/p99"));
            assert!(p50 > 0.0 && p50 <= p99, "{series}");
            // Two clients in a closed loop: what they do in a second takes them two.
            let mean = number("/latency_us/mean") * number("/tps/median");
            assert!((1e6..3e6).contains(&mean), "{series}");
            assert!(number("/server_cpu_us_per_txn/median") > 0.0, "{series}");
            assert!(number("/client_cpu_us_per_txn") > 0.0, "{series}");
            let against = &series["subject_against_this"];
            let is_subject = series["server"] == json["servers"][0]["server"];
            assert_eq!(against.is_null(), is_subject, "{series}");
            assert!(is_subject || against["ceiling"].as_f64().unwrap() > 1.0, "{series}");
        }
    }
    assert!(json["servers"][1]["server"].as_str().unwrap().starts_with("PostgreSQL "));
    desk.is_left_alone();

    // Nothing is measured again that stands there.
    let all = desk.path("all.json").to_string_lossy().into_owned();
    let again = [&arguments[..], &["--from", &all]].concat();
    let output = desk.command(against, &again).current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains(": loading "), "{said}");
    assert!(said.contains("smallbank: taken from ") && said.contains("for 0 minutes"), "{said}");
    let again = std::fs::read_to_string(desk.path("all.json")).unwrap();
    let again: serde_json::Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["results"], json["results"]);
    let other = [&arguments[..], &["--from", &all, "--scale", "2"]].concat();
    let other = without_first(&other, "--scale");
    let output = desk.command(against, &other).current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("\"scale\" is 1, here 2"), "{said}");
}

#[test]
fn a_server_that_does_not_start_is_told_in_a_line() {
    let desk = Desk::new();
    let broken = desk.script("echo 'trying'; echo 'ERROR: no room for me' >&2; exit 3");
    let output = desk.command(&broken, &SHORT).output().unwrap();
    desk.failed(&output, "did not start: ERROR: no room for me");
}

#[test]
fn a_server_that_goes_away_ends_the_comparison() {
    let desk = Desk::new();
    // The subject is the first that is measured: it leaves in the middle of that.
    desk.script(&format!("exec timeout --signal KILL 6 {ATOLL} \"$@\""));
    let long = without_first(&[&SHORT[..], &["--seconds", "60"]].concat(), "--seconds");
    for more in [&[][..], &["--slice", "100"]] {
        let mut command = desk.command(&format!("atoll={ATOLL}"), &[&long, more].concat());
        let output = command.arg("--atoll").arg(desk.path("server.sh")).output().unwrap();
        desk.failed(&output, "Atoll 0.1.0 ended (");
    }
}

/// All servers are under way at once, and each is measured over the slices that were its own.
#[test]
fn servers_are_compared_in_slices() {
    let (desk, began) = (Desk::new(), std::time::Instant::now());
    let against = format!("postgres,atoll={ATOLL}");
    let more = ["--warmup", "1", "--rounds", "2", "--slice", "50"];
    let arguments = without_first(&[&SHORT[..], &more].concat(), "--warmup");
    let arguments = without_first(&arguments, "--rounds");
    let output = desk.command(&against, &arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}; is there no PostgreSQL? run .ci/setup tests");
    let took = began.elapsed().as_secs_f64();
    let report = String::from_utf8(output.stdout).unwrap().replace('\n', " ");
    assert!(report.contains("in slices of about 50 ms"), "{report}");
    assert!(!desk.path("plots").exists(), "a picture of latencies that are not told");
    let json = std::fs::read_to_string(desk.path("all.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["slice_ms"], 50);
    let series = json["results"][0]["series"].as_array().unwrap();
    assert_eq!(series.len(), 3, "{json}");
    let mut ran = 0.0;
    for round in series.iter().flat_map(|it| it["rounds"].as_array().unwrap()) {
        let number = |pointer: &str| round.pointer(pointer).unwrap().as_f64().unwrap();
        let own = number("/transactions") / number("/tps");
        // Its client was told to run for as long as the slices of all three come to.
        assert!(own > 0.3, "{round}");
        let clients = number("/latency_us/mean") * number("/tps") / 1e6;
        assert!((clients - 2.0).abs() < 0.01, "{round}");
        assert!(number("/server_cpu_seconds") > 0.0 && number("/client_cpu_seconds") > 0.0);
        let machine =
            ["busy", "idle", "stolen"].map(|it| number(&format!("/machine_seconds/{it}")));
        let processors = machine.iter().sum::<f64>() / own;
        let all = std::thread::available_parallelism().unwrap().get() as f64;
        assert!((0.7..1.5).contains(&(processors / all)), "{processors} of {all}: {round}");
        ran += own;
    }
    assert!(ran < took, "no two ran at once: {ran} s of {took}");
    desk.is_left_alone();
}

/// pgbench's arrivals and ours come at the rate that was asked for, not at what the servers can do.
#[test]
fn an_open_loop_is_compared() {
    let desk = Desk::new();
    let workloads = ["--workloads", "pgbench-simple-update,smallbank", "--rate", "200"];
    let arguments = [&SHORT[..12], &workloads].concat();
    let output = desk.command(&format!("atoll={ATOLL}"), &arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json = std::fs::read_to_string(desk.path("all.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["rate"], 200.0);
    for result in json["results"].as_array().unwrap() {
        for series in result["series"].as_array().unwrap() {
            // By Poisson's law 200 come in a second, give or take 14; a closed loop does thousands.
            let done = series.pointer("/rounds/0/transactions").unwrap().as_u64().unwrap();
            assert!((1..300).contains(&done), "{series}");
            assert!(series.pointer("/latency_us/p99").unwrap().as_f64().unwrap() > 0.0, "{series}");
        }
    }
    desk.is_left_alone();
}

/// Options may be given once only: leaves out the first of two, with its value.
fn without_first<'a>(arguments: &[&'a str], option: &str) -> Vec<&'a str> {
    let at = arguments.iter().position(|it| *it == option).unwrap();
    [&arguments[..at], &arguments[at + 2..]].concat()
}

#[test]
fn an_interrupted_load_leaves_nothing() {
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let desk = Desk::new();
        let large = without_first(&[&SHORT[..], &["--scale", "1000"]].concat(), "--scale");
        let mut child = desk.command(&format!("atoll={ATOLL}"), &large).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let is_loading = said.any(|line| line.unwrap().contains("loading"));
        assert!(is_loading);
        let id = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
        rustix::process::kill_process(id, signal).unwrap();
        let rest: Vec<String> = said.map_while(Result::ok).collect();
        let mut output = child.wait_with_output().unwrap();
        output.stderr = rest.join("\n").into_bytes();
        desk.failed(&output, "interrupted: no document was written");
    }
}

/// As long as what is documented, but of something else.
#[test]
fn only_a_comparison_of_the_same_takes_the_documented_ones_place() {
    for (against, workloads) in
        [(format!("atoll={ATOLL}"), "pgbench"), ("postgres".to_owned(), "smallbank,tatp")]
    {
        let desk = Desk::new();
        std::fs::write(desk.path("ARCHITECTURE.md"), "").unwrap();
        std::fs::create_dir(desk.path("docs")).unwrap();
        std::fs::write(desk.path("docs/benchmarks.md"), HEAD).unwrap();
        let mut command = Command::new(ATOLL);
        command.args(["bench", "compare", "--against", &against, "--workloads", workloads]);
        command.arg("--folder").arg(desk.path("servers")).current_dir(desk.0.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let until_loading: Vec<String> =
            said.by_ref().take_while(|line| !line.contains(": loading ")).collect();
        let id = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        said.for_each(drop);
        assert!(!child.wait().unwrap().success());
        let stays = |line: &String| line.contains("docs/benchmarks.md stays as it is");
        assert!(until_loading.iter().any(stays), "{until_loading:?}");
        assert_eq!(std::fs::read_to_string(desk.path("docs/benchmarks.md")).unwrap(), HEAD);
        desk.is_left_alone();
    }
}

#[test]
fn what_cannot_be_compared_is_refused_at_once() {
    let desk = Desk::new();
    let own = format!("atoll={ATOLL}");
    let tried = |against: &str, more: &[&str], expect: &str| {
        let output = desk.command(against, more).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && output.stdout.is_empty(), "{said}");
        assert!(said.lines().any(|line| line.contains(expect)), "\"{expect}\" is not in {said}");
        assert_eq!(std::fs::read_to_string(desk.path("doc.md")).unwrap(), HEAD);
        desk.is_left_alone();
    };
    tried("oracle", &[], "postgres-MAJOR");
    tried("postgres=/nonexistent", &[], "cannot ask /nonexistent/postgres for its version");
    tried("atoll=/bin/false", &[], "cannot ask /bin/false for its version");
    tried("postgres-9.1", &[], "add --install");
    tried(&own, &["--clients", "0"], "0 is not in 1..");
    tried(&own, &["--clients", "8,x"], "invalid value");
    tried(&own, &["--clients", "8,2,8"], "a number of clients is named twice");
    tried(&own, &["--seconds", "0"], "0 is not in 1..");
    tried(&own, &["--rounds", "0"], "0 is not in 1..");
    tried(&own, &["--workloads", "tpc-z"], "is none of");
    tried(&own, &["--rate", "0"], "the rate must be from");
    tried(&own, &["--slice", "5"], "5 is not in 10..");
    tried(&own, &["--slice", "100", "--rate", "100"], "cannot be used with");
    tried(&own, &["--slice", "100", "--workloads", "go-tpc,tpcc"], "slices are not for tpcc");
    let desk = Desk::new();
    std::fs::write(desk.path("doc.md"), "<!-- compare:begin -->\n").unwrap();
    let output = desk.command(&own, &SHORT).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("once each on lines of their own"), "{said}");
    desk.is_left_alone();
    // Before anything is measured.
    let desk = Desk::new();
    std::fs::create_dir(desk.path("all.json")).unwrap();
    let output = desk.command(&own, &SHORT).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("all.json: it is a folder"), "{said}");
    assert!(!said.contains("loading"), "{said}");
    let left = desk.0.path().read_dir().unwrap().count();
    assert_eq!(left, 3, "the document, the folder, and that of servers");
    desk.is_left_alone();
}

/// A measurement of starts of a few transactions each.
const FEW: [&str; 12] = [
    "--transactions",
    "40",
    "--clients",
    "3",
    "--scale",
    "1",
    "--rounds",
    "2",
    "--memory",
    "256",
    "--touch",
    "1",
];

#[test]
fn killed_servers_are_timed_to_their_first_answers() {
    let desk = Desk::new();
    let output = desk.bench("restart", "postgres", &FEW).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}; is there no PostgreSQL? run .ci/setup tests");
    let json = std::fs::read_to_string(desk.path("all.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let text = std::fs::read_to_string(desk.path("doc.md")).unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with(HEAD) && text.contains("<!-- restart:begin -->"), "{text}");
    assert!(text.contains(report.trim_end()), "{text}");
    let servers = json["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 2);
    for server in servers {
        // Three clients with fourteen each.
        assert_eq!(server["transactions"], 42, "{server}");
        assert!(server["log_bytes"].as_u64() > Some(0), "{server}");
        let rounds = server["rounds"].as_array().unwrap();
        assert_eq!(rounds.len(), 2, "{server}");
        for round in rounds {
            assert!(round["first_answer_seconds"].as_f64() > Some(0.0), "{server}");
            assert!(round["replay_seconds"].as_f64() >= Some(0.0), "{server}");
            assert!(!round["told"].as_array().unwrap().is_empty(), "{server}");
        }
    }
    assert!(servers[1]["server"].as_str().unwrap().starts_with("PostgreSQL "));
    assert!(servers[1]["subject_against_this"]["median"].as_f64() > Some(0.0), "{json}");
    desk.is_left_alone();
}

#[test]
fn starts_that_cannot_be_measured_leave_nothing() {
    let desk = Desk::new();
    let broken = desk.script("echo 'ERROR: no room for me' >&2; exit 3");
    let output = desk.bench("restart", &broken, &FEW).output().unwrap();
    desk.failed(&output, "did not start: ERROR: no room for me");

    let own = format!("atoll={ATOLL}");
    let tried = |more: &[&str], expect: &str| {
        let output = desk.bench("restart", &own, more).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(expect), "\"{expect}\" is not in {said}");
        desk.is_left_alone();
    };
    tried(&["--transactions", "0"], "0 is not in 1..");
    tried(&["--rounds", "0"], "0 is not in 1..");
    tried(&["--touch", "16000000"], "a smaller --touch");
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks.md");
    let mut short = Command::new(ATOLL);
    short.args(["bench", "restart", "--against", &own]).args(FEW).arg("--output").arg(document);
    let output = short.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("takes no figures of less"), "{said}");
}
