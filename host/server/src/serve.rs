//! A whole host: opens the data directory, starts all parts in order, reports when it is ready, and
//! ends the parts in reverse order. The only place where all parts meet.

mod aside;
pub(crate) mod certificates;
mod damage;
mod executors;
pub(crate) mod files;
mod host;
mod listeners;
mod node;
mod node_id;
mod opening;
mod room;
mod supervisor;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host_cells::compile::CompileError;
use host_cells::deploy::examine::StartError;
use host_cells::sandbox::needs;
use host_cells::sandbox::spawn::CellProgram;
use host_dispatch::dispatch_loop::Phase;
use host_engine::StoreError;
use host_http::tls::TlsError;
use host_runtime::lock::{self, DataLock, LockError};
use host_runtime::owner::Owner;
use host_runtime::socket::SocketError;
use host_runtime::stops::{Hangup, Stops, StopsError};
use host_wire_kit::{OpenError, OpenWire};
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit, umask};
use thiserror::Error;

use self::host::Host;
use self::listeners::Listeners;
use crate::config::Config;
use crate::folder::{self, FolderError};

pub use self::damage::{LOGS, STORE};
pub(crate) use self::host::END_TIMEOUT;
pub use self::node_id::FILE as NODE;

/// Where a host listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The address of the API; `None` if it is off.
    pub http: Option<SocketAddr>,
    /// Its other addresses, by what they serve: `metrics`, `api+callbacks`.
    pub listeners: Vec<(String, SocketAddr)>,
    /// The local socket of the API, if it has one.
    pub socket: Option<PathBuf>,
    /// What each wire adds to the `ready` line, as `key=value`.
    pub wires: Vec<(&'static str, String)>,
}

/// Why a host could not start or did not end cleanly.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The data directory cannot be created.
    #[error("cannot create the data directory {}: {error}", .path.display())]
    Data { path: PathBuf, error: io::Error },
    /// The data directory belongs to another user than root, who runs the host.
    #[error(transparent)]
    OtherOwner(#[from] OtherOwner),
    /// The data directory cannot be locked.
    #[error("cannot use the data directory {}: {error}", .path.display())]
    Lock { path: PathBuf, error: LockError },
    /// The data directory had a store, which is gone.
    #[error(
        "the data directory {} has {left}, but its store host.db is missing or empty: all its jobs and \
         components would be lost; restore host.db from a copy, or start without it with --fresh",
        .path.display()
    )]
    Gone { path: PathBuf, left: String },
    /// A variable for the export of spans and metrics is invalid.
    #[error(transparent)]
    Telemetry(crate::telemetry::SettingsError),
    /// The API cannot listen on its address.
    #[error(
        "cannot listen on {address}: {error}; give another address with --listen (port 0 takes a free one)"
    )]
    Listen {
        address: SocketAddr,
        error: io::Error,
    },
    /// The certificate of the API cannot be used.
    #[error(transparent)]
    Tls(TlsError),
    /// The API cannot listen on its local socket.
    #[error("cannot listen on the local socket {}: {error}; give another path with --socket", .path.display())]
    Socket { path: PathBuf, error: SocketError },
    /// A wire cannot be opened.
    #[error(transparent)]
    Wire(OpenError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(StoreError),
    /// There is no token to begin with.
    #[error(transparent)]
    FirstToken(crate::auth::FirstTokenError),
    /// The configuration grants too much.
    #[error("{0}")]
    Grants(String),
    /// No cell can be started.
    #[error(transparent)]
    Start(StartError),
    /// The deployed components cannot be compiled again.
    #[error(transparent)]
    Cache(CompileError),
    /// A component of the folder was rejected.
    #[error("cannot deploy the folder of components: {0}")]
    Folder(FolderError),
    /// The system cannot provide the signals that ask to stop.
    #[error(transparent)]
    Stops(#[from] StopsError),
    /// The system cannot provide a thread or a timer.
    #[error("cannot {operation}: {error}")]
    System {
        operation: &'static str,
        error: io::Error,
    },
    /// A part of the host failed because of a bug.
    #[error("internal error: the dispatch loop has ended; report it with the host's log")]
    Broken,
}

impl ServeError {
    /// Returns whether other nodes may have replaced this host. It may start again.
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Store(StoreError::Fenced))
    }
}

/// Root runs the host, and its data directory belongs to another user: names there could lead it elsewhere.
#[derive(Debug, Error)]
#[error(
    "the data directory {} belongs to user {user}, and root follows no name in a directory of another user; run this \
     command as that user, or give the directory to root with `chown -R root`",
    .path.display()
)]
pub struct OtherOwner {
    path: PathBuf,
    user: u32,
}

/// Refuses to let root use the data directory of another user.
pub(crate) fn refuse_other_owner(data: &Path) -> Result<(), OtherOwner> {
    // A directory that cannot be inspected is refused where it is opened.
    let user = Owner::find(data).ok().and_then(Owner::other);
    user.map_or(Ok(()), |user| {
        let path = data.to_owned();
        Err(OtherOwner { path, user })
    })
}

/// Keeps a crash of this process, and of those that it starts, from writing passwords and params to a file.
pub(crate) fn leave_no_core() {
    // The kernel writes no file below a page. If crashes go to a program, it ignores a limit of 0, but passes
    // nothing at a limit of 1.
    let least = Rlimit {
        current: Some(1),
        maximum: Some(1),
    };
    // Lowering is always allowed. Only a hard limit of 0 stays.
    let _ = setrlimit(Resource::Core, least);
}

/// Raises the limit of open files to the hard limit. Cells have their own limit.
pub(crate) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // If the kernel refuses, the limit stays, and `host doctor` reports it if it is low.
    let _ = setrlimit(Resource::Nofile, most);
}

/// Runs a host until a signal to stop. Running jobs may then end within the grace period; a second
/// signal stops them immediately. The process then ends, even if something still blocks. Calls `ready` when the
/// host accepts requests.
pub fn run(
    config: Config,
    program: CellProgram,
    hangup: Hangup,
    ready: impl FnOnce(Ready),
) -> Result<(), ServeError> {
    // Other users must not read the params, results and logs of jobs.
    umask(Mode::RWXG | Mode::RWXO);
    leave_no_core();
    raise_open_files();
    needs::check_limits().map_err(|flaw| ServeError::Start(flaw.into()))?;
    if geteuid().is_root() {
        tracing::warn!(
            "the host runs as root; its cells do not, but start it as a user of its own, as the packages do"
        );
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(system("start the runtime"))?;
    let grace = Duration::from_millis(config.drain_ms);
    let stops = Stops::listen(Some(grace), END_TIMEOUT, hangup)?;
    let served = runtime.block_on(serve(config, program, stops, ready));
    // Work that still blocks a thread no longer has a receiver.
    runtime.shutdown_background();
    served
}

async fn serve(
    config: Config,
    program: CellProgram,
    mut stops: Stops,
    ready: impl FnOnce(Ready),
) -> Result<(), ServeError> {
    let data = &config.data;
    std::fs::create_dir_all(data).map_err(|error| ServeError::Data {
        path: data.clone(),
        error,
    })?;
    refuse_other_owner(data)?;
    let locked = |error| ServeError::Lock {
        path: data.clone(),
        error,
    };
    let _lock = DataLock::take(data).await.map_err(locked)?;
    if config.store.is_some() {
        damage::warn_of_unused(data);
    } else if let Some(left) = damage::store_is_gone(data).filter(|_| !config.fresh) {
        let path = data.clone();
        return Err(ServeError::Gone { path, left });
    } else if !room::wait(&data.join(damage::STORE), &mut stops).await {
        return Ok(());
    }
    if config.set_aside {
        aside::set_aside(&config).map_err(ServeError::Store)?;
    }
    let listeners = Listeners::open(&config.http).await?;
    let mut wires = open(&config).await?;
    let cells_lock = lock::cells(data).await.map_err(locked)?;
    let mut host = Host::start(&config, &mut wires, program, cells_lock).await?;
    let set_up = async {
        if let Some(folder) = &config.handlers {
            let deployed = folder::deploy(folder, &host.deployments).await;
            deployed.map_err(ServeError::Folder)?;
        }
        let words: Vec<_> = wires.iter().flat_map(|wire| wire.ready.clone()).collect();
        host.serves(&words);
        host.run(wires);
        let served = host.listen(listeners, &config)?;
        Ok(Ready {
            socket: served.socket,
            http: served.http,
            listeners: served.others,
            wires: words,
        })
    };
    let mut phase = Phase::Running;
    let started = tokio::select! {
        started = set_up => started.map(|listening| {
            let http = listening.http.map(tracing::field::display);
            let addresses = listening.wires.iter().map(|(key, value)| format!("{key}={value}"));
            let wires = addresses.collect::<Vec<_>>().join(" ");
            tracing::info!(data = %data.display(), http, wires, "ready");
            ready(listening);
            supervisor::ready();
            host.keep_alive();
        }),
        () = stops.wait_for_stop() => {
            log_stop(Phase::Running);
            supervisor::stopping();
            phase = Phase::Stopping;
            host.enter(phase);
            Ok(())
        }
    };
    let ended = match started {
        Err(error) => {
            host.enter(Phase::Killing);
            host.wait_for_end().await.and(Err(error))
        }
        Ok(()) => last(&mut host, &mut stops, phase).await,
    };
    stops.end_soon();
    host.join().await;
    ended
}

/// Waits until the host should stop or fails, and then until no job runs.
async fn last(host: &mut Host, stops: &mut Stops, mut phase: Phase) -> Result<(), ServeError> {
    loop {
        tokio::select! {
            ended = host.wait_for_end() => return ended,
            () = stops.wait_for_stop() => {
                log_stop(phase);
                supervisor::stopping();
                phase = if phase == Phase::Running {
                    host.store_rest().await;
                    Phase::Stopping
                } else {
                    Phase::Killing
                };
                host.enter(phase);
            }
        }
    }
}

/// Opens all wires.
async fn open(config: &Config) -> Result<Vec<OpenWire>, ServeError> {
    let mode = host_wire_kit::Mode::Serve {
        data: config.data.clone(),
        hosts: config.hosts(),
    };
    let mut active = Vec::new();
    for wire in &config.wires {
        let opened = wire.configured.open(&mode).await;
        active.push(opened.map_err(ServeError::Wire)?);
    }
    Ok(active)
}

fn log_stop(phase: Phase) {
    if phase == Phase::Running {
        tracing::info!("stopping once running jobs have ended; signal again to abandon them");
    } else {
        tracing::warn!("second signal: abandoning running jobs");
    }
}

fn system(operation: &'static str) -> impl Fn(io::Error) -> ServeError {
    move |error| ServeError::System { operation, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_20_seconds_to_end() {
        assert_eq!(END_TIMEOUT, Duration::from_secs(20));
    }

    #[test]
    fn as_many_files_may_be_open_as_the_process_may_have() {
        let before = getrlimit(Resource::Nofile);
        let lower = Rlimit {
            current: before.current.map(|it| it.min(4_096) - 1),
            maximum: before.maximum,
        };
        setrlimit(Resource::Nofile, lower).unwrap();
        raise_open_files();
        let after = getrlimit(Resource::Nofile);
        assert_eq!(after.current, before.maximum);
        assert_eq!(after.maximum, before.maximum);
    }

    #[test]
    fn a_crash_is_written_nowhere() {
        let before = getrlimit(Resource::Core).maximum;
        leave_no_core();
        let after = getrlimit(Resource::Core);
        // A limit that is lower already cannot be raised without privileges.
        let most = before.map_or(1, |before| before.min(1));
        assert!((most..=1).contains(&after.current.unwrap()), "{after:?}");
        assert_eq!(after.maximum, after.current);
    }
}
