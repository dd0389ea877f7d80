//! One run: a fresh store, a fresh instance, one call, and what came of it.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::poll;
use host_core::cell::{Context, Start};
use host_core::failure::{Failure, FailureKind};
use host_core::handler::{FUEL_PER_SECOND, HandlerInfo, Limits};
use host_core::json::JsonText;
use host_core::outcome::{Meter, Outcome};
use tokio::task::yield_now;
use wasmtime::{Engine, Result, Store, UpdateDeadline};

use crate::bindings::JobPre;
use crate::bindings::host::jobs::types as wit;
use crate::context::Guest;
use crate::limits::{CellMemory, MemoryLimit};
use crate::meter::Metered;
use crate::outcome;
use crate::said::Said;
use crate::stop::{Forced, Stop};
use crate::watchdog::Activity;

/// What a guest may hand over in one call beyond its largest result, in bytes: the names and
/// messages around it.
const HOSTCALL_OVERHEAD_BYTES: u64 = 64 << 10;

/// The most handles a guest may hold.
const HANDLES_MAX: usize = 1_000;

/// The limits of `describe`: it has nothing to do but to list names.
const DESCRIBE_TIMEOUT_MS: u64 = 1_000;
const DESCRIBE_FUEL: u64 = 10_000_000_000;

/// Where runs take place: the engine, and the memory they share.
pub(crate) struct Place {
    pub(crate) engine: Engine,
    memory: Arc<CellMemory>,
    activity: Arc<Activity>,
}

impl Place {
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

/// How a call within its limits ended.
enum Ended<T> {
    Returned(T),
    Trapped(wasmtime::Error),
    Forced(Forced),
}

/// How much fuel a guest burns from one count to the next, so that one stopped in the middle of a
/// loop is charged for what it did: well under a millisecond's worth.
const FUEL_COUNTED: u64 = 1_000_000;

/// Executes one handler and returns how that ended and what it used. Dropped, the guest is gone.
pub(crate) async fn execute(
    place: &Place,
    component: &JobPre<Guest>,
    start: Start,
    said: &Arc<Said>,
    stop: &Arc<Stop>,
) -> (Outcome, Meter) {
    let limits = start.limits;
    let guest = Guest::new(
        place.memory(&limits),
        Arc::clone(said),
        Arc::clone(stop),
        start.env,
        &start.read_dirs,
    );
    let guest = match guest {
        Ok(guest) => guest,
        Err(missing) => {
            let failure = Failure::new(FailureKind::GrantMissing, missing.to_string());
            return (Outcome::Failed(failure), Meter::default());
        }
    };
    let fuel = fuel(&limits);
    let mut meter = Meter::default();
    let outcome = match prepare(&place.engine, guest, &limits, fuel) {
        Ok(mut store) => {
            let context = context(start.context);
            let mut cpu_ns = 0;
            let ended = {
                let call = pin!(handle(&mut store, component, &context, &start.params.0));
                within(call, stop, &place.activity, &mut cpu_ns).await
            };
            meter = Meter {
                fuel: fuel - store.get_fuel().unwrap_or(0),
                cpu_us: cpu_ns / 1_000,
                peak_memory_bytes: store.data().memory.peak_memory_bytes(),
            };
            drop(store);
            said.finish();
            match ended {
                Ended::Returned(returned) => outcome::of_return(returned, &limits),
                Ended::Trapped(error) => Outcome::Failed(outcome::of_trap(&error, said, &limits)),
                Ended::Forced(forced) => outcome::of_force(forced, stop, &limits),
            }
        }
        Err(error) => Outcome::Failed(outcome::of_trap(&error, said, &limits)),
    };
    (outcome, meter)
}

/// Asks a component for its handlers, with no grants and little of everything.
pub(crate) async fn describe(
    place: &Place,
    component: &JobPre<Guest>,
) -> Result<Vec<HandlerInfo>, Failure> {
    let limits = Limits {
        timeout_ms: DESCRIBE_TIMEOUT_MS,
        fuel: Some(DESCRIBE_FUEL),
        ..Limits::default()
    };
    let said = Arc::new(Said::new(limits.log_bytes_max));
    let stop = Arc::new(Stop::new(limits.timeout_ms));
    let trapped = |error: &wasmtime::Error| outcome::of_trap(error, &said, &limits);
    let guest = Guest::new(
        place.memory(&limits),
        Arc::clone(&said),
        Arc::clone(&stop),
        Vec::new(),
        &[],
    );
    let guest =
        guest.map_err(|missing| Failure::new(FailureKind::GrantMissing, missing.to_string()))?;
    let mut store =
        prepare(&place.engine, guest, &limits, DESCRIBE_FUEL).map_err(|error| trapped(&error))?;
    let mut cpu_ns = 0;
    let ended = {
        let call = pin!(async {
            let instance = component.instantiate_async(&mut store).await?;
            instance.host_jobs_handler().call_describe(&mut store).await
        });
        within(call, &stop, &place.activity, &mut cpu_ns).await
    };
    said.finish();
    match ended {
        Ended::Returned(handlers) => handlers.into_iter().map(info).collect(),
        Ended::Trapped(error) => Err(trapped(&error)),
        Ended::Forced(_) => Err(Failure::new(
            FailureKind::TimedOut,
            format!("describe took longer than {DESCRIBE_TIMEOUT_MS} ms"),
        )),
    }
}

/// Calls a handler with nothing around it, for comparison.
pub(crate) async fn call_bare(
    place: &Place,
    component: &JobPre<Guest>,
    start: &Start,
) -> Result<()> {
    let said = Arc::new(Said::new(start.limits.log_bytes_max));
    let stop = Arc::new(Stop::new(start.limits.timeout_ms));
    let guest = Guest::new(place.memory(&start.limits), said, stop, Vec::new(), &[])?;
    let mut store = prepare(&place.engine, guest, &start.limits, fuel(&start.limits))?;
    let context = context(start.context.clone());
    let returned = handle(&mut store, component, &context, &start.params.0).await?;
    match outcome::of_return(returned, &start.limits) {
        Outcome::Completed { .. } => Ok(()),
        ended => wasmtime::bail!("the handler did not return: {ended:?}"),
    }
}

fn fuel(limits: &Limits) -> u64 {
    let seconds = limits.timeout_ms.div_ceil(1_000).max(1);
    limits
        .fuel
        .unwrap_or_else(|| FUEL_PER_SECOND.saturating_mul(seconds))
}

fn prepare(engine: &Engine, guest: Guest, limits: &Limits, fuel: u64) -> Result<Store<Guest>> {
    let mut store = Store::new(engine, guest);
    store.limiter(|guest| &mut guest.memory);
    store.set_fuel(fuel)?;
    store.fuel_async_yield_interval(Some(FUEL_COUNTED))?;
    // The guest gives way at each tick of the clock; what ends it is its future being dropped.
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|_| Ok(UpdateDeadline::YieldCustom(1, Box::pin(yield_now()))));
    let handed_over = limits.result_bytes_max + HOSTCALL_OVERHEAD_BYTES;
    store.set_hostcall_fuel(usize::try_from(handed_over).unwrap_or(usize::MAX));
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

/// Polls a call until it ends or must not go on.
async fn within<T>(
    call: std::pin::Pin<&mut impl Future<Output = Result<T>>>,
    stop: &Stop,
    activity: &Activity,
    cpu_ns: &mut u64,
) -> Ended<T> {
    let mut call = Metered::new(call, activity, cpu_ns);
    let result = match stop.forced_now() {
        Some(forced) => return Ended::Forced(forced),
        // Most calls end at once, and need no timer.
        None => match poll!(&mut call) {
            Poll::Ready(result) => result,
            Poll::Pending => tokio::select! {
                biased;
                forced = stop.forced() => return Ended::Forced(forced),
                result = call => result,
            },
        },
    };
    match result {
        Ok(returned) => Ended::Returned(returned),
        Err(error) => Ended::Trapped(error),
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
        let mut shown = format!("describe names a handler {:?}: {error}", info.name);
        crate::said::cut(&mut shown, 512);
        Failure::new(FailureKind::Trapped, shown)
    })?;
    Ok(HandlerInfo {
        name,
        description: info.description,
        params_schema: info.params_schema.map(JsonText),
        result_schema: info.result_schema.map(JsonText),
    })
}
