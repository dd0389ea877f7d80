//! Executors of other nodes: a job for one is accepted here and runs there.

use std::sync::Arc;

use host_core::name::Name;
use host_core::policy::Policy;
use host_core::time::Time;
use host_engine::node::{LEASE_MS, NodeRecord, Offer, last_node_with};
use parking_lot::RwLock;

/// The executors of other nodes, if known. Cloning shares it.
#[derive(Clone, Default)]
pub(super) struct RemoteExecutors(Arc<RwLock<Option<OfferSnapshot>>>);

struct OfferSnapshot {
    at: Time,
    offers: Vec<Offer>,
    /// The nodes that have gone.
    gone: Vec<NodeRecord>,
}

impl RemoteExecutors {
    /// Records the executors of these live nodes.
    pub(super) fn record_nodes(&self, now: Time, nodes: &[NodeRecord]) {
        let living = nodes.iter().filter(|node| !node.is_lost());
        let infos = living.filter_map(|node| node.info.as_ref());
        let offers = infos.flat_map(|info| info.offers.iter().cloned()).collect();
        let gone = nodes
            .iter()
            .filter(|node| node.is_lost())
            .cloned()
            .collect();
        let mut seen = self.0.write();
        *seen = Some(OfferSnapshot {
            at: now,
            offers,
            gone,
        });
    }

    /// Forgets old records, whose nodes may be gone.
    pub(super) fn forget_old(&self, now: Time) {
        let is_old = |seen: &OfferSnapshot| seen.at.plus_ms(LEASE_MS) <= now;
        let seen = self.0.read();
        if !seen.as_ref().is_some_and(is_old) {
            return;
        }
        drop(seen);
        let mut seen = self.0.write();
        seen.take_if(|seen| is_old(seen));
    }

    /// Returns the names of the executors of live nodes. `None` if unknown.
    pub(super) fn names(&self) -> Option<Vec<String>> {
        let seen = self.0.read();
        let offers = seen.as_ref()?.offers.iter();
        let named = offers.filter(|offer| !offer.is_family);
        Some(named.map(|offer| offer.name.clone()).collect())
    }

    /// Returns which node had an executor last, if no other has it.
    pub(super) fn last_node_of(&self, name: &str) -> Option<String> {
        let seen = self.0.read();
        let last = last_node_with(&seen.as_ref()?.gone, &name.parse().ok()?)?;
        Some(last.called().into_owned())
    }

    pub(super) fn has(&self, name: &Name) -> bool {
        self.offer(name, |_| ()).is_some()
    }

    pub(super) fn policy(&self, name: &Name) -> Option<Policy> {
        self.offer(name, |offer| offer.policy.clone())
    }

    pub(super) fn timeout_ms_max(&self, name: &Name) -> Option<u64> {
        self.offer(name, |offer| offer.timeout_ms_max).flatten()
    }

    /// Returns an executor for a job with these attributes. The error is for users.
    pub(super) fn place(
        &self,
        name: &Name,
        attributes: &[(String, String)],
    ) -> Result<Name, String> {
        let mut keys = attributes.iter().map(|(key, _)| key);
        let placed = |offer: &Offer| keys.find(|key| offer.placed_by.contains(key)).cloned();
        match self.offer(name, placed).flatten() {
            None => Ok(name.clone()),
            Some(key) => Err(format!(
                "{key}: only a node that has the runner {name} understands it; enqueue the job there"
            )),
        }
    }

    fn offer<T>(&self, name: &Name, of: impl FnOnce(&Offer) -> T) -> Option<T> {
        let seen = self.0.read();
        let mut offers = seen.as_ref()?.offers.iter();
        offers.find(|offer| offer.has(name)).map(of)
    }
}

#[cfg(test)]
mod tests {
    use host_core::id::NodeId;
    use host_engine::node::{Life, NodeInfo};

    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn node(offers: Vec<Offer>) -> NodeRecord {
        NodeRecord {
            id: NodeId::NIL,
            version: "1".to_owned(),
            life: Life::Lives,
            silent_ms: 0,
            ahead_ms: 0,
            drain: false,
            info: Some(NodeInfo {
                offers,
                ..NodeInfo::default()
            }),
            components: Arc::default(),
        }
    }

    fn offer(name: &str, is_family: bool, placed_by: &[&str]) -> Offer {
        Offer {
            name: name.to_owned(),
            is_family,
            placed_by: placed_by.iter().map(|key| (*key).to_owned()).collect(),
            policy: Policy {
                max_attempts: 7,
                ..Policy::default()
            },
            timeout_ms_max: Some(9_000),
        }
    }

    #[test]
    fn executors_of_nodes_that_live_are_known_for_a_while() {
        let remote = RemoteExecutors::default();
        let mut gone = node(vec![offer("ruby", false, &[])]);
        gone.life = Life::Left;
        let living = node(vec![
            offer("python", false, &["needs"]),
            offer("far-", true, &[]),
        ]);
        remote.record_nodes(Time(1_000), &[gone, living]);
        remote.forget_old(Time(10_999));
        for (executor, is_there) in [
            ("python", true),
            ("far-1", true),
            ("ruby", false),
            ("far-", true),
            ("far", false),
            ("python/x", false),
        ] {
            assert_eq!(remote.has(&name(executor)), is_there, "{executor}");
        }
        assert_eq!(remote.policy(&name("far-1")).unwrap().max_attempts, 7);
        assert_eq!(remote.timeout_ms_max(&name("far-1")), Some(9_000));
        let with = |key: &str| vec![(key.to_owned(), "gpu".to_owned())];
        let python = name("python");
        assert_eq!(remote.place(&python, &with("other")), Ok(python.clone()));
        let refused = remote.place(&python, &with("needs")).unwrap_err();
        assert!(refused.starts_with("needs: "), "{refused}");
        assert!(remote.place(&name("far-1"), &with("needs")).is_ok());
        let gone = node(vec![]).id.to_string();
        assert_eq!(
            (remote.last_node_of("ruby"), remote.last_node_of("perl")),
            (Some(gone), None)
        );
        assert_eq!(remote.names(), Some(vec!["python".to_owned()]));
        remote.forget_old(Time(11_000));
        assert!(!remote.has(&python) && remote.policy(&python).is_none());
        assert_eq!((remote.last_node_of("ruby"), remote.names()), (None, None));
    }
}
