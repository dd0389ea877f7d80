//! The configuration: flag before environment before file before default, for each key alone. The
//! only reader of the environment, the configuration file and the machine's size.

mod file;
mod hero;
mod runners;
mod value;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::available_parallelism;

use host_protocols::hero::UrlError;
use host_protocols::rrq::{MARGIN_MS_MAX, MARGIN_MS_MIN};
use thiserror::Error;

use self::file::File;
use self::value::Values;
use host_dispatch::writer::Environment;
use crate::runners::RunnersConfig;

pub use self::hero::{CertificateFiles, HeroConfig};

/// One key: where its value may come from and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name in the file, and of its flag unless that is shorter.
    pub key: &'static str,
    /// Its environment variable.
    pub env: &'static str,
    /// What it is if nobody says, for people.
    pub default: &'static str,
    /// What it is for.
    pub about: &'static str,
}

/// All keys.
pub const SETTINGS: &[Setting] = &[
    Setting {
        key: "data",
        env: "HOST_DATA",
        default: "data",
        about: "The folder where jobs, components and logs are kept; one host at a time uses it",
    },
    Setting {
        key: "handlers",
        env: "HOST_HANDLERS",
        default: "none",
        about: "A folder of components that are deployed at start",
    },
    Setting {
        key: "http.listen",
        env: "HOST_LISTEN",
        default: "127.0.0.1:7700",
        about: "Where the API listens: a loopback address and a port (0 takes a free one), or `off`",
    },
    Setting {
        key: "protocol.rrq.listen",
        env: "HOST_RRQ_LISTEN",
        default: "127.0.0.1:7701",
        about: "Where RRQ orchestrators connect: a loopback address and a port (0 takes a free one), or `off`",
    },
    Setting {
        key: "protocol.rrq.deadline_margin_ms",
        env: "HOST_RRQ_DEADLINE_MARGIN_MS",
        default: "20",
        about: "How long before the deadline of a request an RRQ orchestrator is answered `timeout`, in milliseconds, 20 to 250: more on machines where processes wait for a core. Never less than 1 % of the time, at most 250",
    },
    Setting {
        key: "protocol.rrq.default_runner",
        env: "HOST_RRQ_DEFAULT_RUNNER",
        default: "none",
        about: "The pool of foreign runners, or the Hero worker (`hero-WORKER`), that is given handlers which no component has",
    },
    Setting {
        key: "protocol.hero.url",
        env: "HOST_HERO_URL",
        default: "none",
        about: "The Redis of Hero dispatchers: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`; `rediss://` for TLS 1.3, always with a certificate that is checked",
    },
    Setting {
        key: "protocol.hero.ca_file",
        env: "HOST_HERO_CA_FILE",
        default: "whom the system trusts",
        about: "Who may sign the certificate of a Redis behind `rediss://`: PEM",
    },
    Setting {
        key: "protocol.hero.cert_file",
        env: "HOST_HERO_CERT_FILE",
        default: "none",
        about: "The certificate that is shown to such a Redis: PEM, with those that signed it behind it",
    },
    Setting {
        key: "protocol.hero.key_file",
        env: "HOST_HERO_KEY_FILE",
        default: "none",
        about: "The private key of that certificate: PEM",
    },
    Setting {
        key: "protocol.hero.worker_ids",
        env: "HOST_HERO_WORKER_IDS",
        default: "none",
        about: "The worker ids whose jobs are taken from that Redis: an array; in the variable, with commas between them",
    },
    Setting {
        key: "protocol.hero.concurrency",
        env: "HOST_HERO_CONCURRENCY",
        default: "64",
        about: "How many jobs of one worker id run at once, 1 to 1024",
    },
    Setting {
        key: "protocol.hero.dispatch_in_flight",
        env: "HOST_HERO_DISPATCH_IN_FLIGHT",
        default: "64",
        about: "How many of our jobs are out at one foreign worker id at once (`hero-WORKER#NAME`), 1 to 4096",
    },
    Setting {
        key: "protocol.hero.pop_side",
        env: "HOST_HERO_POP_SIDE",
        default: "right",
        about: "Which jobs are taken first: the oldest (`right`) or the newest (`left`, as workers do that use BLPOP)",
    },
    Setting {
        key: "protocol.hero.log_dir",
        env: "HOST_HERO_LOG_DIR",
        default: "none",
        about: "The folder below which the `log_path` of a job may name a file that its log is appended to; without it such jobs are refused",
    },
    Setting {
        key: "cells.count",
        env: "HOST_CELLS",
        default: "one per core, at least 2",
        about: "How many cells run jobs, 1 to 256",
    },
    Setting {
        key: "cells.slots",
        env: "HOST_CELL_SLOTS",
        default: "64",
        about: "How many jobs one cell runs at once, 1 to 1024",
    },
    Setting {
        key: "cells.memory_mib",
        env: "HOST_CELL_MEMORY_MIB",
        default: "half of the machine's memory, shared by all cells and as many of foreign work",
        about: "How much memory the guests of one cell may take together, in MiB",
    },
    Setting {
        key: "shutdown.grace_seconds",
        env: "HOST_SHUTDOWN_GRACE_SECONDS",
        default: "30",
        about: "How long running jobs may go on when the host is asked to stop, in seconds",
    },
    Setting {
        key: "logs.max_mib",
        env: "HOST_LOGS_MAX_MIB",
        default: "1024",
        about: "How much of the guests' logs is kept, in MiB; the oldest lines go first",
    },
];

/// The variable that names the configuration file where no flag does.
const FILE_ENV: &str = "HOST_CONFIG";

/// The least memory of a cell by default, in MiB.
const MEMORY_MIB_MIN: u64 = 256;

/// What stands on the command line.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// Values by the keys of [`SETTINGS`].
    pub values: BTreeMap<&'static str, String>,
}

/// What a host works with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where everything is kept.
    pub data: PathBuf,
    /// Components that are deployed at start.
    pub handlers: Option<PathBuf>,
    /// Where the API listens, `None` if it does not.
    pub listen: Option<SocketAddr>,
    /// Where RRQ orchestrators connect, `None` if they cannot.
    pub rrq_listen: Option<SocketAddr>,
    /// How long before a deadline an RRQ orchestrator is answered at least, in milliseconds.
    pub rrq_margin_ms: u64,
    /// Foreign runners, and which jobs are theirs.
    pub runners: RunnersConfig,
    /// Which Redis of Hero there is, if any, and whose jobs are taken from it.
    pub hero: Option<HeroConfig>,
    /// How many cells share the runs.
    pub cells: usize,
    /// Runs of one cell at once.
    pub slots: u32,
    /// Memory of the guests of one cell, in MiB.
    pub memory_mib: u64,
    /// How long running jobs may go on when the host stops, in milliseconds.
    pub drain_ms: u64,
    /// How much of the guests' logs is kept, in bytes.
    pub log_bytes_max: u64,
    /// The host's environment, for guests that are granted some of it.
    pub environment: Environment,
}

/// How large the machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// How many cores it has.
    pub cores: usize,
    /// How much memory, in MiB.
    pub memory_mib: u64,
}

/// Why a host cannot be configured like this.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {message}", .path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// A key that there is not.
    #[error("{}: there is no key `{key}`; did you mean `{nearest}`?", .path.display())]
    UnknownKey {
        /// In which file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The known key that is most like it.
        nearest: &'static str,
    },
    /// A runner that is not configured.
    #[error(
        "{origin}: no runner is named `{runner}`; runners are the tables protocol.rrq.runners.NAME and, with protocol.hero.url, hero-WORKER"
    )]
    UnknownRunner {
        /// Where it stands.
        origin: String,
        /// Its name.
        runner: String,
    },
    /// A value that its key does not take.
    #[error("{origin}: `{value}` is not taken: {wanted}")]
    Value {
        /// Where it stands.
        origin: String,
        /// The value.
        value: String,
        /// What is taken.
        wanted: String,
    },
    /// The address of a Redis that is not taken. It may have a password and is not shown.
    #[error("{origin}: the address of the Redis is not taken: {error}")]
    Redis {
        /// Where it stands.
        origin: String,
        /// Why.
        error: UrlError,
    },
    /// A file of certificates that cannot be read.
    #[error("{key}: cannot read {}: {message}", .path.display())]
    Certificates {
        /// Which key names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// Worker ids, and nowhere to take their jobs from.
    #[error(
        "{origin}: there are worker ids but no Redis; name it with protocol.hero.url or HOST_HERO_URL"
    )]
    NoRedis {
        /// Where the worker ids stand.
        origin: String,
    },
    /// An address that others could reach.
    #[error(
        "{origin}: {address} is not a loopback address: this version has neither TLS nor tokens and listens on 127.0.0.1 or [::1] only; put a proxy that has both in front of it"
    )]
    NotLoopback {
        /// Where it stands.
        origin: String,
        /// The address.
        address: SocketAddr,
    },
}

impl Config {
    /// Reads the environment and the file, and puts them under the flags.
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
        let mut config = Self::resolve(&flags.values, environment, &file, machine())?;
        if let Some(hero) = &mut config.hero {
            hero.read_certificates()?;
        }
        Ok(config)
    }

    /// Puts the sources over each other. Pure.
    fn resolve(
        flags: &BTreeMap<&'static str, String>,
        environment: Environment,
        file: &File,
        machine: Machine,
    ) -> Result<Self, ConfigError> {
        let values = Values::new(flags, &environment, &file.values);
        let cells = values
            .number("cells.count", 1, 256)?
            .unwrap_or(machine.cores.max(2) as u64);
        // As many cells again may do foreign work.
        let share = machine.memory_mib / 2 / (2 * cells);
        let hero = hero::resolve(&values)?;
        Ok(Self {
            data: values.path("data").unwrap_or_else(|| PathBuf::from("data")),
            handlers: values.path("handlers"),
            listen: values.listen("http.listen", 7_700)?,
            rrq_listen: values.listen("protocol.rrq.listen", 7_701)?,
            rrq_margin_ms: values
                .number(
                    "protocol.rrq.deadline_margin_ms",
                    MARGIN_MS_MIN,
                    MARGIN_MS_MAX,
                )?
                .unwrap_or(MARGIN_MS_MIN),
            runners: file.runners.resolve(&values, hero.is_some())?,
            hero,
            cells: usize::try_from(cells).unwrap_or(usize::MAX),
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
            environment,
        })
    }
}

/// Returns the folder of what can be made again at any time.
pub fn cache(environment: &Environment) -> Option<PathBuf> {
    let set = |name| environment.get(name).filter(|text| !text.is_empty());
    let base = match (set("XDG_CACHE_HOME"), set("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, Some(home)) => PathBuf::from(home).join(".cache"),
        (None, None) => return None,
    };
    Some(base.join("host"))
}

/// Returns the folder of what is kept from one start to the next, without being anybody's work.
pub fn state(environment: &Environment) -> Option<PathBuf> {
    let set = |name| environment.get(name).filter(|text| !text.is_empty());
    // The service manager's comes first; it may name several.
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

/// Reads the environment; what is not UTF-8 is left out.
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
