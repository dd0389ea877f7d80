//! Read-only connections. Each serves one query at a time, on a thread that may block.

use std::sync::Arc;

use host_store::StoreError;
use tokio::sync::Semaphore;

/// The most queries at once. Later ones wait for a reader.
pub const READERS: usize = 8;

/// A fixed number of readers. Cloning shares them.
pub struct Readers<R> {
    idle: Arc<parking_lot::Mutex<Vec<R>>>,
    permits: Arc<Semaphore>,
}

impl<R> Clone for Readers<R> {
    fn clone(&self) -> Self {
        Self {
            idle: Arc::clone(&self.idle),
            permits: Arc::clone(&self.permits),
        }
    }
}

impl<R: Send + 'static> Readers<R> {
    pub fn new(readers: Vec<R>) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(readers.len())),
            idle: Arc::new(parking_lot::Mutex::new(readers)),
        }
    }

    /// Runs one query. If the call is cancelled, the query still runs and its result is dropped.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&R) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let broken = |message: &str| StoreError::Broken {
            operation: "read the store",
            message: message.to_owned(),
        };
        let permit = Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .map_err(|_| broken("the host is stopping"))?;
        let idle = Arc::clone(&self.idle);
        let answer = tokio::task::spawn_blocking(move || {
            let reader = idle.lock().pop()?;
            let answer = question(&reader);
            idle.lock().push(reader);
            drop(permit);
            Some(answer)
        });
        answer
            .await
            .ok()
            .flatten()
            .unwrap_or_else(|| Err(broken("a reader was lost to a panic")))
    }
}
