//! Where new connections come: to the instances with the fewest, also after others have ended, moved or been refused.

use super::moves::{go, place};
use super::*;

/// How many sessions either of two instances has.
fn counts(clients: &mut [Raw]) -> [usize; 2] {
    let mut counts = [0; 2];
    clients.iter_mut().for_each(|client| counts[usize::from(place(client))] += 1);
    counts
}

/// Ends the client's session.
fn end(served: &Served, mut client: Raw) {
    let before = served.counts.ended.load(Ordering::SeqCst);
    client.send(&framed(b'X', b""));
    assert!(client.message().is_none());
    eventually("the session's end", || served.counts.ended.load(Ordering::SeqCst) > before);
}

#[test]
fn gaps_are_filled_first() {
    for io in [IoChoice::Auto, IoChoice::Threads] {
        let served = served_by(io);
        let mut clients: Vec<Raw> = (0..8).map(|_| Raw::start(&served.address)).collect();
        let [first, second] = counts(&mut clients);
        assert!(first.abs_diff(second) <= 2, "{first} and {second}");
        let mut left = Vec::new();
        for mut client in clients {
            if place(&mut client) == 1 { end(&served, client) } else { left.push(client) }
        }
        // A session's connection is forgotten a little after it has ended.
        let deadline = Instant::now() + Duration::from_secs(90);
        loop {
            let mut more: Vec<Raw> = (0..3).map(|_| Raw::start(&served.address)).collect();
            // The first instance has three at least.
            if counts(&mut more) == [0, 3] {
                left.append(&mut more);
                break;
            }
            assert!(Instant::now() < deadline, "the emptied instance is not filled");
            more.into_iter().for_each(|client| end(&served, client));
        }
        assert_eq!(counts(&mut left), [first, 3]);
        served.runtime.close();
    }
}

#[test]
fn a_session_that_moves_makes_room_where_it_was() {
    let served = served();
    let mut clients: Vec<Raw> = (0..4).map(|_| Raw::start(&served.address)).collect();
    for client in &mut clients {
        if place(client) == 0 {
            assert_eq!(go(client), 1);
        }
    }
    assert_eq!(counts(&mut clients), [0, 4]);
    clients.extend((0..4).map(|_| Raw::start(&served.address)));
    assert_eq!(counts(&mut clients), [4, 4]);
    served.runtime.close();
}
