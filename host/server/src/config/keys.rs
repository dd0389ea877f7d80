//! The keys of the host, as structs. `settings!` says how a field is written.

#![expect(
    clippy::zero_sized_map_values,
    reason = "each wire reads its own section; here only their names count"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use host_api::limit::LimitBody;
use host_api::schedule::{Duration, WhenBody};
use host_api::webhook::NotifyBody;
use host_cells::deploy::trust::KEYS_MAX;
use host_cells::pool::Isolation;
use host_cells::sandbox::roots::ROOTS_MAX;
use host_engine::schedule::{CatchUp, Overlap};
use host_wire_kit::section::{At, List, Number, Seconds, Tables};
use host_wire_kit::settings::Setting;
use host_wire_kit::{documented_settings, settings};
use host_wires::WIRES;
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny};

use super::http::{HttpKeys, ListenerKeys};
use super::store::StoreKeys;
use crate::auth::AuthMode;
use crate::outbox;
use crate::webhooks::Allowed;

/// A year, in seconds.
const YEAR: u64 = 365 * 24 * 3_600;

settings! {
    pub(super) struct Root "" {
        /// Where jobs, components and logs are kept; only one host may use it at a time
        data ["data"] "DIR": Option<PathBuf> = "data",
        /// Deploy the components in this folder at start
        handlers ["handlers"] "DIR": Option<PathBuf>,
        ..
        auth: Auth,
        deploy: Deploy,
        audit: Audit,
        cells: Cells,
        grants: Grants,
        egress: Egress,
        limits: Limits,
        shutdown: Shutdown,
        logs: Logs,
        artifacts: Artifacts,
        http: HttpKeys,
        store: StoreKeys,
        listeners: Vec<At<ListenerKeys>>,
        queues: Tables<Queue>,
        webhooks: Tables<Allowed>,
        outbox: Tables<outbox::Keys>,
        secrets: Tables<Secret>,
        schedules: Tables<ScheduleKeys>,
        protocol: BTreeMap<WireName, IgnoredAny>,
    }

    pub(super) struct Auth "auth." {
        /// How clients of the API authenticate: `none` (loopback and the local socket only) or `tokens`. The host's user and root need no token on the local socket
        mode ["auth-mode"] "MODE": AuthMode = "none",
        /// Where the host writes an admin token for a day if tokens are required and none can create others
        admin_token_file "FILE": Option<PathBuf> = "admin.token in the data directory",
        /// Whether new grants must be accepted by a principal other than the one that first tried to deploy the component
        two_people_for_grants: At<bool>,
    }

    pub(super) struct Deploy "deploy." {
        /// Public keys of minisign, comma-separated; then only components that one of them has signed are deployed and run
        trusted_keys "KEYS": At<List<String, KEYS_MAX>>,
    }

    pub(super) struct Audit "audit." {
        /// A file to which each entry of the audit is appended as a line of JSON
        export_file "FILE": Option<PathBuf>,
        /// How long entries of the audit are kept, in days; the last one is always kept
        retention_days "DAYS": Number<1, 36_500, 400>,
    }

    pub(super) struct Cells "cells." {
        /// How many cells run jobs
        count ["cells"] "N": Option<Number<1, 256>> = "one per core, at least 2",
        /// How many jobs one cell runs concurrently at most; fewer if they compute for long or need much memory
        slots ["cell-slots"] "N": Option<Number<1, 1_024>> = "256, with isolated components 64",
        /// How much memory the guests of one cell may take together, in MiB
        memory_mib ["cell-memory-mib"] "MIB": Option<Number<16, { 1 << 20 }>> = "half of the machine's memory, divided among the maximum number of cells",
        /// Which jobs share a cell: `shared`, all of them; `component`, only those of the same component, in up to 4 times as many cells, at least 16
        isolation ["cell-isolation"] "HOW": Isolation = "shared",
        /// The user that cells become if the host is started as root
        user ["cell-user"] "UID": Number<1, { u32::MAX as u64 - 1 }, 65_534>,
        /// Whether to start on a system that cannot fully sandbox cells
        allow_weak ["allow-weak"]: bool,
    }

    pub(super) struct Grants "grants." {
        /// The directories below which manifests may grant directories, comma-separated
        read_roots ["grant-read"] "DIRS": At<List<PathBuf, ROOTS_MAX>>,
        /// The variables of the host that manifests may grant, comma-separated; never HOST_…
        env ["grant-env"] "NAMES": At<List<String>>,
        /// The servers to which manifests may grant requests, comma-separated: `https://api.example.com`, or `https://*.example.com:8443` for all subdomains
        http ["grant-http"] "ORIGINS": At<List<String>>,
        /// The servers to which manifests may grant connections, comma-separated names or addresses with ports: `db.internal:5432`
        tcp ["grant-tcp"] "SERVERS": At<List<String>>,
        /// Networks besides public ones that these servers may be in, comma-separated: `10.1.0.0/16`
        networks ["grant-networks"] "NETWORKS": At<List<String>>,
        /// The earlier name of `grants.networks`; both count
        http_networks ["grant-http-networks"] "NETWORKS": At<List<String>>,
        /// Secrets that manifests may let handlers see, comma-separated names of sections `[secrets.NAME]`; requests may carry all of them unseen
        secrets "NAMES": At<List<String>>,
    }

    pub(super) struct Egress "egress." {
        /// The DNS servers for requests of handlers, comma-separated addresses with ports
        nameservers "ADDRS": At<List<String>> = "those of /etc/resolv.conf",
        /// CA certificates in PEM that requests of handlers trust besides those of the system
        ca_file "FILE": Option<PathBuf>,
    }

    pub(super) struct Limits "limits." {
        /// How many queues there may be; a queue stays known when its last job is gone
        queues "N": Number<1, 1_000_000, 10_000>,
        /// How many jobs may wait or run
        waiting_jobs "N": Number<1, 1_000_000_000, 10_000_000>,
        /// How many components may be deployed
        components "N": Number<1, 100_000, 1_000>,
        /// How many attempts a job may ask for with max_attempts
        attempts "N": Number<1, 1_000_000, 1_000>,
        /// How much disk space compiled components may use, in MiB; also for workers
        cache_mib "MIB": Number<1, { 1 << 30 }, 16_384>,
        ..
        by: Tables<LimitBody>,
    }

    pub(super) struct Shutdown "shutdown." {
        /// How long running jobs may continue when the host stops, in seconds
        grace_seconds ["shutdown-grace-seconds"] "SECONDS": Seconds<0, YEAR, 30>,
    }

    pub(super) struct Logs "logs." {
        /// How much of the guests' logs is kept, in MiB; the oldest lines go first
        max_mib ["logs-max-mib"] "MIB": Number<1, { 1 << 20 }, 1_024>,
    }

    pub(super) struct Artifacts "artifacts." {
        /// How much disk space the artifacts of all jobs may use, in MiB
        max_mib "MIB": Number<1, { 1 << 30 }, 10_240>,
        /// How much of it the uploads of one token may use, in MiB
        token_max_mib "MIB": Number<1, { 1 << 30 }, 2_048>,
    }

    pub(super) struct Queue "queues.NAME." {
        /// The runner that runs all jobs of this queue, regardless of their handler
        runner: Option<At<String>>,
        /// How long jobs of this queue are kept after they have ended, in seconds, 1 or more. A job's own value comes first
        retention_seconds: Option<Seconds<1, YEAR>> = "as the handler's manifest says, else 604800 (7 days)",
        /// How long discarded jobs of this queue are kept, in seconds, 1 or more
        retention_discarded_seconds: Option<Seconds<1, YEAR>> = "`retention_seconds`",
        /// The webhook that is called when jobs of this queue end: `{ url = "https://…", secret = "NAME", events = ["job.discarded"] }`
        notify: Option<At<NotifyBody>>,
    }

    pub(super) struct Secret "secrets.NAME." {
        /// The file with the value of this secret, which manifests may put into headers of requests as `{secret:NAME}`
        file: Option<PathBuf>,
        /// The variable of the host's environment with the value of this secret, in place of a file
        env: Option<At<String>>,
    }

    pub(super) struct ScheduleKeys "schedules.NAME." {
        /// When this schedule fires: `{ cron = "30 2 * * *" }`, `{ cron = ["…", "…"] }` or `{ every = "10m", phase = "2m" }`
        when: Option<WhenBody>,
        /// The job it enqueues, as a request writes it: `{ handler = "report", params = { rows = 100 } }`
        job: Option<serde_json::Value>,
        /// The IANA name of the time zone of the patterns
        time_zone: Option<String> = "`UTC`",
        /// What happens while an earlier job has not ended: `skip`, `queue_one`, `queue_all`, `cancel` or `allow`
        overlap: Option<Overlap> = "`skip`",
        /// Which firings that no host saw are caught up: `none`, `last` or `all`
        catch_up: Option<CatchUp> = "`last`",
        /// How old a firing may be to be caught up
        window: Option<Duration> = "`1h`",
        /// The longest delay of its firings, always the same for the same name
        spread: Option<Duration> = "`0s`",
        /// It does not fire before this (RFC 3339)
        from: Option<String>,
        /// It does not fire after this (RFC 3339)
        until: Option<String>,
        /// A note for people
        note: Option<String>,
    }
}

documented_settings! {
    WEBHOOKS "webhooks.NAME." {
        /// A server to which webhooks may go: `https://hooks.example.com`, `https://*.example.com`
        "to" = "none",
        /// Patterns of the paths there: `["/hooks/**"]`
        "paths" = "all paths",
        /// The handlers whose jobs may notify it, by globs: `["pay", "mail-*"]`
        "handlers" = "all handlers",
        /// The queues whose jobs may notify it, by globs
        "queues" = "all queues",
        /// The secrets, names of sections `[secrets.NAME]`, that may sign what goes there
        "secrets" = "none",
    }
}

documented_settings! {
    OUTBOX "outbox.NAME." {
        /// The database of an application, which enqueues jobs there by `host.enqueue`: postgres://USER@HOST/DATABASE
        "database" = "none",
        /// A file with this address, which only the host may read
        "database_file" = "none",
        /// The handlers of which it may enqueue jobs, by globs: `["mail", "pay-*"]`
        "handlers" = "all handlers",
        /// The queues in which it may enqueue jobs, by globs
        "queues" = "all queues",
    }
}

documented_settings! {
    LIMITS_BY "limits.by.NAME." {
        /// Which jobs this limit concerns: `{ queue = "mail*", handler = "send_*" }`, or one of the two
        "match" = "all jobs",
        /// What makes up a job's key: `"/customer"`, a JSON pointer into params, `"attributes:region"`, or an array of these
        "key" = "none: all jobs have the same key",
        /// How many jobs of a key may run concurrently
        "concurrency" = "none",
        /// How many jobs of a key start per period: `{ count = 100, per_seconds = 60, burst = 10 }`; without `burst`, it is `count`
        "rate" = "none",
        /// Where a job says how much each start of it takes of the rate: `"/recipients"` or `"attributes:recipients"`
        "units" = "none: each start takes 1",
        /// What happens to a new job whose key is full: `wait`, `refuse`, `replace_waiting` or `cancel_running`
        "when_full" = "`wait`",
    }
}

/// The keys of the host in the order of the documents.
pub(super) const OWN_SETTINGS: &[&[Setting]] = &[
    Root::SETTINGS,
    Auth::SETTINGS,
    Deploy::SETTINGS,
    Audit::SETTINGS,
    Cells::SETTINGS,
    Grants::SETTINGS,
    Egress::SETTINGS,
    Limits::SETTINGS,
    Shutdown::SETTINGS,
    Logs::SETTINGS,
    Artifacts::SETTINGS,
    HttpKeys::SETTINGS,
    StoreKeys::SETTINGS,
    Queue::SETTINGS,
    WEBHOOKS,
    OUTBOX,
    Secret::SETTINGS,
    LIMITS_BY,
    ScheduleKeys::SETTINGS,
    ListenerKeys::SETTINGS,
];

/// The name of a wire, which reads its own section.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WireName(String);

impl<'de> Deserialize<'de> for WireName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        if WIRES.iter().any(|wire| wire.name == name) {
            return Ok(Self(name));
        }
        Err(D::Error::unknown_field(&name, &[]))
    }
}
