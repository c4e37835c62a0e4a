//! Directories and backups that earlier builds have written are read: tests/fixtures has one of each
//! format version that this build takes, with what it must answer.
//!
//! Who changes a format makes the next one: `ATOLL_FIXTURE=VERSION cargo test -p atoll --test formats`
//! writes tests/fixtures/VERSION instead of testing, and older folders go when their version does. The
//! directory was left by a crash, behind a checkpoint, so pages, catalog, manifest and log are in it.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;
mod contents;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Scratch, atoll};
use contents::{BEFORE_THE_CHECKPOINT, BEHIND_IT, QUESTIONS};
use postgres::{Client, SimpleQueryMessage};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

fn answers(client: &mut Client) -> String {
    let mut text = String::new();
    for question in QUESTIONS {
        text.push_str(&format!("-- {question}\n"));
        for message in client.simple_query(question).unwrap() {
            let SimpleQueryMessage::Row(row) = message else { continue };
            let values = (0..row.len()).map(|at| row.get(at).unwrap_or("(null)"));
            text.push_str(&values.collect::<Vec<_>>().join(" | "));
            text.push('\n');
        }
    }
    text
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_atoll"))
}

fn serve(scratch: &mut Scratch) -> Client {
    let mut command = atoll(&scratch.data());
    command.args(["--listen", "127.0.0.1:0", "--log-segment", "4MB", "--supervise", "off"]);
    command.args(["--checkpoint-interval", "0", "--checkpoint-wal", "0"]);
    scratch.start_with(command);
    scratch.connect()
}

fn write_fixture(version: &str) {
    let folder = fixtures().join(version);
    fs::create_dir_all(&folder).unwrap();
    let mut scratch = Scratch::without_server();
    let mut client = serve(&mut scratch);
    let (backup, url) =
        (scratch.folder.path().join("backup"), format!("127.0.0.1:{}", scratch.port()));
    client.batch_execute(BEFORE_THE_CHECKPOINT).unwrap();
    client.batch_execute("checkpoint").unwrap();
    run(program()
        .arg("backup")
        .arg(&backup)
        .args(["--url", &format!("postgres://postgres@{url}/postgres")]));
    fs::write(folder.join("backup.txt"), answers(&mut client)).unwrap();
    BEHIND_IT.iter().for_each(|statements| client.batch_execute(statements).unwrap());
    fs::write(folder.join("data.txt"), answers(&mut client)).unwrap();
    scratch.kill();
    for name in ["data", "backup"] {
        let to = folder.join(format!("{name}.tar.gz"));
        run(Command::new("tar").arg("-czf").arg(to).arg("-C").arg(scratch.folder.path()).arg(name));
    }
}

/// Whether what is in `scratch` answers as it must, now, and with changes and a crash behind it.
fn holds(mut scratch: Scratch, expected: &str) {
    let told = run(program().arg("check").arg(scratch.data()));
    assert!(told.contains("nothing is wrong"), "{told}");
    let mut client = serve(&mut scratch);
    assert_eq!(answers(&mut client), expected);
    client.batch_execute("create table new (id int); insert into new values (1)").unwrap();
    client.batch_execute("checkpoint; insert into side.counted (v) values ('new')").unwrap();
    drop(client);
    scratch.kill();
    let mut client = serve(&mut scratch);
    client.batch_execute("drop table new; delete from side.counted where v = 'new'").unwrap();
    assert_eq!(answers(&mut client), expected);
    let told = "insert into side.counted (v) values ('next') returning id > 4";
    assert!(
        client.query_one(told, &[]).unwrap().get::<_, bool>(0),
        "a sequence gives nothing twice"
    );
}

#[test]
fn what_earlier_builds_have_written_is_read() {
    if let Some(version) = std::env::var_os("ATOLL_FIXTURE") {
        return write_fixture(version.to_str().unwrap());
    }
    let mut versions = 0;
    for version in fs::read_dir(fixtures()).unwrap() {
        let version = version.unwrap().path();
        let expected = |name: &str| fs::read_to_string(version.join(name)).unwrap();
        let unpack = |name: &str, scratch: &Scratch| {
            let from = version.join(format!("{name}.tar.gz"));
            run(Command::new("tar").arg("-xzf").arg(from).arg("-C").arg(scratch.folder.path()));
        };
        let scratch = Scratch::without_server();
        unpack("data", &scratch);
        holds(scratch, &expected("data.txt"));
        let scratch = Scratch::without_server();
        unpack("backup", &scratch);
        let backup = scratch.folder.path().join("backup");
        run(program().arg("restore").arg(backup).arg(scratch.data()));
        holds(scratch, &expected("backup.txt"));
        versions += 1;
    }
    assert!(versions > 0, "there is a fixture");
}
