//! The configuration. Each key is taken from the first source that has it: flag, environment, file,
//! default. The only reader of the environment, the configuration file and the machine's size. Each
//! wire reads its own section.

mod by_name;
mod file;
mod grants;
mod http;
mod store;
mod webhooks;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;

use host_cells::deploy::trust::{KEYS_MAX, Key, Trust};
use host_cells::pool::Isolation;
use host_cells::run::build::Environment;
use host_cells::sandbox::broker::Reach;
use host_cells::sandbox::spawn::Confinement;
use host_core::capacity::Capacity;
use host_core::limit::Limit;
use host_core::name::Name;
use host_core::policy::{RETENTION_MS_MIN, RetentionChoice};
use host_core::schedule::Schedule;
use host_core::webhook::WEBHOOKS;
use host_wire_kit::Configured;
use host_wire_kit::section::{ConfigError, Section, Sources, Stated, refused};
use host_wire_kit::settings::{Setting, TableSetting};
use host_wires::WIRES;

use self::file::File;
pub use self::grants::{ForOneRun, check_roots, for_one_run};
pub use self::http::{Http, Listener};
pub use self::store::Database;
use crate::auth::AuthMode;
use crate::executors::Routes;
use crate::retention::Retentions;
use crate::webhooks::Webhooks;

host_wire_kit::settings! {
    pub(self) OWN_SETTINGS:
    DATA = "data" ["data"], Text("DIR"), "data",
        "Where jobs, components and logs are kept; only one host may use it at a time";
    HANDLERS = "handlers" ["handlers"], Text("DIR"), "none",
        "Deploy the components in this folder at start";
    AUTH_MODE = "auth.mode" ["auth-mode"], Text("MODE"), "none",
        "How clients of the API authenticate: `none` (loopback and the local socket only) or `tokens`. The host's user and root need no token on the local socket";
    AUTH_ADMIN_TOKEN_FILE = "auth.admin_token_file", Text("FILE"), "admin.token in the data directory",
        "Where the host writes an admin token for a day if tokens are required and none can create others";
    AUTH_TWO_PEOPLE_FOR_GRANTS = "auth.two_people_for_grants", Switch, "false",
        "Whether new grants must be accepted by a principal other than the one that first tried to deploy the component";
    DEPLOY_TRUSTED_KEYS = "deploy.trusted_keys", List("KEYS"), "none",
        "Public keys of minisign, comma-separated; then only components that one of them has signed are deployed and run";
    AUDIT_EXPORT_FILE = "audit.export_file", Text("FILE"), "none",
        "A file to which each entry of the audit is appended as a line of JSON";
    AUDIT_RETENTION_DAYS = "audit.retention_days", Number("DAYS", 1, 36_500), "400",
        "How long entries of the audit are kept, in days; the last one is always kept";
    CELLS_COUNT = "cells.count" ["cells"], Number("N", 1, 256), "one per core, at least 2",
        "How many cells run jobs";
    CELLS_SLOTS = "cells.slots" ["cell-slots"], Number("N", 1, 1_024), "256, with isolated components 64",
        "How many jobs one cell runs concurrently at most; fewer if they compute for long or need much memory";
    CELLS_MEMORY_MIB = "cells.memory_mib" ["cell-memory-mib"], Number("MIB", 16, 1 << 20), "half of the machine's memory, divided among the maximum number of cells",
        "How much memory the guests of one cell may take together, in MiB";
    CELLS_ISOLATION = "cells.isolation" ["cell-isolation"], Text("HOW"), "shared",
        "Which jobs share a cell: `shared`, all of them; `component`, only those of the same component, in up to 4 times as many cells, at least 16";
    CELLS_USER = "cells.user" ["cell-user"], Number("UID", 1, u32::MAX as u64 - 1), "65534",
        "The user that cells become if the host is started as root";
    CELLS_ALLOW_WEAK = "cells.allow_weak" ["allow-weak"], Switch, "false",
        "Whether to start on a system that cannot fully sandbox cells";
    GRANTS_READ_ROOTS = "grants.read_roots" ["grant-read"], List("DIRS"), "none",
        "The directories below which manifests may grant directories, comma-separated";
    GRANTS_ENV = "grants.env" ["grant-env"], List("NAMES"), "none",
        "The variables of the host that manifests may grant, comma-separated; never HOST_…";
    GRANTS_HTTP = "grants.http" ["grant-http"], List("ORIGINS"), "none",
        "The servers to which manifests may grant requests, comma-separated: `https://api.example.com`, or `https://*.example.com:8443` for all subdomains";
    GRANTS_HTTP_NETWORKS = "grants.http_networks" ["grant-http-networks"], List("NETWORKS"), "none",
        "Networks besides public ones that these servers may be in, comma-separated: `10.1.0.0/16`";
    GRANTS_SECRETS = "grants.secrets", List("NAMES"), "none",
        "Secrets that manifests may let handlers see, comma-separated names of sections `[secrets.NAME]`; requests may carry all of them unseen";
    EGRESS_NAMESERVERS = "egress.nameservers", List("ADDRS"), "those of /etc/resolv.conf",
        "The DNS servers for requests of handlers, comma-separated addresses with ports";
    EGRESS_CA_FILE = "egress.ca_file", Text("FILE"), "none",
        "CA certificates in PEM that requests of handlers trust besides those of the system";
    LIMITS_QUEUES = "limits.queues", Number("N", 1, 1_000_000), "10000",
        "How many queues there may be; a queue stays known when its last job is gone";
    LIMITS_WAITING_JOBS = "limits.waiting_jobs", Number("N", 1, 1_000_000_000), "10000000",
        "How many jobs may wait or run";
    LIMITS_COMPONENTS = "limits.components", Number("N", 1, 100_000), "1000",
        "How many components may be deployed";
    LIMITS_ATTEMPTS = "limits.attempts", Number("N", 1, 1_000_000), "1000",
        "How many attempts a job may ask for with max_attempts";
    LIMITS_CACHE_MIB = "limits.cache_mib", Number("MIB", 1, 1 << 30), "16384",
        "How much disk space compiled components may use, in MiB; also for workers";
    SHUTDOWN_GRACE_SECONDS = "shutdown.grace_seconds" ["shutdown-grace-seconds"], Seconds(31_536_000), "30",
        "How long running jobs may continue when the host stops, in seconds";
    LOGS_MAX_MIB = "logs.max_mib" ["logs-max-mib"], Number("MIB", 1, 1 << 20), "1024",
        "How much of the guests' logs is kept, in MiB; the oldest lines go first";
}

host_wire_kit::table_settings! {
    pub TABLE_SETTINGS:
    "queues.NAME.runner", "none",
        "The runner that runs all jobs of this queue, regardless of their handler";
    "queues.NAME.retention_seconds", "as the handler's manifest says, else 604800 (7 days)",
        "How long jobs of this queue are kept after they have ended, in seconds, 1 or more. A job's own value comes first";
    "queues.NAME.retention_discarded_seconds", "`retention_seconds`",
        "How long discarded jobs of this queue are kept, in seconds, 1 or more";
    "queues.NAME.notify", "none",
        "The webhook that is called when jobs of this queue end: `{ url = \"https://…\", secret = \"NAME\", \
         events = [\"job.discarded\"] }`";
    "webhooks.NAME.to", "none",
        "A server to which webhooks may go: `https://hooks.example.com`, `https://*.example.com`";
    "webhooks.NAME.paths", "all paths",
        "Patterns of the paths there: `[\"/hooks/**\"]`";
    "webhooks.NAME.handlers", "all handlers",
        "The handlers whose jobs may notify it, by globs: `[\"pay\", \"mail-*\"]`";
    "webhooks.NAME.queues", "all queues",
        "The queues whose jobs may notify it, by globs";
    "webhooks.NAME.secrets", "none",
        "The secrets, names of sections `[secrets.NAME]`, that may sign what goes there";
    "secrets.NAME.file", "none",
        "The file with the value of this secret, which manifests may put into headers of requests as `{secret:NAME}`";
    "secrets.NAME.env", "none",
        "The variable of the host's environment with the value of this secret, in place of a file";
    "limits.by.NAME.match", "all jobs",
        "Which jobs this limit concerns: `{ queue = \"mail*\", handler = \"send_*\" }`, or one of the two";
    "limits.by.NAME.key", "none: all jobs have the same key",
        "What makes up a job's key: `\"/customer\"`, a JSON pointer into params, `\"attributes:region\"`, or an array of these";
    "limits.by.NAME.concurrency", "none",
        "How many jobs of a key may run concurrently";
    "limits.by.NAME.rate", "none",
        "How many jobs of a key start per period: `{ count = 100, per_seconds = 60, burst = 10 }`; without `burst`, it is `count`";
    "limits.by.NAME.units", "none: each start takes 1",
        "Where a job says how much each start of it takes of the rate: `\"/recipients\"` or `\"attributes:recipients\"`";
    "limits.by.NAME.when_full", "`wait`",
        "What happens to a new job whose key is full: `wait`, `refuse`, `replace_waiting` or `cancel_running`";
    "schedules.NAME.when", "none",
        "When this schedule fires: `{ cron = \"30 2 * * *\" }`, `{ cron = [\"…\", \"…\"] }` or `{ every = \"10m\", phase = \"2m\" }`";
    "schedules.NAME.job", "none",
        "The job it enqueues, as a request writes it: `{ handler = \"report\", params = { rows = 100 } }`";
    "schedules.NAME.time_zone", "`UTC`",
        "The IANA name of the time zone of the patterns";
    "schedules.NAME.overlap", "`skip`",
        "What happens while an earlier job has not ended: `skip`, `queue_one`, `queue_all`, `cancel` or `allow`";
    "schedules.NAME.catch_up", "`last`",
        "Which firings that no host saw are caught up: `none`, `last` or `all`";
    "schedules.NAME.window", "`1h`",
        "How old a firing may be to be caught up";
    "schedules.NAME.spread", "`0s`",
        "The longest delay of its firings, always the same for the same name";
    "schedules.NAME.from", "none",
        "It does not fire before this (RFC 3339)";
    "schedules.NAME.until", "none",
        "It does not fire after this (RFC 3339)";
    "schedules.NAME.note", "none",
        "A note for people";
}

/// The variable with the path of the configuration file, used if no flag gives it.
const FILE_ENV: &str = "HOST_CONFIG";

/// The minimum of the default for the memory of a cell, in MiB.
const MEMORY_MIB_MIN: u64 = 256;

/// The values from the command line. They may hold secrets.
#[derive(Clone, Default)]
pub struct Flags {
    /// The path of the configuration file.
    pub config: Option<PathBuf>,
    /// By key.
    pub values: BTreeMap<String, Stated>,
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.values.keys().collect();
        f.debug_tuple("Flags").field(&keys).finish()
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut config = f.debug_struct("Config");
        config.field("data", &self.data).finish_non_exhaustive()
    }
}

/// The settings of a host. Its environment may hold secrets.
#[derive(Clone)]
pub struct Config {
    /// The data directory.
    pub data: PathBuf,
    /// The database that keeps the jobs. `None` if the data directory keeps them.
    pub store: Option<Database>,
    /// Whether to continue if the store of a data directory is missing.
    pub fresh: bool,
    /// The folder of components that are deployed at start.
    pub handlers: Option<PathBuf>,
    /// What the API asks of its clients.
    pub auth: AuthConfig,
    /// The audit.
    pub audit: AuditConfig,
    /// Where the API listens.
    pub http: Http,
    /// The limits by key that it sets.
    pub limits: Vec<Limit>,
    /// The schedules that it sets.
    pub schedules: Vec<Schedule>,
    /// All wires, configured.
    pub wires: Vec<WireConfig>,
    /// Which jobs go to an executor without naming one.
    pub routes: Routes,
    /// How long jobs of queues are kept.
    pub retentions: Retentions,
    /// Where webhooks may go, and the webhooks of queues.
    pub webhooks: Webhooks,
    /// How many cells execute jobs.
    pub cells: usize,
    /// How many jobs one cell runs concurrently.
    pub slots: u32,
    /// The memory for the guests of one cell, in MiB.
    pub memory_mib: u64,
    /// How much the store keeps.
    pub capacity: Capacity,
    /// How many bytes of compiled components are kept.
    pub cache_bytes_max: u64,
    /// Which jobs share a cell.
    pub isolation: Isolation,
    /// How long running jobs may continue when the host stops, in milliseconds.
    pub drain_ms: u64,
    /// How many bytes of guests' logs are kept.
    pub log_bytes_max: u64,
    /// The sandbox of cells.
    pub confinement: Confinement,
    /// The variables that guests may be granted.
    pub grantable: Environment,
    /// What requests of guests may reach.
    pub reach: Reach,
    /// Whose components run here.
    pub trust: Trust,
    /// The keys that are set, without their values.
    pub keys: Vec<&'static str>,
    /// The host's environment.
    pub environment: Environment,
}

/// What the API asks of its clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthConfig {
    pub mode: AuthMode,
    /// Where the first token is written, if not into the data directory.
    pub admin_token_file: Option<PathBuf>,
    /// Whether new grants are accepted by another principal than the one that deploys.
    pub two_people_for_grants: bool,
}

/// Where the audit goes, and how long it stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditConfig {
    pub export_file: Option<PathBuf>,
    /// How long entries are kept, in milliseconds.
    pub retention_ms: u64,
}

#[derive(Clone, Debug)]
pub struct WireConfig {
    pub name: &'static str,
    /// Where each executor is configured, and its name.
    pub executors: Vec<(String, String)>,
    /// Where the executor for handlers that no component has is named, and its name.
    pub default_executor: Option<(String, String)>,
    /// The names by which peers of the wire address this host.
    pub hosts: Vec<String>,
    /// The wire's checked section.
    pub configured: Arc<dyn Configured>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The number of cores.
    pub cores: usize,
    /// The memory, in MiB.
    pub memory_mib: u64,
}

/// Returns all keys of the host and of all wires.
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    let of_wires = WIRES.iter().flat_map(|wire| wire.settings);
    let own = OWN_SETTINGS.iter().chain(http::SETTINGS);
    own.chain(store::SETTINGS).chain(of_wires)
}

/// Returns all keys of tables whose names users choose, of the host and of all wires.
pub fn table_settings() -> impl Iterator<Item = &'static TableSetting> {
    let of_wires = WIRES.iter().flat_map(|wire| wire.table_settings);
    let own = TABLE_SETTINGS.iter().chain(http::TABLE_SETTINGS);
    own.chain(of_wires)
}

impl Config {
    /// Reads the environment and the file, and combines them with the flags.
    pub fn load(flags: &Flags) -> Result<Self, ConfigError> {
        let environment = environment();
        let path = match &flags.config {
            Some(path) => Some(path.clone()),
            None => environment.get(FILE_ENV).map(PathBuf::from),
        };
        let file = match path {
            None => File::default(),
            Some(path) => file::read(&path)?,
        };
        Self::resolve(&flags.values, environment, &file, machine())
    }

    /// Combines the sources. Pure, except that wires read the files they name.
    fn resolve(
        flags: &BTreeMap<String, Stated>,
        environment: Environment,
        file: &File,
        machine: Machine,
    ) -> Result<Self, ConfigError> {
        let sources = Sources {
            flags,
            environment: &environment,
            values: &file.values,
            tables: &file.tables,
            read: &file::bytes,
        };
        let values = Section::new(sources);
        // Also those of wires that are off, which read them only when they are on.
        settings().try_for_each(|setting| values.check(setting))?;
        let cells = values.number_if_set(&CELLS_COUNT)?;
        let cells = cells.unwrap_or(machine.cores.max(2) as u64);
        let isolation = isolation(&values)?;
        let cells = usize::try_from(cells).unwrap_or(usize::MAX);
        // Foreign work may use the same number of cells in addition.
        let all_cells = 2 * isolation.cells_max(cells) as u64;
        let slots = values
            .number_if_set(&CELLS_SLOTS)?
            .unwrap_or(match isolation {
                Isolation::Shared => 256,
                Isolation::Component => 64,
            });
        let share = machine.memory_mib / 2 / all_cells;
        let wires = wires(sources)?;
        let auth = access(&values)?;
        let retentions = retentions(&values)?;
        Ok(Self {
            data: values
                .path(&DATA)
                .unwrap_or_else(|| PathBuf::from(DATA.default)),
            store: store::database(&values)?,
            fresh: false,
            handlers: values.path(&HANDLERS),
            audit: AuditConfig {
                export_file: values.path(&AUDIT_EXPORT_FILE),
                retention_ms: values.number(&AUDIT_RETENTION_DAYS)? * 24 * 3_600_000,
            },
            http: http::http(&values, auth.mode)?,
            auth,
            routes: routes(&values, &wires)?,
            capacity: capacity(&values, &retentions)?,
            retentions,
            webhooks: webhooks::read(&values)?,
            wires,
            cells,
            isolation,
            cache_bytes_max: values.number(&LIMITS_CACHE_MIB)? << 20,
            slots: u32::try_from(slots).unwrap_or(u32::MAX),
            memory_mib: values
                .number_if_set(&CELLS_MEMORY_MIB)?
                .unwrap_or(share.max(MEMORY_MIB_MIN)),
            drain_ms: values.milliseconds(&SHUTDOWN_GRACE_SECONDS)?,
            log_bytes_max: values.number(&LOGS_MAX_MIB)? << 20,
            confinement: grants::confinement(&values)?,
            grantable: grants::grantable(&values, &environment)?,
            reach: grants::reach(&values)?,
            trust: values
                .parsed::<Key>(
                    &DEPLOY_TRUSTED_KEYS,
                    KEYS_MAX,
                    "public keys of minisign, which begin with RW",
                )?
                .into_iter()
                .collect(),
            limits: by_name::limits(&values)?,
            schedules: by_name::schedules(&values)?,
            keys: settings()
                .filter(|setting| values.find(setting).is_some())
                .map(|setting| setting.key)
                .collect(),
            environment,
        })
    }

    /// Returns the names by which clients address this host through proxies: the allowed ones, and those that
    /// wires name to their peers.
    pub fn hosts(&self) -> Vec<String> {
        let of_wires = self.wires.iter().flat_map(|wire| &wire.hosts).cloned();
        self.http
            .allowed_hosts
            .iter()
            .cloned()
            .chain(of_wires)
            .collect()
    }

    /// Returns the configuration of the wire with this name.
    pub fn wire(&self, name: &str) -> Option<&Arc<dyn Configured>> {
        let mut wires = self.wires.iter();
        let wire = wires.find(|wire| wire.name == name)?;
        Some(&wire.configured)
    }
}

/// Reads how much the store keeps.
fn capacity(values: &Section<'_>, kept: &Retentions) -> Result<Capacity, ConfigError> {
    Ok(Capacity {
        deliveries: kept.of_deliveries(),
        queues_max: values.number(&LIMITS_QUEUES)?,
        jobs_max: values.number(&LIMITS_WAITING_JOBS)?,
        components_max: values.number(&LIMITS_COMPONENTS)?,
        attempts_max: u32::try_from(values.number(&LIMITS_ATTEMPTS)?).unwrap_or(u32::MAX),
    })
}

/// Reads what the API asks of its clients.
fn access(values: &Section<'_>) -> Result<AuthConfig, ConfigError> {
    let mode = match values.find(&AUTH_MODE) {
        None => AuthMode::default(),
        Some((origin, text)) => text
            .parse()
            .map_err(|()| refused(origin, text, "expected none or tokens"))?,
    };
    let two_people_for_grants = values.switch(&AUTH_TWO_PEOPLE_FOR_GRANTS)?;
    if two_people_for_grants && mode == AuthMode::None {
        let wanted = "it takes tokens to tell people apart: set auth.mode to \"tokens\" as well";
        return Err(values.refuse(&AUTH_TWO_PEOPLE_FOR_GRANTS, wanted));
    }
    Ok(AuthConfig {
        mode,
        admin_token_file: values.path(&AUTH_ADMIN_TOKEN_FILE),
        two_people_for_grants,
    })
}

/// Reads which jobs share a cell.
fn isolation(values: &Section<'_>) -> Result<Isolation, ConfigError> {
    let Some((origin, text)) = values.find(&CELLS_ISOLATION) else {
        return Ok(Isolation::default());
    };
    text.parse()
        .map_err(|()| refused(origin, text, "expected shared or component"))
}

/// Has each wire read its section, and checks that no two executors have the same name.
fn wires(sources: Sources<'_>) -> Result<Vec<WireConfig>, ConfigError> {
    let mut wires: Vec<WireConfig> = Vec::new();
    for wire in WIRES {
        let section = Section::new(sources);
        let read = (wire.configure)(&section)?;
        wires.push(WireConfig {
            name: wire.name,
            executors: read.executors,
            default_executor: read.default_executor,
            hosts: read.hosts,
            configured: Arc::from(read.wire),
        });
    }
    for wire in &wires {
        for (origin, executor) in &wire.executors {
            if executor == WEBHOOKS {
                let message =
                    format!("`{WEBHOOKS}` is what delivers webhooks; choose another name");
                let origin = origin.clone();
                return Err(ConfigError::Hidden { origin, message });
            }
            let mut others = wires.iter().filter(|other| other.name != wire.name);
            if let Some(other) = others.find(|other| other.configured.has_executor(executor)) {
                let message = format!(
                    "`{executor}` is also a runner of the wire {}; choose another name",
                    other.name
                );
                let origin = origin.clone();
                return Err(ConfigError::Hidden { origin, message });
            }
        }
    }
    Ok(wires)
}

/// Reads which jobs go to which executor, and checks that a wire has that executor.
fn routes(values: &Section<'_>, wires: &[WireConfig]) -> Result<Routes, ConfigError> {
    let known = |origin: String, executor: &str| -> Result<Name, ConfigError> {
        let name = executor.parse().ok();
        let has = |wire: &WireConfig| wire.configured.has_executor(executor);
        name.filter(|_| wires.iter().any(has))
            .ok_or_else(|| ConfigError::UnknownExecutor {
                origin,
                executor: executor.to_owned(),
            })
    };
    let mut routes = Routes::default();
    for (queue, table) in values.tables("queues") {
        if let Some(executor) = table.text("runner")? {
            let name = known(table.origin("runner"), executor)?;
            routes.queues.insert(queue.clone(), name);
        }
    }
    for wire in wires {
        if let Some((origin, executor)) = &wire.default_executor {
            routes.default = Some(known(origin.clone(), executor)?);
        }
    }
    Ok(routes)
}

/// Reads how long jobs of queues are kept.
fn retentions(values: &Section<'_>) -> Result<Retentions, ConfigError> {
    let mut queues = BTreeMap::new();
    for (queue, table) in values.tables("queues") {
        let seconds = |key| table.seconds(key, RETENTION_MS_MIN);
        let choice = RetentionChoice {
            ms: seconds("retention_seconds")?.map(|kept| kept.ms),
            discarded_ms: seconds("retention_discarded_seconds")?.map(|kept| kept.ms),
        };
        queues.insert(queue.clone(), choice);
    }
    Ok(Retentions::new(queues))
}

/// Returns the cache folder, for files that can be made again at any time.
pub fn cache(environment: &Environment) -> Option<PathBuf> {
    let set = |name| environment.get(name).filter(|text| !text.is_empty());
    let base = match (set("XDG_CACHE_HOME"), set("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, Some(home)) => PathBuf::from(home).join(".cache"),
        (None, None) => return None,
    };
    Some(base.join("host"))
}

/// Returns the folder for state that is kept between starts but holds no jobs.
pub fn state(environment: &Environment) -> Option<PathBuf> {
    let set = |name| environment.get(name).filter(|text| !text.is_empty());
    // The variable of the service manager comes first. It may list several folders.
    let given = set("STATE_DIRECTORY").and_then(|folders| folders.split(':').next());
    given.map(PathBuf::from).or_else(|| {
        let base = match (set("XDG_STATE_HOME"), set("HOME")) {
            (Some(state), _) => PathBuf::from(state),
            (None, Some(home)) => PathBuf::from(home).join(".local/state"),
            (None, None) => return None,
        };
        Some(base.join("host"))
    })
}

/// Reads the environment. Skips variables that are not UTF-8.
pub fn environment() -> Environment {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn machine() -> Machine {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total_kib = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| {
            rest.trim()
                .trim_end_matches("kB")
                .trim()
                .parse::<u64>()
                .ok()
        });
    Machine {
        cores: available_parallelism().map_or(1, std::num::NonZero::get),
        memory_mib: total_kib.unwrap_or_default() / 1_024,
    }
}

#[cfg(test)]
mod tests;
