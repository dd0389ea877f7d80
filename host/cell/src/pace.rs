//! The bare loop: instantiate and call a handler that does nothing, with a cell's own engine and
//! nothing else around it. What the cost of a job in a cell is measured against.

use std::path::Path;

use host_core::cell::{ComponentKey, Context, RunId, Start};
use host_core::handler::Limits;
use host_core::json::JsonText;
use serde::Serialize;
use tokio::time::{Duration, Instant};

use crate::component::Components;
use crate::meter::thread_cpu_ns;
use crate::{engine, run};

/// What was measured, on one thread.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pace {
    /// Calls of one second.
    pub calls_per_second: f64,
    /// CPU time of one call, in microseconds.
    pub cpu_us_per_call: f64,
}

/// Calls the handler `noop` of the compiled component at `path` for `duration`.
pub fn measure(path: &Path, sha256: [u8; 32], duration: Duration) -> wasmtime::Result<Pace> {
    let engine = engine::pooled(1)?;
    let mut components = Components::new(&engine)?;
    let key = ComponentKey(0);
    components.load(key, path, sha256)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    runtime.block_on(async {
        let start = noop(key);
        let (began, cpu_before) = (Instant::now(), thread_cpu_ns());
        let mut calls = 0_u32;
        while began.elapsed() < duration {
            run::call_bare(&engine, components.get(key)?, &start).await?;
            calls += 1;
        }
        let cpu_ns = thread_cpu_ns() - cpu_before;
        #[expect(clippy::cast_precision_loss, reason = "a run of seconds")]
        let cpu_us = cpu_ns as f64 / 1_000.0;
        Ok(Pace {
            calls_per_second: f64::from(calls) / began.elapsed().as_secs_f64(),
            cpu_us_per_call: cpu_us / f64::from(calls.max(1)),
        })
    })
}

fn noop(component: ComponentKey) -> Start {
    Start {
        run: RunId(0),
        component,
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
        params: JsonText::null(),
        limits: Limits::default(),
        env: Vec::new(),
        read_dirs: Vec::new(),
    }
}
