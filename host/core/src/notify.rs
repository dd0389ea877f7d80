//! The receivers of a job or a batch, and the deliveries that they have. Ids of deliveries are digests, so that an end
//! needs none from outside.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::{Builder, Uuid};

use crate::id::JobId;
use crate::time::Time;

/// What a receiver can be notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Event {
    JobCompleted,
    JobDiscarded,
    JobCancelled,
    BatchFirstFailure,
    BatchSuccess,
    BatchEnd,
    /// An operator tries a receiver.
    Test,
}

/// The events of jobs.
pub const JOB_EVENTS: [Event; 3] = [
    Event::JobCompleted,
    Event::JobDiscarded,
    Event::JobCancelled,
];

/// The events of batches.
pub const BATCH_EVENTS: [Event; 3] = [
    Event::BatchFirstFailure,
    Event::BatchSuccess,
    Event::BatchEnd,
];

impl Event {
    /// Returns the stable name: the type of the message.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::JobCompleted => "job.completed",
            Self::JobDiscarded => "job.discarded",
            Self::JobCancelled => "job.cancelled",
            Self::BatchFirstFailure => "batch.first_failure",
            Self::BatchSuccess => "batch.success",
            Self::BatchEnd => "batch.end",
            Self::Test => "webhook.test",
        }
    }
}

/// A receiver of the end of a job or a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notify {
    pub url: String,
    /// The name of the secret that signs the notifications.
    pub secret: String,
    /// Which events it gets.
    pub events: Vec<Event>,
}

/// The deliveries to one receiver so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryHistory {
    pub deliveries: u32,
    /// The latest delivery. The next one waits until it has ended.
    pub latest: Option<JobId>,
}

/// A receiver and its deliveries so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receiver {
    pub notify: Notify,
    pub sent: DeliveryHistory,
}

impl From<Notify> for Receiver {
    fn from(notify: Notify) -> Self {
        let sent = DeliveryHistory::default();
        Self { notify, sent }
    }
}

impl DeliveryHistory {
    /// Counts a delivery and returns its id: a UUID of version 7, whose random part is a digest of what it is about.
    pub fn next(&mut self, now: Time, of: Uuid, place: usize) -> JobId {
        self.deliveries += 1;
        let mut about = Sha256::new();
        about.update(b"webhook");
        about.update(of.as_bytes());
        about.update((place as u64).to_be_bytes());
        about.update(self.deliveries.to_be_bytes());
        let digest = about.finalize();
        let mut random = [0; 10];
        random.copy_from_slice(&digest[..10]);
        let ms = u64::try_from(now.0).unwrap_or_default();
        JobId(Builder::from_unix_timestamp_millis(ms, &random).into_uuid())
    }
}
