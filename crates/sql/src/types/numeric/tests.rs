//! Answers of PostgreSQL 15, recorded (tests.tsv: function, arguments, answer or SQLSTATE).

use super::*;

fn apply(function: &str, args: &[Numeric]) -> SqlResult<Numeric> {
    let whole = |index: usize| args[index].to_i64("integer").expect("an integer") as i32;
    match function {
        "+" => args[0].add(&args[1]),
        "-" => args[0].sub(&args[1]),
        "*" => args[0].mul(&args[1]),
        "/" => args[0].div(&args[1]),
        "%" => args[0].rem(&args[1]),
        "div" => args[0].div_trunc(&args[1]),
        "power" => args[0].power(&args[1]),
        "log" => args[1].log(&args[0]),
        "round" => args[0].round(whole(1)),
        "trunc" => args[0].truncate(whole(1)),
        "sqrt" => args[0].sqrt(),
        "exp" => args[0].exp(),
        "ln" => args[0].ln(),
        "floor" => args[0].floor(),
        "ceil" => args[0].ceil(),
        "trim_scale" => Ok(args[0].trim_scale()),
        "abs" => Ok(args[0].abs()),
        "in" => Ok(args[0].clone()),
        other => panic!("no function {other}"),
    }
}

#[test]
fn answers_are_postgresqls() {
    let mut wrong = Vec::new();
    let rows = include_str!("tests.tsv").lines();
    let mut count = 0;
    for line in rows {
        let fields: Vec<&str> = line.split('\t').collect();
        let (expect, call) = fields.split_last().expect("an answer ends the line");

        let args: SqlResult<Vec<Numeric>> =
            call[1..].iter().map(|text| Numeric::parse(text)).collect();
        let got = match args.and_then(|args| apply(call[0], &args)) {
            Ok(value) => value.to_string(),
            Err(error) => error.sqlstate().to_string(),
        };
        count += 1;
        if got != *expect {
            wrong.push(format!("{call:?}: {got}, not {expect}"));
        }
    }
    assert!(count > 500, "the file has its rows");
    assert!(wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn seed() -> u64 {
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("ATOLL_SEED={seed}");
    seed
}

fn random(rng: &mut fastrand::Rng) -> Numeric {
    match rng.u32(0..20) {
        0 => Numeric::NAN,
        1 => Numeric::INFINITY,
        2 => Numeric::NEGATIVE_INFINITY,
        3 => Numeric::small(0, rng.u16(0..5)),
        4..=12 => Numeric::small(rng.i64(-2000..2000), rng.u16(0..6)),
        _ => {
            let digits: String = (0..rng.usize(1..60)).map(|_| rng.digit(10)).collect();
            let exponent = rng.i32(-300..300);
            let sign = if rng.bool() { "-" } else { "" };
            Numeric::parse(&format!("{sign}{digits}e{exponent}")).expect("a number")
        }
    }
}

#[test]
fn stored_bytes_keep_value_scale_and_order() {
    let mut rng = fastrand::Rng::with_seed(seed());
    let mut values: Vec<Numeric> = (0..400).map(|_| random(&mut rng)).collect();
    for text in ["1e131071", "-1e131071", "1e-16383", "-1e-16383", "99", "100", "101", "0.01"] {
        values.push(Numeric::parse(text).expect("within the format"));
    }
    let encoded: Vec<Vec<u8>> = values
        .iter()
        .map(|value| {
            let mut bytes = Vec::new();
            value.encode_ordered(&mut bytes);
            let back = Numeric::decode_ordered(&bytes).expect("what was written");
            assert_eq!(back.to_string(), value.to_string());
            let mut wire = Vec::new();
            value.send(&mut wire);
            let back = Numeric::receive(&wire).expect("what was sent");
            assert_eq!(back.to_string(), value.to_string());
            bytes.truncate(bytes.len() - encode::TRAILER);
            bytes
        })
        .collect();
    for (a, x) in values.iter().zip(&encoded) {
        for (b, y) in values.iter().zip(&encoded) {
            assert_eq!(a.cmp(b), x.cmp(y), "{a} against {b}");
        }
    }
}

#[test]
fn damaged_bytes_are_refused() {
    let mut rng = fastrand::Rng::with_seed(seed());
    for _ in 0..300 {
        let bytes: Vec<u8> = (0..rng.usize(0..12)).map(|_| rng.u8(..)).collect();
        let _ = Numeric::decode_ordered(&bytes);
        let _ = Numeric::receive(&bytes);
    }
    assert!(Numeric::decode_ordered(&[0x41]).is_none());
}

#[test]
fn the_wire_form_is_postgresqls() {
    let mut out = Vec::new();
    Numeric::parse("-12345.6700").expect("a number").send(&mut out);
    assert_eq!(out, [0, 3, 0, 1, 0x40, 0, 0, 4, 0, 1, 0x09, 0x29, 0x1a, 0x2c]);
}
