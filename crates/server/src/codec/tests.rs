//! Messages by example, then by mutation: no bytes panic, every length is bounded.

use super::*;

fn limits() -> Limits {
    Limits::default()
}

fn framed(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

fn first(code: u32, rest: &[u8]) -> Vec<u8> {
    let mut bytes = (rest.len() as u32 + 8).to_be_bytes().to_vec();
    bytes.extend_from_slice(&code.to_be_bytes());
    bytes.extend_from_slice(rest);
    bytes
}

#[track_caller]
fn check(bytes: &[u8], expected: Frontend<'_>) {
    assert_eq!(decode(bytes, &limits()), Ok(Decoded::Message(expected, bytes.len())));
    assert!(!is_incomplete(bytes, &limits()));
    for cut in 0..bytes.len() {
        assert!(is_incomplete(&bytes[..cut], &limits()), "{cut} bytes");
        match decode(&bytes[..cut], &limits()) {
            Ok(Decoded::Incomplete(need)) => assert!(need > cut && need <= bytes.len().max(5)),
            other => panic!("{cut} bytes: {other:?}"),
        }
    }
}

const BIND: &[u8] = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02hi\xff\xff\xff\xff\0\x02\0\0\0\x01";

#[test]
fn frontend_messages_decode_in_place() {
    check(&framed(b'Q', b"select 1\0"), Frontend::Query(b"select 1"));
    check(&framed(b'S', b""), Frontend::Sync);
    check(&framed(b'H', b""), Frontend::Flush);
    check(&framed(b'X', b""), Frontend::Terminate);
    check(&framed(b'c', b""), Frontend::CopyDone);
    check(&framed(b'd', b"1\t2\n"), Frontend::CopyData(b"1\t2\n"));
    check(&framed(b'f', b"why\0"), Frontend::CopyFail(b"why"));
    check(&framed(b'p', b"secret\0"), Frontend::Password(b"secret\0"));
    check(&framed(b'D', b"Sname\0"), Frontend::Describe(DescribeTarget::Statement(b"name")));
    check(&framed(b'C', b"P\0"), Frontend::Close(DescribeTarget::Portal(b"")));
    let execute = Frontend::Execute { portal: b"p", rows_max: 10 };
    check(&framed(b'E', b"p\0\0\0\0\x0a"), execute);
    let parse = framed(b'P', b"s\0select $1\0\0\x01\0\0\0\x17");
    let Ok(Decoded::Message(Frontend::Parse(message), _)) = decode(&parse, &limits()) else {
        panic!("a Parse")
    };
    assert_eq!((message.name, message.text), (&b"s"[..], &b"select $1"[..]));
    assert_eq!(message.types.iter().collect::<Vec<_>>(), [23]);
}

#[test]
fn bind_has_formats_and_nulls() {
    let bytes = framed(b'B', BIND);
    let Ok(Decoded::Message(Frontend::Bind(bind), _)) = decode(&bytes, &limits()) else {
        panic!("a Bind")
    };
    assert_eq!((bind.portal, bind.statement), (&b"p"[..], &b"s"[..]));
    let parameters: Vec<_> = bind.parameters.iter().collect();
    assert_eq!(parameters, [Some(&b"hi"[..]), None]);
    assert_eq!(ValueFormat::of(bind.formats, 1), ValueFormat::Binary);
    assert_eq!(ValueFormat::of(bind.results, 0), ValueFormat::Text);
    assert_eq!(ValueFormat::of(bind.results, 1), ValueFormat::Binary);
}

#[test]
fn malformed_messages_are_refused() {
    // Where the next message begins is not known.
    #[track_caller]
    fn refused(bytes: &[u8]) {
        assert!(matches!(decode(bytes, &limits()), Err(Malformed(_))), "{bytes:?}");
        assert!(!is_incomplete(bytes, &limits()), "{bytes:?}");
    }
    refused(b"!");
    refused(b"S\0\0\0\x03");
    refused(b"S\0\x01\0\0");
    refused(b"Q\xff\xff\xff\xff");
    refused(b"Q\x7f\xff\xff\xff");

    // It is.
    #[track_caller]
    fn passed(tag: u8, body: &[u8]) {
        let bytes = framed(tag, body);
        let Ok(Decoded::Bad { tag: found, taken, .. }) = decode(&bytes, &limits()) else {
            panic!("{bytes:?}")
        };
        assert_eq!((found, taken), (tag, bytes.len()));
        assert!(!is_incomplete(&bytes, &limits()), "{bytes:?}");
    }
    passed(b'Q', b"no end");
    passed(b'Q', b"two\0ends\0");
    passed(b'S', b"x");
    passed(b'D', b"Xname\0");
    passed(b'E', b"p\0\0");
    passed(b'P', b"s\0t\0\0\x02\0\0\0\x17");
    passed(b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0");
    passed(b'B', b"\0\0\0\0\0\x01\0\0\0\x09x\0\0");
    passed(b'B', b"\0\0\0\x02\0\0\0\0\0\x01\xff\xff\xff\xff\0\0");
    passed(b'B', b"\0\0\0\x01\0\x07\0\0\0\0");
}

#[test]
fn a_bind_has_as_many_formats_as_parameters() {
    const COUNT: usize = 40_000;
    let mut body = b"\0\0".to_vec();
    body.extend_from_slice(&(COUNT as u16).to_be_bytes());
    body.extend(std::iter::repeat_n([0, 1], COUNT).flatten());
    body.extend_from_slice(&(COUNT as u16).to_be_bytes());
    body.extend(std::iter::repeat_n([0xff; 4], COUNT).flatten());
    body.extend_from_slice(&[0, 0]);
    let bytes = framed(b'B', &body);
    let limits = Limits::default();
    let Ok(Decoded::Message(Frontend::Bind(bind), _)) = decode(&bytes, &limits) else {
        panic!("a Bind")
    };
    assert_eq!((bind.formats.len(), bind.parameters.len()), (COUNT, COUNT));
}

#[test]
fn first_messages_decode() {
    let whole = |bytes: &[u8]| match decode_startup(bytes) {
        Ok(StartupDecoded::Message(_, taken)) => taken == bytes.len(),
        _ => false,
    };
    assert!(whole(&first(80_877_103, b"")) && whole(&first(80_877_104, b"")));
    let cancel = first(80_877_102, b"\0\0\0\x07abcd");
    let expected = CancelRequest { process: 7, secret: b"abcd" };
    assert_eq!(
        decode_startup(&cancel),
        Ok(StartupDecoded::Message(FirstMessage::Cancel(expected), cancel.len()))
    );
    let start = first(196_610, b"user\0ann\0database\0d\0\0");
    let Ok(StartupDecoded::Message(FirstMessage::Start(message), _)) = decode_startup(&start)
    else {
        panic!("a start-up")
    };
    assert_eq!(message.protocol, PROTOCOL_LATEST);
    let parameters: Vec<_> = message.parameters().collect();
    assert_eq!(parameters, [(&b"user"[..], &b"ann"[..]), (&b"database"[..], &b"d"[..])]);
    for cut in 0..start.len() {
        assert!(matches!(decode_startup(&start[..cut]), Ok(StartupDecoded::Incomplete(_))));
    }
    for bad in [
        first(196_608, b"user\0ann\0"),
        first(196_608, b"user\0ann\0\0more"),
        first(80_877_103, b"x"),
        first(80_877_102, b"\0\0\0\x07"),
        vec![0, 0, 0, 7, 0, 0, 0, 0],
        vec![0xff; 8],
    ] {
        assert!(decode_startup(&bad).is_err(), "{bad:?}");
    }
}

#[test]
fn backend_messages_encode_as_documented() {
    #[track_caller]
    fn check(write: impl FnOnce(&mut Out), expected: &[u8]) {
        let mut out = Out::default();
        write(&mut out);
        assert_eq!(out.bytes, expected);
    }
    check(|out| out.authentication_ok(), b"R\0\0\0\x08\0\0\0\0");
    check(|out| out.ready_for_query(b'T'), b"Z\0\0\0\x05T");
    check(|out| out.parameter_status("a", "b"), b"S\0\0\0\x08a\0b\0");
    check(|out| out.backend_key(1, b"abcd"), b"K\0\0\0\x0c\0\0\0\x01abcd");
    check(
        |out| out.negotiate_protocol(PROTOCOL_LATEST, &[b"_pq_.x"]),
        b"v\0\0\0\x13\0\x03\0\x02\0\0\0\x01_pq_.x\0",
    );
    check(|out| out.command_complete("SELECT 1"), b"C\0\0\0\x0dSELECT 1\0");
    check(|out| out.parameter_description([23].into_iter()), b"t\0\0\0\x0a\0\x01\0\0\0\x17");
    check(|out| out.copy_response(b'G', 2, 0), b"G\0\0\0\x0b\0\0\x02\0\0\0\0");
    check(|out| out.copy_data(b"x\n"), b"d\0\0\0\x06x\n");
    check(
        |out| out.error(ErrorSeverity::Fatal, [(b'C', "08P01"), (b'M', "no\0way")]),
        b"E\0\0\0!SFATAL\0VFATAL\0C08P01\0Mnoway\0\0",
    );
    let field = Field {
        name: "n",
        table: 1,
        number: 2,
        type_oid: 23,
        type_bytes: 4,
        modifier: -1,
        format: 1,
    };
    check(
        |out| out.row_description([field].into_iter()),
        b"T\0\0\0\x1a\0\x01n\0\0\0\0\x01\0\x02\0\0\0\x17\0\x04\xff\xff\xff\xff\0\x01",
    );
    let row = |out: &mut Out| {
        let mut row = out.data_row(2);
        row.null();
        row.value(|bytes| {
            bytes.push(b'7');
            Ok::<(), ()>(())
        })
        .unwrap();
        row.finish();
    };
    check(row, b"D\0\0\0\x0f\0\x02\xff\xff\xff\xff\0\0\0\x017");
}

#[test]
fn a_row_given_up_leaves_nothing() {
    let mut out = Out::default();
    out.empty_query();
    let before = out.bytes.clone();
    let mut row = out.data_row(1);
    let failed = row.value(|bytes| {
        bytes.extend_from_slice(b"half");
        Err("cannot be encoded")
    });
    assert!(failed.is_err());
    drop(row);
    assert_eq!(out.bytes, before);
}

/// The fuzz target of `fuzz/` over seeded mutations, so that it runs with every `cargo test`;
/// `ATOLL_FUZZ_SECONDS` says for how long (`cargo xtask fuzz`).
#[test]
fn fuzz_wire_messages() {
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("ATOLL_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let examples = [
        first(196_610, b"user\0ann\0database\0d\0_pq_.x\0y\0\0"),
        first(80_877_102, b"\0\0\0\x07abcd"),
        first(80_877_103, b""),
        framed(b'Q', b"select 1; select 2\0"),
        framed(b'P', b"s\0select $1, $2\0\0\x02\0\0\0\x17\0\0\0\0"),
        framed(b'B', BIND),
        framed(b'D', b"Sname\0"),
        framed(b'E', b"p\0\0\0\0\x0a"),
        framed(b'C', b"Pname\0"),
        [framed(b'd', b"1\t2\n"), framed(b'c', b""), framed(b'S', b"")].concat(),
        [framed(b'f', b"why\0"), framed(b'H', b""), framed(b'X', b"")].concat(),
    ];
    let seconds = std::env::var("ATOLL_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds.unwrap_or(0));
    for round in 0.. {
        if round >= 20_000 && std::time::Instant::now() >= end {
            break;
        }
        let mut bytes = random.choice(&examples).expect("there are some").clone();
        for _ in 0..random.usize(0..4) {
            let at = random.usize(0..bytes.len());
            match random.u8(0..4) {
                0 => bytes[at] = random.u8(..),
                1 => bytes.truncate(at.max(1)),
                2 => bytes.insert(at, random.u8(..)),
                _ => bytes[at] ^= 1 << random.u8(0..8),
            }
        }
        crate::fuzz::wire(&bytes);
    }
}
