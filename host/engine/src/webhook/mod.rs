//! Webhooks: the jobs that notify receivers of the end of a job or a batch. Pure.

mod apply;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use host_core::failure::Failure;
use host_core::id::JobId;
use host_core::job::{Lifecycle, NewJob, Payload, State};
use host_core::json::JsonText;
use host_core::name::{Name, address};
use host_core::notify::{DeliveryHistory, Event, Notify, Receiver};
use host_core::outcome::Outcome;
use host_core::policy::{Backoff, Policy};
use host_core::prerequisite::{Conditions, When};
use host_core::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The executor of deliveries, and the queue in which they wait.
pub const WEBHOOKS: &str = "webhooks";

/// The name of a delivery's handler at its executor.
pub const DELIVER: &str = "deliver";

/// The longest URL of a receiver, in bytes.
pub const URL_BYTES_MAX: usize = 2_048;

/// The largest params, and the largest result, of a job in a message, in bytes. Larger ones are left out.
pub const VALUE_BYTES_MAX: usize = 16 << 10;

/// How long a receiver may take to answer, in milliseconds.
pub const ANSWER_MS_MAX: u64 = 20_000;

/// How long an attempt may take: the request, and the wait for its turn.
const ATTEMPT_MS_MAX: u64 = 60_000;

/// With its backoff, the last attempt starts about a day after the first failed.
const ATTEMPTS_MAX: u32 = 18;

const BACKOFF: Backoff = Backoff {
    base_ms: 5_000,
    max_ms: 4 * 3_600_000,
};

/// What is known of how a job ended, beside its lifecycle.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    pub result: Option<JsonText>,
    pub failure: Option<Failure>,
}

impl Ending {
    /// Returns what an outcome says.
    pub fn by(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Completed { result } => Self {
                result: result.clone(),
                failure: None,
            },
            Outcome::Failed(failure) => Self {
                result: None,
                failure: Some(failure.clone()),
            },
            Outcome::Retry { .. } | Outcome::Cancelled { .. } => Self::default(),
        }
    }
}

/// A message, as the receiver gets it.
#[derive(Serialize)]
struct Message<D> {
    #[serde(rename = "type")]
    kind: &'static str,
    timestamp: String,
    data: D,
}

/// What a message says of a job.
#[derive(Serialize)]
struct JobData<'a> {
    id: String,
    handler: String,
    queue: &'a str,
    state: &'static str,
    attempt: u32,
    enqueued_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    attributes: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailureData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    /// What was too large.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    omitted: Vec<&'static str>,
}

#[derive(Serialize)]
struct FailureData<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

/// The params of a delivery.
#[derive(Debug, Serialize, Deserialize)]
pub struct Delivery {
    pub url: String,
    pub secret: String,
    /// What is sent, byte for byte: each attempt signs the same text.
    pub message: Box<RawValue>,
}

/// Returns the deliveries of the end of a job, which it has just reached, and notes them.
pub(crate) fn deliveries(
    job: &mut Lifecycle,
    now: Time,
    payload: &Payload,
    ending: &Ending,
) -> Vec<NewJob> {
    let Some(event) = event_of(job.state) else {
        return Vec::new();
    };
    let mut receivers = std::mem::take(&mut job.notify);
    let wants = |receiver: &Receiver| receiver.notify.events.contains(&event);
    let message = receivers
        .iter()
        .any(wants)
        .then(|| message(event, now, job_data(job, payload, ending)));
    let mut deliveries = Vec::new();
    for (place, receiver) in receivers.iter_mut().enumerate() {
        if let Some(message) = message.clone().filter(|_| wants(receiver)) {
            let Receiver { notify, sent } = receiver;
            let id = sent.next(now, job.id.0, place);
            let about = ("job", job.id.to_string());
            let mut delivery = next_delivery(id, (notify, sent), about, event, message);
            delivery
                .payload
                .trace_context
                .clone_from(&payload.trace_context);
            deliveries.push(delivery);
        }
    }
    job.notify = receivers;
    deliveries
}

/// Returns the event of a job that is now in this state, if it has ended.
const fn event_of(state: State) -> Option<Event> {
    match state {
        State::Completed => Some(Event::JobCompleted),
        State::Discarded => Some(Event::JobDiscarded),
        State::Cancelled => Some(Event::JobCancelled),
        _ => None,
    }
}

/// Makes a delivery that tries a receiver.
pub fn of_test(now: Time, id: JobId, notify: &Notify) -> NewJob {
    let data = BTreeMap::from([("note", "a test of this webhook")]);
    delivery(id, notify, message(Event::Test, now, data))
}

pub(crate) fn message(event: Event, now: Time, data: impl Serialize) -> Box<RawValue> {
    let message = Message {
        kind: event.as_str(),
        timestamp: now.to_rfc3339(),
        data,
    };
    // Texts and numbers can always be written.
    serde_json::value::to_raw_value(&message).unwrap_or_default()
}

fn job_data<'a>(job: &'a Lifecycle, payload: &'a Payload, ending: &'a Ending) -> JobData<'a> {
    let mut omitted = Vec::new();
    let mut shown = |name, text: Option<&'a JsonText>| {
        let text = text?.as_str();
        let value = serde_json::from_str(text).ok();
        if text.len() > VALUE_BYTES_MAX || value.is_none() {
            omitted.push(name);
            return None;
        }
        value
    };
    let params = shown("params", Some(&payload.params));
    let result = shown("result", ending.result.as_ref());
    let pairs = payload.attributes.iter();
    JobData {
        id: job.id.to_string(),
        handler: address(job.executor.as_ref(), &job.handler).into_owned(),
        queue: job.queue.as_str(),
        state: job.state.as_str(),
        attempt: job.attempt,
        enqueued_at: job.enqueued_at.to_rfc3339(),
        finished_at: job.finished_at.map(Time::to_rfc3339),
        batch: job.batch.map(|batch| batch.to_string()),
        attributes: pairs.map(|(key, value)| (&**key, &**value)).collect(),
        failure: job.failure.map(|kind| FailureData {
            kind: kind.as_str(),
            message: ending.failure.as_ref().map(|failure| &*failure.message),
        }),
        params,
        result,
        omitted,
    }
}

/// Makes the job that delivers a message. It belongs to no principal, so no limit of a principal holds it up.
fn delivery(id: JobId, notify: &Notify, message: Box<RawValue>) -> NewJob {
    let delivery = Delivery {
        url: notify.url.clone(),
        secret: notify.secret.clone(),
        message,
    };
    let params = serde_json::to_string(&delivery).unwrap_or_default();
    NewJob {
        id,
        handler: Name::constant(DELIVER),
        executor: Some(executor()),
        component: None,
        queue: executor(),
        priority: 5,
        run_at: None,
        deadline: None,
        policy: policy(),
        unique_key: None,
        depends_on: Vec::new(),
        conditions: None,
        batch: None,
        notify: Vec::new(),
        files: Vec::new(),
        payload: Payload {
            params: JsonText(params),
            wire: "webhook".to_owned(),
            external_id: None,
            trace_context: Vec::new(),
            attributes: Vec::new(),
            origin: None,
            latest_start: None,
        },
    }
}

/// Returns the name of the executor of deliveries, which is also that of their queue.
pub fn executor() -> Name {
    Name::constant(WEBHOOKS)
}

/// Makes the next delivery to a receiver. It waits until the one before has ended, in whatever way. `about` is the job
/// or batch that has ended.
pub(crate) fn next_delivery(
    id: JobId,
    (notify, sent): (&Notify, &mut DeliveryHistory),
    about: (&str, String),
    event: Event,
    message: Box<RawValue>,
) -> NewJob {
    let mut delivery = delivery(id, notify, message);
    let about = [about, ("event", event.as_str().to_owned())];
    delivery
        .payload
        .attributes
        .extend(about.map(|(key, value)| (key.to_owned(), value)));
    if let Some(before) = sent.latest.replace(delivery.id) {
        delivery.depends_on = vec![before];
        delivery.conditions = Conditions {
            when: vec![(before, When::Ended)],
            ..Conditions::default()
        }
        .some();
    }
    delivery
}

/// Returns the policy of deliveries.
pub fn policy() -> Policy {
    Policy {
        max_attempts: ATTEMPTS_MAX,
        timeout_ms: Some(ATTEMPT_MS_MAX),
        backoff: BACKOFF,
        ..Policy::default()
    }
}
