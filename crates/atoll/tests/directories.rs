//! Directories that are not to be served: another version's, somebody else's, damaged, in use.
//! Each is refused with a clear message and an exit code, and not a byte in it changes.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::PathBuf;

use common::Scratch;
use common::refusal::{check, checksum, content, manifests, refused, serve};

/// A directory with a few thousand changes, served and stopped `lives` times.
fn used(lives: u32) -> Scratch {
    let mut scratch = Scratch::without_server();
    for life in 0..lives {
        scratch.start_with(serve(&scratch.data()));
        let mut client = scratch.connect();
        if life == 0 {
            client.batch_execute("create table t (id int primary key, v text)").unwrap();
        }
        for batch in 0..40 {
            let from = (life * 40 + batch) * 50;
            let insert = format!(
                "insert into t select g, repeat('x', 50) from generate_series({}, {}) g",
                from + 1,
                from + 50
            );
            client.batch_execute(&insert).unwrap();
        }
        drop(client);
        scratch.server.take().unwrap().terminate();
    }
    scratch
}

#[test]
fn another_format_version_is_named_and_left_alone() {
    let scratch = used(2);
    let newest = manifests(&scratch.data()).pop().unwrap();
    let mut bytes = std::fs::read(&newest).unwrap();
    let end = bytes.len() - 4;
    assert_eq!(checksum(&bytes[..end]).to_le_bytes(), bytes[end..], "the checksum is CRC-32C");
    bytes[8..12].copy_from_slice(&77u32.to_le_bytes());
    let sum = checksum(&bytes[..end]);
    bytes[end..].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(&newest, &bytes).unwrap();
    refused(&scratch.data(), &["format version 77", "reads version"]);
}

#[test]
fn a_foreign_directory_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("thesis.tex"), "all my work").unwrap();
    std::fs::create_dir(folder.path().join("base")).unwrap();
    let before = content(folder.path());
    let output = serve(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("not an Atoll data directory"), "{told}");
    assert!(told.contains("\"base\"") || told.contains("\"thesis.tex\""), "{told}");
    assert_eq!(content(folder.path()), before);
    refused(folder.path(), &["not an Atoll data directory"]);
    // PostgreSQL's own.
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("PG_VERSION"), "15\n").unwrap();
    refused(other.path(), &["\"PG_VERSION\""]);
}

#[test]
fn a_damaged_manifest_is_named_and_left_alone() {
    for lives in [1, 2] {
        let scratch = used(lives);
        let newest = manifests(&scratch.data()).pop().unwrap();
        let good = std::fs::read(&newest).unwrap();
        for at in [0, 9, 20, 45, 60, good.len() - 1] {
            let mut bytes = good.clone();
            bytes[at] ^= 0x20;
            std::fs::write(&newest, &bytes).unwrap();
            // With an older one to fall back to, the logs tell that it is too old.
            refused(&scratch.data(), &[]);
        }
        let cut = &good[..good.len() / 2];
        std::fs::write(&newest, cut).unwrap();
        refused(&scratch.data(), &[]);
        // And nothing of it was more than the file's fault.
        std::fs::write(&newest, &good).unwrap();
        let output = check(&scratch.data()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_log_damaged_below_what_was_durable_is_named_and_left_alone() {
    let scratch = used(1);
    let is_log = |(path, _): &(PathBuf, Vec<u8>)| path.extension().is_some_and(|end| end == "seg");
    let written = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
    let logs = content(&scratch.data()).into_iter().filter(is_log);
    let (segment, good) = logs.max_by_key(|(_, bytes)| written(bytes)).unwrap();
    let name = segment.strip_prefix(scratch.data()).unwrap().to_string_lossy().into_owned();
    assert!(written(&good) > 20 * 4096, "there is a middle: {}", written(&good));
    for part in [4, 2] {
        let mut bytes = good.clone();
        let from = written(&good) / part;
        let at = from + bytes[from..].iter().position(|byte| *byte != 0).unwrap();
        bytes[at] ^= 0x04;
        std::fs::write(&segment, &bytes).unwrap();
        refused(&scratch.data(), &["damaged", &name]);
    }
    std::fs::write(&segment, &good).unwrap();
    assert!(check(&scratch.data()).output().unwrap().status.success());
}

#[test]
fn a_directory_in_use_names_its_holder_and_how_to_connect() {
    let mut scratch = Scratch::new();
    let mut client = scratch.connect();
    client.batch_execute("create table t (id int); insert into t values (1)").unwrap();
    let server = scratch.server.as_ref().unwrap();
    let holder = format!("process {}", server.child.id());
    let address = format!("connect to 127.0.0.1:{}", server.port());
    refused(&scratch.data(), &["in use", &holder, &address]);
    // The holder is not disturbed.
    client.batch_execute("insert into t values (2)").unwrap();
    drop(client);
    scratch.server.take().unwrap().terminate();
    let before = content(&scratch.data());
    let output = check(&scratch.data()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("nothing is wrong"));
    assert!(content(&scratch.data()) == before, "a check changes nothing");
}

#[test]
fn checking_what_is_no_database_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let output = check(&folder.path().join("nowhere")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not a directory"));
    let output = check(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no database"));
    assert_eq!(content(folder.path()).len(), 0);
}
