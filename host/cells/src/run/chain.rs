//! Chains: the first handler has others run in its attempt, which share its fuel, time, memory and log. Its
//! result is a list of steps, or it is a script that calls them (`calls`). This module does no I/O: the pool
//! starts each handler and reports how it ended.

mod calls;
mod planning;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use host_core::cell::{Context, RunId, Start, TimeBound};
use host_core::chain::ChainKind;
use host_core::failure::{Failure, FailureKind};
use host_core::handler::{FUEL_PER_SECOND, Limits};
use host_core::id::JobId;
use host_core::json::{DEPTH_MAX, JsonText};
use host_core::name::Name;
use host_core::outcome::{Meter, Outcome};
use host_core::writes::WriteBuffer;

use self::calls::Calls;
use crate::run::handlers::{Handler, Program};
use crate::run::programs::{Programs, desk, http, read_dirs, scratch};

pub use self::planning::{Planned, Planning};

/// The maximum number of steps in one chain, and of calls of one script.
const STEPS_MAX: usize = 1_000;

/// The chain of one attempt.
#[derive(Clone)]
pub struct Chain {
    programs: Programs,
    /// Variables that came with the job.
    env: Vec<(String, String)>,
    /// What its script has called, if the first handler is a script that calls others.
    calls: Option<Box<Calls>>,
    context: Context,
    job: JobId,
    /// What the handlers of the attempt write at its end, if they may.
    writes: Option<WriteBuffer>,
    limits: Limits,
    time_bound: TimeBound,
    /// The steps that have not run yet. `None` until the first handler has returned them.
    steps: Option<VecDeque<Step>>,
    steps_total: usize,
    running: Option<Name>,
    results: Vec<JsonText>,
    result_bytes: u64,
    used: Meter,
}

/// One handler to run, as it was when the step was planned.
#[derive(Clone)]
pub(crate) struct Step {
    handler: Arc<Handler>,
    program: Arc<Program>,
    params: JsonText,
    env: Vec<(String, String)>,
}

/// The rest of an attempt's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptBudget {
    /// The rest of its time limit, in milliseconds.
    pub timeout_ms: u64,
    /// The rest of its log limit, in bytes.
    pub log_bytes: u64,
    /// Whether the attempt was asked to stop.
    pub stopping: bool,
}

/// The next action after a step.
#[derive(Debug)]
pub enum Next {
    /// Plan the steps, which may take long, and pass the result to [`Chain::planned`].
    Plan(Planning),
    /// Run another step.
    Run(Arc<Program>, Box<Start>),
    /// End the attempt with this outcome.
    End(Outcome),
}

impl Step {
    /// Makes the step of the first handler of an attempt, to start it again.
    pub(crate) fn first(handler: &Arc<Handler>, program: &Arc<Program>, start: &Start) -> Self {
        Self {
            handler: Arc::clone(handler),
            program: Arc::clone(program),
            params: start.params.clone(),
            env: start.env.clone(),
        }
    }
}

impl Chain {
    /// Makes the chain of an attempt whose first handler is about to start with `start`. `env` came
    /// with the job, and all of its handlers write into one buffer.
    pub(crate) fn new(
        programs: Programs,
        kind: ChainKind,
        first: Step,
        start: &Start,
        env: Vec<(String, String)>,
        job: JobId,
        writes: Option<WriteBuffer>,
    ) -> Self {
        Self {
            programs,
            env,
            calls: (kind == ChainKind::Calls).then(|| Box::new(Calls::new(first))),
            context: start.context.clone(),
            job,
            writes,
            limits: start.limits.clone(),
            time_bound: start.time_bound,
            steps: None,
            steps_total: 0,
            running: None,
            results: Vec::new(),
            result_bytes: 0,
            used: Meter::default(),
        }
    }

    /// Returns what all handlers of the chain have used together.
    pub const fn used(&self) -> Meter {
        self.used
    }

    /// Records how a handler ended and returns what to do next.
    pub fn next(&mut self, outcome: Outcome, meter: Meter, left: AttemptBudget) -> Next {
        self.count(meter);
        if let (Some(writes), Outcome::Completed { .. }) = (&self.writes, &outcome) {
            writes.keep();
        }
        if self.calls.is_some() {
            return self.next_of_script(outcome, left);
        }
        let followed = match outcome {
            Outcome::Completed { result } => self.follow(result, left),
            Outcome::Failed(failure) => Err(Outcome::Failed(self.blame(failure))),
            Outcome::Retry { .. } => Err(outcome),
            Outcome::Cancelled { .. } => Err(self.cancelled()),
        };
        followed.unwrap_or_else(Next::End)
    }

    /// Accepts the planned steps and returns what to do next.
    pub fn planned(&mut self, planned: Planned, left: AttemptBudget) -> Next {
        if self.calls.is_some() {
            return self.call_planned(planned, left);
        }
        let steps = match planned.steps {
            Ok(steps) => steps,
            Err(failure) => return Next::End(Outcome::Failed(failure)),
        };
        self.steps_total = steps.len();
        self.steps = Some(steps);
        self.step(left).unwrap_or_else(Next::End)
    }

    fn follow(&mut self, result: Option<JsonText>, left: AttemptBudget) -> Result<Next, Outcome> {
        let result = result.unwrap_or_else(JsonText::null);
        if self.steps.is_none() {
            return Ok(Next::Plan(self.plan_steps(result)));
        }
        self.keep(result).map_err(Outcome::Failed)?;
        self.step(left)
    }

    /// Begins the next step, or ends the chain.
    fn step(&mut self, left: AttemptBudget) -> Result<Next, Outcome> {
        let Some(step) = self.steps.as_mut().and_then(VecDeque::pop_front) else {
            let result = Some(self.list());
            return Err(Outcome::Completed { result });
        };
        if left.stopping {
            return Err(self.cancelled());
        }
        self.running = Some(step.handler.info.name.clone());
        self.begin(step, left)
            .map_err(|failure| Outcome::Failed(self.blame(failure)))
    }

    /// Makes the start of a step. A handler gets no more than its own limits and what is left of the attempt.
    fn begin(&self, step: Step, left: AttemptBudget) -> Result<Next, Failure> {
        let all = &self.limits;
        if left.timeout_ms == 0 {
            let limit_ms = all.timeout_ms;
            let message = format!(
                "{} exceeded their common limit of {limit_ms} ms",
                self.describe_parts()
            );
            return Err(Failure::new(FailureKind::TimedOut, message));
        }
        let fuel = self.fuel().saturating_sub(self.used.fuel);
        if fuel == 0 {
            let message = format!("{} used up their common CPU budget", self.describe_parts());
            return Err(Failure::new(FailureKind::FuelExhausted, message));
        }
        let own = &step.handler.limits;
        let time_bound = if own.timeout_ms < left.timeout_ms {
            TimeBound::Handler
        } else {
            self.time_bound
        };
        let limits = Limits {
            memory_bytes: own.memory_bytes.min(all.memory_bytes),
            fuel: Some(own.fuel.map_or(fuel, |own| own.min(fuel))),
            timeout_ms: own.timeout_ms.min(left.timeout_ms),
            grace_ms: all.grace_ms,
            result_bytes_max: own.result_bytes_max.min(all.result_bytes_max),
            log_bytes_max: own.log_bytes_max.min(left.log_bytes),
            scratch_bytes: own.scratch_bytes,
            artifact_bytes: own.artifact_bytes,
            steps_max: own.steps_max,
        };
        if let Some(writes) = &self.writes {
            writes.begin();
        }
        let mut context = self.context.clone();
        context.handler = step.handler.info.name.to_string();
        let start = Start {
            run: RunId(0),
            component: step.program.component,
            http: http(&step.handler, &limits, &context),
            desk: desk(&step.handler, self.job, &context, self.writes.as_ref()),
            context,
            params: step.params,
            scratch: scratch(&limits),
            limits,
            time_bound,
            env: step.env,
            read_dirs: read_dirs(&step.handler.grants),
        };
        Ok(Next::Run(step.program, Box::new(start)))
    }

    /// Names what shares the limits, for messages.
    const fn describe_parts(&self) -> &'static str {
        match self.calls {
            None => "the actions",
            Some(_) => "the script and the handlers that it calls",
        }
    }

    fn fuel(&self) -> u64 {
        let seconds = self.limits.timeout_ms.div_ceil(1_000).max(1);
        self.limits
            .fuel
            .unwrap_or_else(|| FUEL_PER_SECOND.saturating_mul(seconds))
    }

    fn count(&mut self, meter: Meter) {
        let used = &mut self.used;
        used.fuel = used.fuel.saturating_add(meter.fuel);
        used.cpu_us = used.cpu_us.saturating_add(meter.cpu_us);
        used.peak_memory_bytes = used.peak_memory_bytes.max(meter.peak_memory_bytes);
    }

    fn keep(&mut self, result: JsonText) -> Result<(), Failure> {
        self.result_bytes += result.as_str().len() as u64 + 1;
        let limit = self.limits.result_bytes_max;
        let refused = if self.result_bytes >= limit {
            Some(format!(
                "the results of the actions have more than {limit} bytes together"
            ))
        } else if result.depth() >= DEPTH_MAX {
            Some(format!(
                "the result is nested deeper than {} levels",
                DEPTH_MAX - 1
            ))
        } else {
            None
        };
        self.results.push(result);
        match refused {
            None => Ok(()),
            Some(message) => Err(self.blame(Failure::new(FailureKind::ResultTooLarge, message))),
        }
    }

    /// Returns the results so far as one list.
    fn list(&self) -> JsonText {
        let results: Vec<&str> = self.results.iter().map(JsonText::as_str).collect();
        JsonText(format!("[{}]", results.join(",")))
    }

    fn cancelled(&self) -> Outcome {
        let partial = self.steps.is_some().then(|| self.list());
        Outcome::Cancelled { partial }
    }

    /// Adds to a failure which step it belongs to.
    fn blame(&self, failure: Failure) -> Failure {
        match &self.running {
            None => failure,
            Some(name) => {
                let ended = self.steps.as_ref().map_or(0, VecDeque::len);
                let number = self.steps_total - ended;
                blamed(failure, number, self.steps_total, name)
            }
        }
    }
}

fn blamed(mut failure: Failure, number: usize, total: usize, name: &Name) -> Failure {
    failure.message = format!("action {number} of {total}, {name}: {}", failure.message);
    failure
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = self.results.len();
        write!(f, "Chain({done} of {} steps)", self.steps_total)
    }
}

#[cfg(test)]
mod tests;
