//! COPY's formats against what PostgreSQL 15 reads and writes.

use super::*;
use crate::parse::ast::At;
use crate::parse::statement::{CopyDirection, CopyOption};

fn csv() -> CopyFormat {
    let option = ("format".to_owned(), CopyOption::Text("csv".to_owned()), At::NONE);
    CopyFormat::from_options(&[option], CopyDirection::In).unwrap()
}

/// Decodes `data` in pieces of `step` bytes; a NULL shows as `~`, fields are joined by `|`.
fn rows(format: &CopyFormat, data: &[u8], step: usize) -> SqlResult<Vec<String>> {
    let (mut decoder, mut fields, mut rows) = (Decoder::new(format), Fields::new(), Vec::new());
    let mut pieces = data.chunks(step.max(1));
    let mut finished = false;
    loop {
        match decoder.next(&mut fields)? {
            Decoded::Row => {
                let texts: SqlResult<Vec<String>> = (0..fields.len())
                    .map(|at| Ok(fields.get(at)?.unwrap_or("~").to_owned()))
                    .collect();
                rows.push(texts?.join("|"));
            }
            Decoded::End => return Ok(rows),
            Decoded::NeedsMore if finished => return Ok(rows),
            Decoded::NeedsMore => match pieces.next() {
                Some(piece) => decoder.input().extend_from_slice(piece),
                None => {
                    decoder.finish();
                    finished = true;
                }
            },
        }
    }
}

fn check(format: &CopyFormat, data: &str, expect: &[&str]) {
    for step in [1, 2, 3, 7, data.len()] {
        let found = rows(format, data.as_bytes(), step).unwrap();
        assert_eq!(found, expect, "{data:?} in pieces of {step}");
    }
}

#[test]
fn text_is_read_in_any_pieces() {
    let format = CopyFormat::default();
    check(&format, "1\ta\n2\t\\N\n", &["1|a", "2|~"]);
    check(&format, "1\t\n", &["1|"]);
    check(&format, "a\\tb\tc\\nd\\\\\n", &["a\tb|c\nd\\"]);
    check(&format, "a\\\nb\tc\n", &["a\nb|c"]);
    check(&format, "\\101\\x42\\N\n", &["ABN"]);
    check(&format, "1\r\n2\r\n", &["1", "2"]);
    check(&format, "1\n\\.\n2\n", &["1"]);
    check(&format, "last", &["last"]);
    check(&format, "\n", &[""]);
}

#[test]
fn csv_is_read_in_any_pieces() {
    let format = csv();
    check(&format, "1,a\n2,\n", &["1|a", "2|~"]);
    check(&format, "1,\"\"\n", &["1|"]);
    check(&format, "\"a,b\",\"c\"\"d\"\n", &["a,b|c\"d"]);
    check(&format, "\"two\nlines\",x\r\n", &["two\nlines|x"]);
    check(&format, "1\n\\.\n2\n", &["1"]);
    assert!(rows(&format, b"\"open", 3).is_err());
}

#[test]
fn a_header_is_passed_over() {
    let mut format = csv();
    format.header = Header::Line;
    check(&format, "a,b\n1,2\n", &["1|2"]);
}

#[test]
fn what_is_written_reads_back() {
    let values = [Some("a\tb\\c\n"), None, Some(""), Some("\"q\",x"), Some("\\N"), Some("\\.")];
    for format in [CopyFormat::default(), csv()] {
        let mut out = Vec::new();
        encode(&format, values.iter().copied(), &mut out);
        let read = rows(&format, &out, 1).unwrap();
        let expect: Vec<&str> = values.iter().map(|value| value.unwrap_or("~")).collect();
        assert_eq!(read, [expect.join("|")], "{:?}", String::from_utf8_lossy(&out));
    }
}

#[test]
fn wrong_options_are_refused_by_name() {
    let refuse = |name: &str, value: &str| {
        let option = (name.to_owned(), CopyOption::Text(value.to_owned()), At(7));
        CopyFormat::from_options(&[option], CopyDirection::In).unwrap_err()
    };
    assert_eq!(refuse("format", "binary").sqlstate().as_str(), "0A000");
    assert_eq!(refuse("format", "xml").sqlstate().as_str(), "22023");
    assert_eq!(refuse("delimiter", "ab").sqlstate().as_str(), "22023");
    assert_eq!(refuse("delimiter", "a").sqlstate().as_str(), "22023");
    assert_eq!(refuse("colour", "red").sqlstate().as_str(), "42601");
    assert_eq!(refuse("freeze", "maybe").sqlstate().as_str(), "42601");
}
