//! The outboxes of the configuration, and which jobs each may enqueue.

use std::path::PathBuf;

use host_api::new_job::NewJobBody;
use host_core::access::{Glob, Object, Scope};
use host_core::name::Name;
use host_core::query::JobDetail;
use host_store::postgres::target::Target;
use host_wire_kit::section::At;
use serde::Deserialize;

/// A section `[outbox.NAME]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Keys {
    pub(crate) database: Option<At<String>>,
    pub(crate) database_file: Option<At<PathBuf>>,
    /// The handlers, as jobs name them; all if empty.
    #[serde(default)]
    handlers: Vec<Glob>,
    /// The queues; all if empty.
    #[serde(default)]
    queues: Vec<Glob>,
}

impl Keys {
    pub(crate) fn into_configured(self, name: Name, target: Target) -> ConfiguredOutbox {
        ConfiguredOutbox {
            source: Source {
                wire: "outbox",
                name: name.clone(),
                scope: Scope {
                    queues: self.queues,
                    handlers: self.handlers,
                },
            },
            outbox: host_outbox::Outbox { name, target },
        }
    }
}

/// An outbox, and what it may enqueue.
#[derive(Clone, Debug)]
pub struct ConfiguredOutbox {
    pub(crate) outbox: host_outbox::Outbox,
    pub(crate) source: Source,
}

/// Where jobs come from that their senders keep until they are accepted.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// What jobs say of where they come from.
    pub(crate) wire: &'static str,
    name: Name,
    /// What it may enqueue.
    scope: Scope,
}

impl Source {
    /// Returns whether the source may cancel a job: one that it could have enqueued.
    pub(crate) fn may_cancel(&self, job: &JobDetail) -> bool {
        job.payload.wire == self.wire && self.scope.has((&job.lifecycle).into())
    }

    /// Returns why the source may not enqueue a job.
    pub(crate) fn denies(&self, job: &NewJobBody) -> Option<String> {
        let default_queue = Name::default_queue();
        let queue = job.queue.as_deref().unwrap_or(default_queue.as_str());
        let (wire, name, handler) = (self.wire, &self.name, &job.handler);
        if !self.scope.has(Object::Handler(None, handler)) {
            return Some(format!(
                "[{wire}.{name}] allows no jobs of the handler {handler:?}"
            ));
        }
        (!self.scope.has(Object::Queue(queue)))
            .then(|| format!("[{wire}.{name}] allows no jobs in the queue {queue:?}"))
    }
}
