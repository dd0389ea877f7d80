//! Hero once it is open: both roles and the check of waiting jobs in `host serve`, the worker role
//! alone in `host worker`.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use host_runtime::tasks::TaskGroup;
use host_wire_kit::executors::Executors;
use host_wire_kit::{Active, ExecutorPorts, OpenError, OpenWire, Ports};

use super::client::live::Client;
use super::client::lost::watch_lost;
use super::client::watch::watch;
use super::log_files::LogFiles;
use super::settings::HeroConfig;
use super::worker::instance::{self, KeptName};
use super::{orchestrator, worker};

/// How long log files may take to be written when everything else has ended.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// No Redis is configured, so there is nothing to do.
pub(super) struct Idle;

impl Active for Idle {
    fn run(self: Box<Self>, ports: Ports) -> BoxFuture<'static, Result<(), OpenError>> {
        Box::pin(async move {
            ports.stopping.cancelled().await;
            Ok(())
        })
    }
}

/// Both roles, in `host serve`.
pub(super) struct Serving {
    config: HeroConfig,
    instance: String,
    log_files: Option<LogFiles>,
}

impl Serving {
    /// Reads this host's name from the data directory, and makes the folder for log files.
    pub(super) fn open(config: &HeroConfig, data: &Path) -> Result<Self, OpenError> {
        let path = data.join("hero-instance");
        let instance = instance::kept_in(&path).map_err(|error| {
            OpenError::failed(format!(
                "cannot keep the name of this host in {}: {error}; let the host's user write there",
                path.display()
            ))
        })?;
        Ok(Self {
            config: config.clone(),
            instance,
            log_files: log_files(config, "log_dir in [protocol.hero]")?,
        })
    }
}

impl Active for Serving {
    fn executors(&mut self, ports: &ExecutorPorts) -> Option<Arc<dyn Executors>> {
        Some(orchestrator::start(&self.config, &self.instance, ports))
    }

    fn run(self: Box<Self>, ports: Ports) -> BoxFuture<'static, Result<(), OpenError>> {
        Box::pin(async move {
            let mut tasks = TaskGroup::default();
            let client = Client::new(&self.config.url);
            let (clock, stopping) = (Arc::clone(&ports.clock), ports.stopping.clone());
            let workers = &self.config.requeue_stale;
            if !workers.is_empty() {
                let (client, workers) = (client.clone(), workers.clone());
                let (clock, stopping) = (Arc::clone(&clock), stopping.clone());
                tasks.spawn(watch_lost(client, workers, clock, stopping));
            }
            tasks.spawn(watch(client, clock, stopping));
            work(&self.config, &self.instance, self.log_files, &ports, tasks).await;
            Ok(())
        })
    }
}

/// The worker role alone, in `host worker`.
pub(super) struct Working {
    config: HeroConfig,
    name: KeptName,
    log_files: Option<LogFiles>,
}

impl Working {
    /// Takes a name that no other worker uses, and makes the folder for log files.
    pub(super) async fn open(
        config: &HeroConfig,
        state: Option<&Path>,
    ) -> Result<OpenWire, OpenError> {
        let mut name = KeptName::take(state, config).await;
        let cells_lock = name.take_cells_lock();
        let working = Self {
            config: config.clone(),
            name,
            log_files: log_files(config, "HOST_HERO_LOG_DIR")?,
        };
        let ready = vec![
            ("hero", config.url.to_string()),
            ("worker_ids", config.worker_ids.join(",")),
        ];
        Ok(OpenWire {
            cells_lock,
            ..OpenWire::new(working, ready)
        })
    }
}

impl Active for Working {
    fn run(self: Box<Self>, ports: Ports) -> BoxFuture<'static, Result<(), OpenError>> {
        Box::pin(async move {
            let Self {
                config,
                name,
                log_files,
            } = *self;
            let tasks = TaskGroup::default();
            work(&config, name.instance(), log_files, &ports, tasks).await;
            // Other workers must not get the name before this one has returned its jobs.
            drop(name);
            Ok(())
        })
    }
}

/// Takes jobs for all worker ids until the host stops and `tasks` have ended, even while Redis
/// cannot be reached.
async fn work(
    config: &HeroConfig,
    instance: &str,
    log_files: Option<LogFiles>,
    ports: &Ports,
    mut tasks: TaskGroup,
) {
    for settings in config.workers(instance) {
        let files = log_files.clone();
        tasks.spawn(worker::serve(settings, config.url.clone(), ports, files));
    }
    tasks.join().await;
    if let Some(files) = log_files {
        files.flush(FLUSH_TIMEOUT).await;
    }
}

/// Starts the thread that writes the log files of jobs, if a folder is configured. `setting` is
/// named in the error, as the way to choose another folder.
fn log_files(config: &HeroConfig, setting: &str) -> Result<Option<LogFiles>, OpenError> {
    let Some(dir) = &config.log_dir else {
        return Ok(None);
    };
    LogFiles::below(dir).map(Some).map_err(|error| {
        OpenError::failed(format!(
            "cannot use the folder {} for log files: {error}; give another one with {setting}",
            dir.display()
        ))
    })
}
