//! The keys of `[protocol.delta]` and the options of `host worker delta`; below, how they are read.

mod orchestrator;
mod tokens;
mod worker;

use host_wire_kit::inherited_variables;
use host_wire_kit::settings::{Kind, Setting, WorkerFlag, WorkerRole};
use host_wire_kit::{settings, table_settings};

use self::orchestrator::SECONDS_MAX;
pub(super) use self::orchestrator::{DeltaConfig, Launch, NODE_SEPARATOR, PoolConfig, Times};
#[cfg(test)]
pub(super) use self::tokens::Tokens;
use self::worker::CONCURRENCY_MAX;
pub(super) use self::worker::WorkerSettings;

/// The tables of orchestrators.
pub(super) const ORCHESTRATORS: &str = "protocol.delta.orchestrators";

/// The tables of pools.
pub(super) const RUNNERS: &str = "protocol.delta.runners";

settings! {
    pub(super) SETTINGS:
    LEASE_TTL = "protocol.delta.lease_ttl_seconds", Number("SECONDS", 1, SECONDS_MAX), "120",
        "How long the lease of a Delta runner lasts after a heartbeat, in whole seconds; at least twice the heartbeat interval";
    HEARTBEAT_INTERVAL = "protocol.delta.heartbeat_interval_seconds", Number("SECONDS", 1, SECONDS_MAX), "20",
        "How often a Delta runner is asked to send a heartbeat, in whole seconds";
    ACK = "protocol.delta.ack_seconds", Number("SECONDS", 1, SECONDS_MAX), "30",
        "How long a Delta runner has to acknowledge a lease, in whole seconds";
    CANCEL_DEADLINE = "protocol.delta.cancel_deadline_seconds", Number("SECONDS", 1, SECONDS_MAX), "30",
        "How long a Delta runner has to stop a cancelled job, in whole seconds; then the job is cancelled without it";
    MAX_RUNTIME = "protocol.delta.max_runtime_seconds", Number("SECONDS", 1, SECONDS_MAX), "3600",
        "The time limit of a job in a Delta pool if its sender sets none, in whole seconds";
    ALLOW_PLAINTEXT = "protocol.delta.allow_plaintext", Switch, "false",
        "Whether `http://` URLs of orchestrators may lead to other machines, so that anyone between can read tokens, jobs and logs; else they must be `https://`";
    ORCHESTRATOR = "protocol.delta.worker.orchestrator", Text("URL"), "none",
        "For `host worker delta` alone: the orchestrator whose jobs are executed";
    RUNNER_ID = "protocol.delta.worker.runner_id", Text("ID"), "none",
        "For `host worker delta` alone: its name for the orchestrator";
    TOKEN_ENV = "protocol.delta.worker.token_env", Text("NAME"), "none",
        "For `host worker delta` alone: the variable that holds its bearer token";
    CAPABILITIES = "protocol.delta.worker.capabilities", List("TAGS"), "none",
        "For `host worker delta` alone: the tags that it offers, separated by commas";
    CONCURRENCY = "protocol.delta.worker.concurrency", Number("N", 1, CONCURRENCY_MAX as u64), "1",
        "For `host worker delta` alone: how many leases it holds at once";
    LEASE_FILE = "protocol.delta.worker.lease", Text("FILE"), "none",
        "For `host worker delta` alone: the file with the one lease that it executes";
    LOG = "protocol.delta.worker.log", Text("PATH"), "none",
        "For `host worker delta` alone: where the log of the lease in `lease` is written";
}

table_settings! {
    pub(super) TABLE_SETTINGS:
    "protocol.delta.runners.NAME.token_file", "none",
        "A file with the bearer tokens of the pool's runners, one per line; a token allows its bearer to lease the pool's jobs. Optional beside `cmd`";
    "protocol.delta.runners.NAME.token_env", "none",
        "Instead of `token_file`: the variable that holds the tokens";
    "protocol.delta.runners.NAME.capabilities", "none",
        "What a runner must offer to get a job of the pool: an array of tags, like `os:linux`. A job may ask for more with its attribute `delta.requires`";
    "protocol.delta.runners.NAME.cmd", "none",
        "The command that starts a runner for each job, an array: the program and its arguments. `-orchestrator \
         URL -runner-id ID -lease FILE -workdir DIR -log PATH` is added to them";
    "protocol.delta.runners.NAME.pool_size", "1",
        "How many processes of `cmd` run at once, 1 to 64";
    "protocol.delta.runners.NAME.env", "none",
        concat!(
            "Variables that are set for `cmd`: a table of strings. Of the host's own variables it gets only ",
            inherited_variables!(),
            " and those that `inherit_env` names",
        );
    "protocol.delta.runners.NAME.inherit_env", "none",
        "The names of more variables of the host that `cmd` gets: an array. This keeps secrets out of the file";
    "protocol.delta.orchestrators.NAME.url", "none",
        "A foreign orchestrator whose jobs this host executes: an https:// URL, or an http:// one of this machine";
    "protocol.delta.orchestrators.NAME.runner_id", "none",
        "The name of this host for that orchestrator";
    "protocol.delta.orchestrators.NAME.token_file", "none",
        "A file with the bearer token for that orchestrator";
    "protocol.delta.orchestrators.NAME.token_env", "none",
        "Instead of `token_file`: the variable that holds the token";
    "protocol.delta.orchestrators.NAME.capabilities", "none",
        "What this host offers: an array of tags";
    "protocol.delta.orchestrators.NAME.concurrency", "1",
        "How many leases of that orchestrator this host holds at once, 1 to 256";
}

/// `host worker delta`.
pub(super) const WORKER_ROLE: WorkerRole = WorkerRole {
    about: "Act as a runner of a Delta CI orchestrator: lease its jobs, or execute one lease from a file",
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
        WorkerFlag::new("orchestrator", ORCHESTRATOR).about("The orchestrator: `http://HOST:PORT`"),
        WorkerFlag::new("runner-id", RUNNER_ID).about("Its name for the orchestrator"),
        WorkerFlag::new("token-env", TOKEN_ENV).about("The variable that holds the bearer token; optional with --lease"),
        WorkerFlag::new("allow-plaintext", ALLOW_PLAINTEXT).about("Allow an `http://` URL of another machine, without TLS"),
        WorkerFlag::new("capability", CAPABILITIES).about("A tag that it offers, like `os:linux` (repeatable)").repeated(),
        WorkerFlag::new("concurrency", CONCURRENCY).about("How many leases it holds at once"),
        WorkerFlag::new("lease", LEASE_FILE).about("Execute the lease in this file and exit"),
        WorkerFlag::new("workdir", WORKDIR),
        WorkerFlag::new("s3-bucket", S3_BUCKET),
        WorkerFlag::new("s3-prefix", S3_PREFIX),
        WorkerFlag::new("s3-region", S3_REGION),
        WorkerFlag::new("cache-dir", CACHE_DIR),
        WorkerFlag::new("log", LOG).about("With --lease: where the log is written as it arrives"),
    ],
    usual_refusals: &[],
};

/// Orchestrators pass these flags to the runners that they launch. They are no keys of the configuration.
const WORKDIR: Setting = ignored(
    "workdir",
    "DIR",
    "Accepted and ignored: guests have no working directory",
);
const S3_BUCKET: Setting = ignored("s3-bucket", "NAME", NO_UPLOAD);
const S3_PREFIX: Setting = ignored("s3-prefix", "PREFIX", NO_UPLOAD);
const S3_REGION: Setting = ignored("s3-region", "REGION", NO_UPLOAD);
const CACHE_DIR: Setting = ignored(
    "cache-dir",
    "DIR",
    "Accepted and ignored: guests have no caches",
);

const NO_UPLOAD: &str = "Accepted and ignored: this runner uploads nothing to a bucket";

/// The flags that mean that something is not done, which is logged.
pub(super) const IGNORED: [Setting; 4] = [S3_BUCKET, S3_PREFIX, S3_REGION, CACHE_DIR];

const fn ignored(key: &'static str, value: &'static str, about: &'static str) -> Setting {
    Setting {
        key,
        kind: Kind::Text(value),
        default: "none",
        about,
        flag: None,
    }
}
