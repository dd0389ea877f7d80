//! `[protocol.hero]`: which Redis, and whose jobs are taken from it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use host_protocols::hero::{PopSide, RedisUrl};

use super::ConfigError;
use super::value::{Values, refused};

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
    /// Where it is.
    pub url: RedisUrl,
    /// The worker ids, each once; none if no work is taken.
    pub worker_ids: Vec<String>,
    /// The most jobs of one worker id at once.
    pub concurrency: usize,
    /// Which jobs are taken first.
    pub pop_side: PopSide,
    /// The folder below which jobs may name log files: an absolute path.
    pub log_dir: Option<PathBuf>,
}

/// Reads what stands about Hero; `None` if no Redis is named.
pub(super) fn resolve(values: &Values<'_>) -> Result<Option<HeroConfig>, ConfigError> {
    let concurrency = values.number("protocol.hero.concurrency", 1, 1_024)?;
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
        worker_ids,
        concurrency: concurrency.map_or(64, |it| usize::try_from(it).unwrap_or(usize::MAX)),
        pop_side,
        log_dir: log_dir(values)?,
    }))
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
