//! `[protocol.hero]`: the Redis, the worker ids whose jobs are taken, and the limits.

#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::address::{Certificates, RedisUrl, UrlError};
use super::client::lost::Workers;
use super::config::WorkerConfig;
use super::messages::PopSide;
use super::settings::{
    ALLOW_PLAINTEXT, CA_FILE, CERT_FILE, CONCURRENCY, DISPATCH_IN_FLIGHT, KEY_FILE, LOG_DIR,
    POP_SIDE, REQUEUE_STALE, URL, URL_FILE, WORKER_IDS,
};
use crate::wire::section::{ConfigError, Section, refused};

/// The most worker ids. Each has two connections of its own.
const WORKER_IDS_MAX: usize = 64;

/// The longest worker id, in bytes.
const WORKER_ID_BYTES_MAX: usize = 128;

/// The checked section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeroConfig {
    /// The address of the Redis, with the certificates for its connections.
    pub url: RedisUrl,
    /// The worker ids, each once; empty if no work is taken.
    pub worker_ids: Vec<String>,
    /// The most jobs of one worker id that run at once.
    pub concurrency: usize,
    /// The most jobs sent to one foreign worker id at once.
    pub dispatch_in_flight: usize,
    /// Which jobs are taken first.
    pub pop_side: PopSide,
    /// The folder for the log files of jobs: an absolute path.
    pub log_dir: Option<PathBuf>,
    /// The workers whose lost jobs are queued again.
    pub requeue_stale: Workers,
}

impl HeroConfig {
    /// Reads the section and its certificate files; `None` if no Redis is configured.
    pub fn read(section: &Section<'_>) -> Result<Option<Self>, ConfigError> {
        let concurrency = section.number(CONCURRENCY, 1, 1_024)?;
        let dispatch_in_flight = section.number(DISPATCH_IN_FLIGHT, 1, 4_096)?;
        let worker_ids = read_worker_ids(section, WORKER_IDS)?;
        let requeue_stale = read_worker_ids(section, REQUEUE_STALE)?;
        let pop_side = pop_side(section)?;
        let Some((origin, text)) = section.or_in_file(section.find(URL), URL_FILE)? else {
            return match section.find(WORKER_IDS) {
                Some((origin, _)) if !worker_ids.is_empty() => Err(no_redis(origin)),
                _ => Ok(None),
            };
        };
        let allow_plaintext = section.switch(ALLOW_PLAINTEXT)?;
        let url = RedisUrl::parse(&text)
            .and_then(|url| url.allowing_plaintext(allow_plaintext).not_in_plaintext())
            .and_then(|url| {
                if section.is_flag(URL) && url.has_password() {
                    return Err(UrlError::OnCommandLine);
                }
                Ok(url)
            });
        let url = url.map_err(|error| bad_url(origin, error))?;
        let certificates = certificates(section)?;
        let log_dir = log_dir(section)?;
        let url = url.with_certificates(certificates);
        Ok(Some(Self {
            url: url.map_err(|error| bad_url(URL.to_owned(), error))?,
            worker_ids,
            concurrency: size(concurrency),
            dispatch_in_flight: size(dispatch_in_flight),
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

fn size(number: Option<u64>) -> usize {
    number.map_or(64, |number| usize::try_from(number).unwrap_or(usize::MAX))
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

fn read_worker_ids(section: &Section<'_>, key: &str) -> Result<Vec<String>, ConfigError> {
    let Some((origin, text)) = section.find(key).filter(|(_, text)| !text.is_empty()) else {
        return Ok(Vec::new());
    };
    let ids: Vec<&str> = text.split(',').map(str::trim).collect();
    let is_id = |id: &&str| {
        (1..=WORKER_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic())
    };
    let wanted = if ids.len() > WORKER_IDS_MAX {
        format!("expected at most {WORKER_IDS_MAX} worker ids")
    } else if !ids.iter().all(is_id) {
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
    let client = match (section.path(CERT_FILE), section.path(KEY_FILE)) {
        (Some(certificate), Some(key)) => Some((
            section.read_file(CERT_FILE, &certificate)?,
            section.read_file(KEY_FILE, &key)?,
        )),
        (None, None) => None,
        (Some(_), None) => return Err(alone(section, CERT_FILE, KEY_FILE)),
        (None, Some(_)) => return Err(alone(section, KEY_FILE, CERT_FILE)),
    };
    let authorities = section.path(CA_FILE);
    let authorities = authorities.map(|path| section.read_file(CA_FILE, &path));
    Ok(Certificates {
        authorities: authorities.transpose()?,
        client,
    })
}

/// Makes the error for a key that needs the other one.
fn alone(section: &Section<'_>, one: &str, other: &str) -> ConfigError {
    let (origin, text) = section.find(one).unwrap_or_default();
    refused(origin, text, format!("requires {other}"))
}

fn log_dir(section: &Section<'_>) -> Result<Option<PathBuf>, ConfigError> {
    let Some((origin, text)) = section.find(LOG_DIR).filter(|(_, text)| !text.is_empty()) else {
        return Ok(None);
    };
    let absolute = std::path::absolute(text);
    let wanted = |error| format!("expected a folder; {error}");
    let absolute = absolute.map_err(|error| refused(origin, text, wanted(error)))?;
    Ok(Some(absolute))
}

fn pop_side(section: &Section<'_>) -> Result<PopSide, ConfigError> {
    match section.find(POP_SIDE) {
        None => Ok(PopSide::default()),
        Some((_, "left")) => Ok(PopSide::Left),
        Some((_, "right")) => Ok(PopSide::Right),
        Some((origin, text)) => Err(refused(origin, text, "expected `left` or `right`")),
    }
}
