//! `[protocol.hero]`: which Redis, whose jobs are taken from it, and how many are sent to it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use host_protocols::hero::{Certificates, PopSide, RedisUrl};

use super::ConfigError;
use super::value::{Values, refused};

const CA_FILE: &str = "protocol.hero.ca_file";
const CERT_FILE: &str = "protocol.hero.cert_file";
const KEY_FILE: &str = "protocol.hero.key_file";
const URL: &str = "protocol.hero.url";
const WORKER_IDS: &str = "protocol.hero.worker_ids";
const LOG_DIR: &str = "protocol.hero.log_dir";
const POP_SIDE: &str = "protocol.hero.pop_side";

/// The most worker ids: each has two connections of its own.
const WORKER_IDS_MAX: usize = 64;

/// The longest worker id, in bytes.
const WORKER_ID_BYTES_MAX: usize = 128;

/// Whose jobs are taken from which Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeroConfig {
    /// Where it is, and whom we take for it.
    pub url: RedisUrl,
    /// What TLS takes beside that.
    pub certificates: CertificateFiles,
    /// The worker ids, each once; none if no work is taken.
    pub worker_ids: Vec<String>,
    /// The most jobs of one worker id at once.
    pub concurrency: usize,
    /// The most jobs that are out at one foreign worker id at once.
    pub dispatch_in_flight: usize,
    /// Which jobs are taken first.
    pub pop_side: PopSide,
    /// The folder below which jobs may name log files: an absolute path.
    pub log_dir: Option<PathBuf>,
}

/// Files that TLS takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateFiles {
    /// Who may sign the server's certificate.
    pub authorities: Option<PathBuf>,
    /// Our own certificate, and its private key.
    pub client: Option<(PathBuf, PathBuf)>,
}

impl HeroConfig {
    /// Reads the files with certificates into the address.
    pub(super) fn read_certificates(&mut self) -> Result<(), ConfigError> {
        let read = |key, path: &PathBuf| {
            std::fs::read(path).map_err(|error| ConfigError::Certificates {
                key,
                path: path.clone(),
                message: error.to_string(),
            })
        };
        let CertificateFiles {
            authorities,
            client,
        } = &self.certificates;
        let authorities = authorities.as_ref().map(|path| read(CA_FILE, path));
        let client = client
            .as_ref()
            .map(|(certificate, key)| Ok((read(CERT_FILE, certificate)?, read(KEY_FILE, key)?)));
        let certificates = Certificates {
            authorities: authorities.transpose()?,
            client: client.transpose()?,
        };
        let url = self.url.clone().with_certificates(certificates);
        self.url = url.map_err(|error| ConfigError::Redis {
            origin: URL.to_owned(),
            error,
        })?;
        Ok(())
    }
}

/// Reads what stands about Hero; `None` if no Redis is named.
pub(super) fn resolve(values: &Values<'_>) -> Result<Option<HeroConfig>, ConfigError> {
    let concurrency = values.number("protocol.hero.concurrency", 1, 1_024)?;
    let dispatch_in_flight = values.number("protocol.hero.dispatch_in_flight", 1, 4_096)?;
    let worker_ids = worker_ids(values)?;
    let pop_side = pop_side(values)?;
    let Some((origin, text)) = values.find(URL) else {
        return match values.find(WORKER_IDS) {
            Some((origin, _)) if !worker_ids.is_empty() => Err(ConfigError::NoRedis { origin }),
            _ => Ok(None),
        };
    };
    let url = RedisUrl::parse(text).map_err(|error| ConfigError::Redis { origin, error })?;
    Ok(Some(HeroConfig {
        url,
        certificates: certificate_files(values)?,
        worker_ids,
        concurrency: size(concurrency),
        dispatch_in_flight: size(dispatch_in_flight),
        pop_side,
        log_dir: log_dir(values)?,
    }))
}

fn size(number: Option<u64>) -> usize {
    number.map_or(64, |number| usize::try_from(number).unwrap_or(usize::MAX))
}

fn worker_ids(values: &Values<'_>) -> Result<Vec<String>, ConfigError> {
    let Some((origin, text)) = values.find(WORKER_IDS).filter(|(_, text)| !text.is_empty()) else {
        return Ok(Vec::new());
    };
    let ids: Vec<&str> = text.split(',').map(str::trim).collect();
    let is_id = |id: &&str| {
        (1..=WORKER_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic())
    };
    let wanted = if ids.len() > WORKER_IDS_MAX {
        format!("at most {WORKER_IDS_MAX} worker ids are")
    } else if !ids.iter().all(is_id) {
        format!("worker ids of 1 to {WORKER_ID_BYTES_MAX} printable characters without blanks are")
    } else if ids.iter().collect::<BTreeSet<_>>().len() < ids.len() {
        "a worker id stands there twice; each once is".to_owned()
    } else {
        return Ok(ids.into_iter().map(str::to_owned).collect());
    };
    Err(refused(origin, text, wanted))
}

fn certificate_files(values: &Values<'_>) -> Result<CertificateFiles, ConfigError> {
    let path = |key| values.path(key).filter(|path| !path.as_os_str().is_empty());
    let client = match (path(CERT_FILE), path(KEY_FILE)) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (Some(_), None) => return Err(alone(values, CERT_FILE, KEY_FILE)),
        (None, Some(_)) => return Err(alone(values, KEY_FILE, CERT_FILE)),
    };
    Ok(CertificateFiles {
        authorities: path(CA_FILE),
        client,
    })
}

/// Says that one of two keys is missing.
fn alone(values: &Values<'_>, one: &str, other: &str) -> ConfigError {
    let (origin, text) = values.find(one).unwrap_or_default();
    refused(origin, text, format!("{other} goes with it and is missing"))
}

fn log_dir(values: &Values<'_>) -> Result<Option<PathBuf>, ConfigError> {
    let Some((origin, text)) = values.find(LOG_DIR).filter(|(_, text)| !text.is_empty()) else {
        return Ok(None);
    };
    let wanted = |error| format!("a folder is, and {error}");
    let absolute = std::path::absolute(text);
    let absolute = absolute.map_err(|error| refused(origin, text, wanted(error)))?;
    Ok(Some(absolute))
}

fn pop_side(values: &Values<'_>) -> Result<PopSide, ConfigError> {
    match values.find(POP_SIDE) {
        None => Ok(PopSide::default()),
        Some((_, "left")) => Ok(PopSide::Left),
        Some((_, "right")) => Ok(PopSide::Right),
        Some((origin, text)) => Err(refused(origin, text, "`left` or `right` is".to_owned())),
    }
}
