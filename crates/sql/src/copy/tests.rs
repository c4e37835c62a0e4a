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
    rows_of(format, &["a", "b"], data, step)
}

fn rows_of(
    format: &CopyFormat,
    names: &[&str],
    data: &[u8],
    step: usize,
) -> SqlResult<Vec<String>> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut decoder = Decoder::new(format, &names);
    let (mut fields, mut rows) = (Fields::new(), Vec::new());
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
fn a_header_that_must_match_is_compared() {
    let mut format = csv();
    format.header = Header::Match;
    check(&format, "a,b\n1,2\n", &["1|2"]);
    check(&format, "\"a\",\"b\"\n", &[]);
    let refuse = |data: &str| rows(&format, data.as_bytes(), 2).unwrap_err().message().to_owned();
    assert_eq!(refuse("a\n1\n"), "wrong number of fields in header line: got 1, expected 2");
    assert_eq!(
        refuse("a,B\n"),
        "column name mismatch in header line field 2: got \"B\", expected \"b\""
    );
    assert_eq!(
        refuse(",b\n"),
        "column name mismatch in header line field 1: got null value (\"\"), expected \"a\""
    );
}

#[test]
fn nulls_can_be_forced() {
    let mut format = csv();
    format.force_null = Columns::Named(vec!["a".to_owned()]);
    format.force_not_null = Columns::Named(vec!["b".to_owned()]);
    check(&format, "\"\",\"\"\n,\nx,y\n", &["~|", "~|", "x|y"]);
    format.force_null = Columns::All;
    check(&format, "\"\",\"\"\n,\n", &["~|~", "~|"]);
}

#[test]
fn binary_is_read_in_any_pieces() {
    let format = CopyFormat { form: Form::Binary, ..CopyFormat::default() };
    let encoder = Encoder::new(&format, &["a".to_owned(), "b".to_owned()]);
    let mut whole = Vec::new();
    encoder.begin_binary(&mut whole);
    whole.extend_from_slice(b"\0\x02\0\0\0\x03abc\xff\xff\xff\xff");
    whole.extend_from_slice(b"\0\x02\0\0\0\0\0\0\0\x01x");
    let rows_end = whole.len();
    encoder.end_binary(&mut whole);
    for step in [1, 2, 5, 11, 64] {
        assert_eq!(rows(&format, &whole, step).unwrap(), ["abc|~", "|x"], "pieces of {step}");
        // Without the trailer.
        assert_eq!(rows(&format, &whole[..rows_end], step).unwrap(), ["abc|~", "|x"]);
    }
    for cut in (0..rows_end).filter(|cut| ![19, 32].contains(cut)) {
        let error = rows(&format, &whole[..cut], 7).err();
        // A count that is cut in two is an end, as in PostgreSQL.
        assert_eq!(error.is_none(), [20, 33].contains(&cut), "cut at {cut}: {error:?}");
    }
    let refuse = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        rows(&format, &bytes, 3).unwrap_err().message().to_owned()
    };
    assert_eq!(refuse(3, b'x'), "COPY file signature not recognized");
    assert_eq!(refuse(12, 1), "invalid COPY file header (WITH OIDS)");
    assert_eq!(refuse(11, 1), "unrecognized critical flags in COPY file header");
    assert_eq!(refuse(15, 0xff), "invalid COPY file header (missing length)");
    assert_eq!(refuse(20, 3), "row field count is 3, expected 2");
    assert_eq!(refuse(21, 0x80), "invalid field size");
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..2000 {
        let mut bytes = whole.clone();
        let at = random.usize(0..bytes.len());
        bytes[at] = random.u8(..);
        let _ = rows(&format, &bytes, 1 + random.usize(..40));
    }
}

#[test]
fn what_is_written_reads_back() {
    let values = [Some("a\tb\\c\n"), None, Some(""), Some("\"q\",x"), Some("\\N"), Some("\\.")];
    for format in [CopyFormat::default(), csv()] {
        let names = ["a", "b", "c", "d", "e", "f"];
        let encoder = Encoder::new(&format, &names.map(str::to_owned));
        let mut out = Vec::new();
        encoder.row(values.iter().copied(), &mut out);
        let read = rows_of(&format, &names, &out, 1).unwrap();
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
    assert_eq!(refuse("format", "xml").sqlstate().as_str(), "22023");
    assert_eq!(refuse("delimiter", "ab").sqlstate().as_str(), "0A000");
    assert_eq!(refuse("encoding", "latin1").sqlstate().as_str(), "0A000");
    assert_eq!(refuse("encoding", "klingon").sqlstate().as_str(), "22023");
    assert_eq!(refuse("delimiter", "a").sqlstate().as_str(), "22023");
    assert_eq!(refuse("colour", "red").sqlstate().as_str(), "42601");
    assert_eq!(refuse("freeze", "maybe").sqlstate().as_str(), "42601");
}

/// A row that comes in many pieces is read once: looking at all of it again for each piece took
/// minutes for this one.
#[test]
fn a_long_row_in_small_pieces_is_read_once() {
    const BYTES: usize = 100 << 20;
    let quote = |text: String| format!("\"{text}\",\"{}\"\n", "it\"\"s\n".repeat(1000));
    let body = "x".repeat(BYTES);
    let began = std::time::Instant::now();
    for (format, row) in
        [(CopyFormat::default(), format!("{body}\t\\\n\n")), (csv(), quote(body.clone()))]
    {
        let found = rows(&format, row.as_bytes(), 4096).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with(&body));
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "{:?}", began.elapsed());
    }
}

/// An escape and what it escapes may come apart.
#[test]
fn csv_escapes_come_in_any_pieces() {
    let option =
        |name: &str, value: &str| (name.to_owned(), CopyOption::Text(value.to_owned()), At::NONE);
    let options = [option("format", "csv"), option("escape", "\\")];
    let format = CopyFormat::from_options(&options, CopyDirection::In).unwrap();
    check(&format, "\"a\\\"b\\\\\",\"c\\d\"\n1,2\n", &["a\"b\\|c\\d", "1|2"]);
}
