//! Between the session and the rest of the host: the sandbox, callbacks, and ends on disk. Decides
//! nothing.

use std::io;
use std::sync::Arc;

use host_core::port::{Answer, Answers, Execute, Reply, Tag};

use super::callbacks::{Callbacks, Heard};
use super::outbox::Outbox;
use super::session::{Effect, Event, Worker};
use crate::kit::driver::{EffectHandler, Hub};
use crate::kit::http_client::Requests;

/// The session with what it needs.
pub(super) type WorkerHub = Hub<Worker, Host>;

/// The host as the session sees it.
pub(super) struct Host {
    execute: Arc<dyn Execute>,
    callbacks: Callbacks,
    requests: Requests,
    /// Keeps the ends of tasks until the control plane has them; `None` in `host worker`.
    outbox: Option<Outbox>,
}

/// Reports what guests say.
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
            callbacks: Callbacks::default(),
            requests: Requests::in_this_runtime(),
            outbox,
        }
    }

    /// Waits until all callbacks and writes have ended.
    pub(super) async fn join(&self) {
        self.requests.join().await;
    }

    /// Writes to the disk. If that fails, the session goes on all the same.
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
                let (callbacks, hub) = (self.callbacks.clone(), Arc::clone(hub));
                self.requests.start(tag, async move {
                    let heard = callbacks.send(&callback).await;
                    let path = &callback.path;
                    match &heard {
                        Heard::Accepted { .. } => {}
                        Heard::Again { why, .. } => {
                            tracing::debug!(path, why, "a callback is not accepted");
                        }
                        Heard::Over(status) | Heard::Refused(status) => {
                            tracing::info!(path, status, "the control plane refuses a callback");
                        }
                    }
                    hub.report(Event::Heard(tag, heard));
                });
            }
            Effect::Abort(tag) => self.requests.abort(tag),
            Effect::Keep(tag, pending) => {
                let failed = "the end of a task is not kept on disk";
                self.write(hub, tag, failed, move |outbox| outbox.put(&pending));
            }
            Effect::Forget(tag, key) => {
                let failed = "an end of a task that was delivered stays on disk";
                self.write(hub, tag, failed, move |outbox| outbox.done(&key));
            }
            Effect::Warn(task, words) => tracing::warn!(task, "{words}"),
        }
    }
}
