//! The state of this host's foreign runners, for its API and for the other nodes.

use host_dispatch::nodes::Presence;
use host_engine::node::{Pool, PoolRunner, shorten};
use host_wire_kit::executors::{ExecutorHealth, WorkerHealth, WorkerState};

use super::Executors;

impl Executors {
    /// Returns the pools of this host, by name.
    pub fn pools(&self) -> Vec<Pool> {
        let executors = self.health().into_iter();
        executors.map(|executor| self.pool(executor)).collect()
    }

    fn pool(&self, executor: ExecutorHealth) -> Pool {
        let is_up = |worker: &&WorkerHealth| worker.state == WorkerState::Up;
        let up = executor.workers.iter().filter(is_up).count();
        let in_flight: usize = executor.workers.iter().map(|worker| worker.in_flight).sum();
        Pool {
            wire: executor.wire.to_owned(),
            is_external: executor.is_external,
            is_restartable: executor.is_restartable,
            queues: self.queues_of(&executor.name),
            is_default: self.default_executor() == Some(&executor.name),
            up: up as u64,
            in_flight: in_flight as u64,
            runners: executor.workers.into_iter().map(runner).collect(),
            omitted: 0,
            name: executor.name,
        }
    }

    /// Publishes this host's runners to the other nodes, and their state with each heartbeat.
    pub(crate) fn publish_to(&self, presence: &Presence) {
        presence.update(|info| {
            info.runners = self.names();
            info.offers = self.offers();
        });
        let executors = self.clone();
        presence.complete_by(move |info| {
            info.pools = executors.pools();
            shorten(&mut info.pools);
        });
    }
}

fn runner(worker: WorkerHealth) -> PoolRunner {
    PoolRunner {
        state: worker.state.as_str().to_owned(),
        address: worker.address,
        pid: worker.pid,
        in_flight: worker.in_flight as u64,
        failures: worker.failures,
        reason: worker.reason,
        doing: worker.doing,
        name: worker.name,
    }
}

#[cfg(test)]
mod tests {
    use host_engine::node::NodeInfo;

    use super::*;

    #[test]
    fn little_is_written_and_what_other_versions_write_is_read() {
        let short =
            r#"{"name":"a","wire":"sample","up":1,"runners":[{"name":"a/1","state":"up"}]}"#;
        let pool: Pool = serde_json::from_str(short).unwrap();
        assert_eq!((pool.up, pool.runners[0].state.as_str()), (1, "up"));
        assert_eq!(serde_json::to_string(&pool).unwrap(), short);
        let later = r#"{"pools":[{"name":"a","mood":1,"runners":[{"name":"a/1","state":"asleep","mood":2}]}]}"#;
        let info: NodeInfo = serde_json::from_str(later).unwrap();
        assert_eq!(info.pools[0].runners[0].state, "asleep");
        let earlier: NodeInfo = serde_json::from_str(r#"{"name":"one","runners":["a"]}"#).unwrap();
        assert!(earlier.pools.is_empty() && earlier.retentions.is_empty());
    }
}
