//! COPY, statement by statement, against what PostgreSQL 15 answered (copy.tsv).
//!
//! Lines: statement, input, then `ok` and what comes out, or SQLSTATE, message and context. Bytes
//! that are not printable, and the backslash, are written as escapes.

use super::*;

fn bytes_of(field: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = field.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match (first, rest) {
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).expect("hexadecimal digits");
                out.push(u8::from_str_radix(digits, 16).expect("hexadecimal digits"));
                rest = after;
            }
            (b'\\', [b'\\', after @ ..]) => {
                out.push(b'\\');
                rest = after;
            }
            (byte, _) => out.push(*byte),
        }
    }
    out
}

fn shown(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' => out.push(char::from(*byte)),
            other => out.push_str(&format!("\\x{other:02x}")),
        }
    }
    out
}

/// Runs one statement with this input, in pieces of `step` bytes.
fn answer(
    context: &Context,
    session: &mut Session,
    statement: &str,
    input: &[u8],
    step: usize,
) -> String {
    let raw_input = input.chunks(step).map(<[u8]>::to_vec).collect();
    let mut client = Recorder { raw_input, ..Recorder::default() };
    match session.simple_query(context, statement, &mut client) {
        Ok(()) => format!("ok\t{}", shown(&client.copied)),
        Err(error) => format!(
            "{}\t{}\t{}",
            error.sqlstate(),
            shown(error.message().as_bytes()),
            shown(error.fields().context.clone().unwrap_or_default().as_bytes())
        ),
    }
}

#[test]
fn copy_answers_as_postgresql() {
    for step in [1, 5, 4096] {
        with_session(|context, session| {
            let mut wrong = Vec::new();
            for line in include_str!("copy.tsv").lines() {
                let mut fields = line.splitn(3, '\t');
                let (statement, input) = (fields.next().unwrap(), fields.next().unwrap());
                let expect = fields.next().unwrap();
                let found = answer(context, session, statement, &bytes_of(input), step);
                if found.trim_end() != expect.trim_end() {
                    wrong.push(format!("{statement}\n  expected {expect}\n  found    {found}"));
                }
            }
            assert!(wrong.is_empty(), "in pieces of {step}:\n{}", wrong.join("\n"));
        });
    }
}
