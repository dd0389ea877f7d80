//! A baseline for the bench: instantiates and calls a no-op handler with the engine of a cell and nothing
//! else.

use std::sync::Arc;

use host_core::cell::{ComponentKey, Context, RunId, Start, TimeBound};
use host_core::handler::Limits;
use host_core::json::JsonText;
use serde::Serialize;
use tokio::time::{Duration, Instant};
use wasmtime::component::Component;

use crate::bindings::JobPre;
use crate::engine;
use crate::linker::link;
use crate::meter::thread_cpu_ns;
use crate::run::{self, Resources};
use crate::watchdog::Activity;

/// The result of the measurement, on one thread.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pace {
    /// Calls per second.
    pub calls_per_second: f64,
    /// CPU time per call, in microseconds.
    pub cpu_us_per_call: f64,
}

/// Compiles `component` and calls its handler `noop` for `duration`.
pub fn measure(component: &[u8], duration: Duration) -> wasmtime::Result<Pace> {
    let resources = Resources::new(
        engine::pooled(1, false)?,
        u64::MAX,
        Arc::new(Activity::new(None)?),
    );
    let compiled = Component::new(&resources.engine, component)?;
    let component = JobPre::new(link(&resources.engine)?.instantiate_pre(&compiled)?)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    runtime.block_on(async {
        let start = noop();
        let (began, cpu_before) = (Instant::now(), thread_cpu_ns());
        let mut calls = 0_u32;
        while began.elapsed() < duration {
            run::call_bare(&resources, &component, &start).await?;
            calls += 1;
        }
        let cpu = Duration::from_nanos(thread_cpu_ns() - cpu_before);
        Ok(Pace {
            calls_per_second: f64::from(calls) / began.elapsed().as_secs_f64(),
            cpu_us_per_call: cpu.as_secs_f64() * 1e6 / f64::from(calls.max(1)),
        })
    })
}

fn noop() -> Start {
    Start {
        run: RunId(0),
        component: ComponentKey(0),
        context: Context {
            job_id: "0".to_owned(),
            request_id: "0/1".to_owned(),
            handler: "noop".to_owned(),
            queue: "default".to_owned(),
            protocol: "http".to_owned(),
            attempt: 1,
            max_attempts: None,
            enqueued_at: "1970-01-01T00:00:00.000Z".to_owned(),
            deadline: None,
            worker_id: None,
            trace: Vec::new(),
            attributes: Vec::new(),
        },
        time_bound: TimeBound::Handler,
        params: JsonText::null(),
        limits: Limits::default(),
        env: Vec::new(),
        http: None,
        desk: None,
        scratch: None,
        read_dirs: Vec::new(),
    }
}
