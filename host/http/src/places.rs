//! The places that a listener has for connections. One without a request only waits: when all places are taken, the
//! oldest that waits, of the client that has the most, gives way to a newcomer. So clients that say nothing cannot keep
//! out those that speak. And the requests of one client use at most half of the places. Pure, but for its lock.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::share::Share;

/// Whose place it is: a network, or `None` for the processes on the other end of a local socket.
pub(crate) type Client = Option<IpAddr>;

/// The places of one listener. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Places(Arc<Mutex<Table>>);

#[derive(Debug)]
struct Table {
    max: usize,
    next: u64,
    taken: HashMap<u64, TakenPlace>,
    clients: HashMap<Client, ClientPlaces>,
    /// Those with places that wait.
    yielding: BTreeSet<Rank>,
}

/// Which client gives way: the one with the most places, then the one with the oldest place that waits.
type Rank = (usize, Reverse<u64>, Client);

/// A place that is taken.
#[derive(Debug)]
struct TakenPlace {
    /// Who has connected.
    peer: Client,
    /// Whose request it is; the peer's between requests.
    client: Client,
    /// Since when it waits, as a number that grows.
    waits_since: Option<u64>,
    over: CancellationToken,
}

/// What one client has.
#[derive(Debug, Default)]
struct ClientPlaces {
    places: usize,
    /// The places that wait, by age.
    waiting: BTreeMap<u64, u64>,
    share: Share,
}

/// A place, until it is dropped. It waits at first.
#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    number: u64,
    over: CancellationToken,
}

/// What a request has of its connection. Each request has it in its extensions.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    pub(crate) place: Arc<Place>,
    /// What the requests of its client use; `None` if that has no limit.
    pub(crate) share: Option<Share>,
}

impl Places {
    /// Makes `max` places.
    pub(crate) fn new(max: usize) -> Self {
        Self(Arc::new(Mutex::new(Table {
            max,
            next: 0,
            taken: HashMap::new(),
            clients: HashMap::new(),
            yielding: BTreeSet::new(),
        })))
    }

    /// Takes a place for a connection of `peer`, for which another may have to give way. `None` if all have requests.
    pub(crate) fn take(&self, peer: Client) -> Option<Place> {
        let mut table = self.0.lock();
        if table.taken.len() >= table.max {
            table.make_room()?;
        }
        let (number, over) = (table.count(), CancellationToken::new());
        let taken = TakenPlace {
            peer,
            client: peer,
            waits_since: None,
            over: over.clone(),
        };
        table.taken.insert(number, taken);
        table.change(peer, |held| held.places += 1);
        table.wait(number);
        Some(Place {
            places: self.clone(),
            number,
            over,
        })
    }
}

impl Place {
    /// Waits until it has given way to another. Cancel safe.
    pub(crate) async fn given_up(&self) {
        self.over.cancelled().await;
    }

    /// Begins a request of `client`, during which it gives way to no other. Returns the client's share of what requests
    /// use; `None` if the client `is_limited` and its requests have half of the places already.
    pub(crate) fn begin(&self, client: Client, is_limited: bool) -> Option<Share> {
        let mut table = self.places.0.lock();
        let half = table.max.div_ceil(2);
        let held = table.clients.get(&client);
        let requests = held.map_or(0, |held| held.places - held.waiting.len());
        if is_limited && requests >= half {
            return None;
        }
        table.hold(self.number);
        table.move_to(self.number, client);
        let held = table.clients.get(&client);
        Some(held.map(|held| held.share.clone()).unwrap_or_default())
    }

    /// Lets others have it although its request is unfinished.
    pub(crate) fn yield_place(&self) {
        self.places.0.lock().wait(self.number);
    }

    /// Takes back [`Place::yield_place`].
    pub(crate) fn hold(&self) {
        self.places.0.lock().hold(self.number);
    }

    /// Ends a request. It waits for the next.
    pub(crate) fn end(&self) {
        let mut table = self.places.0.lock();
        let peer = table.taken.get(&self.number).map(|taken| taken.peer);
        if let Some(peer) = peer {
            table.hold(self.number);
            table.move_to(self.number, peer);
            table.wait(self.number);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.0.lock().free(self.number);
    }
}

impl Table {
    const fn count(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Frees the place that gives way first, if any does.
    fn make_room(&mut self) -> Option<()> {
        let (_, Reverse(oldest), client) = *self.yielding.last()?;
        let number = *self.clients.get(&client)?.waiting.get(&oldest)?;
        self.taken.get(&number)?.over.cancel();
        self.free(number);
        Some(())
    }

    fn free(&mut self, number: u64) {
        self.hold(number);
        if let Some(taken) = self.taken.remove(&number) {
            self.change(taken.client, |held| held.places -= 1);
        }
    }

    /// Lets a place wait, from now on.
    fn wait(&mut self, number: u64) {
        let now = self.count();
        let Some(taken) = self.taken.get_mut(&number) else {
            return;
        };
        if taken.waits_since.is_none() {
            taken.waits_since = Some(now);
            let client = taken.client;
            self.change(client, |held| _ = held.waiting.insert(now, number));
        }
    }

    /// Lets a place wait no more.
    fn hold(&mut self, number: u64) {
        let taken = self.taken.get_mut(&number);
        let waiting = taken.and_then(|taken| Some((taken.client, taken.waits_since.take()?)));
        if let Some((client, since)) = waiting {
            self.change(client, |held| _ = held.waiting.remove(&since));
        }
    }

    /// Counts a place, which does not wait, as one of `client`.
    fn move_to(&mut self, number: u64, client: Client) {
        let Some(taken) = self.taken.get_mut(&number) else {
            return;
        };
        let before = std::mem::replace(&mut taken.client, client);
        if before != client {
            self.change(before, |held| held.places -= 1);
            self.change(client, |held| held.places += 1);
        }
    }

    /// Changes what a client has, and with it when the client gives way.
    fn change(&mut self, client: Client, change: impl FnOnce(&mut ClientPlaces)) {
        let held = self.clients.entry(client).or_default();
        if let Some(rank) = held.rank(client) {
            self.yielding.remove(&rank);
        }
        change(held);
        if let Some(rank) = held.rank(client) {
            self.yielding.insert(rank);
        }
        if held.places == 0 {
            self.clients.remove(&client);
        }
    }
}

impl ClientPlaces {
    /// Returns its rank if it has places that wait.
    fn rank(&self, client: Client) -> Option<Rank> {
        let (oldest, _) = self.waiting.first_key_value()?;
        Some((self.places, Reverse(*oldest), client))
    }
}
