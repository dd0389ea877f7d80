//! Why commands about schedules are refused.

use host_core::name::Name;

use super::Source;
use crate::refusals;

refusals! {
    /// Why a schedule cannot be changed or fire.
    pub enum ScheduleRefusal {
        #[error("no schedule is named {0}")]
        Unknown(Name) = SCHEDULE_NOT_FOUND 404 "schedule_not_found", "No such schedule",
            "No schedule has this name.",
            "`host schedule ls` lists the schedules.";
        #[error("there are {limit} schedules already; remove some")]
        TooMany { limit: u64 } = TOO_MANY_SCHEDULES 409 "too_many_schedules", "Too many schedules",
            "The host keeps at most 10000 schedules.",
            "Remove some with `host schedule rm`; `host schedule ls` lists them.";
        /// The schedule belongs to the configuration or a component, and changes with it.
        #[error("the schedule {schedule} belongs to {}; change it there", .owner.in_words())]
        Owned { schedule: Name, owner: Source } = SCHEDULE_OWNED 409 "schedule_owned", "Schedule is managed elsewhere",
            "The schedule comes from the configuration or from a component's manifest, and changes with it.",
            "Change it there, or choose another name.";
        /// Another node was faster, or the schedule was changed.
        #[error("the schedule {0} has changed in the meantime")]
        Changed(Name) = SCHEDULE_CHANGED 409 "schedule_changed", "Schedule has changed",
            "The schedule has fired or was changed in the meantime.",
            "Send the request again.";
    }
}
