//! Connections that have not yet proved that they speak TLS. There are few of them at a time: if one more
//! arrives, the oldest ends, so that those who say nothing cannot keep out those who speak.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The handshakes of one listener. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Handshakes(Arc<Mutex<Begun>>);

#[derive(Debug)]
struct Begun {
    max: usize,
    next: u64,
    /// By age. Dropping the sender ends the handshake.
    all: BTreeMap<u64, oneshot::Sender<()>>,
}

/// One handshake, until it is dropped.
#[derive(Debug)]
pub(crate) struct Handshake {
    of: Handshakes,
    number: u64,
    ended: oneshot::Receiver<()>,
}

impl Handshakes {
    /// Lets `max` of them go on at once.
    pub(crate) fn new(max: usize) -> Self {
        Self(Arc::new(Mutex::new(Begun {
            max,
            next: 0,
            all: BTreeMap::new(),
        })))
    }

    /// Begins one, which may end the oldest.
    pub(crate) fn begin(&self) -> Handshake {
        let (goes_on, ended) = oneshot::channel();
        let mut begun = self.0.lock();
        let number = begun.next;
        begun.next += 1;
        begun.all.insert(number, goes_on);
        if begun.all.len() > begun.max {
            begun.all.pop_first();
        }
        Handshake {
            of: self.clone(),
            number,
            ended,
        }
    }
}

impl Handshake {
    /// Waits until it must make room for another. Cancel safe.
    pub(crate) async fn ended(&mut self) {
        // Nothing is ever sent.
        let _dropped = (&mut self.ended).await;
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.of.0.lock().all.remove(&self.number);
    }
}
