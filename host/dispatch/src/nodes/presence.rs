//! What this host reports about itself to other nodes, and what others ask of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use host_core::name::Name;
use host_engine::node::{Components, NodeInfo, Running};
use parking_lot::Mutex;
use tokio::sync::watch;

/// This host as a node: its info, the components that it has taken in, and whether an operator drains it.
#[derive(Default)]
pub struct Presence {
    info: Mutex<NodeInfo>,
    completions: Mutex<Vec<Completion>>,
    components: watch::Sender<Arc<Components>>,
    unrunnable: watch::Sender<BTreeSet<Name>>,
    drain: watch::Sender<bool>,
    /// Whether the latest heartbeat got no answer.
    is_unheard: AtomicBool,
}

/// Completes an info with what holds now. It must not wait.
type Completion = Box<dyn Fn(&mut NodeInfo) + Send>;

impl Presence {
    /// Returns what this host says of itself now.
    pub fn info(&self) -> NodeInfo {
        let mut info = self.info.lock().clone();
        for complete in self.completions.lock().iter() {
            complete(&mut info);
        }
        info
    }

    /// Sets what completes each info. `complete` must not wait: heartbeats call it.
    pub fn complete_by(&self, complete: impl Fn(&mut NodeInfo) + Send + 'static) {
        self.completions.lock().push(Box::new(complete));
    }

    /// Changes what it says.
    pub fn update(&self, change: impl FnOnce(&mut NodeInfo)) {
        change(&mut self.info.lock());
    }

    /// Says what runs here, and whether no more jobs are started.
    pub(crate) fn set_running(&self, running: Running, is_draining: bool) {
        let mut info = self.info.lock();
        info.running = running;
        info.is_draining = is_draining;
    }

    /// Records whether the latest heartbeat got no answer. Returns what was known before.
    pub(crate) fn set_unheard(&self, is_unheard: bool) -> bool {
        self.is_unheard.swap(is_unheard, Ordering::Relaxed)
    }

    /// Returns whether the latest heartbeat got no answer.
    pub(crate) fn is_unheard(&self) -> bool {
        self.is_unheard.load(Ordering::Relaxed)
    }

    /// Sets which components this node has.
    pub fn set_components(&self, components: Components) {
        self.components.send_if_modified(|known| {
            let is_new = **known != components;
            if is_new {
                *known = Arc::new(components);
            }
            is_new
        });
    }

    /// Returns which components this node has.
    pub fn components(&self) -> Arc<Components> {
        Arc::clone(&self.components.borrow())
    }

    /// Sets which handlers this host cannot run. Among nodes, it claims none of their jobs.
    pub fn set_unrunnable(&self, handlers: BTreeSet<Name>) {
        self.unrunnable.send_if_modified(|unrunnable| {
            let is_new = *unrunnable != handlers;
            *unrunnable = handlers;
            is_new
        });
    }

    /// Returns whether this host can run a handler, as far as it knows.
    pub fn can_run(&self, handler: &Name) -> bool {
        !self.unrunnable.borrow().contains(handler)
    }

    /// Subscribes to which handlers this host cannot run.
    pub(crate) fn unrunnable(&self) -> watch::Receiver<BTreeSet<Name>> {
        self.unrunnable.subscribe()
    }

    /// Asks this host to start no more jobs, or to start some again.
    pub fn request_drain(&self, drain: bool) {
        self.drain
            .send_if_modified(|asked| std::mem::replace(asked, drain) != drain);
    }

    /// Returns whether it should start no more jobs.
    pub fn is_drain_requested(&self) -> bool {
        *self.drain.borrow()
    }

    /// Subscribes to that.
    pub(crate) fn drain_requests(&self) -> watch::Receiver<bool> {
        self.drain.subscribe()
    }
}
