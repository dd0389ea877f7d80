//! The worker role of Hero alone: a session for each worker id over the cells of this process. Its jobs
//! are Redis's to keep; what is kept here is the name that Redis knows it by.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use host_protocols::hero::{self, WorkerPorts};
use sha2::{Digest as _, Sha256};

use super::{Told, WorkerConfig, WorkerError, Workers, no_lock, runtime, stop_on_signals};
use host_cells::spawn::CellProgram;
use host_runtime::clock::Clock;
use crate::config::HeroConfig;
use crate::hero_logs::LogFiles;
use host_runtime::ids;
use crate::lock::{self, DataLock, LockError};
use crate::serve::hero::{instance, news, sessions};
use host_runtime::tasks::Tasks;

/// The most workers of one user with the same Redis and worker ids that keep their names.
const PLACES_MAX: usize = 256;

/// How long lines of log files may take to be written when all else is over.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// Takes the jobs of the worker ids until `SIGTERM` or `SIGINT`; then gives back what has not ended,
/// within two seconds. Tells `ready` once handlers are known; Redis may come later. `state` is where
/// names are kept: who starts again under the name of a worker that died has its jobs at once.
pub fn hero(
    config: &WorkerConfig,
    hero: &HeroConfig,
    state: Option<&Path>,
    program: CellProgram,
    ready: impl FnOnce(),
) -> Result<(), WorkerError> {
    let clock = Clock::start();
    runtime()?.block_on(async {
        let stopping = stop_on_signals()?;
        let named = Named::take(state, hero).await?;
        let log_files = log_files(hero)?;
        let workers = Workers::start(config, program, named.cells, clock, log_files.clone())?;
        // Jobs that wait in Redis may be taken by others meanwhile.
        tokio::select! {
            loaded = workers.load(&config.source) => loaded?,
            () = stopping.cancelled() => return Ok(()),
        }
        let sessions_end = Tasks::default();
        let (news, counters) = (news(hero), Arc::new(Told::default()));
        for session in sessions(hero, &named.instance) {
            let ports = WorkerPorts {
                executor: workers.executor(),
                clock: Arc::new(clock),
                counters: Arc::<Told>::clone(&counters),
                news: Arc::clone(&news),
            };
            let stopping = stopping.clone();
            sessions_end.spawn(hero::serve(session, hero.url.clone(), ports, stopping));
        }
        ready();
        sessions_end.join().await;
        if let Some(files) = log_files {
            files.flush(FLUSH_TIMEOUT).await;
        }
        workers.end();
        Ok(())
    })
}

/// Starts the thread that writes the log files of jobs, if there is a folder for them.
fn log_files(hero: &HeroConfig) -> Result<Option<LogFiles>, WorkerError> {
    let Some(dir) = &hero.log_dir else {
        return Ok(None);
    };
    let failed = |error| WorkerError::LogDir {
        path: dir.clone(),
        error,
    };
    LogFiles::below(dir).map(Some).map_err(failed)
}

/// The name of a worker among those on its queues, and the right to it.
struct Named {
    instance: String,
    /// What cells inherit: while one of an earlier life is there, nobody has this name.
    cells: File,
    _right: Option<DataLock>,
}

impl Named {
    /// Takes the first name that no other worker has, or makes one for this life alone.
    async fn take(state: Option<&Path>, hero: &HeroConfig) -> Result<Self, WorkerError> {
        let kept = match state {
            Some(state) => Self::kept(&folder(state, hero)).await,
            None => Err("neither HOME, XDG_STATE_HOME nor STATE_DIRECTORY is set".to_owned()),
        };
        match kept {
            Ok(named) => return Ok(named),
            Err(why) => tracing::warn!(
                why,
                "this worker's name is not kept; should it die, its jobs are run again after 15 s, \
                 not when it starts"
            ),
        }
        Ok(Self {
            instance: ids::unique(),
            cells: no_lock()?,
            _right: None,
        })
    }

    async fn kept(folder: &Path) -> Result<Self, String> {
        for place in 0..PLACES_MAX {
            let folder = folder.join(place.to_string());
            let failed = |error: io::Error| format!("{}: {error}", folder.display());
            fs::create_dir_all(&folder).map_err(failed)?;
            let locked = match DataLock::take(&folder).await {
                Ok(right) => lock::cells(&folder).await.map(|cells| (right, cells)),
                Err(error) => Err(error),
            };
            match locked {
                Ok((right, cells)) => {
                    return Ok(Self {
                        instance: instance(&folder.join("instance")).map_err(failed)?,
                        cells,
                        _right: Some(right),
                    });
                }
                Err(LockError::Taken { .. } | LockError::Orphans { .. }) => {}
                Err(error @ LockError::File { .. }) => return Err(error.to_string()),
            }
        }
        Err(format!(
            "{PLACES_MAX} workers run with {}",
            folder.display()
        ))
    }
}

/// Returns where names of workers with this Redis and these worker ids are kept.
fn folder(state: &Path, hero: &HeroConfig) -> PathBuf {
    let who = format!("{} {}", hero.url, hero.worker_ids.join(","));
    let digest = Sha256::digest(who.as_bytes());
    let start = digest.first_chunk().copied().unwrap_or_default();
    let name = format!("{:016x}", u64::from_be_bytes(start));
    state.join("hero").join(name)
}

#[cfg(test)]
mod tests {
    use host_protocols::hero::{PopSide, RedisUrl};
    use tempfile::TempDir;

    use super::{HeroConfig, Named};
    use crate::config::CertificateFiles;

    fn config(worker_id: &str) -> HeroConfig {
        HeroConfig {
            url: RedisUrl::parse("redis://:hush@127.0.0.1:6379").unwrap(),
            certificates: CertificateFiles::default(),
            worker_ids: vec![worker_id.to_owned()],
            concurrency: 1,
            pop_side: PopSide::default(),
            log_dir: None,
            dispatch_in_flight: 1,
        }
    }

    #[tokio::test]
    async fn names_are_kept_and_no_two_workers_have_one() {
        let state = TempDir::new().unwrap();
        let take = async |worker_id| {
            let named = Named::take(Some(state.path()), &config(worker_id)).await;
            named.unwrap()
        };
        let first = take("w1").await;
        let second = take("w1").await;
        let other = take("w2").await;
        let names = [&first, &second, &other].map(|named| named.instance.clone());
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
        drop(first);
        assert_eq!(take("w1").await.instance, names[0]);
    }

    #[tokio::test]
    async fn a_worker_without_a_folder_has_another_name_each_time() {
        let take = async || Named::take(None, &config("w1")).await.unwrap().instance;
        assert_ne!(take().await, take().await);
    }
}
