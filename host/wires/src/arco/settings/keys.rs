//! The keys of `[protocol.arco]` and the options of `host worker arco`, as data.

use crate::wire::settings::{Setting, TableSetting, WorkerFlag, WorkerRole};

pub(in crate::arco) const PUBLIC_URL: &str = "protocol.arco.public_url";
pub(in crate::arco) const TOKEN_KEY_FILE: &str = "protocol.arco.token_key_file";
pub(in crate::arco) const TOKEN_KEY_ENV: &str = "protocol.arco.token_key_env";
pub(in crate::arco) const PREVIOUS_KEY_FILE: &str = "protocol.arco.previous_token_key_file";
pub(in crate::arco) const PREVIOUS_KEY_ENV: &str = "protocol.arco.previous_token_key_env";
pub(in crate::arco) const TOKEN_TTL: &str = "protocol.arco.token_ttl_seconds";
pub(in crate::arco) const HEARTBEAT_INTERVAL: &str = "protocol.arco.heartbeat_interval_ms";
pub(in crate::arco) const HEARTBEAT_TIMEOUT: &str = "protocol.arco.heartbeat_timeout_ms";
pub(in crate::arco) const CANCEL_GRACE: &str = "protocol.arco.cancel_grace_period_ms";
pub(in crate::arco) const ALLOW_PLAINTEXT: &str = "protocol.arco.allow_plaintext";
pub(in crate::arco) const WORKERS: &str = "protocol.arco.workers";

pub(in crate::arco) const LISTEN: &str = "protocol.arco.worker.listen";
pub(in crate::arco) const SECRET_FILE: &str = "protocol.arco.worker.secret_file";
pub(in crate::arco) const SECRET_ENV: &str = "protocol.arco.worker.secret_env";
pub(in crate::arco) const ORIGINS: &str = "protocol.arco.worker.callback_origins";
pub(in crate::arco) const CONCURRENCY: &str = "protocol.arco.worker.concurrency";
pub(in crate::arco) const LOGS_TOKEN_FILE: &str = "protocol.arco.worker.logs_token_file";
pub(in crate::arco) const LOGS_TOKEN_ENV: &str = "protocol.arco.worker.logs_token_env";

/// All keys. `host serve` has no flags for them.
pub(in crate::arco) const SETTINGS: &[Setting] = &[
    setting(
        PUBLIC_URL,
        "HOST_ARCO_PUBLIC_URL",
        "URL",
        "http:// and the address of the API",
        "What Arco workers call back: an http:// or https:// URL that reaches this host's API",
    ),
    setting(
        TOKEN_KEY_FILE,
        "HOST_ARCO_TOKEN_KEY_FILE",
        "FILE",
        "made in the data directory at the first start",
        "The key that signs task tokens: a file of at least 32 bytes; a newline at its end does not count",
    ),
    setting(
        TOKEN_KEY_ENV,
        "HOST_ARCO_TOKEN_KEY_ENV",
        "NAME",
        "none",
        "The variable with that key, instead of a file",
    ),
    setting(
        PREVIOUS_KEY_FILE,
        "HOST_ARCO_PREVIOUS_TOKEN_KEY_FILE",
        "FILE",
        "none",
        "The key before: its tokens are still taken. To rotate keys, name the old key here and the new one in `token_key_file`",
    ),
    setting(
        PREVIOUS_KEY_ENV,
        "HOST_ARCO_PREVIOUS_TOKEN_KEY_ENV",
        "NAME",
        "none",
        "The variable with the key before, instead of a file",
    ),
    setting(
        TOKEN_TTL,
        "HOST_ARCO_TOKEN_TTL_SECONDS",
        "SECONDS",
        "3600",
        "How long a task token is valid, 60 to 7200; longer if the attempt may take longer, and never more than 7200",
    ),
    setting(
        HEARTBEAT_INTERVAL,
        "HOST_ARCO_HEARTBEAT_INTERVAL_MS",
        "MS",
        "30000",
        "How often Arco workers say that they are alive, in milliseconds, 100 to 600000",
    ),
    setting(
        HEARTBEAT_TIMEOUT,
        "HOST_ARCO_HEARTBEAT_TIMEOUT_MS",
        "MS",
        "90000",
        "How long an Arco worker may be silent until its attempt is given up, in milliseconds, 200 to 3600000; at least twice the interval. Arco's own worker takes no dispatch with less than 30000",
    ),
    setting(
        CANCEL_GRACE,
        "HOST_ARCO_CANCEL_GRACE_PERIOD_MS",
        "MS",
        "30000",
        "How long an Arco worker has to stop after a cancel, in milliseconds, at most 3600000",
    ),
    setting(
        ALLOW_PLAINTEXT,
        "HOST_ARCO_ALLOW_PLAINTEXT",
        "BOOL",
        "false",
        "Whether `http://` URLs may lead to other machines, so that anybody between can read secrets and task tokens. Else they must be `https://`",
    ),
    setting(
        LISTEN,
        "HOST_ARCO_WORKER_LISTEN",
        "ADDR",
        "off",
        "Where Arco control planes dispatch tasks to this host: a loopback address and a port (0 takes a free one), or `off`",
    ),
    setting(
        SECRET_FILE,
        "HOST_ARCO_WORKER_SECRET_FILE",
        "FILE",
        "none",
        "The file with the secret that dispatches must present",
    ),
    setting(
        SECRET_ENV,
        "HOST_ARCO_WORKER_SECRET_ENV",
        "NAME",
        "none",
        "The variable with that secret, instead of a file",
    ),
    setting(
        ORIGINS,
        "HOST_ARCO_WORKER_CALLBACK_ORIGINS",
        "URLS",
        "none",
        "Where callbacks may go: https:// URLs without a path, or http:// ones of this machine, an array; in the variable, separated by commas. Nothing is ever sent elsewhere, and redirects are not followed",
    ),
    setting(
        CONCURRENCY,
        "HOST_ARCO_WORKER_CONCURRENCY",
        "N",
        "64",
        "How many dispatched tasks run at once, 1 to 4096; further ones get 503 with Retry-After",
    ),
    setting(
        LOGS_TOKEN_FILE,
        "HOST_ARCO_WORKER_LOGS_TOKEN_FILE",
        "FILE",
        "none",
        "The file with the API token for the logs of tasks, which are then sent to `/api/v1/workspaces/ID/runs/ID/logs` of the callback's origin",
    ),
    setting(
        LOGS_TOKEN_ENV,
        "HOST_ARCO_WORKER_LOGS_TOKEN_ENV",
        "NAME",
        "none",
        "The variable with that token, instead of a file",
    ),
];

pub(in crate::arco) const TABLE_SETTINGS: &[TableSetting] = &[
    TableSetting {
        key: "protocol.arco.workers.NAME.url",
        default: "none",
        about: "The Arco worker behind this name: an https:// URL, or an http:// one of this machine; attempts go to `URL/dispatch`",
    },
    TableSetting {
        key: "protocol.arco.workers.NAME.secret_file",
        default: "none",
        about: "The file with the secret that the worker expects of a dispatch",
    },
    TableSetting {
        key: "protocol.arco.workers.NAME.secret_env",
        default: "none",
        about: "The variable with that secret, instead of a file",
    },
    TableSetting {
        key: "protocol.arco.workers.NAME.max_in_flight",
        default: "16",
        about: "How many attempts the worker has at once, 1 to 4096",
    },
];

const fn setting(
    key: &'static str,
    env: &'static str,
    value_name: &'static str,
    default: &'static str,
    about: &'static str,
) -> Setting {
    Setting {
        key,
        env,
        flag: None,
        value_name,
        default,
        about,
    }
}

/// `host worker arco`.
pub(in crate::arco) const WORKER_ROLE: WorkerRole = WorkerRole {
    about: "Be a worker of an Arco control plane: listen for its dispatches",
    after_help: "\
Examples:
  ARCO_SECRET=… host worker arco --listen 127.0.0.1:9000 --secret-env ARCO_SECRET --callback-origin http://127.0.0.1:8080 --handlers ./handlers

Prints `ready arco=ADDR` when the handlers are loaded. `POST /dispatch` takes a task, `GET /health`
tells whether there is room. A dispatch is answered when its task has ended. SIGTERM or SIGINT stops
all guests and reports their tasks as failed, to be tried again. The variables and keys of
[protocol.arco] in docs/config.md hold here too.",
    doing: "work for Arco control planes",
    flags: &[
        WorkerFlag::new(LISTEN, "listen", "ADDR", "Where dispatches come: a loopback address and a port").required(),
        WorkerFlag::new(SECRET_ENV, "secret-env", "NAME", "The variable with the secret that dispatches must present"),
        WorkerFlag::new(SECRET_FILE, "secret-file", "FILE", "The file with that secret, instead of a variable"),
        WorkerFlag::new(ORIGINS, "callback-origin", "URL", "Where callbacks may go: an https:// URL without a path, or an http:// one of this machine; may be given again").repeated(),
        WorkerFlag::new(ALLOW_PLAINTEXT, "allow-plaintext", "", "Let callbacks go to other machines without TLS"),
        WorkerFlag::new(CONCURRENCY, "concurrency", "N", "How many tasks run at once [default: 64]"),
    ],
};
