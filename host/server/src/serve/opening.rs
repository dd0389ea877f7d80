//! Opens what the parts of a host stand on: the store, the logs, and the thread that starts cells.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;

use host_cells::deploy::examine::{Examiner, Setup};
use host_cells::run::handlers::Handlers;
use host_cells::sandbox::spawn::CellProgram;
use host_core::id::NodeId;
use host_core::time::Time;
use host_dispatch::nodes::Presence;
use host_engine::component::Digest;
use host_engine::{Store, StoreError};
use host_runtime::ids;
use host_runtime::tasks::Tasks;
use host_store::logs::LogWriter;
use host_store::postgres::logs::PostgresLogs;
use host_store::postgres::{Options, PostgresStore};
use host_store::sqlite::SqliteStore;

use super::node::Node;
use super::{ServeError, damage, node_id, system};
use crate::artifacts::Artifacts;
use crate::config::{self, Config};
use crate::{deploy, nodes};

/// Starts the thread that starts cells, and opens the cache of compiled components.
pub(super) async fn examiner(
    config: &Config,
    program: CellProgram,
    cells_lock: File,
    tasks: &Tasks,
) -> Result<Examiner, ServeError> {
    config::check_roots(&config.confinement, &config.data).map_err(ServeError::Grants)?;
    let setup = Setup {
        program,
        cache: config.data.join("cache"),
        lock: cells_lock,
        cache_bytes_max: config.cache_bytes_max,
        slots: config.slots,
        memory_mib: config.memory_mib,
        environment: config.grantable.clone(),
        reach: config.reach.clone(),
        trust: config.trust.clone(),
    };
    let started = Examiner::start(setup, tasks.clone()).await;
    started.map_err(ServeError::Start)
}

/// Loads the deployed components.
pub(super) async fn restore(
    store: &dyn Store,
    handlers: &Handlers,
    examiner: &Examiner,
) -> Result<(), ServeError> {
    let (current, kept) = {
        let reader = store.reader().map_err(ServeError::Store)?;
        let current = deploy::current(&*reader).map_err(ServeError::Store)?;
        (
            current,
            deploy::referenced(&*reader).map_err(ServeError::Store)?,
        )
    };
    sweep(examiner, &kept);
    let restored = deploy::restore(handlers, examiner, current).await;
    restored.map_err(ServeError::Cache)
}

/// Removes compiled components that are no longer needed. Keeps those that cannot be removed.
fn sweep(examiner: &Examiner, kept: &BTreeSet<Digest>) {
    match examiner.cache.sweep(kept) {
        Ok(0) => {}
        Ok(files) => tracing::info!(
            files,
            "removed compiled components that are no longer needed"
        ),
        Err(error) => tracing::warn!(%error, "cannot remove unused compiled components"),
    }
}

/// The store, the id of this host in it, and its membership if others may share it.
type OpenStore = (Box<dyn Store>, NodeId, Option<Node>);

/// Opens the store that the configuration names.
pub(super) fn store(config: &Config, presence: &Arc<Presence>) -> Result<OpenStore, ServeError> {
    let Some(database) = &config.store else {
        let open = || {
            let store = SqliteStore::open(&config.data.join(damage::STORE))?;
            let own = store.node(ids::node())?;
            Ok((store, own))
        };
        let (store, own) = open().map_err(ServeError::Store)?;
        presence.request_drain(nodes::is_draining(&config.data));
        return Ok((Box::new(store), own, None));
    };
    let options = Options {
        allow_unsafe: database.allow_unsafe,
    };
    let own = node_id::read_or_make(&config.data).map_err(system("keep the id of this node"))?;
    let store = PostgresStore::open(&database.target, own, options).map_err(ServeError::Store)?;
    tracing::info!(store = %database.target, node = %own, "a database keeps the jobs");
    let node = Node::enter(&store, own, Arc::clone(presence), database)?;
    Ok((Box::new(store), own, Some(node)))
}

/// Warns if the clock is behind the last change of the store: times that were set by then come later. A host also starts
/// if that change cannot be read.
pub(super) fn check_clock(store: &dyn Store, now: Time) {
    let behind = store
        .reader()
        .and_then(|reader| reader.clock_behind_ms(now));
    if let Ok(Some(behind_ms)) = behind {
        tracing::warn!(
            seconds = behind_ms / 1_000,
            "the clock is behind the last change of the store; retries, delayed jobs and full limits wait that much \
             longer, unless the clock is set right and the host started again"
        );
    }
}

/// Opens the files of artifacts, and removes those that no job and no upload has.
pub(super) fn artifacts(config: &Config, store: &dyn Store) -> Result<Artifacts, ServeError> {
    let is_shared = config.store.is_some();
    let artifacts = Artifacts::open(&config.data, is_shared, config.artifact_bytes_max)
        .map_err(system("open the folder of artifacts"))?;
    artifacts.clear(store).map_err(ServeError::Store)?;
    Ok(artifacts)
}

/// Opens the logs of guests, in the same place as the jobs.
pub(super) fn log_store(config: &Config) -> Result<Box<dyn LogWriter>, StoreError> {
    let bytes_max = config.log_bytes_max;
    Ok(match &config.store {
        Some(database) => Box::new(PostgresLogs::open(&database.target, bytes_max)?),
        None => Box::new(damage::open_logs(&config.data, bytes_max)?),
    })
}
