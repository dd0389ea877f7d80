//! The keys of `[protocol.arco]` and the options of `host worker arco`, as data.

use std::path::PathBuf;

use host_wire_kit::http_client::BaseUrl;
use host_wire_kit::section::{At, List, Listen, Number, Tables};
use host_wire_kit::settings;
use host_wire_kit::settings::{WorkerFlag, WorkerRole};

use crate::refusals::Code;
use crate::token::TTL_SECONDS_MAX;

/// The most origins that callbacks may go to.
const ORIGINS_MAX: usize = 64;

settings! {
    pub(crate) struct Keys "protocol.arco." {
        /// What Arco workers call back: an http:// or https:// URL that reaches this host's API
        public_url "URL": Option<BaseUrl> = "http:// and the address of the API",
        /// The file with the key that signs task tokens: at least 32 bytes, not counting a newline at the end
        token_key_file "FILE": Option<At<PathBuf>> = "made in the data directory at the first start; in a database, one for all nodes",
        /// The variable with that key, instead of a file
        token_key_env "NAME": Option<At<String>>,
        /// The file with the previous key, whose tokens are still accepted. To rotate keys, name the old key here and the new one in `token_key_file`
        previous_token_key_file "FILE": Option<At<PathBuf>>,
        /// The variable with the previous key, instead of a file
        previous_token_key_env "NAME": Option<At<String>>,
        /// How long a task token is valid; longer if the attempt may take longer, and never more than 7200
        token_ttl_seconds "SECONDS": Number<60, TTL_SECONDS_MAX, 3_600>,
        /// How often Arco workers send heartbeats, in milliseconds
        heartbeat_interval_ms "MS": At<Number<100, 600_000, 30_000>>,
        /// How long an Arco worker may be silent before its attempt is lost, in milliseconds; at least twice the interval. Arco's own worker refuses dispatches with less than 30000
        heartbeat_timeout_ms "MS": At<Number<200, 3_600_000, 90_000>>,
        /// How long an Arco worker has to stop after a cancel, in milliseconds
        cancel_grace_period_ms "MS": Number<0, 3_600_000, 30_000>,
        /// Whether `http://` URLs may lead to other machines, so that anyone in between can read secrets and task tokens; otherwise they must be `https://`
        allow_plaintext: bool,
        ..
        worker: WorkerKeys,
        workers: Tables<RemoteKeys>,
    }

    pub(crate) struct WorkerKeys "protocol.arco.worker." {
        /// Where Arco control planes dispatch tasks to this host: a loopback address and a port (0 takes a free one), or `off`
        listen "ADDR": At<Listen> = "off",
        /// The file with the secret that dispatches must present
        secret_file "FILE": Option<At<PathBuf>>,
        /// The variable with that secret, instead of a file
        secret_env "NAME": Option<At<String>>,
        /// Where callbacks may go: https:// URLs without a path, or http:// ones of this machine, an array; in the variable, separated by commas. Nothing is ever sent elsewhere, and redirects are not followed
        callback_origins "URLS": At<List<BaseUrl, ORIGINS_MAX>>,
        /// How many dispatched tasks run concurrently; others get 503 with Retry-After
        concurrency "N": Number<1, 4_096, 64>,
        /// The file with the API token for the logs of tasks, which are then sent to `/api/v1/workspaces/ID/runs/ID/logs` of the callback's origin
        logs_token_file "FILE": Option<At<PathBuf>>,
        /// The variable with that token, instead of a file
        logs_token_env "NAME": Option<At<String>>,
    }

    pub(crate) struct RemoteKeys "protocol.arco.workers.NAME." {
        /// The Arco worker behind this name: an https:// URL, or an http:// one of this machine; attempts go to `URL/dispatch`
        url: Option<At<BaseUrl>>,
        /// The file with the secret that the worker expects of a dispatch
        secret_file: Option<At<PathBuf>>,
        /// The variable with that secret, instead of a file
        secret_env: Option<At<String>>,
        /// How many attempts the worker may have at a time, 1 to 4096
        max_in_flight: Number<1, 4_096, 16>,
    }
}

/// `host worker arco`.
pub(crate) const WORKER_ROLE: WorkerRole = WorkerRole {
    about: "Work for Arco control planes: listen for their dispatches",
    after_help: "\
Examples:
  ARCO_SECRET=… host worker arco --listen 127.0.0.1:9000 --secret-env ARCO_SECRET --callback-origin http://127.0.0.1:8080 --handlers ./handlers

Prints `ready arco=ADDR` when the handlers are loaded. `POST /dispatch` takes a task, `GET /health`
reports the load. A dispatch is answered when its task has ended. SIGTERM or SIGINT stops
all guests and reports their tasks as failed and retryable. The variables and keys of [protocol.arco]
in docs/config.md apply here too.",
    doing: "work for Arco control planes",
    flags: &[
        WorkerFlag::new("listen", "protocol.arco.worker.listen").about("Where dispatches come in: a loopback address and a port").required(),
        WorkerFlag::new("secret-env", "protocol.arco.worker.secret_env").about("The variable with the secret that dispatches must present"),
        WorkerFlag::new("secret-file", "protocol.arco.worker.secret_file"),
        WorkerFlag::new("callback-origin", "protocol.arco.worker.callback_origins").about("Where callbacks may go: an https:// URL without a path, or an http:// one of this machine (repeatable)").repeated(),
        WorkerFlag::new("allow-plaintext", "protocol.arco.allow_plaintext").about("Allow callbacks to other machines without TLS"),
        WorkerFlag::new("concurrency", "protocol.arco.worker.concurrency").about("How many tasks run concurrently"),
    ],
    usual_refusals: &[Code::Busy.as_str()],
};
