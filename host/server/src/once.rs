//! One run of a handler without a host around it: compile, describe, check, execute. Nothing is
//! kept but the compiled component.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use host_core::cell::{ComponentKey, Context, RunId, Start};
use host_core::failure::Failure;
use host_core::handler::{HandlerInfo, Manifest};
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::outcome::{Meter, Outcome};
use thiserror::Error;

use host_cells::once::Said;
use host_cells::process::Cells;
use host_cells::spawn::{CellProgram, Spawner};
use host_runtime::clock::Clock;
use host_dispatch::writer::{Environment, granted};
use host_cells::handlers::Handlers;
use host_cells::compile::Cache;
use host_cells::examine::{Candidate, Examiner, Flaw};
use host_cells::schema::Schema;
use host_runtime::ids;
use host_runtime::tasks::Tasks;

/// Room for the guest beyond its own limit, in MiB: its tables and what the cell keeps for it.
const CELL_SPARE_MIB: u64 = 64;

/// What is to be run.
#[derive(Debug)]
pub struct Asked {
    /// The component.
    pub component: Vec<u8>,
    /// Its limits and grants.
    pub manifest: Manifest,
    /// Which of its handlers.
    pub handler: Name,
    /// What it is called with.
    pub params: JsonText,
    /// The environment that grants are taken from.
    pub environment: Environment,
}

/// Why nothing was run.
#[derive(Debug, Error)]
pub enum OnceError {
    /// The component is not taken.
    #[error(transparent)]
    Flaw(#[from] Flaw),
    /// It has no such handler.
    #[error("the component has no handler {handler}; it has {has}")]
    UnknownHandler {
        /// The one asked for.
        handler: Name,
        /// Those it has.
        has: String,
    },
    /// The params do not fit, or something is granted that is not there.
    #[error("{0}")]
    Refused(String),
    /// The system gives no thread or timer.
    #[error("cannot {operation}: {error}")]
    System {
        /// What was being done.
        operation: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

/// Runs a handler once and tells `said` what it says meanwhile. Compiled components are kept in
/// `cache`.
pub fn run(
    program: CellProgram,
    cache: PathBuf,
    asked: Asked,
    said: impl FnMut(Said),
) -> Result<(Outcome, Meter), OnceError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(system("start the runtime"))?;
    runtime.block_on(async {
        let cache = Cache::open(cache, program.clone()).map_err(Flaw::Compile)?;
        execute(program, cache, asked, said).await
    })
}

async fn execute(
    program: CellProgram,
    cache: Cache,
    mut asked: Asked,
    said: impl FnMut(Said),
) -> Result<(Outcome, Meter), OnceError> {
    // No later host waits for this cell.
    let no_lock = File::open("/dev/null").map_err(system("open /dev/null"))?;
    let spawner = Spawner::start(program, no_lock).map_err(system("start the thread of cells"))?;
    let memory_mib = asked
        .manifest
        .limits(&asked.handler)
        .memory_bytes
        .div_ceil(1 << 20);
    let cells = Cells::new(spawner, Tasks::default(), memory_mib + CELL_SPARE_MIB);
    let examiner = Examiner {
        cache,
        cells: cells.clone(),
        environment: asked.environment.clone(),
    };
    let named = asked.manifest.name.clone();
    let name = named.unwrap_or_else(|| asked.handler.clone());
    let bytes = std::mem::take(&mut asked.component);
    let candidate = Candidate::new(name, asked.manifest.clone(), bytes)?;
    let compiled = examiner
        .program(&Handlers::default(), candidate.digest, &candidate.bytes)
        .await
        .map_err(Flaw::Compile)?;
    let offered = examiner.describe(&compiled, &candidate.manifest).await?;
    check(&asked, &offered)?;
    let start = start(asked).map_err(|failure| OnceError::Refused(failure.message))?;
    Ok(cells.run_once(&compiled, start, said).await)
}

fn check(asked: &Asked, offered: &[HandlerInfo]) -> Result<(), OnceError> {
    let Some(info) = offered.iter().find(|info| info.name == asked.handler) else {
        let has: Vec<&str> = offered.iter().map(|info| info.name.as_str()).collect();
        return Err(OnceError::UnknownHandler {
            handler: asked.handler.clone(),
            has: has.join(", "),
        });
    };
    let Some(schema) = &info.params_schema else {
        return Ok(());
    };
    let name = &info.name;
    let schema = Schema::compile(schema).map_err(|error| {
        OnceError::Refused(format!("the params schema of {name} is not taken: {error}"))
    })?;
    schema
        .check_text(&asked.params)
        .map_err(|error| OnceError::Refused(format!("the params do not fit {name}: {error}")))
}

fn start(asked: Asked) -> Result<Start, Failure> {
    let grants = asked.manifest.grants(&asked.handler);
    let env = granted(&grants, asked.handler.as_str(), &asked.environment)?;
    let now = Clock::start().now();
    let id = ids::job(now).to_string();
    Ok(Start {
        run: RunId(0),
        component: ComponentKey(0),
        limits: asked.manifest.limits(&asked.handler),
        context: Context {
            request_id: format!("{id}-1"),
            job_id: id,
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
        env,
        read_dirs: grants.read_dirs,
    })
}

fn system(operation: &'static str) -> impl Fn(io::Error) -> OnceError {
    move |error| OnceError::System { operation, error }
}
