//! Reads a lease as an orchestrator grants it: from a file, or as the answer to a request. Whatever else is
//! wrong, a lease with its two ids can be answered. Pure.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use host_core::json::JsonText;
use host_core::name::Name;
use serde_json::value::RawValue;

use crate::messages::fields::{self, Fields, found, text as text_of, wrong};
use crate::messages::lease_id::LeaseText;
use crate::messages::read::URI_BYTES_MAX;
use crate::refusals::WireRefusal;

/// The longest ids, in bytes. They are another program's.
const ID_BYTES_MAX: usize = 4_096;

/// The times of a lease that names none, as the document recommends them, in seconds.
const TTL_SECONDS: u64 = 120;
const INTERVAL_SECONDS: u64 = 20;

/// The longest times that are taken as they are, in seconds: ten years.
const SECONDS_MAX: u64 = 10 * 365 * 24 * 3_600;

/// The most steps and variables of a job.
const STEPS_MAX: usize = 1_000;
const VARIABLES_MAX: usize = 1_000;

/// What a step that we execute begins with.
const WASM: &str = "wasm:";

/// How much of a step's name is shown, in characters.
const STEP_CHARS_MAX: usize = 200;

/// How much of a variable's name is shown, in characters.
const NAME_CHARS_MAX: usize = 100;

/// One lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) id: LeaseText,
    pub(super) job_id: String,
    pub(super) run_id: Option<String>,
    pub(super) ttl_ms: u64,
    pub(super) interval_ms: u64,
    pub(super) max_runtime_ms: Option<u64>,
    pub(super) steps: Vec<Step>,
    /// The variables that the job sets.
    pub(super) env: Vec<(String, String)>,
    /// The longest wait of a heartbeat, if its answer may wait for a cancel.
    pub(super) wait_seconds: Option<u64>,
    /// Where people find the log, if that may be uploaded.
    pub(super) log_uri: Option<String>,
    /// What is wrong with it, if that is something: then no step begins.
    pub(super) fault: Option<String>,
}

/// One step of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// As people see it.
    pub(super) name: String,
    /// What is executed; the error says why nothing can be.
    pub(super) run: Result<(Name, JsonText), String>,
}

/// Reads a lease. The error is for people and shows no secret: the lease cannot even be answered.
pub(super) fn read(text: &[u8]) -> Result<Lease, String> {
    let (fields, json_fault) = match fields::read(text) {
        Ok(fields) => (fields, None),
        Err(refused) => match std::str::from_utf8(text).ok().map(Fields::of) {
            Some(Ok(fields)) => (fields, Some(refused.message)),
            _ => return Err(refused.message),
        },
    };
    let id = |name: &str| text_of(&fields, name, ID_BYTES_MAX).map_err(|refused| refused.message);
    let (lease_id, job_id) = (id("lease_id")?, id("job_id")?);
    let mut faults = Faults(json_fault);
    let mut seconds = |name: &str| -> Option<u64> {
        let field = fields.optional(name, "a whole number of seconds");
        let limit: Option<u64> = faults.of(field.map_err(Into::into)).flatten();
        let seconds = limit.filter(|limit| *limit > 0);
        seconds.map(|seconds| seconds.min(SECONDS_MAX))
    };
    let ttl_ms = seconds("lease_ttl_seconds").unwrap_or(TTL_SECONDS) * 1_000;
    let interval = seconds("heartbeat_interval_seconds").unwrap_or(INTERVAL_SECONDS);
    let max_runtime_ms = seconds("max_runtime_seconds").map(|seconds| seconds * 1_000);
    let field = fields.optional("run_id", "a string");
    let run_id = faults.of(field.map_err(Into::into)).flatten();
    let (steps, env) = faults.of(read_spec(&fields)).unwrap_or_default();
    Ok(Lease {
        id: LeaseText(lease_id),
        job_id,
        run_id,
        ttl_ms,
        // An interval that is longer would let the lease run out.
        interval_ms: (interval * 1_000).min(ttl_ms / 2).max(1),
        max_runtime_ms,
        steps,
        env,
        wait_seconds: fields.lenient("heartbeat_wait_seconds"),
        log_uri: fields
            .lenient("log_uri")
            .filter(|uri: &String| uri.len() <= URI_BYTES_MAX),
        fault: faults.0,
    })
}

/// The first fault of a lease.
struct Faults(Option<String>);

impl Faults {
    fn of<T>(&mut self, read: Result<T, WireRefusal>) -> Option<T> {
        read.map_err(|refused| self.0.get_or_insert(refused.message).clone())
            .ok()
    }
}

type Spec = (Vec<Step>, Vec<(String, String)>);

fn read_spec(lease: &Fields<'_>) -> Result<Spec, WireRefusal> {
    let Some(raw) = lease.raw("job_spec") else {
        if lease.raw("job_spec_ref").is_some() {
            let found = "job_spec_ref alone, which this runner does not fetch";
            return Err(wrong("job_spec", "an object", found));
        }
        return Err(wrong("job_spec", "an object", "nothing"));
    };
    let fields = Fields::of(raw.get()).map_err(|found| wrong("job_spec", "an object", &found))?;
    let listed: Option<Vec<&RawValue>> = fields.optional("steps", "an array")?;
    let steps = listed.unwrap_or_default();
    if steps.len() > STEPS_MAX {
        let found = format!("an array of {}", steps.len());
        return Err(wrong("steps", &format!("at most {STEPS_MAX}"), &found));
    }
    let params = fields.raw("params").filter(|raw| is_object(raw));
    let steps = (0..)
        .zip(steps)
        .map(|(at, step)| read_step(at, step, raw, params));
    let variables: Option<BTreeMap<String, &RawValue>> = fields.optional("env", "an object")?;
    let env = variables
        .unwrap_or_default()
        .into_iter()
        .take(VARIABLES_MAX)
        .map(|(name, value)| {
            let text = serde_json::from_str(value.get()).map_err(|_| {
                let shown: String = name.chars().take(NAME_CHARS_MAX).collect();
                wrong(&format!("env.{shown}"), "a string", &found(value.get()))
            });
            Ok((name, text?))
        });
    Ok((steps.collect(), env.collect::<Result<_, WireRefusal>>()?))
}

fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

/// Reads a step. One that this runner cannot execute fails when its turn comes.
fn read_step(at: usize, raw: &RawValue, spec: &RawValue, params: Option<&RawValue>) -> Step {
    let (run, with): (Option<String>, Option<&RawValue>) = match serde_json::from_str(raw.get()) {
        Ok(text) => (Some(text), None),
        Err(_) => match Fields::of(raw.get()) {
            Ok(fields) => (
                fields.optional("run", "").ok().flatten(),
                fields.raw("with"),
            ),
            Err(_) => (None, None),
        },
    };
    let name: String = match &run {
        Some(run) => run.chars().take(STEP_CHARS_MAX).collect(),
        None => format!("step {at}"),
    };
    let other =
        || format!("{name:?} is not a step that this runner executes; those begin with {WASM}");
    let run = run
        .as_deref()
        .and_then(|run| run.strip_prefix(WASM))
        .ok_or_else(other)
        .and_then(|handler| {
            let parsed = handler.trim().parse::<Name>();
            let handler =
                parsed.map_err(|error| format!("{name:?} is not a valid handler name: {error}"))?;
            Ok((handler, params_of(at, with.or(params), spec)?))
        });
    Step { name, run }
}

/// Returns the params of a step: the spec and the step's number, over what the step or else the job gives.
fn params_of(at: usize, with: Option<&RawValue>, spec: &RawValue) -> Result<JsonText, String> {
    let number = RawValue::from_string(at.to_string()).map_err(|error| error.to_string())?;
    let mut params: BTreeMap<String, &RawValue> = match with {
        None => BTreeMap::new(),
        Some(with) => serde_json::from_str(with.get())
            .map_err(|_| format!("step {at}: `with` is {}, not an object", found(with.get())))?,
    };
    params.insert("spec".to_owned(), spec);
    params.insert("step".to_owned(), &number);
    let text = serde_json::to_string(&params).map_err(|error| error.to_string())?;
    Ok(JsonText(text))
}
