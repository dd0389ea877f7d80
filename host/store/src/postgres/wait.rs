//! Lets a thread wait for a connection. A dedicated thread drives all connections of a store, so callers may
//! be threads that run tasks themselves.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use host_engine::StoreError;
use tokio::runtime::{Builder, Runtime};
use tokio::task::coop::unconstrained;

/// The thread that drives connections. It ends when this is dropped.
pub(super) struct Driver(Option<Runtime>);

impl Driver {
    pub(super) fn start() -> Result<Self, StoreError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("postgres")
            .enable_all()
            .build();
        runtime
            .map(|runtime| Self(Some(runtime)))
            .map_err(|error| StoreError::Broken {
                operation: "start the thread of the database's connections",
                message: error.to_string(),
            })
    }

    /// Waits until `future` is done. Its tasks and timers belong to the driver.
    pub(super) fn wait<F: Future>(&self, future: F) -> F::Output {
        let _runtime = self.0.as_ref().map(Runtime::enter);
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        // The caller may be a task itself, whose budget would never be renewed here.
        let mut future = pin!(unconstrained(future));
        loop {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(output) => return output,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
