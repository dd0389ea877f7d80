//! The requests of a session over HTTP, each with a tag, until they are answered or aborted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host_core::port::Tag;
use host_runtime::tasks::Tasks;
use tokio_util::sync::CancellationToken;

/// Requests that have no answer yet.
#[derive(Debug, Default)]
pub struct Requests {
    open: Arc<Mutex<HashMap<Tag, CancellationToken>>>,
    tasks: Tasks,
}

impl Requests {
    /// Carries out a request, which ends with the report of its answer.
    pub fn start(&self, tag: Tag, request: impl Future<Output = ()> + Send + 'static) {
        let aborted = CancellationToken::new();
        lock(&self.open).insert(tag, aborted.clone());
        let open = Arc::clone(&self.open);
        self.tasks.spawn(async move {
            aborted.run_until_cancelled(request).await;
            lock(&open).remove(&tag);
        });
    }

    /// Drops a request. The server may have seen it, and its answer may be reported already.
    pub fn abort(&self, tag: Tag) {
        if let Some(aborted) = lock(&self.open).remove(&tag) {
            aborted.cancel();
        }
    }

    /// Waits until every request has ended. Cancel safe.
    pub async fn join(&self) {
        self.tasks.join().await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
