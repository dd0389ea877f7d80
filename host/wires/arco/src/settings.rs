//! `[protocol.arco]`: the workers that execute our jobs, and our worker role for others.

mod keys;

#[cfg(test)]
pub(super) mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use host_core::name::Name;
use host_wire_kit::http_client::{BaseUrl, Origin};
use host_wire_kit::section::{At, ConfigError, SecretText, Section};

use super::messages::Secret;
use super::token::key::{KEY_BYTES_MIN, Keys as TokenKeys};

pub(super) use self::keys::{Keys, RemoteKeys, WORKER_ROLE, WorkerKeys};

/// The checked section.
#[derive(Clone, Debug)]
pub(super) struct ArcoConfig {
    /// The workers for our jobs.
    pub(super) orchestrator: OrchestratorConfig,
    /// Our worker role; `None` if it is off.
    pub(super) worker: Option<WorkerConfig>,
}

/// The workers for our jobs.
#[derive(Clone, Debug)]
pub(super) struct OrchestratorConfig {
    pub(super) workers: BTreeMap<Name, RemoteWorker>,
    /// Where each worker is configured, with its name.
    pub(super) origins: Vec<(String, String)>,
    /// What workers call back; `None` for the address where this host listens.
    pub(super) public_url: Option<BaseUrl>,
    /// `None` if this host makes its own key.
    pub(super) keys: Option<TokenKeys>,
    pub(super) times: Times,
}

/// The times in dispatches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) heartbeat_interval_ms: u64,
    pub(super) heartbeat_timeout_ms: u64,
    pub(super) cancel_grace_ms: u64,
    pub(super) token_ttl_seconds: u64,
}

/// A worker for our jobs.
#[derive(Clone, Debug)]
pub(super) struct RemoteWorker {
    pub(super) url: BaseUrl,
    pub(super) secret: Option<Secret>,
    pub(super) in_flight_max: usize,
}

/// Our worker role.
#[derive(Clone, Debug)]
pub(super) struct WorkerConfig {
    pub(super) listen: SocketAddr,
    pub(super) secret: Secret,
    /// Where callbacks may go.
    pub(super) origins: Vec<Origin>,
    pub(super) concurrency: usize,
    /// If set, the logs of tasks are sent.
    pub(super) logs_token: Option<Secret>,
    /// The names by which control planes address proxies in front of this worker.
    pub(super) hosts: Vec<String>,
}

impl OrchestratorConfig {
    /// Returns the host of the URL that workers call back, if one is set.
    pub(super) fn host(&self) -> Option<String> {
        Some(self.public_url.as_ref()?.origin().host())
    }
}

impl ArcoConfig {
    pub(super) fn read(section: &Section<'_>) -> Result<Self, ConfigError> {
        let keys: Keys = section.table("protocol.arco")?;
        let listen = keys.worker.listen.loopback()?;
        let worker = listen.map(|listen| worker(section, &keys, listen));
        Ok(Self {
            worker: worker.transpose()?,
            orchestrator: orchestrator(section, keys)?,
        })
    }
}

fn orchestrator(section: &Section<'_>, keys: Keys) -> Result<OrchestratorConfig, ConfigError> {
    let mut workers = BTreeMap::new();
    let mut origins = Vec::new();
    for (name, table) in &keys.workers {
        if name.as_str().contains('/') {
            let wanted = "expected a name without `/`";
            return Err(ConfigError::value(&table.origin, name, wanted));
        }
        workers.insert(
            name.clone(),
            remote_worker(section, table, keys.allow_plaintext)?,
        );
        origins.push((table.origin.clone(), name.to_string()));
    }
    Ok(OrchestratorConfig {
        workers,
        origins,
        keys: token_keys(section, &keys)?,
        times: times(&keys)?,
        public_url: keys.public_url,
    })
}

fn remote_worker(
    section: &Section<'_>,
    table: &At<RemoteKeys>,
    allow_plaintext: bool,
) -> Result<RemoteWorker, ConfigError> {
    let missing = || table.hidden("expected a `url`, like http://127.0.0.1:9000");
    let url = table.url.as_ref().ok_or_else(missing)?;
    let secret = section.secret(table.secret_file.as_ref(), table.secret_env.as_ref())?;
    check_exposure(&url.origin, url, allow_plaintext)?;
    Ok(RemoteWorker {
        url: url.value.clone(),
        secret: secret.as_ref().map(word).transpose()?,
        in_flight_max: table.max_in_flight.count(),
    })
}

fn times(keys: &Keys) -> Result<Times, ConfigError> {
    let (interval, timeout) = (&keys.heartbeat_interval_ms, &keys.heartbeat_timeout_ms);
    if timeout.get() < 2 * interval.get() {
        let wanted = format!(
            "the heartbeat timeout ({} ms) must be at least twice the interval ({} ms)",
            timeout.get(),
            interval.get()
        );
        let is_default = timeout.origin.is_empty();
        return Err(if is_default {
            interval.refuse(wanted)
        } else {
            timeout.refuse(wanted)
        });
    }
    Ok(Times {
        heartbeat_interval_ms: interval.get(),
        heartbeat_timeout_ms: timeout.get(),
        cancel_grace_ms: keys.cancel_grace_period_ms.get(),
        token_ttl_seconds: keys.token_ttl_seconds.get(),
    })
}

fn token_keys(section: &Section<'_>, keys: &Keys) -> Result<Option<TokenKeys>, ConfigError> {
    let current = section.secret(keys.token_key_file.as_ref(), keys.token_key_env.as_ref())?;
    let previous = section.secret(
        keys.previous_token_key_file.as_ref(),
        keys.previous_token_key_env.as_ref(),
    )?;
    let Some(current) = current else {
        return match previous {
            Some(previous) => Err(previous.refused(
                "a previous key needs a current one, but there is no current key; name one with protocol.arco.token_key_file",
            )),
            None => Ok(None),
        };
    };
    let short = |key: &SecretText| key.refused(format!("must have at least {KEY_BYTES_MIN} bytes"));
    if TokenKeys::new(current.bytes(), None).is_none() {
        return Err(short(&current));
    }
    let before = previous.as_ref().map(SecretText::bytes);
    match TokenKeys::new(current.bytes(), before) {
        Some(keys) => Ok(Some(keys)),
        None => Err(short(previous.as_ref().unwrap_or(&current))),
    }
}

fn worker(
    section: &Section<'_>,
    keys: &Keys,
    listen: SocketAddr,
) -> Result<WorkerConfig, ConfigError> {
    let worker = &keys.worker;
    let secret = section.secret(worker.secret_file.as_ref(), worker.secret_env.as_ref())?;
    let Some(secret) = secret else {
        let message = "missing the secret that dispatches must present; name it with \
                       protocol.arco.worker.secret_env (--secret-env) or secret_file";
        return Err(worker.listen.hidden(message));
    };
    let logs_token = section.secret(
        worker.logs_token_file.as_ref(),
        worker.logs_token_env.as_ref(),
    )?;
    Ok(WorkerConfig {
        listen,
        secret: word(&secret)?,
        origins: callback_origins(worker, keys.allow_plaintext)?,
        concurrency: worker.concurrency.count(),
        logs_token: logs_token.as_ref().map(word).transpose()?,
        hosts: Vec::new(),
    })
}

fn callback_origins(
    worker: &WorkerKeys,
    allow_plaintext: bool,
) -> Result<Vec<Origin>, ConfigError> {
    let urls = &worker.callback_origins;
    if urls.is_empty() {
        let message = "missing the origins that callbacks may go to; name them with \
                       protocol.arco.worker.callback_origins (--callback-origin)";
        return Err(worker.listen.hidden(message));
    }
    let mut origins = Vec::new();
    let mut seen = BTreeSet::new();
    for url in urls.iter() {
        if !url.is_origin() {
            let wanted = "expected an http:// or https:// URL without a path";
            return Err(ConfigError::value(&urls.origin, url, wanted));
        }
        check_exposure(&urls.origin, url, allow_plaintext)?;
        if seen.insert(url.origin().to_string()) {
            origins.push(url.origin().clone());
        }
    }
    Ok(origins)
}

/// Refuses a URL over which others could read secrets, unless that is allowed.
fn check_exposure(origin: &str, url: &BaseUrl, allow_plaintext: bool) -> Result<(), ConfigError> {
    if !url.origin().is_exposed() || allow_plaintext {
        return Ok(());
    }
    let message = format!(
        "others could read secrets and task tokens on the way to {}; use an https:// URL, or set \
         protocol.arco.allow_plaintext = true",
        url.origin()
    );
    Err(ConfigError::hidden(origin, message))
}

fn word(secret: &SecretText) -> Result<Secret, ConfigError> {
    Ok(Secret(secret.word()?.to_owned()))
}
