//! The configuration. Each key is taken from the first source that has it: flag, environment, file,
//! default. The only reader of the environment, the configuration file and the machine's size. Each
//! wire reads its own section.

mod by_name;
mod file;
mod grants;
mod http;
mod keys;
mod outbox;
mod store;
mod webhooks;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;

use host_cells::deploy::trust::{Key, Trust};
use host_cells::pool::Isolation;
use host_cells::run::build::Environment;
use host_cells::sandbox::broker::Reach;
use host_cells::sandbox::spawn::Confinement;
use host_core::name::Name;
use host_core::policy::RetentionChoice;
use host_engine::Capacity;
use host_engine::limit::Limit;
use host_engine::schedule::Schedule;
use host_engine::webhook::WEBHOOKS;
use host_wire_kit::Configured;
use host_wire_kit::section::{ConfigError, Document, Number, Seconds, Section, Stated, Tables};
use host_wire_kit::settings::Setting;
use host_wires::WIRES;

use self::keys::{Auth, Limits, OWN_SETTINGS, Queue, Root};
use crate::auth::AuthMode;
use crate::executors::Routes;
use crate::outbox::ConfiguredOutbox;
use crate::retention::Retentions;
use crate::webhooks::Webhooks;

pub use self::grants::{ForOneRun, check_roots, for_one_run};
pub use self::http::{Http, Listener};
pub use self::store::{Database, passfile};

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
    /// The secrets that are variables of the environment, as names and variables.
    pub secrets: Vec<(Name, String)>,
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
    /// Whether to set aside what cannot be read of the store.
    pub set_aside: bool,
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
    /// The databases of applications whose jobs it accepts.
    pub outboxes: Vec<ConfiguredOutbox>,
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
    /// How many bytes of artifacts are kept.
    pub artifact_bytes_max: u64,
    /// How many bytes of uploads are kept for one token.
    pub token_upload_bytes_max: u64,
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
    let of_wires = WIRES.iter().flat_map(|wire| wire.keys());
    OWN_SETTINGS.iter().copied().flatten().chain(of_wires)
}

impl Config {
    /// Reads the environment and the file, and combines them with the flags.
    pub fn load(flags: &Flags) -> Result<Self, ConfigError> {
        let environment = environment();
        let path = match &flags.config {
            Some(path) => Some(path.clone()),
            None => environment.get(FILE_ENV).map(PathBuf::from),
        };
        let mut file = match path {
            None => Document::default(),
            Some(path) => file::read(&path)?,
        };
        grants::add_secrets(&mut file, &flags.secrets);
        Self::resolve(&flags.values, environment, file, machine())
    }

    /// Combines the sources. Pure, except that wires read the files they name.
    fn resolve(
        flags: &BTreeMap<String, Stated>,
        environment: Environment,
        file: Document,
        machine: Machine,
    ) -> Result<Self, ConfigError> {
        let document = file.with(settings(), &environment, flags);
        let section = Section {
            document: &document,
            environment: &environment,
            read: &file::bytes,
        };
        let root: Root = document.read("")?;
        let wires = wires(&section)?;
        let cells = root.cells.count.map_or(machine.cores.max(2), Number::count);
        let isolation = root.cells.isolation;
        // Foreign work may use the same number of cells in addition.
        let all_cells = 2 * isolation.cells_max(cells) as u64;
        let share = machine.memory_mib / 2 / all_cells;
        let slots = match isolation {
            Isolation::Shared => 256,
            Isolation::Component => 64,
        };
        let auth = access(&root.auth)?;
        let retentions = retentions(&root.queues);
        Ok(Self {
            store: store::database(&section, &root.store)?,
            fresh: false,
            set_aside: false,
            audit: AuditConfig {
                export_file: root.audit.export_file,
                retention_ms: root.audit.retention_days.get() * 24 * 3_600_000,
            },
            http: http::http(&root.http, &root.listeners, auth.mode)?,
            auth,
            routes: routes(&root.queues, &wires)?,
            capacity: capacity(&root.limits, &retentions),
            retentions,
            wires,
            cells,
            isolation,
            cache_bytes_max: root.limits.cache_mib.get() << 20,
            slots: match root.cells.slots {
                Some(number) => number.narrow(),
                None => slots,
            },
            memory_mib: root
                .cells
                .memory_mib
                .map_or(share.max(MEMORY_MIB_MIN), Number::get),
            drain_ms: root.shutdown.grace_seconds.get(),
            log_bytes_max: root.logs.max_mib.get() << 20,
            artifact_bytes_max: root.artifacts.max_mib.get() << 20,
            token_upload_bytes_max: root.artifacts.token_max_mib.get() << 20,
            confinement: grants::confinement(&root.cells, &root.grants)?,
            grantable: grants::grantable(&root.grants, &environment)?,
            reach: grants::reach(&root.grants, root.egress, &root.secrets, &environment)?,
            trust: root
                .deploy
                .trusted_keys
                .parse::<Key>("public keys of minisign, which begin with RW")?
                .into_iter()
                .collect(),
            outboxes: outbox::read(&section, root.outbox)?,
            webhooks: webhooks::read(root.webhooks, &root.secrets, root.queues)?,
            limits: by_name::limits(root.limits.by)?,
            schedules: by_name::schedules(root.schedules)?,
            data: root.data.unwrap_or_else(|| PathBuf::from("data")),
            handlers: root.handlers,
            keys: settings()
                .map(|setting| setting.key)
                .filter(|key| document.has(key))
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

/// Returns how much the store keeps.
fn capacity(limits: &Limits, kept: &Retentions) -> Capacity {
    Capacity {
        deliveries: kept.of_deliveries(),
        queues_max: limits.queues.get(),
        jobs_max: limits.waiting_jobs.get(),
        components_max: limits.components.get(),
        attempts_max: limits.attempts.narrow(),
    }
}

/// Returns what the API asks of its clients.
fn access(keys: &Auth) -> Result<AuthConfig, ConfigError> {
    if *keys.two_people_for_grants && keys.mode == AuthMode::None {
        let wanted = "it takes tokens to tell people apart: set auth.mode to \"tokens\" as well";
        return Err(keys.two_people_for_grants.refuse(wanted));
    }
    Ok(AuthConfig {
        mode: keys.mode,
        admin_token_file: keys.admin_token_file.clone(),
        two_people_for_grants: *keys.two_people_for_grants,
    })
}

/// Has each wire read its section, and checks that no two executors have the same name.
fn wires(section: &Section<'_>) -> Result<Vec<WireConfig>, ConfigError> {
    let mut wires: Vec<WireConfig> = Vec::new();
    for wire in WIRES {
        let read = (wire.configure)(section)?;
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
                return Err(ConfigError::hidden(origin, message));
            }
            let mut others = wires.iter().filter(|other| other.name != wire.name);
            if let Some(other) = others.find(|other| other.configured.has_executor(executor)) {
                let message = format!(
                    "`{executor}` is also a runner of the wire {}; choose another name",
                    other.name
                );
                return Err(ConfigError::hidden(origin, message));
            }
        }
    }
    Ok(wires)
}

/// Returns which jobs go to which executor, and checks that a wire has that executor.
fn routes(queues: &Tables<Queue>, wires: &[WireConfig]) -> Result<Routes, ConfigError> {
    let known = |origin: &str, executor: &str| -> Result<Name, ConfigError> {
        let name = executor.parse().ok();
        let has = |wire: &WireConfig| wire.configured.has_executor(executor);
        name.filter(|_| wires.iter().any(has)).ok_or_else(|| {
            let message =
                format!("no runner is named `{executor}`; it is not in this configuration");
            ConfigError::hidden(origin, message)
        })
    };
    let mut routes = Routes::default();
    for (queue, keys) in queues {
        if let Some(executor) = &keys.runner {
            let name = known(&executor.origin, executor)?;
            routes.queues.insert(queue.clone(), name);
        }
    }
    for wire in wires {
        if let Some((origin, executor)) = &wire.default_executor {
            routes.default = Some(known(origin, executor)?);
        }
    }
    Ok(routes)
}

/// Returns how long jobs of queues are kept.
fn retentions(queues: &Tables<Queue>) -> Retentions {
    let queues = queues.iter().map(|(queue, keys)| {
        let choice = RetentionChoice {
            ms: keys.retention_seconds.map(Seconds::get),
            discarded_ms: keys.retention_discarded_seconds.map(Seconds::get),
        };
        (queue.clone(), choice)
    });
    Retentions::new(queues.collect())
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
