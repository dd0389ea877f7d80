//! A wire's executors: their names, the form and policy of their jobs, and the health of their workers.

use host_core::name::Name;
use host_core::policy::Policy;

/// The result of looking up an executor by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The wire has it.
    Here,
    /// The wire has no executor of this name.
    Nobody,
    /// It would exceed the number of executors that there may be.
    Full(usize),
}

/// The executors of one wire. No call waits.
pub trait Executors: Send + Sync {
    /// Returns the configured names, for suggestions.
    fn names(&self) -> Vec<Name>;

    /// Finds the executor of this name for a job that is about to be accepted.
    fn find(&self, name: &Name) -> Found {
        if self.names().contains(name) {
            Found::Here
        } else {
            Found::Nobody
        }
    }

    /// Returns the prefixes of executors that come into being when a job names them.
    fn families(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the attributes of jobs that [`Executors::place`] understands.
    fn placed_by(&self) -> &'static [&'static str] {
        &[]
    }

    /// Checks a handler's params, a JSON object, for an executor. The error is for people.
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

    /// Returns the policy of an executor's jobs as far as their sender sets none.
    fn policy(&self, executor: &Name) -> Policy {
        let _ = executor;
        Policy::default()
    }

    /// Prepares an executor for jobs that wait. Returns whether the wire has it. May be called for a job that
    /// was accepted before the host restarted.
    fn open(&self, executor: &Name) -> bool {
        self.find(executor) == Found::Here
    }

    /// Returns the health of all executors, by name.
    fn health(&self) -> Vec<ExecutorHealth>;

    /// Restarts the workers of an executor, or one of them, counted from 1. Each restarts once its attempts
    /// have ended.
    fn restart(&self, executor: &Name, only: Option<usize>) -> Result<(), RestartError> {
        let _ = (executor, only);
        Err(RestartError::NotOurs)
    }
}

/// Why workers cannot be restarted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartError {
    /// There is no executor of this name, or no worker of this number.
    NoSuchWorker,
    /// Another program starts its workers.
    NotOurs,
}

/// One executor, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorHealth {
    /// Its name: the part before `#`.
    pub name: Name,
    /// The wire it speaks.
    pub wire: &'static str,
    /// Whether another program starts its workers.
    pub is_external: bool,
    /// Whether [`Executors::restart`] is supported.
    pub is_restartable: bool,
    /// Its workers.
    pub workers: Vec<WorkerHealth>,
}

/// One foreign worker, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerHealth {
    /// Its name in attempts: `python/1`.
    pub name: String,
    /// Its state.
    pub state: WorkerState,
    /// Where it listens, or where it takes its jobs from.
    pub address: Option<String>,
    /// Its process, if we started it.
    pub pid: Option<u32>,
    /// Attempts in flight.
    pub in_flight: usize,
    /// How many times in a row it failed.
    pub failures: u32,
    /// Why it accepts no work, if known.
    pub reason: Option<String>,
    /// Its status as its wire describes it.
    pub doing: Option<String>,
}

impl WorkerHealth {
    /// Makes worker `number` of an executor, with defaults for everything else.
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

/// The state of a foreign worker, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// It does not run or cannot be reached; it is retried after a wait.
    Down,
    /// It is being started or connected to.
    Starting,
    /// It accepts work.
    Up,
    /// It accepts no work and is restarted when its attempts have ended.
    Draining,
    /// It was asked to end.
    Ending,
}

impl WorkerState {
    /// All states, so that each is shown even if no worker is in it.
    pub const ALL: [Self; 5] = [
        Self::Down,
        Self::Starting,
        Self::Up,
        Self::Draining,
        Self::Ending,
    ];

    /// Returns the stable name in the API.
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
