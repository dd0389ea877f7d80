//! A handler that asks the store for what its params say, and returns what it got.

use std::collections::BTreeMap;
use std::time::Duration;

use guest_sdk::{Ctx, Error, NewJob, StoreError, handler};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
pub(crate) struct Asked {
    /// What to ask for, in order.
    asks: Vec<Ask>,
    /// Fails in the attempts up to this one, after it has asked for everything.
    #[serde(default)]
    failures: u32,
    /// Returns only when it is stopped, after it has asked for everything.
    #[serde(default)]
    hangs: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ask {
    /// Jobs, as the API takes them.
    Enqueue(Vec<Value>),
    /// The same, at once.
    EnqueueNow(Vec<Value>),
    /// As many jobs of the handler `noop`.
    EnqueueMany(usize),
}

#[handler]
pub(crate) fn ask(ctx: &Ctx, params: Asked) -> Result<Vec<Value>, Error> {
    let mut got = Vec::new();
    for ask in params.asks {
        let answer = match ask {
            Ask::Enqueue(jobs) => ctx.enqueue_all(&jobs_of(jobs)?).map(|ids| json!(ids)),
            Ask::EnqueueNow(jobs) => ctx.enqueue_all_now(&jobs_of(jobs)?).map(|ids| json!(ids)),
            Ask::EnqueueMany(jobs) => {
                let jobs = vec![NewJob::new("noop"); jobs];
                ctx.enqueue_all(&jobs).map(|ids| json!(ids.len()))
            }
        };
        got.push(answer.unwrap_or_else(|error| refused(&error)));
    }
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

fn refused(error: &StoreError) -> Value {
    json!({"kind": format!("{:?}", error.kind), "message": error.message})
}
