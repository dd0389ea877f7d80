//! Why commands about components and handlers are refused.

use host_core::name::Name;

use crate::refusals;

refusals! {
    /// Why a component cannot be changed, or a handler not be used.
    pub enum ComponentRefusal {
        #[error("no component is named {0}")]
        Unknown(Name) = COMPONENT_NOT_FOUND 404 "component_not_found", "No such component",
            "No component of this name is deployed.",
            "`host component ls` lists the components.";
        #[error("component {component} has no revision {revision}")]
        UnknownRevision { component: Name, revision: u32 } = REVISION_NOT_FOUND 404 "revision_not_found", "No such revision",
            "The component has no revision of this number.",
            "`host component show NAME` lists its revisions.";
        /// Another component already has a handler with this name.
        #[error("handler {handler} belongs to component {owner}")]
        HandlerOwned {
            handler: Name,
            /// The component that has the handler.
            owner: Name,
        } = HANDLER_OWNED 409 "handler_owned", "Handler of another component",
            "A handler of the component has the name of one that another component has.",
            "Rename the handler, or remove the other component.";
        /// The handler's component was removed while the job was on its way.
        #[error("no handler is named {0}; its component was just removed")]
        HandlerRemoved(Name) = HANDLER_NOT_FOUND 422 "handler_not_found", "No such handler",
            "No deployed component has a handler of this name, and no runner is configured for it. The status is 404 where the path names the handler.",
            "Deploy the component that has it, or correct the name; `host handler ls` lists the handlers, `host runner ls` the runners.";
        /// Jobs that have not ended need the component's handlers.
        #[error("component {component} has {jobs} jobs that have not ended")]
        InUse {
            component: Name,
            /// How many jobs have not ended; of each handler at most 10,000 are counted.
            jobs: u64,
        } = COMPONENT_IN_USE 409 "component_in_use", "Component in use",
            "Jobs that have not ended need handlers of the component.",
            "Wait for these jobs or cancel them, then remove the component.";
        #[error("there are {limit} components already, and none is named {component}")]
        TooMany { component: Name, limit: u64 } = TOO_MANY_COMPONENTS 409 "too_many_components", "Too many components",
            "The host has reached limits.components.",
            "Remove one with `host component rm`, or raise limits.components.";
    }
}
