//! The nodes of the orchestrator: they start, stop and are killed while the runners work.

use std::sync::Arc;

use futures_util::FutureExt as _;
use host_core::id::NodeId;
use host_core::port::lease::Leases;
use host_testing::Refusals;
use uuid::Uuid;

use super::{Event, Sim, TIMES};
use crate::orchestrator::{Pools, launched};
use crate::settings::{DeltaConfig, Tokens};

impl Sim {
    /// Starts a node. It takes nothing from one that lives.
    pub(super) fn start_node(&mut self, n: usize) {
        let config = DeltaConfig {
            times: TIMES,
            pools: vec![self.pool.clone()],
            tokens: Tokens::default(),
        };
        let of_others = self.model.leases_of_others(self.id_of(n));
        let node: Arc<dyn Leases> = self.model.node(self.id_of(n));
        let refusals = Refusals::of(crate::NAME);
        let pools = Pools::at(&self.model, &node, &refusals, config);
        let taken_over = launched::take_over(&pools, &node).now_or_never();
        assert!(taken_over.is_some(), "the host answers immediately");
        self.nodes[n] = Some(pools);
        assert!(self.model.are_left(&of_others), "seed {}", self.seed);
    }

    /// Returns the id of a node. One that is alone has none.
    fn id_of(&self, n: usize) -> NodeId {
        if self.nodes.len() == 1 {
            return NodeId::NIL;
        }
        NodeId(Uuid::from_u128(n as u128 + 1))
    }

    /// Returns a node that a message may reach. One always lives.
    pub(super) fn node(&mut self) -> (usize, Arc<Pools>) {
        let living: Vec<_> = self
            .nodes
            .iter()
            .enumerate()
            .filter_map(|(n, pools)| Some((n, Arc::clone(pools.as_ref()?))))
            .collect();
        if living.len() == 1 {
            return living[0].clone();
        }
        let chosen = usize::try_from(self.random.below(living.len() as u64));
        living[chosen.unwrap()].clone()
    }

    /// Stops a node, or kills it: then what has reached it gets no answer. Another one starts it again later.
    pub(super) fn stop_node(&mut self) {
        let (n, pools) = self.node();
        if self.random.is_one_in(2) {
            return self.kill_node(n);
        }
        self.stopped += 1;
        pools.stop();
        self.model.stop_waiting(self.id_of(n));
        let takes = self.random.below(3_000);
        self.after(takes, Event::Kill(n));
    }

    pub(super) fn kill_node(&mut self, n: usize) {
        if self.nodes[n].is_none() {
            return;
        }
        self.model.kill(self.id_of(n));
        self.waiting.retain(|open| open.node != n);
        self.nodes[n] = None;
        if self.nodes.iter().any(Option::is_some) {
            let after = self.random.below(30_000);
            self.after(after, Event::Start(n));
        } else {
            self.start_node(n);
        }
    }

    /// Lets the orchestrator do what is due.
    pub(super) fn wake(&self) {
        for pools in self.nodes.iter().flatten() {
            pools.pass_time();
        }
    }

    /// Checks that no node takes a runner for occupied once the job has ended and all is silent.
    pub(super) fn check_occupied(&self) {
        let silent = 3 * TIMES.lease_ttl;
        for _ in 0..silent {
            self.model.advance(1_000);
            self.wake();
        }
        for (n, pools) in self.nodes.iter().enumerate() {
            let occupied = pools
                .as_ref()
                .map_or(0, |pools| pools.workers(&self.pool.name).len());
            assert_eq!(occupied, 0, "seed {}: node {n}", self.seed);
        }
    }
}
