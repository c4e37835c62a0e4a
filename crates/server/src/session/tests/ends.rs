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
