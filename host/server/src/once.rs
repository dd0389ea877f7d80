//! Runs a handler once without a host: compiles, describes, checks and executes it. Keeps nothing
//! but the compiled component.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use host_cells::compile::CACHE_BYTES_MAX;
use host_cells::deploy::examine::{Candidate, Component, Examiner, Flaw, Setup, StartError};
use host_cells::deploy::trust::Trust;
use host_cells::process::once::RunEvent;
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
    /// The params of the handler.
    pub params: JsonText,
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

/// Runs a handler once and passes its events to `on_event`. Keeps compiled components in `cache`.
pub fn run(
    program: CellProgram,
    cache: PathBuf,
    asked: OnceRequest,
    on_event: impl FnMut(RunEvent),
) -> Result<(Outcome, Meter), OnceError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(system("start the runtime"))?;
    runtime.block_on(execute(program, cache, asked, on_event))
}

async fn execute(
    program: CellProgram,
    cache: PathBuf,
    mut asked: OnceRequest,
    on_event: impl FnMut(RunEvent),
) -> Result<(Outcome, Meter), OnceError> {
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
        reach: asked.reach.clone(),
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
        bytes: std::mem::take(&mut asked.component),
        signature: None,
    };
    let candidate = Candidate::new(name, asked.manifest.clone(), component)?;
    let handlers = Handlers::default();
    let revision = examiner.first_revision(&handlers, candidate).await?;
    check_offered(&asked.handler, &revision.handlers)?;
    handlers.replace(vec![revision]);
    let runs = RunBuilder::new(handlers, asked.environment.clone(), BTreeMap::new());
    let now = Clock::start().now();
    let (order, program) = runs
        .build(now, request(now, asked))
        .map_err(|refused| OnceError::Refused(refused.failure.message))?;
    Ok(examiner
        .cells
        .run_once(&program, order.start, on_event)
        .await)
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

fn request(now: Time, asked: OnceRequest) -> RunRequest {
    let job = ids::job(now);
    RunRequest {
        origin: None,
        job,
        lease: ids::lease(),
        context: Context {
            request_id: format!("{job}-1"),
            job_id: job.to_string(),
            handler: asked.handler.to_string(),
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
        params: asked.params,
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
