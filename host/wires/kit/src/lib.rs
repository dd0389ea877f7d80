//! What a wire is to the rest of the host ([`Wire`]), and what wires are made of: sections of the configuration,
//! sessions and their driver, byte streams, child processes and HTTP clients. Configuration, the `ready` line,
//! `host worker`, doctor, metrics, routing and documents iterate over the list of wires, `host_wires::WIRES`.
//!
//! A session decides, as a pure function of its state, a message and the time; the driver moves bytes. Nothing here
//! knows a wire, the store, the cells or the server: the ways inward are the ports of `host_core::port`.

pub mod check;
pub mod driver;
pub mod executors;
pub mod fields;
#[cfg(feature = "http-client")]
pub mod http_client;
pub mod json;
pub mod leases;
pub mod owner;
pub mod ports;
#[cfg(feature = "process")]
pub mod process;
pub mod secret;
pub mod section;
pub mod session;
pub mod settings;
pub mod stream;
pub mod text;
pub mod trouble;

use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
#[cfg(feature = "command")]
use host_console::command::Command;
use host_core::chain::ChainKind;
use host_core::name::Name;
use host_core::port::lease::Leases;
use host_core::port::{Clock, Counters, Execute, JobLogs};
#[cfg(feature = "http")]
use host_http::route::{Description, Group, RoutePorts};
use host_runtime::tasks::Tasks;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use self::check::Check;
use self::executors::Executors;
use self::section::{ConfigError, Section};
use self::settings::{Setting, WorkerRole};

/// One protocol, in one or both roles: an entry of the list of wires. [`Wire::new`] makes one that has nothing but a
/// name; a wire states what else it has.
pub struct Wire {
    /// The section of the configuration, the noun of `host worker`, the label of metrics.
    pub name: &'static str,
    /// The keys of its tables, each below `protocol.<name>`.
    pub settings: &'static [&'static [Setting]],
    /// Every code by which it refuses what a peer sends: the code, and what it means with what to do.
    pub refusals: &'static [(&'static str, &'static str)],
    /// The rules in our words: its `SPEC.md`, which names every code.
    pub specification: &'static str,
    /// The handlers that have others run in their attempts, and how.
    pub chain_handlers: &'static [(&'static str, ChainKind)],
    /// Describes its HTTP routes, whether it is configured or not.
    #[cfg(feature = "http")]
    pub http: fn() -> Description,
    /// How `host worker <name>` is called, if it has a worker role.
    pub worker_role: Option<&'static WorkerRole>,
    /// Its own noun of the command line, if it has one.
    #[cfg(feature = "command")]
    pub command: Option<&'static dyn Command>,
    /// Reads its section. Opens nothing; files that the section names are read through it.
    pub configure: Configure,
}

/// Reads a wire's section of the configuration.
pub type Configure = fn(&Section<'_>) -> Result<Configuration, ConfigError>;

impl Wire {
    /// Makes a wire that has no keys, routes or commands.
    pub const fn new(name: &'static str, configure: Configure) -> Self {
        Self {
            name,
            settings: &[],
            refusals: &[],
            specification: "",
            chain_handlers: &[],
            #[cfg(feature = "http")]
            http: Description::default,
            worker_role: None,
            #[cfg(feature = "command")]
            command: None,
            configure,
        }
    }

    /// Returns all its keys.
    pub fn keys(&self) -> impl Iterator<Item = &'static Setting> + use<> {
        self.settings.iter().copied().flatten()
    }
}

/// A wire's section, read and checked.
#[derive(Debug)]
pub struct Configuration {
    /// Where each executor is configured, and its name: no other wire may have one of it.
    pub executors: Vec<(String, String)>,
    /// Where the executor for handlers that no component has is named, and its name.
    pub default_executor: Option<(String, String)>,
    /// The names by which its peers address this host, for example through a proxy.
    pub hosts: Vec<String>,
    /// The wire, which may have nothing to do.
    pub wire: Box<dyn Configured>,
}

/// A wire with its section read and checked.
pub trait Configured: fmt::Debug + Send + Sync {
    /// Returns whether jobs may be routed to an executor of this name.
    fn has_executor(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// Makes its HTTP routes, as [`Wire::http`] describes them. They are served from the start of the
    /// host on; without a section they may answer how to configure the wire.
    #[cfg(feature = "http")]
    fn routes(&self, ports: &RoutePorts) -> Vec<Group> {
        let _ = ports;
        Vec::new()
    }

    /// Answers doctor's questions. Blocks, some seconds at most.
    fn checks(&self) -> Vec<Check> {
        Vec::new()
    }

    /// Opens what the wire needs before the host starts: listens, takes a name. Fails if the
    /// host could not serve it.
    fn open<'a>(&'a self, mode: &'a Mode) -> BoxFuture<'a, Result<OpenWire, OpenError>>;
}

/// The command that opens a wire.
#[derive(Clone, Debug)]
pub enum Mode {
    /// `host serve`: both roles, with this data directory.
    Serve {
        /// Where the host keeps everything; the wire may keep files of its own there.
        data: PathBuf,
        /// The names by which clients address proxies in front of this host.
        hosts: Vec<String>,
    },
    /// `host worker`: the worker role alone.
    Worker {
        /// Where a worker may keep files from one start to the next, if there is a folder.
        state: Option<PathBuf>,
        /// The names by which clients address proxies in front of this worker.
        hosts: Vec<String>,
    },
}

/// Why a wire cannot be opened, or cannot continue.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct OpenError {
    /// What was being done, to what, why it failed and what to do next.
    pub message: String,
    /// Whether the configuration or the command line is at fault.
    pub is_usage: bool,
}

impl OpenError {
    /// Makes an error of the machine or its environment.
    pub fn failed(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            is_usage: false,
        }
    }

    /// Makes an error of the configuration or the command line.
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            is_usage: true,
        }
    }
}

/// The longest time that a wire of `host serve` waits for its peers when the host stops.
pub const STOP_TIME_MAX: Duration = Duration::from_secs(10);

/// A wire that is open.
pub struct OpenWire {
    /// What it adds to the `ready` line, as `key=value`.
    pub ready: Vec<(&'static str, String)>,
    /// A lock that cells are to inherit, so that others know whether one is still alive.
    pub cells_lock: Option<File>,
    /// Whether a worker runs it while handlers are still loading. Work waits until they are.
    pub runs_early: bool,
    /// Whether a worker ends with the process that started it.
    pub ends_with_parent: bool,
    /// The handlers without which a worker must not run.
    pub needed_handlers: Vec<Name>,
    /// The wire.
    pub active: Box<dyn Active>,
}

impl OpenWire {
    /// Makes an open wire that needs nothing special.
    pub fn new(active: impl Active + 'static, ready: Vec<(&'static str, String)>) -> Self {
        Self {
            ready,
            cells_lock: None,
            runs_early: false,
            ends_with_parent: false,
            needed_handlers: Vec::new(),
            active: Box::new(active),
        }
    }
}

/// What an open wire does. In `host serve`, [`Active::executors`] comes first and [`Active::run`] last,
/// once all handlers are deployed.
pub trait Active: Send {
    /// Starts its executors, if it has any. They end with `ports.stopping`.
    fn executors(&mut self, ports: &ExecutorPorts) -> Option<Arc<dyn Executors>> {
        let _ = ports;
        None
    }

    /// Serves until `ports.stopping`, and then gives back what has not ended, within two seconds; in
    /// `host serve` it may wait up to [`STOP_TIME_MAX`] for peers that were told to end. A worker
    /// may end before, with an error if it cannot do its work. Dropped, it closes all connections.
    fn run(self: Box<Self>, ports: Ports) -> BoxFuture<'static, Result<(), OpenError>>;
}

/// What a wire's executors need of the host.
#[derive(Clone)]
pub struct ExecutorPorts {
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Counts what is refused.
    pub counters: Arc<dyn Counters>,
    /// Grants attempts to executors that send them to their workers.
    pub leases: Arc<dyn Leases>,
    /// Keeps what workers write.
    pub logs: Arc<dyn JobLogs>,
    /// Joins the executors' tasks when the host stops.
    pub tasks: Tasks,
    /// Ends the executors, after the last attempt.
    pub stopping: CancellationToken,
}

/// What serving a wire needs of the host.
#[derive(Clone)]
pub struct Ports {
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Counts what is refused.
    pub counters: Arc<dyn Counters>,
    /// Executes foreign jobs: each call returns a way in for one session.
    pub execute: Arc<dyn Fn() -> Arc<dyn Execute> + Send + Sync>,
    /// Grants leases to workers; `None` in `host worker`.
    pub leases: Option<Arc<dyn Leases>>,
    /// Ends the serving.
    pub stopping: CancellationToken,
}

/// Declares the codes of a wire, each in one row: its name, its text, the HTTP status and then the name in
/// answers if all of them have one, and what it means with what to do. `CODES` is what [`Wire::refusals`] returns.
#[macro_export]
macro_rules! codes {
    ($($name:ident = $text:literal, $meaning:literal;)+) => {
        /// Why a message is refused, as shown in metrics, logs and answers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Code {
            $($name,)+
        }

        pub(crate) const CODES: &[(&str, &str)] = &[$(($text, $meaning),)+];

        impl Code {
            pub(crate) const fn as_str(self) -> &'static str {
                CODES[self as usize].0
            }
        }
    };
    ($($name:ident = $text:literal, $status:literal, $meaning:literal;)+) => {
        $crate::codes! { $($name = $text, $meaning;)+ }

        impl Code {
            pub(crate) const fn status(self) -> u16 {
                [$($status,)+][self as usize]
            }
        }
    };
    ($($name:ident = $text:literal, $status:literal, $title:literal, $meaning:literal;)+) => {
        $crate::codes! { $($name = $text, $status, $meaning;)+ }

        impl Code {
            /// Returns its name in answers.
            pub(crate) const fn title(self) -> &'static str {
                [$($title,)+][self as usize]
            }
        }
    };
}
