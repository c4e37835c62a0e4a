//! How conversations end early: clients that say nothing, say the wrong thing, or say no more.

use std::net::Shutdown;

use super::*;

#[test]
fn who_starts_no_session_in_time_is_sent_away_without_a_word() {
    let options = SessionOptions { authentication_timeout_ms: 300, ..SessionOptions::default() };
    for io in [IoChoice::Auto, IoChoice::Threads] {
        let served = served_with(io, options);
        let mut known = Raw::start(&served.address);
        let began = Instant::now();
        let mut silent: Vec<_> = (0..4).map(|_| Raw::connect(&served.address)).collect();
        // Half of a first message is no start either.
        silent[0].send(&[0, 0, 0]);
        for client in &mut silent {
            assert!(client.message().is_none());
        }
        assert!(began.elapsed() >= Duration::from_millis(290), "{:?}", began.elapsed());
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
        // Whoever has started stays as long as it likes.
        assert_eq!(known.says(&query("nulls 1")), "TDCZ");
        served.runtime.close();
    }
}

/// Its refusal was the first that it said, which a client that asks for encryption cannot read; and nobody could
/// cancel what kept it full.
#[test]
fn a_full_server_listens_before_it_refuses() {
    let options = SessionOptions { sessions_max: 1, ..SessionOptions::default() };
    let served = served_with(IoChoice::Auto, options);
    let mut sessions = [Raw::start(&served.address), Raw::start(&served.address)];
    for session in &mut sessions {
        served.begin_wait(session);
    }
    let request = |code: u32, body: &[u8]| {
        let mut bytes = (body.len() as u32 + 8).to_be_bytes().to_vec();
        bytes.extend_from_slice(&code.to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    };
    let mut refused = Raw::connect(&served.address);
    refused.send(&request(80_877_103, b""));
    let mut answer = [0];
    refused.stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"N");
    refused.send(&request(196_608, b"user\0ann\0\0"));
    let (tag, body) = refused.message().unwrap();
    assert!(tag == b'E' && has_state(&body, "53300"), "{}", String::from_utf8_lossy(&body));
    assert!(refused.message().is_none());
    for session in &mut sessions {
        let mut canceller = Raw::connect(&served.address);
        canceller.send(&request(80_877_102, &session.key));
        assert!(canceller.message().is_none());
        let (tags, bodies) = session.until_ready();
        assert_eq!(tags, "EZ");
        assert!(has_state(&bodies[0], "57014"));
    }
    // More than are listened to are refused at once, and take no room from those who come when there is.
    let mut silent: Vec<Raw> = (0..200).map(|_| Raw::connect(&served.address)).collect();
    for last in &mut silent[190..] {
        assert!(matches!(last.message(), Some((b'E', _))));
    }
    let [first, second] = sessions;
    drop(first);
    eventually("room", || {
        let mut next = Raw::connect(&served.address);
        next.startup("postgres");
        matches!(next.message(), Some((b'R', _)))
    });
    drop((second, silent));
    served.runtime.close();
}

#[test]
fn another_message_during_copy_is_told_and_ends_the_session() {
    let served = served();
    let mut other = Raw::start(&served.address);
    let mut client = Raw::start(&served.address);
    let wrong = [query("copy"), framed(b'd', b"x"), query("nulls 1")].concat();
    client.send(&wrong);
    let (tags, bodies) = client.until_ready();
    assert_eq!(tags, "GEE");
    let says = |body: &[u8], text: &str| String::from_utf8_lossy(body).contains(text);
    assert!(says(&bodies[1], "SERROR\0"));
    assert!(says(&bodies[1], "unexpected message type 0x51 during COPY from stdin"));
    assert!(says(&bodies[2], "SFATAL\0"));
    assert!(says(&bodies[2], "protocol synchronization was lost"));
    assert_eq!(other.says(&query("nulls 1")), "TDCZ");
    served.runtime.close();
}

#[test]
fn what_was_asked_before_a_half_close_is_answered() {
    for io in [IoChoice::Auto, IoChoice::Threads] {
        let served = served_by(io);
        let mut client = Raw::start(&served.address);
        // More than one buffer of answers, and a reader that takes its time.
        let asked = [query("nulls 100000"), query("nulls 2"), query("error")].concat();
        client.send(&asked);
        client.stream.shutdown(Shutdown::Write).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        let (tags, _) = client.until_ready();
        assert_eq!(tags.len(), 100_003);
        assert_eq!(client.until_ready().0, "TDDCZ");
        assert_eq!(client.until_ready().0, "EZ");
        assert!(client.message().is_none());
        eventually("the session's end", || served.counts.ended.load(Ordering::SeqCst) == 1);
        served.runtime.close();
    }
}

#[test]
fn a_client_that_is_gone_is_not_waited_for() {
    let served = served();
    let mut client = Raw::start(&served.address);
    client.send(&query("nulls 3000000"));
    drop(client);
    eventually("the session's end", || served.counts.ended.load(Ordering::SeqCst) == 1);
    served.runtime.close();
}
