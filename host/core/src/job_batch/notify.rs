//! What a batch tells of its end.

use serde::Serialize;

use super::{BatchCounts, On};
use crate::id::BatchId;
use crate::job::NewJob;
use crate::notify::{Event, Notify, Told};
use crate::time::Time;
use crate::webhook;

/// What a message says of a batch.
#[derive(Serialize)]
struct BatchData {
    id: String,
    counts: CountsData,
}

#[derive(Serialize)]
struct CountsData {
    jobs: u64,
    not_ended: u64,
    completed: u64,
    discarded: u64,
    cancelled: u64,
}

impl From<On> for Event {
    fn from(on: On) -> Self {
        match on {
            On::FirstFailure => Self::BatchFirstFailure,
            On::Success => Self::BatchSuccess,
            On::End => Self::BatchEnd,
        }
    }
}

/// Makes a delivery that tells a receiver of an event of a batch.
pub(super) fn delivery_of(
    now: Time,
    (id, counts): (BatchId, BatchCounts),
    on: On,
    (notify, told): (&Notify, &mut Told),
) -> NewJob {
    let BatchCounts {
        jobs,
        completed,
        discarded,
        cancelled,
    } = counts;
    let data = BatchData {
        id: id.to_string(),
        counts: CountsData {
            jobs,
            not_ended: counts.not_ended(),
            completed,
            discarded,
            cancelled,
        },
    };
    let event = Event::from(on);
    let delivery_id = told.next(now, id.0, 0);
    let mut delivery = webhook::delivery(delivery_id, notify, webhook::message(event, now, data));
    webhook::follow(&mut delivery, told);
    let about = [
        ("batch", id.to_string()),
        ("event", event.as_str().to_owned()),
    ];
    delivery
        .payload
        .attributes
        .extend(about.map(|(key, value)| (key.to_owned(), value)));
    delivery
}
