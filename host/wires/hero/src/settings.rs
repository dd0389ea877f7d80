//! `[protocol.hero]` and the options of `host worker hero`: the Redis, the worker ids whose jobs are
//! taken, and the limits.

pub(super) mod worker;

#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;

use host_wire_kit::section::{ConfigError, Section, refused};
use host_wire_kit::settings;
use host_wire_kit::settings::{Setting, WorkerFlag, WorkerRole};

use self::worker::WorkerConfig;
use super::client::lost::Workers;
use super::job::{WORKER_ID_BYTES_MAX, is_worker_id};
use super::messages::PopSide;
use super::transport::url::{Certificates, RedisUrl, UrlError};

settings! {
    pub(super) SETTINGS:
    URL = "protocol.hero.url", Text("URL"), "none",
        "The Redis of Hero dispatchers: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`; `rediss://` for TLS 1.3, whose certificate is always checked; `redis+unix:///PATH[?db=DATABASE]` for a Unix socket; `redis-sentinel://HOST[:PORT],…/MASTER[/DATABASE]` (or `rediss-sentinel://`) where Sentinels know it";
    URL_FILE = "protocol.hero.url_file", Text("FILE"), "none",
        "The file with that URL, instead of the URL: for one with a password";
    CA_FILE = "protocol.hero.ca_file", Text("FILE"), "the authorities that the system trusts",
        "The authorities that may sign the certificate of a Redis behind `rediss://`: PEM";
    CERT_FILE = "protocol.hero.cert_file", Text("FILE"), "none",
        "Our client certificate for such a Redis: PEM, followed by its issuers";
    KEY_FILE = "protocol.hero.key_file", Text("FILE"), "none",
        "The private key of that certificate: PEM";
    WORKER_IDS = "protocol.hero.worker_ids", List("IDS"), "none",
        "The worker ids whose jobs are taken from that Redis: an array; in the variable, separated by commas";
    CONCURRENCY = "protocol.hero.concurrency", Number("N", 1, 1_024), "64",
        "How many jobs of one worker id run at once";
    DISPATCH_IN_FLIGHT = "protocol.hero.dispatch_in_flight", Number("N", 1, 4_096), "64",
        "How many of our jobs one foreign worker id (`hero-WORKER#NAME`) has at once";
    POP_SIDE = "protocol.hero.pop_side", Text("SIDE"), "right",
        "Which jobs are taken first: the oldest (`right`) or the newest (`left`, as workers that use BLPOP do)";
    LOG_DIR = "protocol.hero.log_dir", Text("DIR"), "none",
        "The folder for the log files that jobs name in `log_path`; without it, such jobs are refused";
    ALLOW_PLAINTEXT = "protocol.hero.allow_plaintext", Switch, "false",
        "Whether a password may be sent to a Redis on another machine without TLS";
    REQUEUE_STALE = "protocol.hero.requeue_stale", List("IDS"), "none",
        "The worker ids whose lost jobs `host serve` queues again by itself, each job up to three times: an array, `*` for all; in the variable, separated by commas";
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
        WorkerFlag::new("url", URL).about("The Redis, as `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, `rediss://` for TLS, `redis+unix://` or `redis-sentinel://`. Other users can read command lines: put an address with a password into a file or `HOST_HERO_URL`"),
        WorkerFlag::new("url-file", URL_FILE),
        WorkerFlag::new("worker-id", WORKER_IDS).about("A worker id whose jobs are taken (repeatable)").repeated(),
        WorkerFlag::new("concurrency", CONCURRENCY),
        WorkerFlag::new("pop-side", POP_SIDE),
        WorkerFlag::new("log-dir", LOG_DIR),
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
        let concurrency = section.count(&CONCURRENCY)?;
        let dispatch_in_flight = section.count(&DISPATCH_IN_FLIGHT)?;
        let worker_ids = read_worker_ids(section, &WORKER_IDS)?;
        let requeue_stale = read_worker_ids(section, &REQUEUE_STALE)?;
        let pop_side = pop_side(section)?;
        let Some((origin, text)) = section.text_or_file(&URL, &URL_FILE)? else {
            return match section.find(&WORKER_IDS) {
                Some((origin, _)) if !worker_ids.is_empty() => Err(no_redis(origin)),
                _ => Ok(None),
            };
        };
        let allow_plaintext = section.switch(&ALLOW_PLAINTEXT)?;
        let url = RedisUrl::parse(&text)
            .and_then(|url| url.allowing_plaintext(allow_plaintext).not_in_plaintext())
            .and_then(|url| {
                if section.is_flag(&URL) && url.has_password() {
                    return Err(UrlError::OnCommandLine);
                }
                Ok(url)
            });
        let url = url.map_err(|error| bad_url(origin, error))?;
        let certificates = certificates(section)?;
        let log_dir = log_dir(section)?;
        let url = url.with_certificates(certificates);
        Ok(Some(Self {
            url: url.map_err(|error| bad_url(URL.key.to_owned(), error))?,
            worker_ids,
            concurrency,
            dispatch_in_flight,
            pop_side,
            log_dir,
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

fn no_redis(origin: String) -> ConfigError {
    ConfigError::Hidden {
        origin,
        message: "there are worker ids but no Redis; name it with protocol.hero.url, \
                  protocol.hero.url_file or HOST_HERO_URL"
            .to_owned(),
    }
}

/// The error does not show the address, which may contain a password.
fn bad_url(origin: String, error: UrlError) -> ConfigError {
    ConfigError::Hidden {
        origin,
        message: format!("invalid Redis address: {error}"),
    }
}

fn read_worker_ids(section: &Section<'_>, setting: &Setting) -> Result<Vec<String>, ConfigError> {
    let Some((origin, text)) = section.find_text(setting) else {
        return Ok(Vec::new());
    };
    let ids: Vec<&str> = text.split(',').map(str::trim).collect();
    let wanted = if ids.len() > WORKER_IDS_MAX {
        format!("expected at most {WORKER_IDS_MAX} worker ids")
    } else if !ids.iter().all(|id| is_worker_id(id)) {
        format!(
            "expected worker ids of 1–{WORKER_ID_BYTES_MAX} printable characters without blanks"
        )
    } else if ids.iter().collect::<BTreeSet<_>>().len() < ids.len() {
        "expected each worker id once".to_owned()
    } else {
        return Ok(ids.into_iter().map(str::to_owned).collect());
    };
    Err(refused(origin, text, wanted))
}

/// Reads the files with certificates.
fn certificates(section: &Section<'_>) -> Result<Certificates, ConfigError> {
    let client = match (section.path(&CERT_FILE), section.path(&KEY_FILE)) {
        (Some(certificate), Some(key)) => Some((
            section.read_file(&CERT_FILE, &certificate)?,
            section.read_file(&KEY_FILE, &key)?,
        )),
        (None, None) => None,
        (Some(_), None) => return Err(section.refuse(&CERT_FILE, requires(KEY_FILE))),
        (None, Some(_)) => return Err(section.refuse(&KEY_FILE, requires(CERT_FILE))),
    };
    let authorities = section.path(&CA_FILE);
    let authorities = authorities.map(|path| section.read_file(&CA_FILE, &path));
    Ok(Certificates {
        authorities: authorities.transpose()?,
        client,
    })
}

fn requires(other: Setting) -> String {
    format!("requires {}", other.key)
}

fn log_dir(section: &Section<'_>) -> Result<Option<PathBuf>, ConfigError> {
    let Some((origin, text)) = section.find_text(&LOG_DIR) else {
        return Ok(None);
    };
    let absolute = std::path::absolute(text);
    let wanted = |error| format!("expected a folder; {error}");
    let absolute = absolute.map_err(|error| refused(origin, text, wanted(error)))?;
    Ok(Some(absolute))
}

fn pop_side(section: &Section<'_>) -> Result<PopSide, ConfigError> {
    match section.find(&POP_SIDE) {
        None => Ok(PopSide::default()),
        Some((_, "left")) => Ok(PopSide::Left),
        Some((_, "right")) => Ok(PopSide::Right),
        Some((origin, text)) => Err(refused(origin, text, "expected `left` or `right`")),
    }
}
