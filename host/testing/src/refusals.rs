//! Keeps the codes of the refusals that a wire counts.

use std::sync::Arc;
use std::time::Duration;

use host_core::port::Counters;
use tokio::sync::watch;
use tokio::time::timeout;

/// Longer than anything in a test takes.
const BOUND: Duration = Duration::from_mins(1);

/// The codes, in order. All are of one wire.
#[derive(Debug)]
pub struct Refusals {
    wire: &'static str,
    /// The codes so far. Tests may wait for them.
    pub codes: watch::Sender<Vec<&'static str>>,
}

impl Refusals {
    /// Keeps the codes of one wire.
    pub fn of(wire: &'static str) -> Arc<Self> {
        let codes = watch::Sender::default();
        Arc::new(Self { wire, codes })
    }

    /// Returns all codes so far.
    pub fn codes(&self) -> Vec<&'static str> {
        self.codes.borrow().clone()
    }

    /// Waits until this code was counted.
    pub async fn until(&self, code: &str) {
        let mut counted = self.codes.subscribe();
        let is_counted = counted.wait_for(|codes| codes.contains(&code));
        let _ = timeout(BOUND, is_counted).await.unwrap().unwrap();
    }
}

impl Counters for Refusals {
    fn refused(&self, wire: &'static str, code: &'static str) {
        assert_eq!(wire, self.wire);
        self.codes.send_modify(|codes| codes.push(code));
    }
}
