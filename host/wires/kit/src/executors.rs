//! A wire's executors, as the rest of the host knows them: whether there is one of a name, what its
//! jobs must look like, which rules they have, and how its workers are.

use host_core::name::Name;
use host_core::policy::Policy;

/// What became of the search for an executor by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameLookup {
    /// The wire has it.
    Here,
    /// The wire has none of this name.
    Missing,
    /// It would be one executor too many; the number is how many there may be.
    Full(usize),
}

/// Which job names an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// One that is about to be accepted.
    NewJob,
    /// One that was accepted, perhaps before the host restarted: no limit keeps its executor out.
    KeptJob,
}

/// What holds for the jobs of all executors of a wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutorRules {
    /// How the names of executors begin that exist once a job names them.
    pub families: &'static [&'static str],
    /// The attributes of jobs that [`Executors::place`] understands.
    pub placed_by: &'static [&'static str],
    /// The rules of jobs whose sender names no others.
    pub policy: Policy,
    /// The longest time limit that a job may have, in milliseconds; `None` if the wire can give any.
    pub timeout_ms_max: Option<u64>,
}

/// The executors of one wire. No call waits.
pub trait Executors: Send + Sync {
    /// Returns the names that are configured, for "did you mean".
    fn names(&self) -> Vec<Name>;

    /// Finds the executor of this name, and gets ready for its jobs.
    fn find(&self, name: &Name, by: NamedBy) -> NameLookup {
        let _ = by;
        if self.names().contains(name) {
            NameLookup::Here
        } else {
            NameLookup::Missing
        }
    }

    /// Returns what holds for the jobs of all its executors.
    fn rules(&self) -> ExecutorRules {
        ExecutorRules::default()
    }

    /// Checks that an executor can make something of a handler's params, an object. The error is
    /// for people.
    fn check(&self, executor: &Name, handler: &Name, params: &str) -> Result<(), String> {
        let _ = (executor, handler, params);
        Ok(())
    }

    /// Returns the part of an executor whose workers can execute a job with these attributes: an
    /// executor itself, which has its own name and is found under it. The error is for people.
    fn place(&self, executor: &Name, attributes: &[(String, String)]) -> Result<Name, String> {
        let _ = attributes;
        Ok(executor.clone())
    }

    /// Explains why the jobs of an executor wait, if no worker takes any and the reason is known.
    fn waits_because(&self, executor: &Name) -> Option<String> {
        let _ = executor;
        None
    }

    /// Returns how all executors are, by name.
    fn health(&self) -> Vec<ExecutorHealth>;

    /// Restarts the workers of an executor, or one of them counted from 1, each once its attempts
    /// have ended.
    fn restart(&self, executor: &Name, only: Option<usize>) -> Result<(), RestartError> {
        let _ = (executor, only);
        Err(RestartError::NotOurs)
    }
}

/// Why workers are not restarted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartError {
    /// There is no executor of this name, or no worker of this number.
    NoSuchWorker,
    /// Its workers are started elsewhere.
    NotOurs,
}

/// One executor, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorHealth {
    /// Its name: what stands before `#`.
    pub name: Name,
    /// The wire it speaks.
    pub wire: &'static str,
    /// Whether its workers are started elsewhere.
    pub is_external: bool,
    /// Whether [`Executors::restart`] does something.
    pub is_restartable: bool,
    /// Its workers.
    pub workers: Vec<WorkerHealth>,
}

/// One foreign worker, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerHealth {
    /// Its name in attempts: `python/1`.
    pub name: String,
    /// Where it is in its life.
    pub state: WorkerState,
    /// Where it listens, or takes its jobs.
    pub address: Option<String>,
    /// Its process, if we started it.
    pub pid: Option<u32>,
    /// Attempts in flight.
    pub in_flight: usize,
    /// How often in a row it failed.
    pub failures: u32,
    /// Why it takes no work, if that is known.
    pub reason: Option<String>,
    /// What it does, in the words of its wire.
    pub doing: Option<String>,
}

impl WorkerHealth {
    /// Makes worker `number` of an executor, of whom nothing else is known.
    pub fn new(executor: &Name, number: usize, state: WorkerState) -> Self {
        Self {
            name: format!("{executor}/{number}"),
            state,
            address: None,
            pid: None,
            in_flight: 0,
            failures: 0,
            reason: None,
            doing: None,
        }
    }
}

/// Where a foreign worker is in its life, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// There is none, or it cannot be reached; it is tried again after a wait.
    Down,
    /// It is being started or connected to.
    Starting,
    /// It takes work.
    Up,
    /// It takes none and is restarted when its attempts have ended.
    Draining,
    /// It was told to end.
    Ending,
}

impl WorkerState {
    /// All states, so that those without a worker are shown as 0.
    pub const ALL: [Self; 5] = [
        Self::Down,
        Self::Starting,
        Self::Up,
        Self::Draining,
        Self::Ending,
    ];

    /// Returns the stable name, as it stands in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Starting => "starting",
            Self::Up => "up",
            Self::Draining => "draining",
            Self::Ending => "ending",
        }
    }
}
