//! `[protocol.delta]`: the times of leases, and the pools of foreign runners with their tokens.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use host_core::name::Name;
use host_core::policy::{OnGraceExpired, Policy};
use host_wire_kit::section::{At, ConfigError, Number, SecretText, Section};

use super::tokens::{self, Tokens};
use super::{Keys, RunnerKeys};
use crate::refusals::{Code, WireRefusal};
use crate::tags;

/// The longest of the times, in seconds: a week.
pub(super) const SECONDS_MAX: u64 = 7 * 24 * 3_600;

/// Stands between the number of a runner that a host starts and the node.
pub(crate) const NODE_SEPARATOR: char = '@';

/// The most runners of a pool that this host starts.
pub(super) const POOL_SIZE_MAX: u64 = 64;

/// The times of leases, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) lease_ttl: u64,
    pub(crate) heartbeat_interval: u64,
    pub(crate) ack: u64,
    pub(crate) cancel_deadline: u64,
    /// The time limit of a job whose sender sets none.
    pub(crate) max_runtime: u64,
}

/// One pool of foreign runners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolConfig {
    /// The executor's name.
    pub(crate) name: Name,
    /// Where it is configured.
    pub(crate) origin: String,
    /// What each of its runners must offer.
    pub(crate) capabilities: BTreeSet<String>,
    /// How this host starts runners for it, if it does.
    pub(crate) launch: Option<Launch>,
}

/// How runners are started, each for one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    /// The program and its arguments, before those of the document. Never empty.
    pub(crate) command: Vec<String>,
    /// How many runners there are.
    pub(crate) pool_size: usize,
    /// The whole environment of the runners.
    pub(crate) env: BTreeMap<String, String>,
}

/// The checked section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeltaConfig {
    pub(crate) times: Times,
    /// All pools, by name.
    pub(crate) pools: Vec<PoolConfig>,
    /// The tokens, by the place of their pool.
    pub(crate) tokens: Tokens,
}

impl Times {
    /// Returns how long after its time limit a runner may take to report the end, in milliseconds: as long as it may
    /// take to acknowledge the lease and to stop.
    pub(crate) const fn report_ms(self) -> u64 {
        (self.ack + self.cancel_deadline) * 1_000
    }

    /// Returns the rules of jobs that name no others.
    pub(crate) fn policy(self) -> Policy {
        Policy {
            cancel_grace_ms: Some(self.cancel_deadline * 1_000),
            on_grace_expired: OnGraceExpired::Cancelled,
            ack_window_ms: Some(self.ack * 1_000),
            timeout_ms: Some(self.max_runtime * 1_000),
            report_ms: Some(self.report_ms()),
            ..Policy::default()
        }
    }
}

impl PoolConfig {
    /// Returns whether a runner has the name of one that a host starts: a number, and the node if several share
    /// the store.
    pub(crate) fn starts(&self, runner_id: &str) -> bool {
        let most = self.launch.as_ref().map_or(0, |launch| launch.pool_size);
        let (number, most) = match runner_id.split_once(NODE_SEPARATOR) {
            // Another node may start more.
            Some((number, _)) if most > 0 => (number, usize::MAX),
            _ => (runner_id, most),
        };
        number
            .parse()
            .is_ok_and(|number| (1..=most).contains(&number))
    }

    /// Refuses the name of a runner that this host starts.
    pub(crate) fn check_own(&self, runner_id: &str) -> Result<(), WireRefusal> {
        if self.starts(runner_id) {
            let most = self.launch.as_ref().map_or(0, |launch| launch.pool_size);
            let message = format!(
                "runner_id: 1–{most}, alone or before `{NODE_SEPARATOR}`, are reserved for runners that the host \
                 starts; choose another name"
            );
            return Err(WireRefusal::new(Code::FieldValue, message));
        }
        Ok(())
    }
}

impl DeltaConfig {
    /// Interprets the keys and reads the files with tokens.
    pub(crate) fn read(section: &Section<'_>, keys: &Keys) -> Result<Self, ConfigError> {
        let mut config = Self {
            times: times(keys)?,
            pools: Vec::new(),
            tokens: Tokens::default(),
        };
        for (name, runner) in &keys.runners {
            let number = u32::try_from(config.pools.len()).unwrap_or(u32::MAX);
            let pool = pool(section, name, runner)?;
            let needs_token = pool.launch.is_none();
            config.pools.push(pool);
            let secret = section.secret(runner.token_file.as_ref(), runner.token_env.as_ref())?;
            if secret.is_none() && !needs_token {
                continue;
            }
            let secret = needed(secret, runner)?;
            let lines = tokens::lines(secret.text()?);
            for token in lines.map_err(|why| secret.refused(why))? {
                if !config.tokens.add(token, number) {
                    let message = "another pool has the same token; give each pool its own";
                    return Err(secret.refused(message));
                }
            }
        }
        Ok(config)
    }

    /// Returns the pool of this name.
    pub(crate) fn pool(&self, name: &str) -> Option<&PoolConfig> {
        self.pools.iter().find(|pool| pool.name.as_str() == name)
    }

    /// Returns the pool of a worker if a host has started it, this one or another node.
    pub(crate) fn pool_of_started(&self, worker: &str) -> Option<&PoolConfig> {
        let (pool, runner_id) = worker.split_once('/')?;
        self.pool(pool).filter(|pool| pool.starts(runner_id))
    }

    /// Returns whether this host starts runners.
    pub(crate) fn launches(&self) -> bool {
        self.pools.iter().any(|pool| pool.launch.is_some())
    }
}

fn times(keys: &Keys) -> Result<Times, ConfigError> {
    let (ttl, interval) = (&keys.lease_ttl_seconds, &keys.heartbeat_interval_seconds);
    let times = Times {
        lease_ttl: ttl.get(),
        heartbeat_interval: interval.get(),
        ack: keys.ack_seconds.get(),
        cancel_deadline: keys.cancel_deadline_seconds.get(),
        max_runtime: keys.max_runtime_seconds.get(),
    };
    if times.lease_ttl < 2 * times.heartbeat_interval {
        let wanted = format!(
            "the lease TTL ({}) must be at least twice the heartbeat interval ({})",
            times.lease_ttl, times.heartbeat_interval
        );
        let is_default = ttl.origin.is_empty();
        return Err(if is_default {
            interval.refuse(wanted)
        } else {
            ttl.refuse(wanted)
        });
    }
    Ok(times)
}

fn pool(
    section: &Section<'_>,
    name: &Name,
    runner: &At<RunnerKeys>,
) -> Result<PoolConfig, ConfigError> {
    if name.as_str().contains(tags::SEPARATOR) {
        let wanted = "expected a name without `/`, which precedes the tags of a job";
        return Err(ConfigError::value(&runner.origin, name, wanted));
    }
    Ok(PoolConfig {
        name: name.clone(),
        origin: runner.origin.clone(),
        capabilities: runner.capabilities.0.clone(),
        launch: launch(section, runner)?,
    })
}

fn launch(section: &Section<'_>, runner: &At<RunnerKeys>) -> Result<Option<Launch>, ConfigError> {
    let Some(command) = &runner.cmd else {
        let others = [
            ("pool_size", runner.pool_size.is_some()),
            ("env", !runner.env.is_empty()),
            ("inherit_env", !runner.inherit_env.is_empty()),
        ];
        return match others.into_iter().find(|(_, is_set)| *is_set) {
            Some((key, _)) => {
                Err(runner.hidden_key(key, "requires `cmd`, the program of the runners"))
            }
            None => Ok(None),
        };
    };
    Ok(Some(Launch {
        command: command.0.clone(),
        pool_size: runner.pool_size.map_or(1, Number::count),
        env: section.program_env(&runner.env, &runner.inherit_env),
    }))
}

/// Refuses a table without tokens.
pub(super) fn needed<T>(
    secret: Option<SecretText>,
    table: &At<T>,
) -> Result<SecretText, ConfigError> {
    secret.ok_or_else(|| table.hidden("missing token: set token_file or token_env"))
}
