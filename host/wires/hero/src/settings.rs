//! `[protocol.hero]` and the options of `host worker hero`: the Redis, the worker ids whose jobs are
//! taken, and the limits.

pub(super) mod worker;

#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;

use host_wire_kit::section::{At, ConfigError, List, Number, Section};
use host_wire_kit::settings;
use host_wire_kit::settings::{WorkerFlag, WorkerRole};

use self::worker::WorkerConfig;
use super::client::lost::Workers;
use super::job::{WORKER_ID_BYTES_MAX, is_worker_id};
use super::messages::PopSide;
use super::transport::url::{Certificates, RedisUrl, UrlError};

settings! {
    pub(super) struct Keys "protocol.hero." {
        /// The Redis of Hero dispatchers: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`; `rediss://` for TLS 1.3, whose certificate is always checked; `redis+unix:///PATH[?db=DATABASE]` for a Unix socket; `redis-sentinel://HOST[:PORT],…/MASTER[/DATABASE]` (or `rediss-sentinel://`) where Sentinels know it
        url "URL": Option<At<String>>,
        /// The file with that URL, instead of the URL: for one with a password
        url_file "FILE": Option<At<PathBuf>>,
        /// The authorities that may sign the certificate of a Redis behind `rediss://`: PEM
        ca_file "FILE": Option<At<PathBuf>> = "the authorities that the system trusts",
        /// Our client certificate for such a Redis: PEM, followed by its issuers
        cert_file "FILE": Option<At<PathBuf>>,
        /// The private key of that certificate: PEM
        key_file "FILE": Option<At<PathBuf>>,
        /// The worker ids whose jobs are taken from that Redis: an array; in the variable, separated by commas
        worker_ids "IDS": At<List<String, WORKER_IDS_MAX>>,
        /// How many jobs of one worker id run concurrently
        concurrency "N": Number<1, 1_024, 64>,
        /// How many of our jobs one foreign worker id (`hero-WORKER#NAME`) may have at a time
        dispatch_in_flight "N": Number<1, 4_096, 64>,
        /// Which jobs are taken first: the oldest (`right`) or the newest (`left`, as workers that use BLPOP do)
        pop_side "SIDE": PopSide = "right",
        /// The folder for the log files that jobs name in `log_path`; without it, such jobs are refused
        log_dir "DIR": Option<At<PathBuf>>,
        /// Whether a password may be sent to a Redis on another machine without TLS
        allow_plaintext: bool,
        /// The worker ids whose lost jobs `host serve` queues again by itself, each job up to three times: an array, `*` for all; in the variable, separated by commas
        requeue_stale "IDS": At<List<String, WORKER_IDS_MAX>>,
    }
}

/// `host worker hero`.
pub(super) const WORKER_ROLE: WorkerRole = WorkerRole {
    about: "Take jobs of Hero dispatchers from their Redis",
    after_help: "\
Examples:
  host worker hero --url redis://127.0.0.1:6379 --worker-id w1 --worker-id w2 --handlers ./handlers
  host worker hero --url-file ./redis.url --worker-id w1 --data ./data

Prints `ready hero=URL worker_ids=IDS` when the handlers are loaded, and waits for a Redis that is
not there yet. SIGTERM or SIGINT stops guests, gives jobs that have not ended back to Redis, and
exits with 0 within 2 s: fit for a service manager. Any number of workers may share a queue, here or
on other machines; each job is run by one of them. If a worker dies, the others run its jobs after
15 s, and the worker itself runs them as soon as it starts again: for that it keeps a name under
$STATE_DIRECTORY, $XDG_STATE_HOME/host or ~/.local/state/host, one for each running worker. The
variables and keys of [protocol.hero] in docs/config.md apply here too.",
    doing: "work for Hero dispatchers",
    flags: &[
        WorkerFlag::new("url", "protocol.hero.url").about("The Redis, as `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, `rediss://` for TLS, `redis+unix://` or `redis-sentinel://`. Other users can read command lines: put an address with a password into a file or `HOST_HERO_URL`"),
        WorkerFlag::new("url-file", "protocol.hero.url_file"),
        WorkerFlag::new("worker-id", "protocol.hero.worker_ids").about("A worker id whose jobs are taken (repeatable)").repeated(),
        WorkerFlag::new("concurrency", "protocol.hero.concurrency"),
        WorkerFlag::new("pop-side", "protocol.hero.pop_side"),
        WorkerFlag::new("log-dir", "protocol.hero.log_dir"),
    ],
    usual_refusals: &[],
};

/// The most worker ids. Each has two connections of its own.
const WORKER_IDS_MAX: usize = 64;

/// The checked section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeroConfig {
    /// The address of the Redis, with the certificates for its connections.
    pub(super) url: RedisUrl,
    /// The worker ids, each once; empty if no work is taken.
    pub(super) worker_ids: Vec<String>,
    /// The most concurrent jobs of one worker id.
    pub(super) concurrency: usize,
    /// The most concurrent jobs of one foreign worker id.
    pub(super) dispatch_in_flight: usize,
    /// Which jobs are taken first.
    pub(super) pop_side: PopSide,
    /// The folder for the log files of jobs: an absolute path.
    pub(super) log_dir: Option<PathBuf>,
    /// The workers whose lost jobs are queued again.
    pub(super) requeue_stale: Workers,
}

impl HeroConfig {
    /// Reads the section and its certificate files; `None` if no Redis is configured.
    pub(super) fn read(section: &Section<'_>) -> Result<Option<Self>, ConfigError> {
        let keys: Keys = section.table("protocol.hero")?;
        check_worker_ids(&keys.worker_ids)?;
        check_worker_ids(&keys.requeue_stale)?;
        let Some(text) = section.text_or_file(keys.url.as_ref(), keys.url_file.as_ref())? else {
            if keys.worker_ids.is_empty() {
                return Ok(None);
            }
            let message = "there are worker ids but no Redis; name it with protocol.hero.url, \
                           protocol.hero.url_file or HOST_HERO_URL";
            return Err(keys.worker_ids.hidden(message));
        };
        let url = RedisUrl::parse(&text)
            .and_then(|url| {
                url.allowing_plaintext(keys.allow_plaintext)
                    .not_in_plaintext()
            })
            .and_then(|url| {
                if keys.url.as_ref().is_some_and(At::is_flag) && url.has_password() {
                    return Err(UrlError::OnCommandLine);
                }
                Ok(url)
            })
            .map_err(|error| bad_url(&text, error))?
            .with_certificates(certificates(section, &keys)?);
        let requeue_stale = keys.requeue_stale.value.0;
        Ok(Some(Self {
            url: url.map_err(|error| bad_url(&text, error))?,
            worker_ids: keys.worker_ids.value.0,
            concurrency: keys.concurrency.count(),
            dispatch_in_flight: keys.dispatch_in_flight.count(),
            pop_side: keys.pop_side,
            log_dir: keys.log_dir.as_ref().map(absolute).transpose()?,
            requeue_stale: Workers {
                all: requeue_stale.iter().any(|id| id == "*"),
                ids: requeue_stale.into_iter().collect(),
            },
        }))
    }

    /// Returns the settings of each worker id's session, for a host that Redis knows as `instance`.
    /// Each session has its own name, so a job id in two queues is executed by only one of them.
    pub(super) fn workers(&self, instance: &str) -> impl Iterator<Item = WorkerConfig> {
        self.worker_ids.iter().map(move |worker_id| WorkerConfig {
            concurrency: self.concurrency,
            pop_side: self.pop_side,
            log_root: self.log_dir.as_ref().map(|dir| dir.display().to_string()),
            ..WorkerConfig::new(worker_id, format!("{instance}/{worker_id}"))
        })
    }
}

/// The error does not show the address, which may contain a password.
fn bad_url(text: &At<String>, error: UrlError) -> ConfigError {
    text.hidden(format!("invalid Redis address: {error}"))
}

fn check_worker_ids(ids: &At<List<String, WORKER_IDS_MAX>>) -> Result<(), ConfigError> {
    if let Some(other) = ids.iter().find(|id| !is_worker_id(id)) {
        let wanted = format!(
            "expected worker ids of 1–{WORKER_ID_BYTES_MAX} printable characters without blanks"
        );
        return Err(ids.refuse_item(other, wanted));
    }
    let mut seen = BTreeSet::new();
    match ids.iter().find(|id| !seen.insert(*id)) {
        Some(twice) => Err(ids.refuse_item(twice, "expected each worker id once")),
        None => Ok(()),
    }
}

/// Reads the files with certificates.
fn certificates(section: &Section<'_>, keys: &Keys) -> Result<Certificates, ConfigError> {
    let client = match (&keys.cert_file, &keys.key_file) {
        (Some(certificate), Some(key)) => {
            Some((section.read_file(certificate)?, section.read_file(key)?))
        }
        (None, None) => None,
        (Some(certificate), None) => {
            return Err(certificate.hidden("requires protocol.hero.key_file"));
        }
        (None, Some(key)) => return Err(key.hidden("requires protocol.hero.cert_file")),
    };
    let authorities = keys.ca_file.as_ref().map(|path| section.read_file(path));
    Ok(Certificates {
        authorities: authorities.transpose()?,
        client,
    })
}

fn absolute(dir: &At<PathBuf>) -> Result<PathBuf, ConfigError> {
    let absolute = std::path::absolute(&dir.value);
    absolute.map_err(|error| {
        let wanted = format!("expected a folder; {error}");
        ConfigError::value(&dir.origin, dir.display(), wanted)
    })
}
