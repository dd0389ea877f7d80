//! Who gets a place, and who gives way.

use std::net::Ipv4Addr;

use super::*;

fn client(n: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, n).into()
}

impl Place {
    fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }
}

#[test]
fn the_oldest_that_waits_of_the_client_with_the_most_gives_way() {
    let places = Places::new(4);
    let one = places.take(Some(client(1))).unwrap();
    let greedy: Vec<_> = (0..3)
        .map(|_| places.take(Some(client(2))).unwrap())
        .collect();
    let late = places.take(Some(client(3))).unwrap();
    let is_over: Vec<_> = greedy.iter().map(Place::is_over).collect();
    assert_eq!(is_over, [true, false, false]);
    // The greedy client gets in, too, in its own place.
    let again = places.take(Some(client(2))).unwrap();
    assert!(greedy[1].is_over() && !again.is_over());
    assert!(!one.is_over() && !late.is_over());
    // Of equals, the oldest.
    drop((greedy, again));
    let (five, six) = (places.take(Some(client(5))), places.take(Some(client(6))));
    let seven = places.take(Some(client(7))).unwrap();
    assert!(one.is_over() && !late.is_over() && !seven.is_over());
    assert!(!five.unwrap().is_over() && !six.unwrap().is_over());
}

#[test]
fn a_place_with_a_request_gives_way_to_none_until_it_ends() {
    let places = Places::new(2);
    let (one, two) = (
        places.take(Some(client(1))).unwrap(),
        places.take(Some(client(2))).unwrap(),
    );
    assert!(one.begin(Some(client(1)), true).is_some());
    assert!(two.begin(Some(client(2)), true).is_some());
    assert!(places.take(Some(client(3))).is_none());
    // What an unfinished request lets others have, it may take back.
    one.yield_place();
    one.hold();
    assert!(places.take(Some(client(3))).is_none());
    one.yield_place();
    one.yield_place();
    let three = places.take(Some(client(3))).unwrap();
    assert!(one.is_over() && !two.is_over());
    // A request that has ended changes nothing.
    one.hold();
    one.end();
    drop(one);
    two.end();
    let four = places.take(Some(client(4))).unwrap();
    assert!(three.is_over(), "it waits longer than the second");
    drop((two, three, four));
    let table = places.0.lock();
    assert!(table.taken.is_empty() && table.clients.is_empty() && table.yielding.is_empty());
}

#[test]
fn the_requests_of_one_client_use_half_of_the_places() {
    let places = Places::new(4);
    let all: Vec<_> = (0..3)
        .map(|_| places.take(Some(client(1))).unwrap())
        .collect();
    assert!(all[0].begin(Some(client(1)), true).is_some());
    assert!(all[1].begin(Some(client(1)), true).is_some());
    assert!(all[2].begin(Some(client(1)), true).is_none());
    assert!(
        all[2].begin(Some(client(1)), false).is_some(),
        "such as for health"
    );
    all[2].end();
    // Through the same proxy, the request of another client counts as its own.
    assert!(all[2].begin(Some(client(2)), true).is_some());
    all[0].end();
    let more = places.take(Some(client(1))).unwrap();
    assert!(more.begin(Some(client(1)), true).is_some());
    assert!(all[0].begin(Some(client(1)), true).is_none());
}

#[test]
fn a_client_has_one_share_as_long_as_it_has_places() {
    let places = Places::new(4);
    let (one, two) = (
        places.take(Some(client(1))).unwrap(),
        places.take(Some(client(1))).unwrap(),
    );
    let stream = one.begin(Some(client(1)), true).unwrap().stream();
    assert!(stream.is_some());
    assert_eq!(two.begin(Some(client(1)), true).unwrap().streams(), 1);
    assert_eq!(two.begin(Some(client(2)), true).unwrap().streams(), 0);
}
