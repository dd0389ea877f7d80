//! Handlers that each show one behaviour of guests, to demonstrate and test how the host reacts.

use std::time::Duration;

use guest_sdk::schemars::{self, JsonSchema};
use guest_sdk::{Category, Ctx, Error, export_handlers, handler};
use serde::{Deserialize, Serialize};
use serde_json::Value;

export_handlers!(
    noop, echo, sleep, spin, fail, flaky, alloc, log, panic, cooperate
);

/// Does nothing.
#[handler]
fn noop(_ctx: &Ctx, _params: Value) -> Result<(), Error> {
    Ok(())
}

/// Returns its params.
#[handler]
fn echo(_ctx: &Ctx, params: Value) -> Result<Value, Error> {
    Ok(params)
}

#[derive(Deserialize, JsonSchema)]
struct Sleep {
    /// How long to sleep, in milliseconds.
    ms: u32,
}

/// Sleeps without using CPU.
#[handler(schema)]
fn sleep(ctx: &Ctx, params: Sleep) -> Result<(), Error> {
    ctx.sleep(Duration::from_millis(params.ms.into()));
    Ok(())
}

/// Loops forever and never checks for cancellation.
#[handler]
fn spin(_ctx: &Ctx, _params: Value) -> Result<(), Error> {
    let mut turns = 0_u64;
    loop {
        turns = std::hint::black_box(turns.wrapping_add(1));
    }
}

#[derive(Deserialize, JsonSchema)]
struct Fail {
    /// The message of the error.
    message: String,
    /// Who must act.
    #[serde(default)]
    category: FailCategory,
    /// Whether another attempt may help. If absent, the category decides.
    retryable: Option<bool>,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum FailCategory {
    #[default]
    UserCode,
    DataQuality,
    Infrastructure,
    Configuration,
    Timeout,
}

/// Fails as the params ask.
#[handler(schema)]
fn fail(_ctx: &Ctx, params: Fail) -> Result<(), Error> {
    let category = match params.category {
        FailCategory::UserCode => Category::UserCode,
        FailCategory::DataQuality => Category::DataQuality,
        FailCategory::Infrastructure => Category::Infrastructure,
        FailCategory::Configuration => Category::Configuration,
        FailCategory::Timeout => Category::Timeout,
    };
    let error = Error::new(category, "told_to_fail", params.message);
    Err(match params.retryable {
        Some(retryable) => error.retryable(retryable),
        None => error,
    })
}

#[derive(Deserialize, JsonSchema)]
struct Flaky {
    /// How many attempts fail before one succeeds.
    fail_times: u32,
}

#[derive(Serialize, JsonSchema)]
struct Attempted {
    /// The attempt that succeeded.
    attempt: u32,
}

/// Asks for another attempt in each of the first `fail_times` attempts.
#[handler(schema)]
fn flaky(ctx: &Ctx, params: Flaky) -> Result<Attempted, Error> {
    let attempt = ctx.job().attempt;
    if attempt <= params.fail_times {
        let reason = format!("attempt {attempt} of {} that fail", params.fail_times);
        return Err(Error::retry_after_ms(reason, 10));
    }
    Ok(Attempted { attempt })
}

#[derive(Deserialize, JsonSchema)]
struct Alloc {
    /// How much to allocate, in MiB.
    mib: usize,
}

/// Allocates memory and touches all of it.
#[handler(schema)]
fn alloc(_ctx: &Ctx, params: Alloc) -> Result<usize, Error> {
    let bytes = vec![1_u8; params.mib << 20];
    Ok(std::hint::black_box(&bytes).len())
}

#[derive(Deserialize, JsonSchema)]
struct Log {
    /// How many lines to write.
    lines: u32,
    /// How long to sleep after each, in milliseconds.
    #[serde(default)]
    pause_ms: u32,
}

/// Writes lines to the job's log.
#[handler(schema)]
fn log(ctx: &Ctx, params: Log) -> Result<(), Error> {
    for line in 1..=params.lines {
        ctx.info(format_args!("line {line} of {}", params.lines));
        if params.pause_ms > 0 {
            ctx.sleep(Duration::from_millis(params.pause_ms.into()));
        }
    }
    Ok(())
}

/// Panics.
#[handler]
fn panic(_ctx: &Ctx, _params: Value) -> Result<(), Error> {
    panic!("told to panic")
}

#[derive(Serialize)]
struct Rounds {
    rounds: u64,
}

/// Reports its rounds as progress until it should stop, then returns their number.
#[handler]
fn cooperate(ctx: &Ctx, _params: Value) -> Result<(), Error> {
    let mut rounds = 0_u64;
    while ctx.cancelled().is_none() {
        if rounds.is_multiple_of(100) {
            ctx.progress(0.0, format_args!("{rounds} rounds"));
        }
        rounds += 1;
        ctx.sleep(Duration::from_millis(1));
    }
    Err(Error::cancelled(&Rounds { rounds }))
}

#[cfg(test)]
mod tests {
    use guest_sdk::{Error, MockHost};
    use serde_json::{Value, json};

    use super::{Alloc, Fail, Flaky, Log, Sleep};

    fn params<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn flaky_succeeds_after_fail_times_attempts() {
        let host = MockHost::new().attempt(2);
        let two: Flaky = params(json!({"fail_times": 2}));
        assert!(matches!(
            super::flaky(&host.ctx(), two),
            Err(Error::Retry { .. })
        ));
        let one: Flaky = params(json!({"fail_times": 1}));
        assert_eq!(super::flaky(&host.ctx(), one).unwrap().attempt, 2);
    }

    #[test]
    fn cooperate_returns_its_partial_result() {
        let host = MockHost::new();
        host.cancel_after(3, "enough");
        let stopped = super::cooperate(&host.ctx(), Value::Null).unwrap_err();
        let partial = Some(json!({"rounds": 3}));
        assert_eq!(stopped, Error::Cancelled { partial });
        assert_eq!(host.slept_ms(), 3);
    }

    #[test]
    fn fail_reports_the_error_in_its_params() {
        let fail: Fail =
            params(json!({"message": "m", "category": "data-quality", "retryable": false}));
        let Err(Error::Failed(failed)) = super::fail(&MockHost::new().ctx(), fail) else {
            panic!("the handler did not fail")
        };
        assert_eq!(
            (failed.message.as_str(), failed.retryable),
            ("m", Some(false))
        );
    }

    #[test]
    fn the_simple_handlers_work() {
        let host = MockHost::new();
        let ctx = host.ctx();
        super::noop(&ctx, Value::Null).unwrap();
        assert_eq!(super::echo(&ctx, json!([1])).unwrap(), json!([1]));
        super::sleep(&ctx, params::<Sleep>(json!({"ms": 20}))).unwrap();
        assert_eq!(host.slept_ms(), 20);
        super::log(&ctx, params::<Log>(json!({"lines": 3}))).unwrap();
        assert_eq!(host.logs().len(), 3);
        assert_eq!(
            super::alloc(&ctx, params::<Alloc>(json!({"mib": 1}))).unwrap(),
            1 << 20
        );
    }

    #[test]
    fn handlers_are_described_and_called_by_name() {
        let handlers = super::host_exports::describe();
        assert_eq!(handlers.len(), 10);
        assert_eq!(handlers[0].description, Some("Does nothing."));
        let schema = handlers[2].params_schema.as_deref().unwrap();
        assert!(
            schema.contains("How long to sleep, in milliseconds."),
            "{schema}"
        );
        let Err(Error::Failed(failed)) = super::host_exports::call(&MockHost::new().ctx(), "{}")
        else {
            panic!("the mock job's handler does not exist, but the call succeeded")
        };
        assert_eq!(failed.kind, "handler_not_found");
    }
}
