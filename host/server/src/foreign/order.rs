//! What a cell is told about foreign work: the handler as it is now, its limits cut to what the
//! orchestrator allows. Pure but for the schema it asks.

use host_core::cell::{ComponentKey, Context, RunId, Start};
use host_core::failure::{Failure, FailureKind};
use host_core::handler::Limits;
use host_core::id::{JobId, LeaseId};
use host_core::time::Time;
use host_protocols::port::ForeignJob;

use crate::cells::pool::Order;
use crate::dispatch::writer::{Environment, granted};
use crate::handlers::Handler;

/// How one execution is known here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ids {
    pub(super) job: JobId,
    pub(super) lease: LeaseId,
}

/// Makes the order, or says why the work cannot be done.
pub(super) fn order(
    now: Time,
    ids: Ids,
    job: &ForeignJob,
    handler: &Handler,
    environment: &Environment,
) -> Result<Order, Failure> {
    fits(job, handler)?;
    let component = handler.revision.component.as_str();
    let env = if job.env.is_empty() {
        granted(&handler.grants, component, environment)?
    } else {
        let mut environment = environment.clone();
        environment.extend(job.env.iter().cloned());
        granted(&handler.grants, component, &environment)?
    };
    Ok(Order {
        job: ids.job,
        lease: ids.lease,
        revision: (component.to_owned(), handler.revision.revision),
        start: Start {
            run: RunId(0),
            component: ComponentKey(0),
            limits: cut(now, job, handler.limits.clone()),
            context: Context {
                job_id: job.external_id.clone(),
                request_id: job.request_id.clone(),
                handler: job.handler.to_string(),
                queue: job.queue.clone(),
                protocol: job.wire.to_owned(),
                attempt: job.attempt,
                max_attempts: None,
                enqueued_at: job.enqueued_at.unwrap_or(now).to_rfc3339(),
                deadline: job.deadline.map(Time::to_rfc3339),
                worker_id: job.worker_id.clone(),
                trace: job.trace.clone(),
                attributes: job.attributes.clone(),
            },
            params: job.params.clone(),
            env,
            read_dirs: handler.grants.read_dirs.clone(),
        },
        chain: None,
    })
}

/// Checks params against the schema that the handler states for them.
fn fits(job: &ForeignJob, handler: &Handler) -> Result<(), Failure> {
    let Some(schema) = &handler.params else {
        return Ok(());
    };
    schema
        .check_text(&job.params)
        .map_err(|message| Failure::new(FailureKind::InvalidParams, message))
}

/// Cuts the limits to what is left until the deadline and to what the wire carries.
fn cut(now: Time, job: &ForeignJob, mut limits: Limits) -> Limits {
    if let Some(deadline) = job.deadline {
        limits.timeout_ms = limits.timeout_ms.min(deadline.since_ms(now).max(1));
    }
    limits.result_bytes_max = limits.result_bytes_max.min(job.result_bytes_max);
    limits
}
