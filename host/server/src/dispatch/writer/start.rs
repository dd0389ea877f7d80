//! What a cell is told about a job that was claimed: the handler as it is now, its limits cut to
//! what is left, its grants looked up. Pure.

use std::collections::BTreeMap;

use host_core::cell::{ComponentKey, Context, RunId, Start};
use host_core::command::Claimed;
use host_core::failure::{Failure, FailureKind};
use host_core::handler::{Grants, Limits};
use host_core::id::LeaseId;
use host_core::job::Lifecycle;
use host_core::time::Time;

use crate::cells::pool::Order;
use crate::handlers::Handler;

/// The environment of the host's process, as far as it is granted to guests.
pub type Environment = BTreeMap<String, String>;

/// Makes the order for a claimed job, or says why it cannot be executed.
pub(super) fn order(
    now: Time,
    claimed: Claimed,
    lease: LeaseId,
    worker: &str,
    handler: &Handler,
    environment: &Environment,
) -> Result<Order, Failure> {
    let whose = handler.revision.component.as_str();
    let env = granted(&handler.grants, whose, environment)?;
    let Claimed { lifecycle, payload } = claimed;
    Ok(Order {
        job: lifecycle.id,
        lease,
        revision: (
            handler.revision.component.to_string(),
            handler.revision.revision,
        ),
        start: Start {
            run: RunId(0),
            component: ComponentKey(0),
            limits: cut(now, &lifecycle, handler.limits.clone()),
            context: Context {
                job_id: lifecycle.id.to_string(),
                request_id: format!("{}-{}", lifecycle.id, lifecycle.attempt),
                handler: lifecycle.handler.to_string(),
                queue: lifecycle.queue.to_string(),
                protocol: payload.wire,
                attempt: lifecycle.attempt,
                max_attempts: Some(lifecycle.policy.max_attempts),
                enqueued_at: lifecycle.enqueued_at.to_rfc3339(),
                deadline: lifecycle.deadline.map(Time::to_rfc3339),
                worker_id: Some(worker.to_owned()),
                trace: payload.trace_context,
                attributes: payload.attributes,
            },
            params: payload.params,
            env,
            read_dirs: handler.grants.read_dirs.clone(),
        },
        chain: None,
    })
}

/// Cuts the time limit to the job's own and to what is left until its deadline.
fn cut(now: Time, job: &Lifecycle, mut limits: Limits) -> Limits {
    let left_ms = job.deadline.map(|deadline| deadline.since_ms(now).max(1));
    for limit_ms in [job.policy.timeout_ms, left_ms].into_iter().flatten() {
        limits.timeout_ms = limits.timeout_ms.min(limit_ms);
    }
    limits
}

/// Looks up the granted environment variables, or says which one the host does not have.
pub fn granted(
    grants: &Grants,
    whose: &str,
    environment: &Environment,
) -> Result<Vec<(String, String)>, Failure> {
    let values = grants.env.iter().map(|name| {
        let value = environment.get(name).ok_or_else(|| {
            let message = format!(
                "the manifest of {whose} grants the environment variable {name}, which the host was started without"
            );
            Failure::new(FailureKind::GrantMissing, message)
        })?;
        Ok((name.clone(), value.clone()))
    });
    values.collect()
}

#[cfg(test)]
mod tests;
