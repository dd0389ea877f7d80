//! A handler that asks the store for what its params say, and returns what it got.

use std::collections::BTreeMap;
use std::time::Duration;

use guest_sdk::{Ctx, Error, NewJob, State, StoreError, handler};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
pub(crate) struct StoreParams {
    /// What to ask for, in order.
    asks: Vec<Ask>,
    /// Fails in the attempts up to this one, after it has asked for everything.
    #[serde(default)]
    failures: u32,
    /// Waits until this key is set, after it has asked for everything.
    #[serde(default)]
    hangs_until: Option<String>,
    /// How long it sleeps after it has asked for everything.
    #[serde(default)]
    sleep_ms: u64,
    /// Returns only when it is stopped, after it has asked for everything.
    #[serde(default)]
    hangs: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ask {
    /// Jobs, as the API takes them.
    Enqueue(Vec<Value>),
    /// The same, immediately.
    EnqueueNow(Vec<Value>),
    /// The value of a key, as JSON.
    Get(Place),
    /// A key and its JSON.
    Set(Place, Value),
    Delete(Place),
    /// A key, what it must have, and its JSON.
    Compare(Place, Option<Value>, Value),
    /// The keys with a prefix.
    List(Place),
    /// A key and the length of its value.
    SetLong(Place, usize),
    /// Adds one to a number.
    Increment(Place),
    /// As many jobs of the handler `noop`.
    EnqueueMany(usize),
    /// The status of a URL; without an answer, the attempt fails.
    Request(String),
}

/// A key, perhaps in a shared space, and whether it changes immediately.
#[derive(Deserialize)]
struct Place {
    #[serde(default)]
    space: Option<String>,
    #[serde(default)]
    now: bool,
    key: String,
}

impl Place {
    fn state<'a>(&'a self, ctx: &'a Ctx) -> State<'a> {
        let later = ctx.state();
        let state = if self.now { later.now() } else { later };
        match &self.space {
            Some(space) => state.shared(space),
            None => state,
        }
    }
}

#[handler]
pub(crate) fn ask(ctx: &Ctx, params: StoreParams) -> Result<Vec<Value>, Error> {
    let mut got = Vec::new();
    for ask in params.asks {
        let answer = match ask {
            Ask::Enqueue(jobs) => ctx.enqueue_all(&jobs_of(jobs)?).map(|ids| json!(ids)),
            Ask::EnqueueNow(jobs) => ctx.enqueue_all_now(&jobs_of(jobs)?).map(|ids| json!(ids)),
            Ask::EnqueueMany(jobs) => {
                let jobs = vec![NewJob::new("noop"); jobs];
                ctx.enqueue_all(&jobs).map(|ids| json!(ids.len()))
            }
            Ask::Request(url) => Ok(json!(ctx.http().get(url).send()?.status)),
            Ask::Get(place) => place
                .state(ctx)
                .get_bytes(&place.key)
                .map(|value| match value {
                    Some(value) if value.len() > 1_000 => json!(value.len()),
                    Some(value) => serde_json::from_slice(&value).unwrap_or_default(),
                    None => Value::Null,
                }),
            Ask::Set(place, value) => place
                .state(ctx)
                .set_bytes(&place.key, value.to_string().as_bytes())
                .map(|()| Value::Null),
            Ask::SetLong(place, length) => place
                .state(ctx)
                .set_bytes(&place.key, &vec![b'7'; length])
                .map(|()| Value::Null),
            Ask::Delete(place) => place.state(ctx).delete(&place.key).map(|()| Value::Null),
            Ask::Compare(place, expected, value) => {
                let [expected, value] =
                    [expected, Some(value)].map(|it| it.map(|it| it.to_string()));
                let [expected, value] =
                    [&expected, &value].map(|it| it.as_ref().map(String::as_bytes));
                let state = place.state(ctx);
                state
                    .compare_and_set_bytes(&place.key, expected, value)
                    .map(|set| json!(set))
            }
            Ask::List(place) => place.state(ctx).list(&place.key).map(|keys| json!(keys)),
            Ask::Increment(place) => {
                let state = place.state(ctx);
                let before: u64 = state.get(&place.key)?.unwrap_or_default();
                let expected = (before > 0).then_some(&before);
                if !state.compare_and_set(&place.key, expected, &(before + 1))? {
                    return Err(Error::retry_after_ms("the number has changed", 0));
                }
                Ok(json!(before))
            }
        };
        got.push(answer.unwrap_or_else(|error| describe_error(&error)));
    }
    if let Some(key) = &params.hangs_until {
        while ctx.state().get_bytes(key)?.is_none() {
            ctx.sleep(Duration::from_millis(10));
        }
    }
    ctx.sleep(Duration::from_millis(params.sleep_ms));
    if params.hangs {
        ctx.sleep(Duration::from_hours(1));
    }
    if ctx.job().attempt <= params.failures {
        return Err(Error::retry_after_ms("asked to fail", 0));
    }
    Ok(got)
}

fn jobs_of(jobs: Vec<Value>) -> Result<Vec<NewJob>, Error> {
    let job_of = |job: Value| {
        let mut others: BTreeMap<String, Value> = serde_json::from_value(job)?;
        let mut job = NewJob::new("");
        if let Some(Value::String(handler)) = others.remove("handler") {
            job.handler = handler;
        }
        job.params = others.remove("params").unwrap_or_default();
        job.others = others;
        Ok(job)
    };
    jobs.into_iter().map(job_of).collect()
}

fn describe_error(error: &StoreError) -> Value {
    json!({"kind": format!("{:?}", error.kind), "message": error.message})
}
