//! The keys of `[protocol.delta]`, as data.

use crate::wire::settings::{Setting, TableSetting};

pub(super) const LEASE_TTL: &str = "protocol.delta.lease_ttl_seconds";
pub(super) const HEARTBEAT_INTERVAL: &str = "protocol.delta.heartbeat_interval_seconds";
pub(super) const ACK: &str = "protocol.delta.ack_seconds";
pub(super) const CANCEL_DEADLINE: &str = "protocol.delta.cancel_deadline_seconds";

/// The tables of pools.
pub(super) const RUNNERS: &str = "protocol.delta.runners";

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        key: LEASE_TTL,
        env: "HOST_DELTA_LEASE_TTL_SECONDS",
        flag: None,
        value_name: "SECONDS",
        default: "120",
        about: "How long the lease of a Delta runner lasts after a heartbeat, in whole seconds; at least twice the heartbeat interval",
    },
    Setting {
        key: HEARTBEAT_INTERVAL,
        env: "HOST_DELTA_HEARTBEAT_INTERVAL_SECONDS",
        flag: None,
        value_name: "SECONDS",
        default: "20",
        about: "How often a Delta runner is asked to send a heartbeat, in whole seconds",
    },
    Setting {
        key: ACK,
        env: "HOST_DELTA_ACK_SECONDS",
        flag: None,
        value_name: "SECONDS",
        default: "30",
        about: "How long a Delta runner has to acknowledge a lease, in whole seconds",
    },
    Setting {
        key: CANCEL_DEADLINE,
        env: "HOST_DELTA_CANCEL_DEADLINE_SECONDS",
        flag: None,
        value_name: "SECONDS",
        default: "30",
        about: "How long a Delta runner has to stop a cancelled job, in whole seconds; then the job is cancelled without it",
    },
];

pub(super) const TABLE_SETTINGS: &[TableSetting] = &[
    TableSetting {
        key: "protocol.delta.runners.NAME.token_file",
        default: "none",
        about: "A file with the bearer tokens of the pool's runners, one a line: whoever presents one may lease its jobs",
    },
    TableSetting {
        key: "protocol.delta.runners.NAME.token_env",
        default: "none",
        about: "Instead of `token_file`: the variable that holds the tokens",
    },
    TableSetting {
        key: "protocol.delta.runners.NAME.capabilities",
        default: "none",
        about: "What a runner must offer to get a job of the pool: an array of tags, like `os:linux`. A job may ask for more with its attribute `delta.requires`",
    },
];
