//! The configuration. Each key is taken from the first source that has it: flag, environment, file,
//! default. The only reader of the environment, the configuration file and the machine's size. Each
//! wire reads its own section.

mod file;
mod grants;
mod store;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;

use host_cells::compile::CACHE_BYTES_MAX;
use host_cells::pool::Isolation;
use host_cells::run::build::Environment;
use host_cells::sandbox::spawn::Confinement;
use host_core::capacity::Capacity;
use host_core::name::Name;
use host_core::policy::{RETENTION_MS_MIN, RetentionChoice};
use host_wires::WIRES;
use host_wires::wire::Configured;
use host_wires::wire::section::{ConfigError, Section, Sources, refused};
use host_wires::wire::settings::{Setting, TableSetting};

use self::file::File;
pub use self::grants::{check_roots, for_one_run};
pub use self::store::Database;
use crate::executors::Routes;
use crate::retention::Retentions;

/// All keys that do not belong to a wire.
pub const SETTINGS: &[Setting] = &[
    Setting {
        key: "data",
        env: "HOST_DATA",
        flag: Some("data"),
        value_name: "DIR",
        default: "data",
        about: "Where jobs, components and logs are kept; only one host may use it at a time",
    },
    store::SETTINGS[0],
    store::SETTINGS[1],
    store::SETTINGS[2],
    store::SETTINGS[3],
    store::SETTINGS[4],
    Setting {
        key: "handlers",
        env: "HOST_HANDLERS",
        flag: Some("handlers"),
        value_name: "DIR",
        default: "none",
        about: "Deploy the components in this folder at start",
    },
    Setting {
        key: "http.listen",
        env: "HOST_LISTEN",
        flag: Some("listen"),
        value_name: "ADDR",
        default: "127.0.0.1:7700",
        about: "Where the API listens: a loopback address and a port (0 takes a free one), or `off`",
    },
    Setting {
        key: ALLOWED_HOSTS,
        env: "HOST_ALLOWED_HOSTS",
        flag: None,
        value_name: "NAMES",
        default: "none",
        about: "Names, without ports, by which clients address a proxy in front of this host: requests may have them as `Host`, and pages of them may use the API. A list, or comma-separated names, at most 64",
    },
    Setting {
        key: "http.socket",
        env: "HOST_SOCKET",
        flag: Some("socket"),
        value_name: "PATH",
        default: "none",
        about: "A local socket for the API, which only the host's user may use; clients name it as unix://PATH",
    },
    Setting {
        key: "cells.count",
        env: "HOST_CELLS",
        flag: Some("cells"),
        value_name: "N",
        default: "one per core, at least 2",
        about: "How many cells run jobs, 1 to 256",
    },
    Setting {
        key: "cells.slots",
        env: "HOST_CELL_SLOTS",
        flag: Some("cell-slots"),
        value_name: "N",
        default: "64",
        about: "How many jobs one cell runs at once, 1 to 1024",
    },
    Setting {
        key: "cells.memory_mib",
        env: "HOST_CELL_MEMORY_MIB",
        flag: Some("cell-memory-mib"),
        value_name: "MIB",
        default: "half of the machine's memory, divided among the maximum number of cells",
        about: "How much memory the guests of one cell may take together, in MiB",
    },
    Setting {
        key: "cells.isolation",
        env: "HOST_CELLS_ISOLATION",
        flag: Some("cell-isolation"),
        value_name: "HOW",
        default: "shared",
        about: "Which jobs share a cell: `shared`, all of them; `component`, only those of the same component, in up to 4 times as many cells, at least 16",
    },
    Setting {
        key: "cells.user",
        env: "HOST_CELLS_USER",
        flag: Some("cell-user"),
        value_name: "UID",
        default: "65534",
        about: "The user that cells become if the host is started as root",
    },
    Setting {
        key: "cells.allow_weak",
        env: "HOST_CELLS_ALLOW_WEAK",
        flag: Some("allow-weak"),
        value_name: "BOOL",
        default: "false",
        about: "Whether to start on a system that cannot fully sandbox cells: true or false",
    },
    Setting {
        key: "grants.read_roots",
        env: "HOST_GRANTS_READ_ROOTS",
        flag: Some("grant-read"),
        value_name: "DIRS",
        default: "none",
        about: "The directories below which manifests may grant directories, comma-separated",
    },
    Setting {
        key: "grants.env",
        env: "HOST_GRANTS_ENV",
        flag: Some("grant-env"),
        value_name: "NAMES",
        default: "none",
        about: "The variables of the host that manifests may grant, comma-separated; never HOST_…",
    },
    Setting {
        key: "limits.queues",
        env: "HOST_LIMITS_QUEUES",
        flag: None,
        value_name: "N",
        default: "10000",
        about: "How many queues there may be, 1 to 1000000; a queue stays known when its last job is gone",
    },
    Setting {
        key: "limits.waiting_jobs",
        env: "HOST_LIMITS_WAITING_JOBS",
        flag: None,
        value_name: "N",
        default: "10000000",
        about: "How many jobs may wait or run, 1 to 1000000000",
    },
    Setting {
        key: "limits.components",
        env: "HOST_LIMITS_COMPONENTS",
        flag: None,
        value_name: "N",
        default: "1000",
        about: "How many components may be deployed, 1 to 100000",
    },
    Setting {
        key: "limits.cache_mib",
        env: "HOST_LIMITS_CACHE_MIB",
        flag: None,
        value_name: "MIB",
        default: "16384",
        about: "How much disk space compiled components may use, in MiB; also for workers",
    },
    Setting {
        key: "shutdown.grace_seconds",
        env: "HOST_SHUTDOWN_GRACE_SECONDS",
        flag: Some("shutdown-grace-seconds"),
        value_name: "SECONDS",
        default: "30",
        about: "How long running jobs may continue when the host stops, in seconds",
    },
    Setting {
        key: "logs.max_mib",
        env: "HOST_LOGS_MAX_MIB",
        flag: Some("logs-max-mib"),
        value_name: "MIB",
        default: "1024",
        about: "How much of the guests' logs is kept, in MiB; the oldest lines go first",
    },
];

/// All keys of tables that do not belong to a wire.
pub const TABLE_SETTINGS: &[TableSetting] = &[
    TableSetting {
        key: "queues.NAME.runner",
        default: "none",
        about: "The runner that runs all jobs of this queue, regardless of their handler",
    },
    TableSetting {
        key: "queues.NAME.retention_seconds",
        default: "as the handler's manifest says, else 604800 (7 days)",
        about: "How long jobs of this queue are kept after they have ended, in seconds, 1 or more. A job's own value comes first",
    },
    TableSetting {
        key: "queues.NAME.retention_discarded_seconds",
        default: "`retention_seconds`",
        about: "How long discarded jobs of this queue are kept, in seconds, 1 or more",
    },
];

/// The variable with the path of the configuration file, used if no flag gives it.
const FILE_ENV: &str = "HOST_CONFIG";

/// The minimum of the default for the memory of a cell, in MiB.
const MEMORY_MIB_MIN: u64 = 256;

const ALLOWED_HOSTS: &str = "http.allowed_hosts";

/// The most names of proxies.
const ALLOWED_HOSTS_MAX: usize = 64;

/// The default port of the API.
const PORT: u16 = 7_700;

/// The values from the command line. They may hold secrets.
#[derive(Clone, Default)]
pub struct Flags {
    /// The path of the configuration file.
    pub config: Option<PathBuf>,
    pub values: BTreeMap<String, String>,
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
    /// The database that keeps the jobs; `None` if the data directory does.
    pub store: Option<Database>,
    /// Whether to go on without the store of a data directory that had one.
    pub fresh: bool,
    /// The folder of components that are deployed at start.
    pub handlers: Option<PathBuf>,
    /// Where the API listens; `None` if it is off.
    pub listen: Option<SocketAddr>,
    /// The names of proxies in front of the API.
    pub allowed_hosts: Vec<String>,
    /// The local socket on which the API listens too.
    pub socket: Option<PathBuf>,
    /// All wires, configured.
    pub wires: Vec<WireConfig>,
    /// Which jobs go to an executor without naming one.
    pub routes: Routes,
    /// How long jobs of queues are kept.
    pub retentions: Retentions,
    /// How many cells execute jobs.
    pub cells: usize,
    /// How many jobs one cell runs at once.
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
    /// How cells are confined.
    pub confinement: Confinement,
    /// The variables that guests may be granted.
    pub grantable: Environment,
    /// The host's environment.
    pub environment: Environment,
}

#[derive(Clone, Debug)]
pub struct WireConfig {
    pub name: &'static str,
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
    SETTINGS
        .iter()
        .chain(WIRES.iter().flat_map(|wire| wire.settings()))
}

/// Returns all keys of tables whose names users choose, of the host and of all wires.
pub fn table_settings() -> impl Iterator<Item = &'static TableSetting> {
    let of_wires = WIRES.iter().flat_map(|wire| wire.table_settings());
    TABLE_SETTINGS.iter().chain(of_wires)
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
        flags: &BTreeMap<String, String>,
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
        let values = Section::new(SETTINGS, sources);
        let cells = values
            .number("cells.count", 1, 256)?
            .unwrap_or(machine.cores.max(2) as u64);
        let isolation = isolation(&values)?;
        let cells = usize::try_from(cells).unwrap_or(usize::MAX);
        // Foreign work may use the same number of cells again.
        let all_cells = 2 * isolation.cells_max(cells) as u64;
        let share = machine.memory_mib / 2 / all_cells;
        let wires = wires(sources)?;
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
        Ok(Self {
            data: values.path("data").unwrap_or_else(|| PathBuf::from("data")),
            store: store::database(&values)?,
            fresh: false,
            handlers: values.path("handlers"),
            listen: values.listen("http.listen", Some(listen))?,
            allowed_hosts: allowed_hosts(&values)?,
            socket: values.path("http.socket"),
            routes: routes(&values, &wires)?,
            retentions: retentions(&values)?,
            wires,
            cells,
            isolation,
            capacity: capacity(&values)?,
            cache_bytes_max: values
                .number("limits.cache_mib", 1, 1 << 30)?
                .map_or(CACHE_BYTES_MAX, |mib| mib << 20),
            slots: values
                .number("cells.slots", 1, 1_024)?
                .map_or(64, |slots| u32::try_from(slots).unwrap_or(u32::MAX)),
            memory_mib: values
                .number("cells.memory_mib", 16, 1 << 20)?
                .unwrap_or(share.max(MEMORY_MIB_MIN)),
            drain_ms: values
                .seconds("shutdown.grace_seconds")?
                .map_or(30_000, |grace| grace.ms),
            log_bytes_max: values.number("logs.max_mib", 1, 1 << 20)?.unwrap_or(1_024) << 20,
            confinement: grants::confinement(&values)?,
            grantable: grants::grantable(&values, &environment)?,
            environment,
        })
    }

    /// Returns the configuration of the wire with this name.
    pub fn wire(&self, name: &str) -> Option<&Arc<dyn Configured>> {
        let mut wires = self.wires.iter();
        let wire = wires.find(|wire| wire.name == name)?;
        Some(&wire.configured)
    }
}

/// Reads how much the store keeps.
fn capacity(values: &Section<'_>) -> Result<Capacity, ConfigError> {
    let usual = Capacity::default();
    let read = |key, most, usual| Ok(values.number(key, 1, most)?.unwrap_or(usual));
    Ok(Capacity {
        queues_max: read("limits.queues", 1_000_000, usual.queues_max)?,
        jobs_max: read("limits.waiting_jobs", 1_000_000_000, usual.jobs_max)?,
        components_max: read("limits.components", 100_000, usual.components_max)?,
    })
}

/// Reads which jobs share a cell.
fn isolation(values: &Section<'_>) -> Result<Isolation, ConfigError> {
    let Some((origin, text)) = values.find("cells.isolation") else {
        return Ok(Isolation::default());
    };
    text.parse()
        .map_err(|()| refused(origin, text, "expected shared or component"))
}

/// Reads the names of proxies.
fn allowed_hosts(values: &Section<'_>) -> Result<Vec<String>, ConfigError> {
    let Some((origin, text)) = values.find(ALLOWED_HOSTS) else {
        return Ok(Vec::new());
    };
    let names = text.split(',').map(str::trim);
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let is_name = |name: &str| name.len() <= 253 && name.bytes().all(letter);
    if let Some(wrong) = names.iter().find(|name| !is_name(name)) {
        let wanted = "expected a name without scheme, port and `*`, like jobs.example.com";
        return Err(refused(origin, wrong, wanted));
    }
    if names.len() > ALLOWED_HOSTS_MAX {
        return Err(refused(
            origin,
            text,
            format!("expected at most {ALLOWED_HOSTS_MAX} names"),
        ));
    }
    Ok(names.into_iter().map(str::to_owned).collect())
}

/// Lets each wire read its section, and checks that no two executors have the same name.
fn wires(sources: Sources<'_>) -> Result<Vec<WireConfig>, ConfigError> {
    let mut wires: Vec<WireConfig> = Vec::new();
    for wire in WIRES {
        let section = Section::new(wire.settings(), sources);
        let configured: Arc<dyn Configured> = Arc::from(wire.configure(&section)?);
        let name = wire.name();
        wires.push(WireConfig { name, configured });
    }
    for wire in &wires {
        for (origin, executor) in wire.configured.executor_names() {
            let mut others = wires.iter().filter(|other| other.name != wire.name);
            if let Some(other) = others.find(|other| other.configured.has_executor(&executor)) {
                let message = format!(
                    "`{executor}` is also a runner of the wire {}; choose another name",
                    other.name
                );
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
        if let Some((origin, executor)) = wire.configured.default_executor() {
            routes.default = Some(known(origin, &executor)?);
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
