//! Sessions that change places without end: every answer comes, and who is kept stays.

use super::*;
use atoll_kernel::sync::{AtomicBool, AtomicUsize};

#[test]
fn sessions_change_places_and_nothing_is_lost() {
    let always = SessionOptions { exchanges: Exchanges::Always, ..SessionOptions::default() };
    let served = served_with(IoChoice::Auto, always);
    let ends = Arc::new(AtomicBool::new(false));
    let places = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..8)
        .map(|number| {
            let (address, ends, places) = (served.address.clone(), ends.clone(), places.clone());
            std::thread::spawn(move || {
                let mut client = Raw::start(&address);
                // Two of them hold something that cannot move.
                if number < 2 {
                    assert_eq!(client.says(&query("stick")), "CZ");
                }
                let at = |client: &mut Raw| {
                    client.send(&query("where"));
                    client.until_ready().1[0].clone()
                };
                let mut last = at(&mut client);
                while !ends.load(Ordering::Relaxed) {
                    // In a block it stays.
                    assert_eq!(client.says(&query("begin")), "CZ");
                    let place = at(&mut client);
                    assert_eq!(client.says(&query("nulls 2")), "TDDCZ");
                    assert_eq!(at(&mut client), place);
                    assert_eq!(client.says(&query("commit")), "CZ");
                    assert!(number >= 2 || place == last, "who is stuck stays");
                    places.fetch_add(usize::from(place != last), Ordering::Relaxed);
                    last = place;
                }
            })
        })
        .collect();
    eventually("they have changed places", || places.load(Ordering::Relaxed) >= 40);
    ends.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert!(served.counts.departed.load(Ordering::SeqCst) >= 40);
    served.runtime.close();
}
