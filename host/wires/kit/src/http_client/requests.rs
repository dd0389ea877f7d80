//! The requests of a session over HTTP, each with a tag, until they are answered or aborted.

use std::collections::HashMap;
use std::sync::Arc;

use host_core::port::Tag;
use host_runtime::tasks::Tasks;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// Requests that have no answer yet. Any thread may start them.
#[derive(Debug)]
pub struct Requests {
    open: Arc<Mutex<HashMap<Tag, CancellationToken>>>,
    tasks: Tasks,
    runtime: Handle,
}

impl Requests {
    /// Returns requests that the runtime of the caller carries out.
    pub fn in_this_runtime() -> Self {
        Self {
            open: Arc::default(),
            tasks: Tasks::default(),
            runtime: Handle::current(),
        }
    }

    /// Carries out a request, which ends with the report of its answer.
    pub fn start(&self, tag: Tag, request: impl Future<Output = ()> + Send + 'static) {
        let aborted = CancellationToken::new();
        self.open.lock().insert(tag, aborted.clone());
        let open = Arc::clone(&self.open);
        let _runtime = self.runtime.enter();
        self.tasks.spawn(async move {
            aborted.run_until_cancelled(request).await;
            open.lock().remove(&tag);
        });
    }

    /// Drops a request. The server may have seen it, and its answer may be reported already.
    pub fn abort(&self, tag: Tag) {
        if let Some(aborted) = self.open.lock().remove(&tag) {
            aborted.cancel();
        }
    }

    /// Drops all requests.
    pub fn abort_all(&self) {
        for aborted in self.open.lock().drain().map(|(_, aborted)| aborted) {
            aborted.cancel();
        }
    }

    /// Waits until every request has ended. Cancel safe.
    pub async fn join(&self) {
        self.tasks.join().await;
    }
}
