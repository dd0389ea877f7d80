//! The keys of `[protocol.delta]` and the options of `host worker delta`; below, how they are read.

mod orchestrator;
mod tokens;
mod worker;

use std::collections::BTreeMap;
use std::path::PathBuf;

use host_wire_kit::http_client::BaseUrl;
use host_wire_kit::section::{At, Command, Number, Tables};
use host_wire_kit::settings::{WorkerFlag, WorkerRole};
use host_wire_kit::{inherited_variables, settings};

pub(super) use self::orchestrator::{DeltaConfig, Launch, NODE_SEPARATOR, PoolConfig, Times};
use self::orchestrator::{POOL_SIZE_MAX, SECONDS_MAX};
#[cfg(test)]
pub(super) use self::tokens::Tokens;
use self::worker::Concurrency;
pub(super) use self::worker::WorkerSettings;
use crate::tags::Tags;

settings! {
    pub(super) struct Keys "protocol.delta." {
        /// How long the lease of a Delta runner lasts after a heartbeat, in whole seconds; at least twice the heartbeat interval
        lease_ttl_seconds "SECONDS": At<Number<1, SECONDS_MAX, 120>>,
        /// How often a Delta runner must send a heartbeat, in whole seconds
        heartbeat_interval_seconds "SECONDS": At<Number<1, SECONDS_MAX, 20>>,
        /// How long a Delta runner has to acknowledge a lease, in whole seconds
        ack_seconds "SECONDS": Number<1, SECONDS_MAX, 30>,
        /// How long a Delta runner has to stop a cancelled job, in whole seconds; then the job is cancelled without it
        cancel_deadline_seconds "SECONDS": Number<1, SECONDS_MAX, 30>,
        /// The time limit of a job in a Delta pool if its sender sets none, in whole seconds
        max_runtime_seconds "SECONDS": Number<1, SECONDS_MAX, 3_600>,
        /// Whether `http://` URLs of orchestrators may lead to other machines, so that anyone between can read tokens, jobs and logs; else they must be `https://`
        allow_plaintext: bool,
        ..
        worker: WorkerKeys,
        runners: Tables<RunnerKeys>,
        orchestrators: Tables<OrchestratorKeys>,
    }

    pub(super) struct WorkerKeys "protocol.delta.worker." {
        /// For `host worker delta` alone: the orchestrator whose jobs are executed
        orchestrator "URL": Option<At<BaseUrl>>,
        /// For `host worker delta` alone: its name for the orchestrator
        runner_id "ID": Option<At<String>>,
        /// For `host worker delta` alone: the variable that holds its bearer token
        token_env "NAME": Option<At<String>>,
        /// For `host worker delta` alone: the tags that it offers, separated by commas
        capabilities "TAGS": Tags,
        /// For `host worker delta` alone: how many leases it may hold at a time
        concurrency "N": Concurrency,
        /// For `host worker delta` alone: the file with the one lease that it executes
        lease "FILE": Option<PathBuf>,
        /// For `host worker delta` alone: where the log of the lease in `lease` is written
        log "PATH": Option<PathBuf>,
    }

    pub(super) struct RunnerKeys "protocol.delta.runners.NAME." {
        /// A file with the bearer tokens of the pool's runners, one per line; a token allows its bearer to lease the pool's jobs. Optional beside `cmd`
        token_file: Option<At<PathBuf>>,
        /// Instead of `token_file`: the variable that holds the tokens
        token_env: Option<At<String>>,
        /// What a runner must offer to get a job of the pool: an array of tags, like `os:linux`. A job may ask for more with its attribute `delta.requires`
        capabilities: Tags,
        /// The command that starts a runner for each job, an array: the program and its arguments. `-orchestrator URL -runner-id ID -lease FILE -workdir DIR -log PATH` is added to them
        cmd: Option<Command>,
        /// How many processes of `cmd` run concurrently, 1 to 64
        pool_size: Option<Number<1, POOL_SIZE_MAX>> = "1",
        #[doc = concat!(
            "Variables that are set for `cmd`: a table of strings. Of the host's own variables it gets only ",
            inherited_variables!(),
            " and those that `inherit_env` names",
        )]
        env: BTreeMap<String, String> = "none",
        /// The names of more variables of the host that `cmd` gets: an array. This keeps secrets out of the file
        inherit_env: Vec<String> = "none",
    }

    pub(super) struct OrchestratorKeys "protocol.delta.orchestrators.NAME." {
        /// A foreign orchestrator whose jobs this host executes: an https:// URL, or an http:// one of this machine
        url: Option<At<BaseUrl>>,
        /// The name of this host for that orchestrator
        runner_id: Option<At<String>>,
        /// A file with the bearer token for that orchestrator
        token_file: Option<At<PathBuf>>,
        /// Instead of `token_file`: the variable that holds the token
        token_env: Option<At<String>>,
        /// What this host offers: an array of tags
        capabilities: Tags,
        /// How many leases of that orchestrator this host may hold at a time, 1 to 256
        concurrency: Concurrency,
    }
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
        WorkerFlag::new("orchestrator", "protocol.delta.worker.orchestrator").about("The orchestrator: `http://HOST:PORT`"),
        WorkerFlag::new("runner-id", "protocol.delta.worker.runner_id").about("Its name for the orchestrator"),
        WorkerFlag::new("token-env", "protocol.delta.worker.token_env").about("The variable that holds the bearer token; optional with --lease"),
        WorkerFlag::new("allow-plaintext", "protocol.delta.allow_plaintext").about("Allow an `http://` URL of another machine, without TLS"),
        WorkerFlag::new("capability", "protocol.delta.worker.capabilities").about("A tag that it offers, like `os:linux` (repeatable)").repeated(),
        WorkerFlag::new("concurrency", "protocol.delta.worker.concurrency").about("How many leases it may hold at a time"),
        WorkerFlag::new("lease", "protocol.delta.worker.lease").about("Execute the lease in this file and exit"),
        // Orchestrators pass these to the runners that they launch.
        WorkerFlag::ignored("workdir", "DIR", "Accepted and ignored: guests have no working directory"),
        WorkerFlag::ignored("s3-bucket", "NAME", NO_UPLOAD),
        WorkerFlag::ignored("s3-prefix", "PREFIX", NO_UPLOAD),
        WorkerFlag::ignored("s3-region", "REGION", NO_UPLOAD),
        WorkerFlag::ignored("cache-dir", "DIR", "Accepted and ignored: guests have no caches"),
        WorkerFlag::new("log", "protocol.delta.worker.log").about("With --lease: where the log is written as it arrives"),
    ],
    usual_refusals: &[],
};

const NO_UPLOAD: &str = "Accepted and ignored: this runner uploads nothing to a bucket";
