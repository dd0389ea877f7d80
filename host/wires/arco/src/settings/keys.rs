//! The keys of `[protocol.arco]` and the options of `host worker arco`, as data.

use host_wire_kit::settings::{WorkerFlag, WorkerRole};
use host_wire_kit::{settings, table_settings};

use crate::refusals::Code;
use crate::token::TTL_SECONDS_MAX;

/// The tables of workers.
pub(super) const WORKERS: &str = "protocol.arco.workers";

settings! {
    pub(crate) SETTINGS:
    PUBLIC_URL = "protocol.arco.public_url", Text("URL"), "http:// and the address of the API",
        "What Arco workers call back: an http:// or https:// URL that reaches this host's API";
    TOKEN_KEY_FILE = "protocol.arco.token_key_file", Text("FILE"), "made in the data directory at the first start; in a database, one for all nodes",
        "The file with the key that signs task tokens: at least 32 bytes, not counting a newline at the end";
    TOKEN_KEY_ENV = "protocol.arco.token_key_env", Text("NAME"), "none",
        "The variable with that key, instead of a file";
    PREVIOUS_KEY_FILE = "protocol.arco.previous_token_key_file", Text("FILE"), "none",
        "The file with the previous key, whose tokens are still accepted. To rotate keys, name the old key here and the new one in `token_key_file`";
    PREVIOUS_KEY_ENV = "protocol.arco.previous_token_key_env", Text("NAME"), "none",
        "The variable with the previous key, instead of a file";
    TOKEN_TTL = "protocol.arco.token_ttl_seconds", Number("SECONDS", 60, TTL_SECONDS_MAX), "3600",
        "How long a task token is valid; longer if the attempt may take longer, and never more than 7200";
    HEARTBEAT_INTERVAL = "protocol.arco.heartbeat_interval_ms", Number("MS", 100, 600_000), "30000",
        "How often Arco workers send heartbeats, in milliseconds";
    HEARTBEAT_TIMEOUT = "protocol.arco.heartbeat_timeout_ms", Number("MS", 200, 3_600_000), "90000",
        "How long an Arco worker may be silent before its attempt is lost, in milliseconds; at least twice the interval. Arco's own worker refuses dispatches with less than 30000";
    CANCEL_GRACE = "protocol.arco.cancel_grace_period_ms", Number("MS", 0, 3_600_000), "30000",
        "How long an Arco worker has to stop after a cancel, in milliseconds";
    ALLOW_PLAINTEXT = "protocol.arco.allow_plaintext", Switch, "false",
        "Whether `http://` URLs may lead to other machines, so that anyone in between can read secrets and task tokens; otherwise they must be `https://`";
    LISTEN = "protocol.arco.worker.listen", Text("ADDR"), "off",
        "Where Arco control planes dispatch tasks to this host: a loopback address and a port (0 takes a free one), or `off`";
    SECRET_FILE = "protocol.arco.worker.secret_file", Text("FILE"), "none",
        "The file with the secret that dispatches must present";
    SECRET_ENV = "protocol.arco.worker.secret_env", Text("NAME"), "none",
        "The variable with that secret, instead of a file";
    ORIGINS = "protocol.arco.worker.callback_origins", List("URLS"), "none",
        "Where callbacks may go: https:// URLs without a path, or http:// ones of this machine, an array; in the variable, separated by commas. Nothing is ever sent elsewhere, and redirects are not followed";
    CONCURRENCY = "protocol.arco.worker.concurrency", Number("N", 1, 4_096), "64",
        "How many dispatched tasks run at once; others get 503 with Retry-After";
    LOGS_TOKEN_FILE = "protocol.arco.worker.logs_token_file", Text("FILE"), "none",
        "The file with the API token for the logs of tasks, which are then sent to `/api/v1/workspaces/ID/runs/ID/logs` of the callback's origin";
    LOGS_TOKEN_ENV = "protocol.arco.worker.logs_token_env", Text("NAME"), "none",
        "The variable with that token, instead of a file";
}

table_settings! {
    pub(crate) TABLE_SETTINGS:
    "protocol.arco.workers.NAME.url", "none",
        "The Arco worker behind this name: an https:// URL, or an http:// one of this machine; attempts go to `URL/dispatch`";
    "protocol.arco.workers.NAME.secret_file", "none",
        "The file with the secret that the worker expects of a dispatch";
    "protocol.arco.workers.NAME.secret_env", "none",
        "The variable with that secret, instead of a file";
    "protocol.arco.workers.NAME.max_in_flight", "16",
        "How many attempts the worker has at once, 1 to 4096";
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
        WorkerFlag::new("listen", LISTEN).about("Where dispatches come in: a loopback address and a port").required(),
        WorkerFlag::new("secret-env", SECRET_ENV).about("The variable with the secret that dispatches must present"),
        WorkerFlag::new("secret-file", SECRET_FILE),
        WorkerFlag::new("callback-origin", ORIGINS).about("Where callbacks may go: an https:// URL without a path, or an http:// one of this machine (repeatable)").repeated(),
        WorkerFlag::new("allow-plaintext", ALLOW_PLAINTEXT).about("Allow callbacks to other machines without TLS"),
        WorkerFlag::new("concurrency", CONCURRENCY).about("How many tasks run at once"),
    ],
    usual_refusals: &[Code::Busy.as_str()],
};
