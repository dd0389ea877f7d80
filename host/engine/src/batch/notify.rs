//! Notifications of the end of a batch.

use host_core::id::BatchId;
use host_core::job::NewJob;
use host_core::notify::{DeliveryHistory, Event, Notify};
use host_core::time::Time;
use serde::Serialize;

use super::{BatchCounts, CountsData, On};
use crate::webhook;

/// What a message says of a batch.
#[derive(Serialize)]
struct BatchData {
    id: String,
    counts: CountsData,
}

/// Makes a delivery that notifies a receiver of an event of a batch.
pub(super) fn delivery_of(
    now: Time,
    (id, counts): (BatchId, BatchCounts),
    on: On,
    (notify, sent): (&Notify, &mut DeliveryHistory),
) -> NewJob {
    let data = BatchData {
        id: id.to_string(),
        counts: counts.into(),
    };
    let event = Event::from(on);
    let message = webhook::message(event, now, data);
    let delivery_id = sent.next(now, id.0, 0);
    let about = ("batch", id.to_string());
    webhook::next_delivery(delivery_id, (notify, sent), about, event, message)
}
