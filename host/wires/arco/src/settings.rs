//! `[protocol.arco]`: the workers that execute our jobs, and our worker role for others.

mod keys;

#[cfg(test)]
pub(super) mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use host_core::name::Name;
use host_wire_kit::http_client::{BaseUrl, Origin};
use host_wire_kit::section::{ConfigError, NamedTable, SecretText, Section, refused};

use self::keys::{
    ALLOW_PLAINTEXT, CANCEL_GRACE, CONCURRENCY, HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT, LISTEN,
    LOGS_TOKEN_ENV, LOGS_TOKEN_FILE, ORIGINS, PREVIOUS_KEY_ENV, PREVIOUS_KEY_FILE, PUBLIC_URL,
    SECRET_ENV, SECRET_FILE, TOKEN_KEY_ENV, TOKEN_KEY_FILE, TOKEN_TTL, WORKERS,
};
use super::messages::Secret;
use super::token::key::{KEY_BYTES_MIN, Keys};

pub(super) use self::keys::{SETTINGS, TABLE_SETTINGS, WORKER_ROLE};

/// The most attempts that one worker may have concurrently.
const IN_FLIGHT_MAX: i64 = 4_096;

/// The most origins that callbacks may go to.
const ORIGINS_MAX: usize = 64;

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
    pub(super) keys: Option<Keys>,
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
        let orchestrator = orchestrator(section)?;
        let worker = match section.listen(&LISTEN)? {
            Some(listen) => Some(worker(section, listen)?),
            None => None,
        };
        Ok(Self {
            orchestrator,
            worker,
        })
    }
}

fn orchestrator(section: &Section<'_>) -> Result<OrchestratorConfig, ConfigError> {
    let mut workers = BTreeMap::new();
    let mut origins = Vec::new();
    for (name, table) in section.tables(WORKERS) {
        if name.as_str().contains('/') {
            let wanted = "expected a name without `/`";
            return Err(refused(table.origin(""), name.as_str(), wanted));
        }
        workers.insert(name.clone(), remote_worker(section, table)?);
        origins.push((table.origin(""), name.to_string()));
    }
    Ok(OrchestratorConfig {
        workers,
        origins,
        public_url: match section.find(&PUBLIC_URL) {
            Some((origin, text)) => Some(url(origin, text)?),
            None => None,
        },
        keys: keys(section)?,
        times: times(section)?,
    })
}

fn remote_worker(section: &Section<'_>, table: &NamedTable) -> Result<RemoteWorker, ConfigError> {
    let Some(text) = table.text("url")? else {
        let wanted = "expected a `url`, like http://127.0.0.1:9000";
        return Err(refused(table.origin(""), "", wanted));
    };
    let secret = section.table_secret(table, "secret_file", "secret_env")?;
    let in_flight = table.number("max_in_flight", IN_FLIGHT_MAX)?;
    let url = url(table.origin("url"), text)?;
    unexposed(section, table.origin("url"), &url)?;
    Ok(RemoteWorker {
        url,
        secret: secret.as_ref().map(word).transpose()?,
        in_flight_max: in_flight.unwrap_or(16),
    })
}

fn times(section: &Section<'_>) -> Result<Times, ConfigError> {
    let times = Times {
        heartbeat_interval_ms: section.number(&HEARTBEAT_INTERVAL)?,
        heartbeat_timeout_ms: section.number(&HEARTBEAT_TIMEOUT)?,
        cancel_grace_ms: section.number(&CANCEL_GRACE)?,
        token_ttl_seconds: section.number(&TOKEN_TTL)?,
    };
    if times.heartbeat_timeout_ms < 2 * times.heartbeat_interval_ms {
        let stated = section.find(&HEARTBEAT_TIMEOUT);
        let (origin, text) = stated
            .or_else(|| section.find(&HEARTBEAT_INTERVAL))
            .unwrap_or_default();
        let wanted = format!(
            "the heartbeat timeout ({} ms) must be at least twice the interval ({} ms)",
            times.heartbeat_timeout_ms, times.heartbeat_interval_ms
        );
        return Err(refused(origin, text, wanted));
    }
    Ok(times)
}

fn keys(section: &Section<'_>) -> Result<Option<Keys>, ConfigError> {
    let current = section.secret(Some(&TOKEN_KEY_FILE), Some(&TOKEN_KEY_ENV))?;
    let previous = section.secret(Some(&PREVIOUS_KEY_FILE), Some(&PREVIOUS_KEY_ENV))?;
    let Some(current) = current else {
        return match previous {
            Some(previous) => Err(previous.refused(
                "a previous key needs a current one, but there is no current key; name one with protocol.arco.token_key_file",
            )),
            None => Ok(None),
        };
    };
    let short = |key: &SecretText| key.refused(format!("must have at least {KEY_BYTES_MIN} bytes"));
    if Keys::new(current.bytes(), None).is_none() {
        return Err(short(&current));
    }
    let before = previous.as_ref().map(SecretText::bytes);
    match Keys::new(current.bytes(), before) {
        Some(keys) => Ok(Some(keys)),
        None => Err(short(previous.as_ref().unwrap_or(&current))),
    }
}

fn worker(section: &Section<'_>, listen: SocketAddr) -> Result<WorkerConfig, ConfigError> {
    let Some(secret) = section.secret(Some(&SECRET_FILE), Some(&SECRET_ENV))? else {
        let (origin, _) = section.find(&LISTEN).unwrap_or_default();
        let message = "missing the secret that dispatches must present; name it with \
                       protocol.arco.worker.secret_env (--secret-env) or secret_file";
        return Err(hidden(origin, message));
    };
    let logs_token = section.secret(Some(&LOGS_TOKEN_FILE), Some(&LOGS_TOKEN_ENV))?;
    Ok(WorkerConfig {
        listen,
        secret: word(&secret)?,
        origins: callback_origins(section)?,
        concurrency: section.count(&CONCURRENCY)?,
        logs_token: logs_token.as_ref().map(word).transpose()?,
        hosts: Vec::new(),
    })
}

fn callback_origins(section: &Section<'_>) -> Result<Vec<Origin>, ConfigError> {
    let Some((origin, text)) = section.find_text(&ORIGINS) else {
        let (origin, _) = section.find(&LISTEN).unwrap_or_default();
        let message = "missing the origins that callbacks may go to; name them with \
                       protocol.arco.worker.callback_origins (--callback-origin)";
        return Err(hidden(origin, message));
    };
    let mut origins = Vec::new();
    let mut seen = BTreeSet::new();
    for text in text.split(',').map(str::trim) {
        let base = url(origin.clone(), text)?;
        if !base.is_origin() {
            let wanted = "expected an http:// or https:// URL without a path";
            return Err(refused(origin, text, wanted));
        }
        unexposed(section, origin.clone(), &base)?;
        if seen.insert(base.origin().to_string()) {
            origins.push(base.origin().clone());
        }
    }
    if origins.len() > ORIGINS_MAX {
        let wanted = format!("expected at most {ORIGINS_MAX} origins");
        return Err(refused(origin, text, wanted));
    }
    Ok(origins)
}

/// Reads a URL. The error does not show it, because it may contain a password.
fn url(origin: String, text: &str) -> Result<BaseUrl, ConfigError> {
    text.parse()
        .map_err(|error| hidden(origin, format!("invalid URL: {error}")))
}

/// Refuses a URL over which others could read secrets, unless that is allowed.
fn unexposed(section: &Section<'_>, origin: String, base: &BaseUrl) -> Result<(), ConfigError> {
    if !base.origin().is_exposed() || section.switch(&ALLOW_PLAINTEXT)? {
        return Ok(());
    }
    let message = format!(
        "others could read secrets and task tokens on the way to {}; use an https:// URL, or set \
         {} = true",
        base.origin(),
        ALLOW_PLAINTEXT.key
    );
    Err(hidden(origin, message))
}

fn word(secret: &SecretText) -> Result<Secret, ConfigError> {
    Ok(Secret(secret.word()?.to_owned()))
}

fn hidden(origin: String, message: impl Into<String>) -> ConfigError {
    ConfigError::Hidden {
        origin,
        message: message.into(),
    }
}
