//! The options for the webhooks of a job or a batch.

use clap::Args;
use host_api::webhook::NotifyBody;

/// The receiver that a job or a batch notifies.
#[derive(Debug, Args)]
pub(crate) struct NotifyArgs {
    /// Notify this URL of the end, if the host's configuration allows it
    #[arg(long = "notify", value_name = "URL", requires = "secret")]
    url: Option<String>,
    /// The name of the secret that signs the notifications
    #[arg(
        id = "secret",
        long = "notify-secret",
        value_name = "NAME",
        requires = "url"
    )]
    secret: Option<String>,
    /// Notify only of this event, such as job.discarded or batch.end (repeatable)
    #[arg(long = "notify-event", value_name = "EVENT", requires = "url")]
    events: Vec<String>,
}

impl NotifyArgs {
    /// Returns what a request says of it.
    pub(crate) fn body(self) -> Option<NotifyBody> {
        Some(NotifyBody {
            url: self.url?,
            secret: self.secret?,
            events: self.events,
        })
    }
}
