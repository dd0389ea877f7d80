//! The keys of `[protocol.hero]` and the options of `host worker hero`, as data.

use crate::wire::settings::{Setting, WorkerFlag, WorkerRole};

pub(super) const URL: &str = "protocol.hero.url";
pub(super) const URL_FILE: &str = "protocol.hero.url_file";
pub(super) const CA_FILE: &str = "protocol.hero.ca_file";
pub(super) const CERT_FILE: &str = "protocol.hero.cert_file";
pub(super) const KEY_FILE: &str = "protocol.hero.key_file";
pub(super) const WORKER_IDS: &str = "protocol.hero.worker_ids";
pub(super) const CONCURRENCY: &str = "protocol.hero.concurrency";
pub(super) const DISPATCH_IN_FLIGHT: &str = "protocol.hero.dispatch_in_flight";
pub(super) const POP_SIDE: &str = "protocol.hero.pop_side";
pub(super) const LOG_DIR: &str = "protocol.hero.log_dir";
pub(super) const ALLOW_PLAINTEXT: &str = "protocol.hero.allow_plaintext";
pub(super) const REQUEUE_STALE: &str = "protocol.hero.requeue_stale";

/// All keys. `host serve` has no flags for them.
pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        key: URL,
        env: "HOST_HERO_URL",
        flag: None,
        value_name: "URL",
        default: "none",
        about: "The Redis of Hero dispatchers: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`; `rediss://` for TLS 1.3, always with a certificate that is checked; `redis+unix:///PATH[?db=DATABASE]` for a Unix socket; `redis-sentinel://HOST[:PORT],…/MASTER[/DATABASE]` (or `rediss-sentinel://`) where Sentinels know it",
    },
    Setting {
        key: URL_FILE,
        env: "HOST_HERO_URL_FILE",
        flag: None,
        value_name: "FILE",
        default: "none",
        about: "The file with that URL, instead of the URL: for one with a password",
    },
    Setting {
        key: CA_FILE,
        env: "HOST_HERO_CA_FILE",
        flag: None,
        value_name: "FILE",
        default: "the authorities that the system trusts",
        about: "The authorities that may sign the certificate of a Redis behind `rediss://`: PEM",
    },
    Setting {
        key: CERT_FILE,
        env: "HOST_HERO_CERT_FILE",
        flag: None,
        value_name: "FILE",
        default: "none",
        about: "The certificate that is shown to such a Redis: PEM, followed by those that signed it",
    },
    Setting {
        key: KEY_FILE,
        env: "HOST_HERO_KEY_FILE",
        flag: None,
        value_name: "FILE",
        default: "none",
        about: "The private key of that certificate: PEM",
    },
    Setting {
        key: WORKER_IDS,
        env: "HOST_HERO_WORKER_IDS",
        flag: None,
        value_name: "IDS",
        default: "none",
        about: "The worker ids whose jobs are taken from that Redis: an array; in the variable, separated by commas",
    },
    Setting {
        key: CONCURRENCY,
        env: "HOST_HERO_CONCURRENCY",
        flag: None,
        value_name: "N",
        default: "64",
        about: "How many jobs of one worker id run at once, 1 to 1024",
    },
    Setting {
        key: DISPATCH_IN_FLIGHT,
        env: "HOST_HERO_DISPATCH_IN_FLIGHT",
        flag: None,
        value_name: "N",
        default: "64",
        about: "How many of our jobs one foreign worker id (`hero-WORKER#NAME`) has at once, 1 to 4096",
    },
    Setting {
        key: POP_SIDE,
        env: "HOST_HERO_POP_SIDE",
        flag: None,
        value_name: "SIDE",
        default: "right",
        about: "Which jobs are taken first: the oldest (`right`) or the newest (`left`, as workers do that use BLPOP)",
    },
    Setting {
        key: LOG_DIR,
        env: "HOST_HERO_LOG_DIR",
        flag: None,
        value_name: "DIR",
        default: "none",
        about: "The folder below which the `log_path` of a job may name a file that its log is appended to; without it such jobs are refused",
    },
    Setting {
        key: ALLOW_PLAINTEXT,
        env: "HOST_HERO_ALLOW_PLAINTEXT",
        flag: None,
        value_name: "BOOL",
        default: "false",
        about: "Whether a password may go to a Redis on another machine without TLS: true or false",
    },
    Setting {
        key: REQUEUE_STALE,
        env: "HOST_HERO_REQUEUE_STALE",
        flag: None,
        value_name: "IDS",
        default: "none",
        about: "The worker ids whose lost jobs `host serve` queues again by itself, each job up to three times: an array, `*` for all; in the variable, separated by commas",
    },
];

/// `host worker hero`.
pub(super) const WORKER_ROLE: WorkerRole = WorkerRole {
    about: "Take jobs of Hero dispatchers from their Redis",
    after_help: "\
Examples:
  host worker hero --url redis://127.0.0.1:6379 --worker-id w1 --worker-id w2 --handlers ./handlers
  host worker hero --url-file ./redis.url --worker-id w1 --data ./data

Prints `ready hero=URL worker_ids=IDS` when the handlers are loaded, and waits for a Redis that is
not there yet. SIGTERM or SIGINT stops guests, gives jobs that have not ended back to Redis, and
exits with 0 within 2 s: fit for a service manager. Any number of workers may share a queue, here or
on other machines; each job is run by one of them. If a worker dies, the others run its jobs after
15 s, and the worker itself runs them as soon as it starts again: for that it keeps a name under
$STATE_DIRECTORY, $XDG_STATE_HOME/host or ~/.local/state/host, one for each running worker. The
variables and keys of [protocol.hero] in docs/config.md hold here too.",
    doing: "work for Hero dispatchers",
    flags: &[
        WorkerFlag::new(
            URL,
            "url",
            "URL",
            "The Redis: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, or `rediss://` for TLS, `redis+unix://`, `redis-sentinel://`. Other users can read command lines, so an address with a password is taken only from a file or from `HOST_HERO_URL`",
        ),
        WorkerFlag::new(
            URL_FILE,
            "url-file",
            "FILE",
            "The file with that address, instead of `--url`",
        ),
        WorkerFlag::new(
            WORKER_IDS,
            "worker-id",
            "ID",
            "Whose jobs are taken; may be given again. `HOST_HERO_WORKER_IDS` names them too",
        )
        .repeated(),
        WorkerFlag::new(
            CONCURRENCY,
            "concurrency",
            "N",
            "How many jobs of one worker id run at once [default: 64]",
        ),
        WorkerFlag::new(
            POP_SIDE,
            "pop-side",
            "SIDE",
            "Which jobs are taken first: the oldest (`right`) or the newest (`left`) [default: right]",
        ),
        WorkerFlag::new(
            LOG_DIR,
            "log-dir",
            "DIR",
            "The folder below which jobs may name a `log_path`; without it, such jobs are refused",
        ),
    ],
};
