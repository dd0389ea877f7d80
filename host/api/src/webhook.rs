//! Webhooks as the API takes and shows them.

use host_core::notify::{Event, Notify};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A receiver that is notified of the end of a job or a batch by a signed request.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Notify)]
#[serde(deny_unknown_fields)]
pub struct NotifyBody {
    /// Where the request goes: a URL that a section `[webhooks.NAME]` of the host's configuration allows.
    #[schema(max_length = 2048)]
    pub url: String,
    /// The name of the secret that signs it, one that this section allows.
    pub secret: String,
    /// Which events it gets: `job.completed`, `job.discarded` and `job.cancelled` of a job, `batch.first_failure`,
    /// `batch.success` and `batch.end` of a batch; all of them if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 3)]
    pub events: Vec<String>,
}

impl NotifyBody {
    /// Returns what it asks for, out of `possible` events.
    pub fn into_notify(self, possible: &[Event]) -> Result<Notify, String> {
        let mut events = Vec::new();
        for name in &self.events {
            let mut known = possible.iter();
            let event = known.find(|event| event.as_str() == name).ok_or_else(|| {
                let shown: String = name.chars().take(64).collect();
                let possible: Vec<_> = possible.iter().map(|event| event.as_str()).collect();
                format!(
                    "notify.events: expected one of {}, got {shown:?}",
                    possible.join(", ")
                )
            })?;
            if !events.contains(event) {
                events.push(*event);
            }
        }
        Ok(Notify {
            url: self.url,
            secret: self.secret,
            events: if events.is_empty() {
                possible.to_vec()
            } else {
                events
            },
        })
    }
}

impl From<&Notify> for NotifyBody {
    fn from(notify: &Notify) -> Self {
        Self {
            url: notify.url.clone(),
            secret: notify.secret.clone(),
            events: notify
                .events
                .iter()
                .map(|event| event.as_str().to_owned())
                .collect(),
        }
    }
}

/// A webhook to try.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = WebhookTest)]
#[serde(deny_unknown_fields)]
pub struct TestWebhookBody {
    /// Where the request goes.
    pub url: String,
    /// The name of the secret that signs it.
    pub secret: String,
}
