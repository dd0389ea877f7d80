//! Read-only connections. Each serves one query at a time, on a thread that may block.

use std::sync::Arc;

use host_engine::{Interrupt, Reader, Store, StoreError};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// The most concurrent look-ups. Later ones wait for a reader.
pub const READERS: usize = 8;

/// The most concurrent scans. They have readers of their own, so that no look-up waits for one.
pub const SCANS: usize = 2;

/// A fixed number of readers. Cloning shares them.
pub struct Readers<R> {
    idle: Arc<Mutex<Vec<(R, Interrupt)>>>,
    permits: Arc<Semaphore>,
}

/// A query, for the one who waits for it: if that ends, so does the query.
#[derive(Default)]
struct Awaited(Arc<Mutex<Query>>);

#[derive(Default)]
struct Query {
    /// Ends it while it runs.
    interrupt: Option<Interrupt>,
    is_unwanted: bool,
}

impl Drop for Awaited {
    fn drop(&mut self) {
        let mut query = self.0.lock();
        query.is_unwanted = true;
        if let Some(interrupt) = &query.interrupt {
            interrupt();
        }
    }
}

impl Readers<Box<dyn Reader>> {
    /// Opens `count` readers of a store.
    pub fn open(store: &dyn Store, count: usize) -> Result<Self, StoreError> {
        let readers = (0..count)
            .map(|_| store.reader())
            .collect::<Result<_, _>>()?;
        Ok(Self::new(readers, |reader| reader.interrupt()))
    }
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
    /// Makes readers. `interrupt` returns what ends a query of a reader.
    pub fn new(readers: Vec<R>, interrupt: impl Fn(&R) -> Interrupt) -> Self {
        let with_interrupt = |reader| {
            let interrupt = interrupt(&reader);
            (reader, interrupt)
        };
        let readers: Vec<_> = readers.into_iter().map(with_interrupt).collect();
        Self {
            permits: Arc::new(Semaphore::new(readers.len())),
            idle: Arc::new(Mutex::new(readers)),
        }
    }

    /// Runs one query. If the call is cancelled, the query is interrupted.
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
        let awaited = Awaited::default();
        let query = Arc::clone(&awaited.0);
        let answer = tokio::task::spawn_blocking(move || {
            let (reader, interrupt) = idle.lock().pop()?;
            let is_wanted = {
                let mut query = query.lock();
                query.interrupt = Some(Arc::clone(&interrupt));
                !query.is_unwanted
            };
            let answer = is_wanted.then(|| question(&reader));
            // From here on, an interrupt would end the reader's next query.
            query.lock().interrupt = None;
            idle.lock().push((reader, interrupt));
            drop(permit);
            answer
        });
        answer
            .await
            .ok()
            .flatten()
            .unwrap_or_else(|| Err(broken("a reader was lost to a panic")))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// A reader whose query runs until it is interrupted.
    struct Endless(mpsc::Receiver<()>, mpsc::SyncSender<()>);

    #[tokio::test]
    async fn a_query_ends_with_the_one_who_waits_for_it() {
        let (stop, stopped) = mpsc::sync_channel(1);
        let (started, mut starts) = tokio::sync::mpsc::channel(1);
        let readers = Readers::new(vec![Endless(stopped, stop)], |Endless(_, stop)| {
            let stop = stop.clone();
            Arc::new(move || stop.send(()).unwrap())
        });
        let query = readers.ask(move |Endless(stopped, _)| {
            started.blocking_send(()).unwrap();
            let ended = stopped.recv_timeout(Duration::from_mins(1));
            ended.unwrap();
            Ok(())
        });
        tokio::select! {
            _ = query => panic!("it ends only when it is interrupted"),
            _ = starts.recv() => {}
        }
        // The only reader is free again, and an interrupt that comes late ends nothing.
        let next = readers.ask(|Endless(stopped, _)| Ok(stopped.try_recv().is_err()));
        assert!(next.await.unwrap());
    }
}
