//! Values from one byte to 100 MB over the wire, both protocols and COPY both ways; they survive a
//! kill, and may be larger than the buffer pool.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use common::{Running, Scratch, atoll_with_pool};
use postgres::error::SqlState;
use postgres::{Client, SimpleQueryMessage};

/// `len` letters that do not compress to nothing.
fn letters(len: usize) -> String {
    let mut state = len as u64 | 1;
    let letter = |_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        char::from(b'a' + (state >> 59) as u8 % 26)
    };
    (0..len).map(letter).collect()
}

fn start(scratch: &Scratch, pool: &str) -> Running {
    let mut command = atoll_with_pool(&scratch.data(), pool);
    command.args(["--listen", "127.0.0.1:0"]);
    Running::start(command)
}

fn served(pool: &str) -> Scratch {
    let folder = tempfile::tempdir().unwrap();
    let mut scratch = Scratch { folder, server: None };
    scratch.server = Some(start(&scratch, pool));
    scratch
}

fn simple(client: &mut Client, text: &str) -> Vec<Option<String>> {
    let messages = client.simple_query(text).unwrap();
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).map(str::to_owned)),
        _ => None,
    });
    rows.collect()
}

fn check(client: &mut Client, sizes: &[usize]) {
    for (id, size) in sizes.iter().enumerate() {
        let expected = letters(*size);
        let select = "select v from long where id = $1";
        let row = client.query_one(select, &[&(id as i32)]).unwrap();
        assert!(row.get::<_, &str>(0) == expected, "{size} bytes, extended protocol");
        let text = format!("select v from long where id = {id}");
        assert!(simple(client, &text) == [Some(expected)], "{size} bytes, simple protocol");
    }
}

const SIZES: [usize; 12] = [
    1,
    100,
    7_990,
    8_001,
    16_384,
    65_536,
    65_537,
    1 << 20,
    5_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
];

#[test]
fn values_up_to_100_megabytes_come_back_as_they_went_in() {
    let mut scratch = served("1GB");
    let mut client = scratch.connect();
    client.batch_execute("create table long (id int primary key, v text, n numeric)").unwrap();
    for (id, size) in SIZES.iter().enumerate() {
        let value = letters(*size);
        match id % 3 {
            0 => {
                let insert = "insert into long (id, v) values ($1, $2)";
                client.execute(insert, &[&(id as i32), &value]).unwrap();
            }
            1 => {
                let insert = format!("insert into long (id, v) values ({id}, '{value}')");
                client.batch_execute(&insert).unwrap();
            }
            _ => {
                let mut copy = client.copy_in("copy long (id, v) from stdin").unwrap();
                copy.write_all(format!("{id}\t{value}\n").as_bytes()).unwrap();
                assert_eq!(copy.finish().unwrap(), 1);
            }
        }
    }
    check(&mut client, &SIZES);
    // Out again in one go.
    let mut out = Vec::new();
    let copy = "copy (select id, v from long order by id) to stdout";
    let copied = client.copy_out(copy).map(|mut reader| reader.read_to_end(&mut out).unwrap());
    if copied.is_err() {
        client.copy_out("copy long (id, v) to stdout").unwrap().read_to_end(&mut out).unwrap();
    }
    assert_eq!(out.split(|byte| *byte == b'\n').count(), SIZES.len() + 1);
    assert!(out.len() > SIZES.iter().sum());
    // A long value moves through an update of another column, and of itself.
    client.batch_execute("update long set n = 1").unwrap();
    client.batch_execute("update long set v = v where id = 7").unwrap();
    client.batch_execute("begin; delete from long; rollback").unwrap();
    check(&mut client, &SIZES);
    drop(client);
    scratch.kill();
    scratch.server = Some(start(&scratch, "1GB"));
    let mut client = scratch.connect();
    check(&mut client, &SIZES);
    drop(client);
    scratch.kill();
    let check = std::process::Command::new(env!("CARGO_BIN_EXE_atoll"))
        .arg("check")
        .arg(scratch.data())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(check.status.success(), "{told}{}", String::from_utf8_lossy(&check.stderr));
}

/// What would be larger than a gigabyte is refused before it is built, and the session goes on.
fn check_limits(client: &mut Client) {
    let eleven = "v, v, v, v, v, v, v, v, v, v, v from long where id = 1";
    for (query, message) in [
        ("select repeat('1234567890', 107374182)", "requested length too large"),
        ("select array_fill(v, array[11]) from long where id = 1", "array size exceeds"),
        (&*format!("select {eleven}"), "out of memory"),
        (&*format!("copy (select {eleven}) to stdout"), "out of memory"),
    ] {
        let error = match query.starts_with("copy") {
            false => client.simple_query(query).unwrap_err(),
            true => {
                let read = client.copy_out(query).unwrap().read_to_end(&mut Vec::new());
                let error = read.unwrap_err().into_inner().unwrap();
                *error.downcast::<postgres::Error>().unwrap()
            }
        };
        assert_eq!(error.code(), Some(&SqlState::PROGRAM_LIMIT_EXCEEDED), "{error}");
        assert!(error.as_db_error().unwrap().message().starts_with(message), "{error}");
    }
}

/// One value of 100 MB on every way in and out that takes it in pieces or copies it: each of them was
/// quadratic once, or could be. The text does not compress.
#[test]
fn a_value_of_100_megabytes_goes_every_way() {
    const BYTES: usize = 100_000_000;
    let mut scratch = served("1536MB");
    let mut client = scratch.connect();
    let began = Instant::now();
    client.batch_execute("create table long (id int primary key, v text, b bytea)").unwrap();
    let value = letters(BYTES);
    let md5 = |client: &mut Client, from: &str| {
        let rows = simple(client, &format!("select md5({from}) from long order by id, v, b"));
        rows.into_iter().flatten().collect::<Vec<_>>()
    };
    client
        .execute("insert into long (id, v, b) values (1, $1, $2)", &[&value, &value.as_bytes()])
        .unwrap();
    let sum = md5(&mut client, "b").remove(0);
    // In by COPY, in small pieces, in each format.
    for (id, format) in [(2, "text"), (3, "csv")] {
        let copy = format!("copy long (v, id) from stdin (format {format}, delimiter '|')");
        let mut copy = client.copy_in(&copy).unwrap();
        value.as_bytes().chunks(10_000).for_each(|piece| copy.write_all(piece).unwrap());
        copy.write_all(format!("|{id}\n").as_bytes()).unwrap();
        assert_eq!(copy.finish().unwrap(), 1);
    }
    let mut copy = client.copy_in("copy long (id, v) from stdin (format binary)").unwrap();
    copy.write_all(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x04\0\0\0\x04").unwrap();
    copy.write_all(&(BYTES as u32).to_be_bytes()).unwrap();
    value.as_bytes().chunks(10_000).for_each(|piece| copy.write_all(piece).unwrap());
    copy.write_all(b"\xff\xff").unwrap();
    assert_eq!(copy.finish().unwrap(), 1);
    // Sorted, which goes through temporary files.
    assert_eq!(md5(&mut client, "v"), [&*sum; 4]);
    for (format, around) in [("text", 1), ("csv", 1), ("binary", 27)] {
        let copy = format!("copy (select v from long where id = 3) to stdout (format {format})");
        let mut out = Vec::new();
        client.copy_out(&copy).unwrap().read_to_end(&mut out).unwrap();
        assert_eq!(out.len(), BYTES + around, "{format}");
        let start = if format == "binary" { 25 } else { 0 };
        assert!(out[start..start + BYTES] == *value.as_bytes(), "{format}");
    }
    let changes = "update long set v = v || 'x' where id = 2; delete from long where id in (3, 4);
        insert into long (id, v) select 5, repeat(substr(v, length(v) - 9), 10000000)
            from long where id = 1";
    client.batch_execute(changes).unwrap();
    let ends = "select length(v) || substr(v, length(v) - 1) from long order by id";
    let expected = simple(&mut client, ends);
    let mut sums = vec![sum.clone()];
    sums.extend(md5(&mut client, "v").drain(1..));
    drop(client);
    scratch.kill();
    scratch.server = Some(start(&scratch, "1536MB"));
    let mut client = scratch.connect();
    assert_eq!(simple(&mut client, ends), expected);
    assert_eq!(md5(&mut client, "v"), sums);
    assert!(began.elapsed() < Duration::from_secs(200), "{:?}", began.elapsed());
    check_limits(&mut client);
    assert_eq!(simple(&mut client, ends), expected);
}

#[test]
fn numbers_and_keys_may_be_long_or_are_refused() {
    let scratch = Scratch::new();
    let mut client = scratch.connect();
    client.batch_execute("create table long (id int primary key, v text, n numeric)").unwrap();
    let digits = "7".repeat(60_000);
    client.batch_execute(&format!("insert into long values (1, null, {digits})")).unwrap();
    assert_eq!(simple(&mut client, "select n from long"), [Some(digits)]);
    client.batch_execute("create index by_v on long (v)").unwrap();
    for len in [3_000, 20_000] {
        let insert = format!("insert into long values (2, '{}')", letters(len));
        let error = client.batch_execute(&insert).unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::PROGRAM_LIMIT_EXCEEDED), "{error}");
        let message = error.as_db_error().unwrap().message();
        assert!(message.ends_with("for index \"by_v\""), "{message}");
        assert_eq!(error.as_db_error().unwrap().table(), Some("long"));
        assert_eq!(error.as_db_error().unwrap().constraint(), Some("by_v"));
        let select = format!("select id from long where v = '{}'", letters(len));
        assert!(simple(&mut client, &select).is_empty());
    }
    assert_eq!(simple(&mut client, "select count(*) from long"), [Some("1".to_owned())]);
    // A change that makes a key too long, and an index that is made over one.
    for then in ["update long set v = '%'", "drop index by_v", "create index again on long (v)"] {
        let done = client.batch_execute(&then.replace('%', &letters(3_000)));
        if then.starts_with("drop") {
            done.unwrap();
            let update = format!("update long set v = '{}'", letters(3_000));
            client.batch_execute(&update).unwrap();
            continue;
        }
        let error = done.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::PROGRAM_LIMIT_EXCEEDED), "{error}");
        let name = if then.starts_with("update") { "by_v" } else { "again" };
        assert_eq!(error.as_db_error().unwrap().constraint(), Some(name));
    }
}

/// Pages of a long value leave memory while it is written, and come back while it is read.
#[test]
fn values_are_larger_than_the_pool() {
    let scratch = served("16MB");
    let mut client = scratch.connect();
    client.batch_execute("create table long (id int primary key, v text)").unwrap();
    let (kept, larger) = (letters(3_000_000), letters(40_000_000));
    client.execute("insert into long values (1, $1)", &[&kept]).unwrap();
    for _ in 0..2 {
        client.execute("insert into long values (2, $1)", &[&larger]).unwrap();
        client.execute("update long set v = $1 where id = 1", &[&larger]).unwrap();
        let all = simple(&mut client, "select v from long");
        assert!(all == [Some(larger.clone()), Some(larger.clone())]);
        client.execute("delete from long where id = 2", &[]).unwrap();
        client.execute("update long set v = $1 where id = 1", &[&kept]).unwrap();
        assert!(simple(&mut client, "select v from long") == [Some(kept.clone())]);
    }
    let went_and_came = "select sum(pages_max) < 1100 and sum(pages_evicted) > 8000 and \
                         sum(pages_loaded) > 8000 from atoll_memory";
    assert_eq!(simple(&mut client, went_and_came), [Some("t".to_owned())]);
    for _ in 0..20 {
        client.execute("update long set v = $1 where id = 1", &[&kept]).unwrap();
    }
}
