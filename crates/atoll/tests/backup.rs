//! `atoll backup` and `atoll restore` with a server that is running.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::{Scratch, atoll};

fn serve(data: &Path, archive: &Path) -> Command {
    let mut command = atoll(data);
    command.args(["--listen", "127.0.0.1:0", "--checkpoint-interval", "0"]);
    command.args(["--checkpoint-wal", "0", "--log-segment", "4MB"]);
    command.arg("--archive-directory").arg(archive);
    command
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_atoll")).args(arguments).output().unwrap()
}

fn succeeds(arguments: &[&str]) -> String {
    let output = run(arguments);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

fn fails(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_running_server_is_backed_up_and_restored_to_a_time() {
    let mut scratch = Scratch::without_server();
    let archive = scratch.folder.path().join("archive");
    let backup = scratch.folder.path().join("backup");
    let [backup_text, archive_text] =
        [&backup, &archive].map(|path| path.to_str().unwrap().to_owned());
    scratch.start_with(serve(&scratch.data(), &archive));
    let url = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", scratch.port());
    let mut client = scratch.connect();
    let shown: String = client.query_one("show archive_directory", &[]).unwrap().get(0);
    assert_eq!(shown, archive_text);
    client.batch_execute("create table t (a int primary key, b text)").unwrap();
    client
        .execute("insert into t select g, repeat('x', 200) from generate_series(1, 20000) g", &[])
        .unwrap();
    let told = succeeds(&["backup", &backup_text, "--url", &url]);
    assert!(told.contains(": checkpoint 1 and the logs behind it, up to cts "), "{told}");
    let told = fails(&["backup", &backup_text, "--url", &url]);
    assert!(told.contains("exists but is not empty (58P02)"), "{told}");
    // As a statement.
    let called = client.simple_query("call atoll_backup('here')").unwrap_err();
    assert_eq!(called.code().unwrap().code(), "42602");
    let called = client.simple_query("begin; call atoll_backup('/tmp/x')").unwrap_err();
    assert_eq!(called.code().unwrap().code(), "25001");
    client.batch_execute("rollback").unwrap();
    client.execute("insert into t values (-1, 'later')", &[]).unwrap();
    let now = "select clock_timestamp()::text";
    let until: String = client.query_one(now, &[]).unwrap().get(0);
    std::thread::sleep(std::time::Duration::from_millis(2));
    client.execute("delete from t where a > 0", &[]).unwrap();
    client.batch_execute("checkpoint").unwrap();
    archived(&mut client);
    the_archive_is_verified_beside_the_server(&archive);
    drop(client);
    scratch.kill();
    std::fs::remove_dir_all(scratch.data()).unwrap();

    let data = scratch.data().to_str().unwrap().to_owned();
    let arguments = ["restore", &backup_text, &data, "--archive", &archive_text, "--until"];
    let told = succeeds(&[&arguments[..], &[&until]].concat());
    assert!(told.contains("restored what was committed by 20"), "{told}");
    let told = fails(&["restore", &backup_text, &data]);
    assert!(told.contains("exists but is not empty"), "{told}");
    scratch.start_with(serve(&scratch.data(), &archive));
    let mut client = scratch.connect();
    assert_eq!(count(&mut client), 20_001);
    drop(client);
    scratch.kill();
    assert!(succeeds(&["check", &data]).contains("nothing is wrong"));
    the_backup_alone_is_a_database(&mut scratch, &backup_text);
}

fn the_archive_is_verified_beside_the_server(archive: &Path) {
    let text = archive.to_str().unwrap();
    let told = succeeds(&["check", text]);
    assert!(told.contains(" commits, complete up to 20"), "{told}");
    assert!(told.ends_with("nothing is wrong\n"), "{told}");
    // However few files the shell allows, whose limit may be raised: an archive has more segments than that.
    let shell = ["-c", "ulimit -Sn 4; exec \"$0\" check \"$1\"", env!("CARGO_BIN_EXE_atoll"), text];
    let output = Command::new("sh").args(shell).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let folder = std::fs::read_dir(archive).unwrap().next().unwrap().unwrap().path();
    let point = folder.join("0000000001.reached");
    let good = std::fs::read(&point).unwrap();
    let mut bad = good.clone();
    bad[30] ^= 1;
    std::fs::write(&point, bad).unwrap();
    let told = fails(&["check", text]);
    assert!(told.contains("1 problem: \"") && told.contains("0000000001.reached\""), "{told}");
    std::fs::write(&point, good).unwrap();
    assert!(succeeds(&["check", folder.to_str().unwrap()]).contains("nothing is wrong"));
}

/// It comes by itself; the harness ends a test that waits for ever.
fn archived(client: &mut postgres::Client) {
    let shown = "select newest, archived_checkpoint, archived_segments, archive_fails_because \
                 from atoll_checkpoints";
    loop {
        let row = client.query_one(shown, &[]).unwrap();
        assert_eq!(row.get::<_, Option<String>>(3), None);
        if row.get::<_, i64>(0) == row.get::<_, i64>(1) {
            assert!(row.get::<_, i64>(2) > 0);
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn count(client: &mut postgres::Client) -> i64 {
    client.query_one("select count(*) from t", &[]).unwrap().get(0)
}

/// It can be restored and started, and what was restored can be backed up without a server.
fn the_backup_alone_is_a_database(scratch: &mut Scratch, backup_text: &str) {
    let data = scratch.data().to_str().unwrap().to_owned();
    let copy = scratch.folder.path().join("copy").to_str().unwrap().to_owned();
    std::fs::remove_dir_all(&data).unwrap();
    let told = succeeds(&["restore", backup_text, &data]);
    assert!(told.contains("restored what was committed by 20"), "{told}");
    succeeds(&["backup", &copy, "--data-dir", &data]);
    for directory in [copy.as_str(), backup_text] {
        scratch.start_with({
            let mut command = atoll(Path::new(directory));
            command.args(["--listen", "127.0.0.1:0"]);
            command
        });
        assert_eq!(count(&mut scratch.connect()), 20_000);
        scratch.kill();
    }
    let told = fails(&["restore", backup_text, "/nonexistent/x", "--until", "yesterday noon x"]);
    assert!(told.contains("yesterday noon x"), "{told}");
}

/// It opened the database as if logs were not archived, and so removed those that were not yet.
#[test]
fn a_backup_without_a_server_keeps_logs_for_the_archive() {
    let mut scratch = Scratch::without_server();
    let path = |name: &str| scratch.folder.path().join(name).to_str().unwrap().to_owned();
    let [first, second, restored, archive] = ["first", "second", "restored", "archive"].map(path);
    let data = scratch.data().to_str().unwrap().to_owned();
    scratch.start_with(serve(&scratch.data(), Path::new(&archive)));
    let mut client = scratch.connect();
    client.batch_execute("create table t (a int primary key, b text); checkpoint").unwrap();
    let url = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", scratch.port());
    succeeds(&["backup", &first, "--url", &url]);
    archived(&mut client);
    let more = "insert into t select g, repeat('x', 200) from generate_series($1::int, $2::int) g";
    client.execute(more, &[&1, &20_000]).unwrap();
    drop(client);
    scratch.kill();
    succeeds(&["backup", &second, "--data-dir", &data]);
    scratch.start_with(serve(&scratch.data(), Path::new(&archive)));
    let mut client = scratch.connect();
    client.execute(more, &[&20_001, &20_010]).unwrap();
    client.batch_execute("checkpoint").unwrap();
    archived(&mut client);
    drop(client);
    scratch.kill();
    for backup in [&first, &second] {
        succeeds(&["restore", backup, &restored, "--archive", &archive]);
        let mut command = atoll(Path::new(&restored));
        command.args(["--listen", "127.0.0.1:0"]);
        scratch.start_with(command);
        assert_eq!(count(&mut scratch.connect()), 20_010);
        scratch.kill();
        std::fs::remove_dir_all(&restored).unwrap();
    }
    // Damage that only the older backup has to do with.
    let folder = std::fs::read_dir(&archive).unwrap().next().unwrap().unwrap().path();
    let files = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let is_old = |it: &std::path::PathBuf| it.to_string_lossy().contains("-0000000001-");
    for file in files.filter(is_old) {
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[20] ^= 8;
        std::fs::write(file, bytes).unwrap();
    }
    let output = run(&["restore", &second, &restored, "--archive", &archive]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    assert!(told.contains("its header is damaged; what was restored does not need it"), "{told}");
    std::fs::remove_dir_all(&restored).unwrap();
    let told = fails(&["restore", &first, &restored, "--archive", &archive]);
    assert!(told.contains("its header is damaged"), "{told}");
}
