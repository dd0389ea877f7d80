//! The foreign runners of a node, as the other nodes show them.

use host_core::name::Name;
use serde::{Deserialize, Serialize};

/// How many runners a node reports to the others. Of the rest, it reports only the number.
const RUNNERS_MAX: usize = 128;

/// How many queues of a pool it reports.
const QUEUES_MAX: usize = 64;

/// How much of a text about a runner it reports, in characters.
const TEXT_CHARS_MAX: usize = 160;

/// A pool of foreign runners.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// The part before `#` in a handler's name.
    pub name: Name,
    /// Its wire.
    #[serde(default)]
    pub wire: String,
    /// Whether its runners are started externally.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_external: bool,
    /// Whether its node can restart its runners, or reconnect to them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_restartable: bool,
    /// The queues whose jobs all go to it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub queues: Vec<Name>,
    /// Whether it gets jobs whose handler is in no component.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_default: bool,
    /// How many of its runners accept work.
    #[serde(default, skip_serializing_if = "is_default")]
    pub up: u64,
    /// Attempts in flight at all of them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub in_flight: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub runners: Vec<PoolRunner>,
    /// How many more there are.
    #[serde(default, skip_serializing_if = "is_default")]
    pub omitted: u64,
}

/// One foreign runner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolRunner {
    /// Its name in attempts: `python/1`.
    pub name: String,
    /// Where it is in its life, as users see it.
    pub state: String,
    /// Where it listens, or takes its jobs.
    #[serde(skip_serializing_if = "is_default")]
    pub address: Option<String>,
    /// Its process, if its node started it.
    #[serde(skip_serializing_if = "is_default")]
    pub pid: Option<u32>,
    /// Attempts in flight.
    #[serde(skip_serializing_if = "is_default")]
    pub in_flight: u64,
    /// How often in a row it has failed.
    #[serde(skip_serializing_if = "is_default")]
    pub failures: u32,
    /// Why it accepts no work, if known.
    #[serde(skip_serializing_if = "is_default")]
    pub reason: Option<String>,
    /// A description of its work from its wire.
    #[serde(skip_serializing_if = "is_default")]
    pub doing: Option<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Truncates the pools to the limits of a node's info.
pub fn shorten(pools: &mut [Pool]) {
    let mut room = RUNNERS_MAX;
    for pool in pools {
        let omitted = pool.runners.len().saturating_sub(room);
        pool.runners.truncate(room);
        pool.omitted += omitted as u64;
        room -= pool.runners.len();
        pool.queues.truncate(QUEUES_MAX);
        for runner in &mut pool.runners {
            let texts = [&mut runner.address, &mut runner.reason, &mut runner.doing];
            for text in texts.into_iter().flatten() {
                if let Some((end, _)) = text.char_indices().nth(TEXT_CHARS_MAX) {
                    text.truncate(end);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, runners: usize) -> Pool {
        let runner = |n| PoolRunner {
            name: format!("{name}/{n}"),
            state: "up".to_owned(),
            ..PoolRunner::default()
        };
        Pool {
            name: name.parse().unwrap(),
            wire: "sample".to_owned(),
            is_external: false,
            is_restartable: false,
            queues: Vec::new(),
            is_default: false,
            up: runners as u64,
            in_flight: 0,
            runners: (1..=runners).map(runner).collect(),
            omitted: 0,
        }
    }

    #[test]
    fn what_is_too_much_for_a_card_is_left_out() {
        let mut pools = [pool("a", 100), pool("b", 100), pool("c", 1)];
        pools[0].runners[0].reason = Some("ü".repeat(TEXT_CHARS_MAX + 1));
        pools[0].queues = vec!["q".parse().unwrap(); QUEUES_MAX + 1];
        shorten(&mut pools);
        let sent = pools
            .each_ref()
            .map(|pool| (pool.runners.len(), pool.omitted, pool.up));
        assert_eq!(sent, [(100, 0, 100), (28, 72, 100), (0, 1, 1)]);
        let reason = pools[0].runners[0].reason.as_ref().unwrap();
        assert_eq!(reason.chars().count(), TEXT_CHARS_MAX);
        assert_eq!(pools[0].queues.len(), QUEUES_MAX);
        let once = pools.clone();
        shorten(&mut pools);
        assert_eq!(pools, once, "a second time leaves out nothing");
    }
}
