//! Connects the session with the sandbox, the control plane and the disk. Decides nothing.

use std::io;
use std::sync::Arc;

use host_core::port::{Answer, Answers, Execute, Reply, Tag};
use host_wire_kit::driver::{EffectHandler, Hub};
use host_wire_kit::http_client::{HttpClient, Requests};

use super::callbacks::{self, CallbackAnswer};
use super::outbox::Outbox;
use super::session::{Effect, Event, Worker};

/// The session with what it needs.
pub(super) type WorkerHub = Hub<Worker, Host>;

/// The host as the session sees it.
pub(super) struct Host {
    execute: Arc<dyn Execute>,
    client: HttpClient,
    requests: Requests,
    /// Keeps the ends of tasks until the control plane has them; `None` in `host worker`.
    outbox: Option<Outbox>,
}

/// Reports the answers of guests.
struct Guests(Arc<WorkerHub>);

impl Answers for Guests {
    fn answer(self: Arc<Self>, tag: Tag, answer: Answer) {
        self.0.report(Event::Guest(tag, answer));
    }
}

impl Host {
    pub(super) fn new(execute: Arc<dyn Execute>, outbox: Option<Outbox>) -> Self {
        Self {
            execute,
            client: HttpClient::default(),
            requests: Requests::in_this_runtime(),
            outbox,
        }
    }

    /// Waits until all callbacks and writes have ended.
    pub(super) async fn join(&self) {
        self.requests.join().await;
    }

    /// Writes to the disk. If that fails, the session continues all the same.
    fn write(
        &self,
        hub: &Arc<WorkerHub>,
        tag: Tag,
        failed: &'static str,
        write: impl FnOnce(Outbox) -> io::Result<()> + Send + 'static,
    ) {
        let Some(outbox) = self.outbox.clone() else {
            return hub.report(Event::Stored(tag));
        };
        let hub = Arc::clone(hub);
        self.requests.start(tag, async move {
            let written = tokio::task::spawn_blocking(move || write(outbox)).await;
            if let Ok(Err(error)) = written {
                tracing::warn!(%error, "{failed}");
            }
            hub.report(Event::Stored(tag));
        });
    }
}

impl EffectHandler<Worker> for Host {
    fn handle(&self, hub: &Arc<WorkerHub>, effect: Effect) {
        match effect {
            Effect::Start(tag, job) => {
                let guests = Arc::new(Guests(Arc::clone(hub)));
                self.execute.start(*job, Reply::new(tag, guests));
            }
            Effect::Stop(tag, grace_ms, why) => self.execute.stop(tag, grace_ms, why),
            Effect::Send(tag, callback) => {
                let (client, hub) = (self.client.clone(), Arc::clone(hub));
                self.requests.start(tag, async move {
                    let answer = callbacks::send(&client, &callback).await;
                    let path = &callback.path;
                    match &answer {
                        CallbackAnswer::Accepted { .. } => {}
                        CallbackAnswer::Again { why, .. } => {
                            tracing::debug!(
                                path,
                                why,
                                "a callback was not accepted; sending it again"
                            );
                        }
                        CallbackAnswer::Over(status) => {
                            tracing::info!(path, status, "the control plane refused a callback");
                        }
                        CallbackAnswer::Refused { status, why } => {
                            tracing::warn!(
                                path,
                                status,
                                why,
                                "the control plane refused a callback"
                            );
                        }
                        CallbackAnswer::TooLarge => {
                            let bytes = callback.body.len();
                            tracing::warn!(
                                path,
                                bytes,
                                "a callback is too large for the control plane"
                            );
                        }
                    }
                    hub.report(Event::CallbackAnswer(tag, answer));
                });
            }
            Effect::Abort(tag) => self.requests.abort(tag),
            Effect::Keep(tag, pending) => {
                let failed = "cannot keep the end of a task on disk";
                self.write(hub, tag, failed, move |outbox| outbox.put(&pending));
            }
            Effect::Forget(tag, key) => {
                let failed = "cannot remove the delivered end of a task from disk";
                self.write(hub, tag, failed, move |outbox| outbox.done(&key));
            }
            Effect::Warn(task, words) => tracing::warn!(task, "{words}"),
            Effect::WarnOfLog(task, why) => tracing::warn!(
                task,
                why,
                "the log of a task was not accepted; not sending it again"
            ),
        }
    }
}
