//! Hero in a host: a name that Redis knows this host by; for its worker role, a session for each
//! worker id and what people read about the connection. Knows no job.

pub(super) mod gate;

#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use host_protocols::hero::{self, News, WorkerConfig};

use super::ServeError;
use super::parts::Parts;
use crate::config::HeroConfig;
use host_runtime::ids;
use crate::runners::LanesConfig;

/// Starts to take work for every worker id. Whether Redis can be reached does not matter.
pub(super) fn start(config: &HeroConfig, instance: &str, parts: &Parts) {
    parts.watch_gate();
    let news = news(config);
    for worker in sessions(config, instance) {
        let needed = parts.hero_ports(Arc::clone(&news));
        let stopping = parts.wires.stopping().clone();
        let served = hero::serve(worker, config.url.clone(), needed, stopping);
        parts.wires.spawn(served);
    }
}

/// Returns where jobs for foreign workers go.
pub(super) fn lanes(config: &HeroConfig, instance: &str) -> LanesConfig {
    LanesConfig {
        url: config.url.clone(),
        instance: instance.to_owned(),
        in_flight_max: config.dispatch_in_flight,
    }
}

/// Returns the name of the host whose data is here.
pub(super) fn name(data: &Path) -> Result<String, ServeError> {
    let path = data.join("hero-instance");
    instance(&path).map_err(|error| ServeError::Instance { path, error })
}

/// Returns the settings of each worker id's session, for a host that Redis knows as `instance`. Each has
/// a name of its own: an id that stands in the queues of two is run by one of them.
pub(crate) fn sessions(config: &HeroConfig, instance: &str) -> Vec<WorkerConfig> {
    let worker_ids = config.worker_ids.iter();
    let session = worker_ids.map(|worker_id| WorkerConfig {
        concurrency: config.concurrency,
        pop_side: config.pop_side,
        log_root: config.log_dir.as_ref().map(|dir| dir.display().to_string()),
        ..WorkerConfig::new(worker_id, format!("{instance}/{worker_id}"))
    });
    session.collect()
}

/// Returns what tells people in the log how the connections are.
pub(crate) fn news(config: &HeroConfig) -> Arc<dyn News> {
    Arc::new(Told {
        redis: config.url.to_string(),
    })
}

/// Returns the name kept in `path`, made at the first start. The file's inode is part of it, so that
/// the copy of a data directory has another one: two hosts of one name would run each other's jobs.
pub(crate) fn instance(path: &Path) -> io::Result<String> {
    let kept = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        kept => kept?,
    };
    let mut word = kept.trim().to_owned();
    if word.is_empty() {
        word = ids::unique();
        let mut file = File::create(path)?;
        writeln!(file, "{word}")?;
        file.sync_all()?;
    }
    Ok(format!("{word}-{:x}", fs::metadata(path)?.ino()))
}

/// Tells in the log how the connection is: of tries in a row the more rarely, the more there were.
struct Told {
    redis: String,
}

impl News for Told {
    fn connected(&self, worker_id: &str) {
        tracing::info!(worker_id, redis = %self.redis, "work is taken from Redis");
    }

    fn away(&self, worker_id: &str, tries: u32, why: &str) {
        if tries.is_power_of_two() {
            tracing::warn!(
                worker_id, redis = %self.redis, tries, why,
                "Redis cannot be reached; jobs go on, and it is tried again"
            );
        }
    }

    fn refused(&self, worker_id: &str, times: u32, why: &str) {
        if times.is_power_of_two() {
            tracing::warn!(
                worker_id, redis = %self.redis, times, why,
                "Redis refuses a command; it is sent again until it does not: look at its memory, \
                 its role, the user's rights and the types of the keys hero:*"
            );
        }
    }
}
