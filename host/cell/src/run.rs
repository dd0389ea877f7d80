//! One run: a fresh store, a fresh instance, one call, and its outcome.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::poll;
use host_core::cell::{Context, DESCRIBED_MAX, Start};
use host_core::desk::DESK_JOBS_BYTES_MAX;
use host_core::egress::{BODY_BYTES_MAX, HEADERS_BYTES_MAX, URL_BYTES_MAX};
use host_core::failure::{Failure, FailureKind};
use host_core::handler::{FUEL_PER_SECOND, HandlerInfo, Limits};
use host_core::json::JsonText;
use host_core::outcome::{Meter, Outcome};
use tokio::task::yield_now;
use wasmtime::{Engine, Result, Store, UpdateDeadline};

use crate::bindings::JobPre;
use crate::bindings::host::jobs::types as wit;
use crate::context::{GivenToRun, Guest};
use crate::limits::{CellMemory, MemoryLimit};
use crate::meter::{Metered, Used};
use crate::outcome;
use crate::run_output::RunOutput;
use crate::scratch;
use crate::stop::{Forced, Stop};
use crate::watchdog::Activity;

/// The most data that a guest may pass in one call, unless its result may be larger, in bytes: that of jobs. A call that the
/// manifest does not grant takes as much, so that its answer is that it is not granted; it ends before another call begins.
const PASSED_BYTES_MAX: u64 = DESK_JOBS_BYTES_MAX as u64;
const _: () = assert!(DESK_JOBS_BYTES_MAX > BODY_BYTES_MAX + HEADERS_BYTES_MAX + URL_BYTES_MAX);

/// How much more than that a guest may pass, in bytes: room for names and messages.
const HOSTCALL_OVERHEAD_BYTES: u64 = 64 << 10;

/// The most component-model handles that a guest may hold.
const HANDLES_MAX: usize = 1_000;

/// The limits of `describe`. They are low, because it only lists handlers.
const DESCRIBE_TIMEOUT_MS: u64 = 1_000;
const DESCRIBE_FUEL: u64 = 10_000_000_000;

/// The parts that all runs of a cell share: the engine, the memory and the watchdog.
pub(crate) struct Resources {
    pub(crate) engine: Engine,
    pub(crate) memory: Arc<CellMemory>,
    activity: Arc<Activity>,
}

impl Resources {
    pub(crate) fn new(engine: Engine, memory_bytes: u64, activity: Arc<Activity>) -> Self {
        Self {
            engine,
            memory: Arc::new(CellMemory::new(memory_bytes)),
            activity,
        }
    }

    fn memory(&self, limits: &Limits) -> MemoryLimit {
        MemoryLimit::new(limits.memory_bytes, Arc::clone(&self.memory))
    }
}

/// How a call ended.
enum CallEnd<T> {
    Returned(T),
    Trapped(wasmtime::Error),
    Forced(Forced),
}

/// How often a guest's consumption is counted, in fuel: well under a millisecond's worth, so that a guest
/// that is stopped inside a loop is still charged for its work.
const FUEL_COUNT_INTERVAL: u64 = 1_000_000;

/// Executes one handler, which may use what is `given`, and returns its outcome and what it used. If the future is dropped, the guest is ended.
pub(crate) async fn execute(
    resources: &Resources,
    component: &JobPre<Guest>,
    start: Start,
    given: GivenToRun,
    output: &Arc<RunOutput>,
    stop: &Arc<Stop>,
) -> (Outcome, Meter) {
    let (limits, time_bound) = (start.limits, start.time_bound);
    let granted = given.dirs.iter().map(|(_, name)| name.clone());
    let scratch = given.scratch.iter().map(|_| scratch::PATH.to_owned());
    let names: Vec<String> = granted.chain(scratch).collect();
    let guest = Guest::new(
        resources.memory(&limits),
        Arc::clone(output),
        Arc::clone(stop),
        start.env,
        given,
    );
    let fuel = fuel(&limits);
    let mut meter = Meter::default();
    let mut outcome = match prepare(resources, guest, &limits, fuel) {
        Ok(mut store) => {
            let context = context(start.context);
            let ended = {
                let call = pin!(handle(&mut store, component, &context, &start.params.0));
                run_to_end(call, stop, &resources.activity, &output.used).await
            };
            let left = store.get_fuel().unwrap_or(0);
            let peak_memory_bytes = store.data().memory.peak_memory_bytes();
            output.used.set(fuel - left, peak_memory_bytes);
            meter = output.used.meter();
            drop(store);
            output.finish();
            match ended {
                CallEnd::Returned(returned) => outcome::from_return(returned, &limits),
                CallEnd::Trapped(error) => {
                    Outcome::Failed(outcome::from_trap(&error, output, &limits))
                }
                CallEnd::Forced(forced) => {
                    outcome::from_forced_stop(forced, stop, &limits, time_bound)
                }
            }
        }
        Err(error) => Outcome::Failed(outcome::from_trap(&error, output, &limits)),
    };
    outcome::explain_missing_file(&mut outcome, &names);
    (outcome, meter)
}

/// Asks a component for its handlers, with no grants and low limits.
pub(crate) async fn describe(
    resources: &Resources,
    component: &JobPre<Guest>,
) -> Result<Vec<HandlerInfo>, Failure> {
    let limits = Limits {
        timeout_ms: DESCRIBE_TIMEOUT_MS,
        fuel: Some(DESCRIBE_FUEL),
        ..Limits::default()
    };
    let output = Arc::new(RunOutput::new(
        limits.log_bytes_max,
        Arc::clone(&resources.memory),
    ));
    let stop = Arc::new(Stop::new(limits.timeout_ms));
    let trapped = |error: &wasmtime::Error| outcome::from_trap(error, &output, &limits);
    let guest = Guest::new(
        resources.memory(&limits),
        Arc::clone(&output),
        Arc::clone(&stop),
        Vec::new(),
        GivenToRun::default(),
    );
    let mut store =
        prepare(resources, guest, &limits, DESCRIBE_FUEL).map_err(|error| trapped(&error))?;
    let ended = {
        let call = pin!(async {
            let instance = component.instantiate_async(&mut store).await?;
            instance.host_jobs_handler().call_describe(&mut store).await
        });
        run_to_end(call, &stop, &resources.activity, &output.used).await
    };
    output.finish();
    match ended {
        CallEnd::Returned(handlers) => handlers.into_iter().take(DESCRIBED_MAX).map(info).collect(),
        CallEnd::Trapped(error) => Err(trapped(&error)),
        CallEnd::Forced(_) => Err(Failure::new(
            FailureKind::TimedOut,
            format!(
                "describe exceeded its limit of {DESCRIBE_TIMEOUT_MS} ms; it should only list handlers"
            ),
        )),
    }
}

/// Calls a handler without limits on time and without logs, for the bench.
#[cfg(feature = "pace")]
pub(crate) async fn call_bare(
    resources: &Resources,
    component: &JobPre<Guest>,
    start: &Start,
) -> Result<()> {
    let output = Arc::new(RunOutput::new(
        start.limits.log_bytes_max,
        Arc::clone(&resources.memory),
    ));
    let stop = Arc::new(Stop::new(start.limits.timeout_ms));
    let guest = Guest::new(
        resources.memory(&start.limits),
        output,
        stop,
        Vec::new(),
        GivenToRun::default(),
    );
    let mut store = prepare(resources, guest, &start.limits, fuel(&start.limits))?;
    let context = context(start.context.clone());
    let returned = handle(&mut store, component, &context, &start.params.0).await?;
    match outcome::from_return(returned, &start.limits) {
        Outcome::Completed { .. } => Ok(()),
        ended => wasmtime::bail!("the handler did not complete: {ended:?}"),
    }
}

fn fuel(limits: &Limits) -> u64 {
    let seconds = limits.timeout_ms.div_ceil(1_000).max(1);
    limits
        .fuel
        .unwrap_or_else(|| FUEL_PER_SECOND.saturating_mul(seconds))
}

fn prepare(
    resources: &Resources,
    guest: Guest,
    limits: &Limits,
    fuel: u64,
) -> Result<Store<Guest>> {
    let mut store = Store::new(&resources.engine, guest);
    store.limiter(|guest| &mut guest.memory);
    store.set_fuel(fuel)?;
    store.fuel_async_yield_interval(Some(FUEL_COUNT_INTERVAL))?;
    // The guest yields at each tick of the epoch. To end it, its future is dropped.
    store.set_epoch_deadline(1);
    let activity = Arc::clone(&resources.activity);
    store.epoch_deadline_callback(move |store| {
        activity.check_lifeline();
        let left = store.get_fuel().unwrap_or(0);
        let guest = store.data();
        let peak_memory_bytes = guest.memory.peak_memory_bytes();
        guest.output.used.set(fuel - left, peak_memory_bytes);
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(yield_now())))
    });
    let bytes_max = limits.result_bytes_max.max(PASSED_BYTES_MAX) + HOSTCALL_OVERHEAD_BYTES;
    store.set_hostcall_fuel(usize::try_from(bytes_max).unwrap_or(usize::MAX));
    store.set_max_component_handles(HANDLES_MAX);
    Ok(store)
}

async fn handle(
    store: &mut Store<Guest>,
    component: &JobPre<Guest>,
    context: &wit::Context,
    params: &String,
) -> Result<Result<Option<String>, wit::Failure>> {
    let instance = component.instantiate_async(&mut *store).await?;
    let handler = instance.host_jobs_handler();
    handler.call_handle(store, context, params).await
}

/// Polls a call until it ends or is stopped by force.
async fn run_to_end<T>(
    call: std::pin::Pin<&mut impl Future<Output = Result<T>>>,
    stop: &Stop,
    activity: &Activity,
    used: &Used,
) -> CallEnd<T> {
    let mut call = Metered::new(call, activity, used);
    let result = match stop.forced_now() {
        Some(forced) => return CallEnd::Forced(forced),
        // Most calls end at the first poll, and need no timer.
        None => match poll!(&mut call) {
            Poll::Ready(result) => result,
            Poll::Pending => tokio::select! {
                biased;
                forced = stop.forced() => return CallEnd::Forced(forced),
                result = call => result,
            },
        },
    };
    match result {
        Ok(returned) => CallEnd::Returned(returned),
        Err(error) => CallEnd::Trapped(error),
    }
}

fn context(context: Context) -> wit::Context {
    wit::Context {
        job_id: context.job_id,
        request_id: context.request_id,
        function: context.handler,
        queue: context.queue,
        protocol: context.protocol,
        attempt: context.attempt,
        max_attempts: context.max_attempts,
        enqueued_at: context.enqueued_at,
        deadline: context.deadline,
        worker_id: context.worker_id,
        trace: context.trace,
        attributes: context.attributes,
    }
}

fn info(info: wit::HandlerInfo) -> Result<HandlerInfo, Failure> {
    let name = info.name.parse().map_err(|error| {
        let mut shown = format!(
            "describe lists a handler with an invalid name, {:?}: {error}",
            info.name
        );
        crate::run_output::truncate(&mut shown, 512);
        Failure::new(FailureKind::Trapped, shown)
    })?;
    Ok(HandlerInfo {
        name,
        description: info.description,
        params_schema: info.params_schema.map(JsonText),
        result_schema: info.result_schema.map(JsonText),
    })
}
