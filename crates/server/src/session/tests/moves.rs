//! Sessions that move between instances: nothing said is lost, cancel requests find them, and a
//! database that closes meanwhile tells every one of them.

use super::*;

/// The tag of one command's answer.
fn tag(client: &mut Raw, text: &str) -> String {
    client.send(&query(text));
    let (tags, bodies) = client.until_ready();
    assert_eq!(tags, "CZ", "{text}");
    String::from_utf8(bodies[0].clone()).unwrap().trim_end_matches('\0').to_owned()
}

/// Where the session is.
fn place(client: &mut Raw) -> u16 {
    tag(client, "where").strip_prefix("AT ").unwrap().parse().unwrap()
}

/// Asks to go to the other of two instances; answers which that is.
fn go(client: &mut Raw) -> u16 {
    let other = 1 - place(client);
    assert_eq!(tag(client, &format!("go {other}")), "GO");
    other
}

fn cancel(address: &str, key: &[u8]) {
    let mut bytes = (key.len() as u32 + 8).to_be_bytes().to_vec();
    bytes.extend_from_slice(&80_877_102u32.to_be_bytes());
    bytes.extend_from_slice(key);
    let mut canceller = Raw::connect(address);
    canceller.send(&bytes);
    assert!(canceller.message().is_none());
}

fn parse(name: &str, text: &str) -> Vec<u8> {
    framed(b'P', format!("{name}\0{text}\0\0\0").as_bytes())
}

/// Bind, Execute and Sync of the statement `s` with one parameter.
fn execute(value: &str) -> Vec<u8> {
    let mut body = b"\0s\0\0\0\0\x01".to_vec();
    body.extend_from_slice(&(value.len() as u32).to_be_bytes());
    body.extend_from_slice(value.as_bytes());
    body.extend_from_slice(b"\0\0");
    [framed(b'B', &body), framed(b'E', b"\0\0\0\0\0"), framed(b'S', b"")].concat()
}

#[test]
fn a_session_moves_with_its_statements_and_can_be_cancelled_everywhere() {
    for io in [IoChoice::Auto, IoChoice::Threads] {
        let served = served_by(io);
        let mut client = Raw::start(&served.address);
        assert_eq!(client.says(&[parse("s", "nulls"), framed(b'S', b"")].concat()), "1Z");
        for _ in 0..3 {
            let there = go(&mut client);
            assert_eq!(place(&mut client), there);
            assert_eq!(client.says(&execute("3")), "2DDDCZ");
            served.begin_wait(&mut client);
            cancel(&served.address, &client.key);
            let (tags, bodies) = client.until_ready();
            assert_eq!(tags, "EZ");
            assert!(has_state(&bodies[0], "57014"));
        }
        assert_eq!(served.counts.departed.load(Ordering::SeqCst), 3);
        client.send(&framed(b'X', b""));
        assert!(client.message().is_none());
        eventually("the session's end", || served.counts.ended.load(Ordering::SeqCst) == 1);
        served.runtime.close();
    }
}

#[test]
fn a_session_that_cannot_move_stays_and_one_in_a_block_is_not_asked() {
    let served = served();
    let mut client = Raw::start(&served.address);
    assert_eq!(tag(&mut client, "begin"), "BEGIN");
    let (here, there) = (place(&mut client), go(&mut client));
    assert_eq!(place(&mut client), here, "it is in a transaction");
    assert_eq!(tag(&mut client, "commit"), "COMMIT");
    assert_eq!(place(&mut client), there);
    assert_eq!(tag(&mut client, "stick"), "STICK");
    go(&mut client);
    assert_eq!(place(&mut client), there);
    assert_eq!(served.counts.departed.load(Ordering::SeqCst), 1);
    served.runtime.close();
}

#[test]
fn a_part_of_a_message_that_was_read_goes_along() {
    let served = served();
    let mut client = Raw::start(&served.address);
    let other = 1 - place(&mut client);
    let question = query("where");
    for cut in 1..question.len() {
        let to = if cut % 2 == 1 { other } else { 1 - other };
        // One write: the part is read together with what makes the session go.
        client.send(&[query(&format!("go {to}")), question[..cut].to_vec()].concat());
        assert_eq!(client.until_ready().0, "CZ");
        client.send(&question[cut..]);
        let (tags, bodies) = client.until_ready();
        assert_eq!(tags, "CZ");
        assert_eq!(bodies[0], format!("AT {to}\0").as_bytes(), "cut at {cut}");
    }
    served.runtime.close();
}

/// A stream of pipelined messages, cut anywhere, of a session that goes to and fro: every answer
/// comes, in order.
#[test]
fn pipelines_are_answered_in_order_whatever_moves() {
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("ATOLL_SEED={seed}");
    let served = served();
    let clients: Vec<_> = (0..8)
        .map(|number| {
            let address = served.address.clone();
            std::thread::spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed.wrapping_add(number));
                let mut client = Raw::start(&address);
                let (mut bytes, mut expected) = (Vec::new(), Vec::new());
                for _ in 0..2000 {
                    let rows = random.usize(0..4);
                    let (text, tags) = match random.u8(0..4) {
                        0 => (format!("go {}", random.u8(0..2)), "CZ".to_owned()),
                        1 => ("error".to_owned(), "EZ".to_owned()),
                        _ => (format!("nulls {rows}"), format!("T{}CZ", "D".repeat(rows))),
                    };
                    bytes.extend_from_slice(&query(&text));
                    expected.push(tags);
                }
                let mut writer = client.stream.try_clone().unwrap();
                let writing = std::thread::spawn(move || {
                    let mut rest = &bytes[..];
                    while !rest.is_empty() {
                        let (now, later) = rest.split_at(random.usize(1..=400).min(rest.len()));
                        writer.write_all(now).unwrap();
                        rest = later;
                    }
                });
                for (at, tags) in expected.iter().enumerate() {
                    assert_eq!(client.until_ready().0, *tags, "answer {at}");
                }
                writing.join().unwrap();
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert!(served.counts.departed.load(Ordering::SeqCst) > 0);
    served.runtime.close();
}

#[test]
fn cancel_requests_find_sessions_that_move_all_the_time() {
    let served = served();
    let clients: Vec<_> = (0..6)
        .map(|_| {
            let address = served.address.clone();
            std::thread::spawn(move || {
                let mut client = Raw::start(&address);
                for _ in 0..30 {
                    go(&mut client);
                    client.send(&query("wait"));
                    // Some come while the session is on its way, and are in vain.
                    let (stop, stopped) = std::sync::mpsc::channel::<()>();
                    let (address, key) = (address.clone(), client.key.clone());
                    let cancelling = std::thread::spawn(move || {
                        while stopped.try_recv().is_err() {
                            cancel(&address, &key);
                        }
                    });
                    assert_eq!(client.until_ready().0, "EZ");
                    stop.send(()).unwrap();
                    cancelling.join().unwrap();
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert_eq!(served.counts.departed.load(Ordering::SeqCst), 6 * 30);
    served.runtime.close();
}

#[test]
fn sessions_that_move_while_the_database_closes_are_told() {
    for round in 0..20 {
        let served = served();
        let clients: Vec<_> = (0..16)
            .map(|_| {
                let mut client = Raw::start(&served.address);
                std::thread::spawn(move || {
                    let mut last = Vec::new();
                    for number in 0_u64.. {
                        // Sending fails once the server is gone: what it said before counts.
                        let _ = client.stream.write_all(&query(&format!("go {}", number % 2)));
                        while let Some((tag, body)) = client.message() {
                            last = body;
                            if tag == b'Z' {
                                break;
                            }
                        }
                        if last != b"I" {
                            break;
                        }
                    }
                    last
                })
            })
            .collect();
        eventually("moves", || served.counts.departed.load(Ordering::SeqCst) > 100);
        served.runtime.close();
        for client in clients {
            let last = client.join().unwrap();
            assert!(has_state(&last, "57P01"), "round {round}: {last:?}");
        }
        assert_eq!(served.counts.ended.load(Ordering::SeqCst), 16, "every backend was ended");
    }
}

#[test]
fn a_session_counts_where_it_was_accepted() {
    let options = SessionOptions { sessions_max: 1, ..SessionOptions::default() };
    let served = served_with(IoChoice::Auto, options);
    let mut first = Raw::start(&served.address);
    let mut second = Raw::start(&served.address);
    let (origin, other) = (place(&mut first), place(&mut second));
    assert_ne!(origin, other, "connections go to all instances in turn");
    go(&mut first);
    assert_eq!(place(&mut first), other);
    let is_refused = |address: &str| {
        let mut client = Raw::connect(address);
        client.startup("postgres");
        let (tags, bodies) = client.until_ready();
        tags == "E" && has_state(&bodies[0], "53300")
    };
    // One to each: both are full.
    assert!(is_refused(&served.address) && is_refused(&served.address));
    assert_eq!(place(&mut second), other);
    first.send(&framed(b'X', b""));
    assert!(first.message().is_none());
    eventually("its place is free", || !is_refused(&served.address));
    served.runtime.close();
}
