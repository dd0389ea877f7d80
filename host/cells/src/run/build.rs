//! Builds runs. A run is the current handler with its limits, the variables it is granted, and the
//! chain if the handler is a script. This module starts nothing.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use host_core::cell::{ComponentKey, Context, RunId, Start, TimeBound};
use host_core::failure::{Failure, FailureKind};
use host_core::handler::Limits;
use host_core::id::{JobId, LeaseId};
use host_core::job::Origin;
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::step::{STEPS_MAX, StepsGrant};
use host_core::time::Time;
use host_core::writes::WriteBuffer;

use crate::compile::schema::Budget;
use crate::run::chain::{Chain, Step};
use crate::run::handlers::{Handler, Handlers, Program};
use crate::run::order::Order;
use crate::run::programs::{Programs, desk, http, read_dirs, scratch, uses_desk};

pub use crate::run::programs::{ChainHandlers, Environment};

/// One attempt that a cell executes, for this host or for another orchestrator.
#[derive(Clone, Debug)]
pub struct RunRequest {
    pub job: JobId,
    /// The lease that the attempt holds.
    pub lease: LeaseId,
    /// The context for the guest, with the handler's name.
    pub context: Context,
    pub params: JsonText,
    /// Whether the params still have to be checked against the handler's schema.
    pub check_params: bool,
    /// Whether what the attempt writes is stored with its end.
    pub may_write: bool,
    /// Whether the job has limits, whose keys the attempt may hold.
    pub is_limited: bool,
    /// Variables that came with the job. They take precedence over the host's own if both are
    /// granted.
    pub env: Vec<(String, String)>,
    /// Who enqueued the job. What it enqueues, and the handlers that it has run in its attempt, are held to the same
    /// scope.
    pub origin: Option<Box<Origin>>,
    /// Limits that reduce the handler's own.
    pub caps: Caps,
}

/// Limits of one attempt, in addition to those of its handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    pub timeout_ms: Option<u64>,
    /// The time by which the guest must have stopped.
    pub deadline: Option<Time>,
    pub result_bytes_max: Option<u64>,
}

/// Why an attempt cannot be executed.
#[derive(Clone, Debug)]
pub struct StartFailure {
    pub failure: Failure,
    /// The component and revision that provide the handler, if it is deployed.
    pub revision: Option<(String, u32)>,
}

/// Builds runs. Clones share the deployed handlers.
#[derive(Clone)]
pub struct RunBuilder {
    programs: Programs,
}

impl RunBuilder {
    /// Builds runs of `handlers`. A handler is granted only variables that are in `environment` or
    /// came with the job. A handler in `chain_handlers` has others run in its attempts.
    pub fn new(
        handlers: Handlers,
        environment: Environment,
        chain_handlers: ChainHandlers,
    ) -> Self {
        Self {
            programs: Programs::new(handlers, environment, chain_handlers),
        }
    }

    pub const fn handlers(&self) -> &Handlers {
        self.programs.handlers()
    }

    /// Builds a run and returns it with the compiled component that executes it.
    pub fn build(
        &self,
        now: Time,
        request: RunRequest,
    ) -> Result<(Order, Arc<Program>), Box<StartFailure>> {
        let refused = |failure, revision| Box::new(StartFailure { failure, revision });
        let name: Name = request.context.handler.parse().map_err(|_| {
            let message = format!("{:?} is not a valid handler name", request.context.handler);
            refused(Failure::new(FailureKind::HandlerNotFound, message), None)
        })?;
        let (handler, program) = self.handlers().executable(&name).map_err(|failure| {
            let handler = self.handlers().get(&name);
            refused(failure, handler.map(|handler| handler.provider()))
        })?;
        let revision = handler.provider();
        let (job, lease) = (request.job, request.lease);
        // Only a chain needs the variables after this run.
        let kind = self.programs.chain_kind(&name);
        let origin = request.origin.clone();
        let scope = origin.as_ref().map(|origin| origin.scope.clone());
        let chained = kind.map(|kind| (kind, request.env.clone()));
        let asks = kind.is_some() || uses_desk(&handler);
        let writes = (request.may_write && asks).then(|| self.programs.buffer(origin));
        if let Some(writes) = writes.as_ref().filter(|_| request.is_limited) {
            writes.let_hold(lease);
        }
        let start = self
            .start(now, request, &handler, writes.as_ref())
            .map_err(|failure| refused(failure, Some(revision.clone())))?;
        let chain = chained.map(|(kind, env)| {
            let first = Step::first(&handler, &program, &start);
            let programs = self.programs.clone().within(scope);
            let writes = writes.clone();
            Box::new(Chain::new(programs, kind, first, &start, env, job, writes))
        });
        let order = Order {
            job,
            lease,
            revision,
            start,
            writes,
            chain,
        };
        Ok((order, program))
    }

    /// Returns the journal that the attempt with a lease continues, if the handler has steps. Scripts have none: their calls
    /// run them again.
    fn steps(&self, handler: &Handler, lease: LeaseId) -> Option<StepsGrant> {
        let steps_max = u32::try_from(handler.limits.steps_max).unwrap_or(STEPS_MAX);
        let is_script = self.programs.chain_kind(&handler.info.name).is_some();
        (steps_max > 0 && !is_script).then_some(StepsGrant { lease, steps_max })
    }

    fn start(
        &self,
        now: Time,
        request: RunRequest,
        handler: &Handler,
        writes: Option<&WriteBuffer>,
    ) -> Result<Start, Failure> {
        if request.check_params {
            handler.check_params(&request.params, &mut Budget::default())?;
        }
        let env = self.programs.granted(handler, &request.env)?;
        let (limits, time_bound) = request.caps.cut(now, handler.limits.clone());
        let mut desk = desk(handler, request.job, &request.context, writes);
        if let Some(pass) = desk.as_mut().and_then(|door| door.pass.as_mut()) {
            pass.steps = self.steps(handler, request.lease);
        }
        Ok(Start {
            run: RunId(0),
            component: ComponentKey(0),
            http: http(handler, &limits, &request.context),
            desk,
            scratch: scratch(&limits),
            limits,
            time_bound,
            context: request.context,
            params: request.params,
            env,
            read_dirs: read_dirs(&handler.grants),
        })
    }
}

impl Caps {
    fn cut(self, now: Time, mut limits: Limits) -> (Limits, TimeBound) {
        let left_ms = self.deadline.map(|deadline| deadline.since_ms(now).max(1));
        let mut bound = TimeBound::Handler;
        for (limit_ms, its) in [
            (self.timeout_ms, TimeBound::Job),
            (left_ms, TimeBound::Deadline),
        ] {
            if let Some(limit_ms) = limit_ms.filter(|limit_ms| *limit_ms < limits.timeout_ms) {
                limits.timeout_ms = limit_ms;
                bound = its;
            }
        }
        if let Some(bytes_max) = self.result_bytes_max {
            limits.result_bytes_max = limits.result_bytes_max.min(bytes_max);
        }
        (limits, bound)
    }
}
