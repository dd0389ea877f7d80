//! `[protocol.delta]`: the times of leases, and the pools of foreign runners with their tokens.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use host_core::name::Name;
use host_core::policy::{OnGraceExpired, Policy};
use host_wire_kit::section::{ConfigError, NamedTable, SecretText, Section, refused};

use super::tokens::{self, Tokens};
use crate::refusals::{Code, Refused};
use crate::settings::{ACK, CANCEL_DEADLINE, HEARTBEAT_INTERVAL, LEASE_TTL, MAX_RUNTIME, RUNNERS};
use crate::tags::{self, TAG_BYTES_MAX, TAGS_MAX};

/// The longest of the times, in seconds: a week.
pub(super) const SECONDS_MAX: u64 = 7 * 24 * 3_600;

/// Stands between the number of a runner that a host starts and the node.
pub(crate) const NODE_SEPARATOR: char = '@';

/// The most runners of a pool that this host starts.
const POOL_SIZE_MAX: i64 = 64;

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
    pub(crate) fn check_own(&self, runner_id: &str) -> Result<(), Refused> {
        if self.starts(runner_id) {
            let most = self.launch.as_ref().map_or(0, |launch| launch.pool_size);
            let message = format!(
                "runner_id: 1–{most}, alone or before `{NODE_SEPARATOR}`, are reserved for runners that the host \
                 starts; choose another name"
            );
            return Err(Refused::new(Code::FieldValue, message));
        }
        Ok(())
    }
}

impl DeltaConfig {
    /// Reads the section and the files with tokens.
    pub(crate) fn read(section: &Section<'_>) -> Result<Self, ConfigError> {
        let mut config = Self {
            times: times(section)?,
            pools: Vec::new(),
            tokens: Tokens::default(),
        };
        for (name, table) in section.tables(RUNNERS) {
            let number = u32::try_from(config.pools.len()).unwrap_or(u32::MAX);
            let pool = pool(section, name, table)?;
            let needs_token = pool.launch.is_none();
            config.pools.push(pool);
            let secret = secret(section, table)?;
            if secret.is_none() && !needs_token {
                continue;
            }
            let secret = needed(secret, table)?;
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

fn times(section: &Section<'_>) -> Result<Times, ConfigError> {
    let times = Times {
        lease_ttl: section.number(&LEASE_TTL)?,
        heartbeat_interval: section.number(&HEARTBEAT_INTERVAL)?,
        ack: section.number(&ACK)?,
        cancel_deadline: section.number(&CANCEL_DEADLINE)?,
        max_runtime: section.number(&MAX_RUNTIME)?,
    };
    if times.lease_ttl < 2 * times.heartbeat_interval {
        let setting = match section.find(&LEASE_TTL) {
            Some(_) => LEASE_TTL,
            None => HEARTBEAT_INTERVAL,
        };
        let wanted = format!(
            "the lease TTL ({}) must be at least twice the heartbeat interval ({})",
            times.lease_ttl, times.heartbeat_interval
        );
        return Err(section.refuse(&setting, wanted));
    }
    Ok(times)
}

fn pool(section: &Section<'_>, name: &Name, table: &NamedTable) -> Result<PoolConfig, ConfigError> {
    if name.as_str().contains(tags::SEPARATOR) {
        let wanted = "expected a name without `/`, which precedes the tags of a job";
        return Err(refused(table.origin(""), name.as_str(), wanted));
    }
    Ok(PoolConfig {
        name: name.clone(),
        origin: table.origin(""),
        capabilities: capabilities(table)?,
        launch: launch(section, table)?,
    })
}

fn launch(section: &Section<'_>, table: &NamedTable) -> Result<Option<Launch>, ConfigError> {
    let Some(cmd) = table.get("cmd") else {
        for key in ["pool_size", "env", "inherit_env"] {
            if let Some(value) = table.get(key) {
                let wanted = "requires `cmd`, the program of the runners";
                return Err(table.refused(key, value, wanted));
            }
        }
        return Ok(None);
    };
    let wanted = "expected an array of strings, the program first";
    let command = table.strings("cmd", wanted)?;
    let command = command.filter(|command| !command.is_empty());
    Ok(Some(Launch {
        command: command.ok_or_else(|| table.refused("cmd", cmd, wanted))?,
        pool_size: table.number("pool_size", POOL_SIZE_MAX)?.unwrap_or(1),
        env: section.program_env(table)?,
    }))
}

/// Reads the tags of a table.
pub(crate) fn capabilities(table: &NamedTable) -> Result<BTreeSet<String>, ConfigError> {
    let key = "capabilities";
    let wanted = format!(
        "expected an array of at most {TAGS_MAX} tags, each of 1 to {TAG_BYTES_MAX} characters A-Z a-z 0-9 _ . : -, \
         with one os: and one arch:"
    );
    let tags = table.strings(key, &wanted)?.unwrap_or_default();
    let all_fit = tags.len() <= TAGS_MAX && tags.iter().all(|tag| tags::is_tag(tag));
    let tags: BTreeSet<String> = tags.into_iter().collect();
    match table.get(key) {
        Some(value) if !all_fit || tags::conflict(&tags).is_some() => {
            Err(table.refused(key, value, &wanted))
        }
        _ => Ok(tags),
    }
}

/// Reads the tokens of a table, if it names them.
pub(crate) fn secret(
    section: &Section<'_>,
    table: &NamedTable,
) -> Result<Option<SecretText>, ConfigError> {
    section.table_secret(table, "token_file", "token_env")
}

/// Refuses a table without tokens.
pub(crate) fn needed(
    secret: Option<SecretText>,
    table: &NamedTable,
) -> Result<SecretText, ConfigError> {
    secret.ok_or_else(|| ConfigError::Hidden {
        origin: table.origin(""),
        message: "missing token: set token_file or token_env".to_owned(),
    })
}
