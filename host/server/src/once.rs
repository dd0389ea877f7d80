//! Runs a handler without a host, once or several times: compiles, describes, checks and executes it. Keeps nothing
//! but the compiled component.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use host_cells::compile::CACHE_BYTES_MAX;
use host_cells::deploy::examine::{Candidate, Component, Examiner, Flaw, Setup, StartError};
use host_cells::deploy::trust::Trust;
use host_cells::process::once::{RunEvent, SoloCell};
use host_cells::run::build::{Caps, Environment, RunBuilder, RunRequest};
use host_cells::run::handlers::Handlers;
use host_cells::sandbox::broker::Reach;
use host_cells::sandbox::spawn::CellProgram;
use host_core::cell::Context;
use host_core::handler::HandlerInfo;
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::outcome::{Meter, Outcome};
use host_core::time::Time;
use host_engine::component::Manifest;
use host_runtime::clock::Clock;
use host_runtime::ids;
use host_runtime::tasks::Tasks;
use thiserror::Error;
use tokio::runtime::Runtime;

use crate::config;

/// The memory of a cell beyond the limit of its guest, in MiB: tables and the cell's own data.
const CELL_SPARE_MIB: u64 = 64;

/// The handler to run.
#[derive(Debug)]
pub struct OnceRequest {
    /// The bytes of the component.
    pub component: Vec<u8>,
    /// The limits and grants of the component.
    pub manifest: Manifest,
    /// The handler to run.
    pub handler: Name,
    /// The variables that may be granted.
    pub environment: Environment,
    /// The servers that requests of the handler may reach.
    pub reach: Reach,
}

/// Why the handler was not run.
#[derive(Debug, Error)]
pub enum OnceError {
    /// The component was rejected.
    #[error(transparent)]
    Flaw(#[from] Flaw),
    /// No cell can be started.
    #[error(transparent)]
    Start(StartError),
    /// The component has no such handler.
    #[error("the component has no handler {handler}; it has {has}")]
    UnknownHandler {
        /// The requested handler.
        handler: Name,
        /// The handlers that the component has.
        has: String,
    },
    /// The params are invalid, or a grant names something that does not exist.
    #[error("{0}")]
    Refused(String),
    /// The system cannot provide a thread or a timer.
    #[error("cannot {operation}: {error}")]
    System {
        operation: &'static str,
        error: io::Error,
    },
}

/// A cell for one handler. Each run has a fresh instance.
pub struct Session {
    // It is dropped before the runtime that its cell needs.
    cell: SoloCell,
    runs: RunBuilder,
    handler: Name,
    runtime: Runtime,
}

impl Session {
    /// Compiles the component, unless `cache` has the compiled one, and checks that it has the handler.
    pub fn start(
        program: CellProgram,
        cache: PathBuf,
        asked: OnceRequest,
    ) -> Result<Self, OnceError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(system("start the runtime"))?;
        let handler = asked.handler.clone();
        let (cell, runs) = runtime.block_on(prepare(program, cache, asked))?;
        Ok(Self {
            cell,
            runs,
            handler,
            runtime,
        })
    }

    /// Runs the handler and passes its events to `on_event`.
    pub fn run(
        &mut self,
        params: JsonText,
        on_event: impl FnMut(RunEvent),
    ) -> Result<(Outcome, Meter), OnceError> {
        let now = Clock::start().now();
        let request = request(now, &self.handler, params);
        let (order, _) = self
            .runs
            .build(now, request)
            .map_err(|refused| OnceError::Refused(refused.failure.message))?;
        Ok(self.runtime.block_on(self.cell.run(order.start, on_event)))
    }
}

async fn prepare(
    program: CellProgram,
    cache: PathBuf,
    asked: OnceRequest,
) -> Result<(SoloCell, RunBuilder), OnceError> {
    let limits = asked.manifest.limits(&asked.handler);
    let setup = Setup {
        program,
        cache,
        // No other host waits for this cell to end.
        lock: File::open("/dev/null").map_err(system("open /dev/null"))?,
        cache_bytes_max: CACHE_BYTES_MAX,
        slots: 1,
        memory_mib: limits.memory_bytes.div_ceil(1 << 20) + CELL_SPARE_MIB,
        environment: asked.environment.clone(),
        reach: asked.reach,
        // A file that is run by hand needs no signature.
        trust: Trust::default(),
    };
    config::check_roots(&setup.program.confinement, &setup.cache).map_err(OnceError::Refused)?;
    let examiner = Examiner::start(setup, Tasks::default())
        .await
        .map_err(OnceError::Start)?;
    let named = asked.manifest.name.clone();
    let name = named.unwrap_or_else(|| asked.handler.clone());
    let component = Component {
        bytes: asked.component,
        signature: None,
    };
    let candidate = Candidate::new(name, asked.manifest, component)?;
    let handlers = Handlers::default();
    let revision = examiner.first_revision(&handlers, candidate).await?;
    check_offered(&asked.handler, &revision.handlers)?;
    handlers.replace(vec![revision]);
    let (_, program) = handlers
        .executable(&asked.handler)
        .map_err(|failure| OnceError::Refused(failure.message))?;
    let runs = RunBuilder::new(handlers, asked.environment, BTreeMap::new());
    Ok((SoloCell::new(examiner.cells, program), runs))
}

fn check_offered(handler: &Name, offered: &[HandlerInfo]) -> Result<(), OnceError> {
    if offered.iter().any(|info| info.name == *handler) {
        return Ok(());
    }
    let has: Vec<&str> = offered.iter().map(|info| info.name.as_str()).collect();
    Err(OnceError::UnknownHandler {
        handler: handler.clone(),
        has: has.join(", "),
    })
}

fn request(now: Time, handler: &Name, params: JsonText) -> RunRequest {
    let job = ids::job(now);
    RunRequest {
        origin: None,
        job,
        lease: ids::lease(),
        context: Context {
            request_id: format!("{job}-1"),
            job_id: job.to_string(),
            handler: handler.to_string(),
            queue: Name::default_queue().to_string(),
            protocol: "run".to_owned(),
            attempt: 1,
            max_attempts: Some(1),
            enqueued_at: now.to_rfc3339(),
            deadline: None,
            worker_id: None,
            trace: Vec::new(),
            attributes: Vec::new(),
        },
        params,
        check_params: true,
        may_write: false,
        is_limited: false,
        env: Vec::new(),
        caps: Caps::default(),
    }
}

fn system(operation: &'static str) -> impl Fn(io::Error) -> OnceError {
    move |error| OnceError::System { operation, error }
}
