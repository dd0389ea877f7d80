//! The keys of `[protocol.delta]`, as data.

use crate::wire::section::inherited_variables;
use crate::wire::settings::{Setting, TableSetting, WorkerFlag, WorkerRole};

pub(super) const LEASE_TTL: &str = "protocol.delta.lease_ttl_seconds";
pub(super) const HEARTBEAT_INTERVAL: &str = "protocol.delta.heartbeat_interval_seconds";
pub(super) const ACK: &str = "protocol.delta.ack_seconds";
pub(super) const CANCEL_DEADLINE: &str = "protocol.delta.cancel_deadline_seconds";

pub(super) const ALLOW_PLAINTEXT: &str = "protocol.delta.allow_plaintext";

pub(super) const ORCHESTRATOR: &str = "protocol.delta.worker.orchestrator";
pub(super) const RUNNER_ID: &str = "protocol.delta.worker.runner_id";
pub(super) const TOKEN_ENV: &str = "protocol.delta.worker.token_env";
pub(super) const CAPABILITIES: &str = "protocol.delta.worker.capabilities";
pub(super) const CONCURRENCY: &str = "protocol.delta.worker.concurrency";
pub(super) const LEASE_FILE: &str = "protocol.delta.worker.lease";
pub(super) const LOG: &str = "protocol.delta.worker.log";

/// The tables of orchestrators.
pub(super) const ORCHESTRATORS: &str = "protocol.delta.orchestrators";

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
    Setting {
        key: ALLOW_PLAINTEXT,
        env: "HOST_DELTA_ALLOW_PLAINTEXT",
        flag: None,
        value_name: "BOOL",
        default: "false",
        about: "Whether `http://` URLs of orchestrators may lead to other machines, so that anybody between can read tokens, jobs and logs. Else they must be `https://`",
    },
    Setting {
        key: ORCHESTRATOR,
        env: "HOST_DELTA_ORCHESTRATOR",
        flag: None,
        value_name: "URL",
        default: "none",
        about: "For `host worker delta` alone: the orchestrator whose jobs are executed",
    },
    Setting {
        key: RUNNER_ID,
        env: "HOST_DELTA_RUNNER_ID",
        flag: None,
        value_name: "ID",
        default: "none",
        about: "For `host worker delta` alone: its name for the orchestrator",
    },
    Setting {
        key: TOKEN_ENV,
        env: "HOST_DELTA_TOKEN_ENV",
        flag: None,
        value_name: "NAME",
        default: "none",
        about: "For `host worker delta` alone: the variable that holds its bearer token",
    },
    Setting {
        key: CAPABILITIES,
        env: "HOST_DELTA_CAPABILITIES",
        flag: None,
        value_name: "TAGS",
        default: "none",
        about: "For `host worker delta` alone: the tags that it offers, separated by commas",
    },
    Setting {
        key: CONCURRENCY,
        env: "HOST_DELTA_CONCURRENCY",
        flag: None,
        value_name: "N",
        default: "1",
        about: "For `host worker delta` alone: how many leases it holds at once, 1 to 256",
    },
    Setting {
        key: LEASE_FILE,
        env: "HOST_DELTA_LEASE_FILE",
        flag: None,
        value_name: "FILE",
        default: "none",
        about: "For `host worker delta` alone: the file with the one lease that it executes",
    },
    Setting {
        key: LOG,
        env: "HOST_DELTA_LOG",
        flag: None,
        value_name: "PATH",
        default: "none",
        about: "For `host worker delta` alone: where the log of the lease in `lease` is written",
    },
];

pub(super) const TABLE_SETTINGS: &[TableSetting] = &[
    TableSetting {
        key: "protocol.delta.runners.NAME.token_file",
        default: "none",
        about: "A file with the bearer tokens of the pool's runners, one per line; a token allows its bearer to lease the pool's jobs. Optional beside `cmd`",
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
    TableSetting {
        key: "protocol.delta.runners.NAME.cmd",
        default: "none",
        about: "A runner that this host starts for each job, and its arguments: an array. `-orchestrator URL -runner-id ID -lease FILE -workdir DIR -log PATH` is added to them",
    },
    TableSetting {
        key: "protocol.delta.runners.NAME.pool_size",
        default: "1",
        about: "How many processes of `cmd` run at once, 1 to 64",
    },
    TableSetting {
        key: "protocol.delta.runners.NAME.env",
        default: "none",
        about: concat!(
            "Variables that are set for `cmd`: a table of strings. Of the host's own variables it gets only ",
            inherited_variables!(),
            " and those that `inherit_env` names",
        ),
    },
    TableSetting {
        key: "protocol.delta.runners.NAME.inherit_env",
        default: "none",
        about: "The names of more variables of the host that `cmd` gets: an array. This keeps secrets out of the file",
    },
    TableSetting {
        key: "protocol.delta.orchestrators.NAME.url",
        default: "none",
        about: "An orchestrator of others whose jobs this host executes: an https:// URL, or an http:// one of this machine",
    },
    TableSetting {
        key: "protocol.delta.orchestrators.NAME.runner_id",
        default: "none",
        about: "The name of this host for that orchestrator",
    },
    TableSetting {
        key: "protocol.delta.orchestrators.NAME.token_file",
        default: "none",
        about: "A file with the bearer token for that orchestrator",
    },
    TableSetting {
        key: "protocol.delta.orchestrators.NAME.token_env",
        default: "none",
        about: "Instead of `token_file`: the variable that holds the token",
    },
    TableSetting {
        key: "protocol.delta.orchestrators.NAME.capabilities",
        default: "none",
        about: "What this host offers: an array of tags",
    },
    TableSetting {
        key: "protocol.delta.orchestrators.NAME.concurrency",
        default: "1",
        about: "How many leases of that orchestrator this host holds at once, 1 to 256",
    },
];

/// `host worker delta`.
pub(super) const WORKER_ROLE: WorkerRole = WorkerRole {
    about: "Be a runner of a Delta CI orchestrator: lease its jobs, or execute the one in a file",
    after_help: "\
Examples:
  CI_TOKEN=… host worker delta --orchestrator http://127.0.0.1:7700 --runner-id r1 --token-env CI_TOKEN --capability os:linux --handlers ./handlers
  host worker delta --handlers ./handlers -orchestrator URL -runner-id ID -lease FILE -workdir DIR -log PATH

A step `wasm:HANDLER` of a job runs that handler; a job with a step of another kind fails. The options
may be written with one dash too, so that an orchestrator can launch this as its runner.

Without --lease, prints `ready delta=URL` when the handlers are loaded, and leases jobs until SIGTERM or
SIGINT. With it, executes that lease and exits with 0 once the orchestrator has its end, else with 1. A
guest that runs when the worker is told to stop is stopped; its lease runs out, and the orchestrator
gives the job to another runner.",
    doing: "work for a Delta CI orchestrator",
    flags: &[
        WorkerFlag::new(ORCHESTRATOR, "orchestrator", "URL", "The orchestrator: `http://HOST:PORT`"),
        WorkerFlag::new(RUNNER_ID, "runner-id", "ID", "Its name for the orchestrator"),
        WorkerFlag::new(TOKEN_ENV, "token-env", "NAME", "The variable that holds the bearer token; may be left out with --lease"),
        WorkerFlag::new(ALLOW_PLAINTEXT, "allow-plaintext", "", "Let an `http://` URL lead to another machine, without TLS"),
        WorkerFlag::new(CAPABILITIES, "capability", "TAG", "What it offers, like `os:linux`; may be given again").repeated(),
        WorkerFlag::new(CONCURRENCY, "concurrency", "N", "How many leases it holds at once [default: 1]"),
        WorkerFlag::new(LEASE_FILE, "lease", "FILE", "Execute the lease in this file and exit"),
        WorkerFlag::ignored("workdir", "DIR", "Ignored: guests have no folder"),
        WorkerFlag::new(LOG, "log", "PATH", "With --lease: where the log is written, as it comes"),
    ],
};
