//! The commands about components.

use host_core::name::Name;
use host_core::time::Time;

use super::Revision;
use crate::commands;

/// Add a revision of a component and make it current, with its schedules. The store sets its `revision` number.
#[derive(Clone, Debug, PartialEq)]
pub struct Deploy {
    pub revision: Box<Revision>,
    /// The component's bytes, which are stored under its digest.
    pub bytes: Vec<u8>,
    /// What the wall clock shows, for its schedules.
    pub wall: Time,
}

/// Make an earlier revision current, with its schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollback {
    pub component: Name,
    pub revision: u32,
    /// What the wall clock shows.
    pub wall: Time,
}

/// Remove a component with all its revisions and schedules. Refused while jobs for its handlers have not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveComponent {
    pub component: Name,
}

/// What a deploy or a rollback has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployed {
    /// The revision that is current now.
    pub revision: Box<Revision>,
    /// Whether it was current already, with the same bytes and the same manifest.
    pub unchanged: bool,
    /// The handlers of the revision before that this one lacks.
    pub removed: Vec<RemovedHandler>,
}

/// A handler that is no longer deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedHandler {
    pub handler: Name,
    /// How many jobs for it have not ended. They fail when they start, unless it is deployed again.
    pub jobs: u64,
}

commands! {
    Component {
        Deploy(Deploy) "deploy" -> Deployed, deploy, |_| 0, "the handlers of all components, a look at their jobs, and the schedules of a manifest, which are limited";
        Rollback(Rollback) "rollback" -> Deployed, rollback, |_| 0, "the handlers of all components, a look at their jobs, and the schedules of a manifest, which are limited";
        RemoveComponent(RemoveComponent) "remove" -> (), remove, |_| 0, "the handlers of a component, a look at their jobs, and its schedules";
    }
}
