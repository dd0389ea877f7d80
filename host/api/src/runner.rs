//! The pools of foreign runners as the API shows them.

use host_engine::node::{Pool, PoolRunner};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::node::NamedNode;
use crate::words::RunnerState;

/// A pool of foreign runners.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = RunnerPool)]
pub struct PoolView {
    /// Its name: what stands before `#` in a handler's name.
    pub name: String,
    /// The node that has it, if there are others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NamedNode>,
    /// Its wire.
    #[serde(default)]
    #[schema(required = true)]
    pub wire: String,
    /// Whether its runners are started by another program; a restart then reconnects.
    #[serde(default)]
    #[schema(required = true)]
    pub external: bool,
    /// Whether its node can restart its runners or reconnect to them.
    #[serde(default)]
    #[schema(required = true)]
    pub restartable: bool,
    /// The queues whose jobs all go to it.
    #[serde(default)]
    #[schema(required = true)]
    pub queues: Vec<String>,
    /// Whether it gets the jobs whose handler no component has.
    #[serde(default)]
    #[schema(required = true)]
    pub default: bool,
    /// How many of its runners take work.
    #[serde(default)]
    #[schema(required = true)]
    pub up: u64,
    /// Attempts in flight at all of them.
    #[serde(default)]
    #[schema(required = true)]
    pub in_flight: u64,
    /// Its runners.
    #[serde(default)]
    #[schema(required = true)]
    pub runners: Vec<RunnerView>,
    /// How many more it has at another node, which lists only the first 128.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schema(required = false)]
    pub runners_omitted: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// One foreign runner.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Runner)]
pub struct RunnerView {
    /// Its name in attempts: `python/1`.
    pub executor: String,
    /// Its state.
    #[serde(default)]
    #[schema(value_type = RunnerState, required = true)]
    pub state: String,
    /// Where it listens, or the Redis from which it takes its jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Its process, if we started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Attempts in flight.
    #[serde(default)]
    #[schema(required = true)]
    pub in_flight: u64,
    /// How often in a row it ended without an answer or could not be reached.
    #[serde(default)]
    #[schema(required = true)]
    pub failures: u32,
    /// Why it takes no work, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What it is doing, if its wire reports that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
}

/// Which node's pool.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NodeQuery {
    /// The node's id, the start of it, or the name of its machine.
    pub node: Option<String>,
}

/// Which runners to restart.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RestartBody {
    /// The number of one runner, from 1; all of the pool if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub runner: Option<usize>,
}

impl PoolView {
    /// Shows a pool of a node; the node is left out if it is the only one.
    pub fn new(pool: Pool, node: Option<NamedNode>) -> Self {
        Self {
            name: pool.name.into(),
            node,
            wire: pool.wire,
            external: pool.is_external,
            restartable: pool.is_restartable,
            queues: pool.queues.into_iter().map(String::from).collect(),
            default: pool.is_default,
            up: pool.up,
            in_flight: pool.in_flight,
            runners: pool.runners.into_iter().map(RunnerView::from).collect(),
            runners_omitted: pool.omitted,
        }
    }

    /// Returns how many runners it has.
    pub fn size(&self) -> u64 {
        self.runners.len() as u64 + self.runners_omitted
    }
}

impl From<PoolRunner> for RunnerView {
    fn from(runner: PoolRunner) -> Self {
        Self {
            executor: runner.name,
            state: runner.state,
            address: runner.address,
            pid: runner.pid,
            in_flight: runner.in_flight,
            failures: runner.failures,
            reason: runner.reason,
            doing: runner.doing,
        }
    }
}
