//! One place of a pool: takes a job, starts a process for it, sees to its end, and takes the next.

use std::os::unix::process::ExitStatusExt as _;
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use host_core::cell::LogSource;
use host_core::failure::{Failure, FailureKind};
use host_core::id::{JobId, LeaseId};
use host_core::outcome::{Meter, Outcome};
use host_core::port::lease::{EndCause, GrantedLease, LeaseMessage};
use host_core::transition::Exit;
use host_runtime::backoff::Backoff;
use host_runtime::mailbox::respond;
use host_wire_kit::process::{
    Output, Pipes, ProcessError, ProcessEvents, Program, Stop, StopRequests, supervise,
};
use tokio::time::{interval, sleep};

use super::files::AttemptFiles;
use super::job_log::{Attempt, JobLog};
use super::{Pool, give_back};
use crate::convert;
use crate::messages::lease_id::LeaseText;
use crate::messages::read::Ask;
use crate::orchestrator::slots::Slot;
use crate::orchestrator::{Answer, NamedLease, Request, worker};

/// The pause after a wait without a job, should the host have no room for those who wait.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a place waits for a job before it asks again, in seconds.
const WAIT_SECONDS: u64 = 60;

/// The waits after processes that could not be started.
const BACKOFF: Backoff = Backoff::new(1_000, 30_000);

/// How long a process may take to end by itself once its lease has ended by its own message.
const EXIT_TIME: Duration = Duration::from_secs(10);

/// How long a process that was asked to end may take: if its lease is lost, and if the host stops.
const KILL_GRACE: Duration = Duration::from_secs(5);
const STOP_GRACE: Duration = Duration::from_secs(1);

/// How much longer than the time limit of its job a process may take, so that it can report that itself.
const LIMIT_SPARE: Duration = Duration::from_secs(1);

/// What becomes of a job whose process did not start.
const NOT_BEGUN: LeaseMessage = LeaseMessage::GiveBack { begun: false };

/// How often the log that a process writes is read.
const FOLLOW_TIME: Duration = Duration::from_millis(250);

/// One place, counted from 1.
pub(super) struct LaunchedRunner {
    pool: Arc<Pool>,
    number: usize,
}

/// What a process does, for its place and for the log of its job.
struct Life<'a> {
    place: &'a LaunchedRunner,
    log: &'a JobLog,
}

impl ProcessEvents for Life<'_> {
    fn started(&self, pid: Option<u32>, _pipes: Arc<Pipes>) {
        self.place.change(|slot| slot.is_up(pid));
    }

    fn wrote(&self, output: Output, line: &str) {
        let source = match output {
            Output::Stdout => LogSource::Stdout,
            Output::Stderr => LogSource::Stderr,
            Output::Host => LogSource::Host,
        };
        self.place.change(|slot| slot.reason.note(output, line));
        self.log.wrote(source, line);
    }
}

impl LaunchedRunner {
    pub(super) const fn new(pool: Arc<Pool>, number: usize) -> Self {
        Self { pool, number }
    }

    fn runner_id(&self) -> String {
        self.pool.pools.runner_id(self.number)
    }

    fn change(&self, change: impl FnOnce(&mut Slot)) {
        let Pool { pools, config, .. } = &*self.pool;
        pools.slots.change(&config.name, self.number, change);
    }

    /// Executes jobs until the host stops.
    pub(super) async fn work(self) {
        let stopping = &self.pool.stopping;
        let ask = Ask {
            runner_id: self.runner_id(),
            capabilities: self.pool.config.capabilities.clone(),
            wait_seconds: WAIT_SECONDS,
        };
        let mut backoff = BACKOFF;
        while !stopping.is_cancelled() {
            self.change(|slot| slot.is_up(None));
            let config = &self.pool.config;
            let request = Request::Ask(config.name.clone(), ask.clone());
            let answer = self.pool.pools.request_until(request, stopping).await;
            let was_useful = match answer {
                Ok(Answer::Granted(Some(granted))) => self.execute(&granted).await,
                Ok(_) => {
                    sleep(PAUSE).await;
                    Ok(())
                }
                Err(refused) => Err(refused.message),
            };
            let Err(why) = was_useful else {
                backoff.reset();
                continue;
            };
            let runner = worker(&config.name, &ask.runner_id);
            let wait = backoff.next_wait();
            let seconds = wait.as_secs();
            tracing::warn!(runner, "{why}; starting the next one in {seconds} s");
            self.change(|slot| slot.has_failed(&why));
            tokio::select! {
                () = sleep(wait) => {}
                () = stopping.cancelled() => {}
            }
        }
    }

    /// Executes one job. The error says why no process was started, for people.
    async fn execute(&self, granted: &GrantedLease) -> Result<(), String> {
        let (job, lease) = (granted.job, granted.lease);
        let (pools, leases) = (&self.pool.pools, &*self.pool.leases);
        let worker = worker(&self.pool.config.name, &self.runner_id());
        let named = NamedLease::new(job, lease, worker);
        let attempt = Attempt {
            job,
            number: granted.assignment.attempt,
            began_at: self.pool.clock.now(),
            lease: LeaseText::of(job, lease),
        };
        let made = self.files(granted);
        let (files, folder) =
            match made.and_then(|files| files.open().map(|folder| (files, folder))) {
                Ok(made) => made,
                Err(error) => {
                    give_back(leases, named, NOT_BEGUN).await;
                    return Err(format!("cannot write the lease of a job: {error}"));
                }
            };
        let (clock, logs) = (Arc::clone(&self.pool.clock), pools.logs());
        let log = JobLog::new(attempt, folder, clock, logs);
        let (stop, stops) = Stop::channel();
        let limit = limit(granted.assignment.timeout_ms);
        let (ended, is_late) = self.live(&named, (&files, &log), limit, &stop, stops).await;
        log.follow(true);
        drop(files);
        self.change(|slot| slot.pid = None);
        let is_unacked = self.is_unacked(job, lease).await;
        let (how, why) = match ended {
            Ok(status) if is_late && !is_unacked => {
                let how = format!("the runner was stopped at the job's time limit: {status}");
                (how, timed_out(limit))
            }
            Ok(status) => {
                let exit = match (status.code(), status.signal()) {
                    (Some(status), _) => Exit::Status(status),
                    (None, signal) => Exit::Signal(signal.unwrap_or_default()),
                };
                let how = format!("the runner exited: {status}");
                (how, LeaseMessage::Exited(exit))
            }
            Err(ProcessError::Start { source, .. }) => {
                let how = format!("cannot start the runner: {source}; check its cmd");
                give_back(leases, named, NOT_BEGUN).await;
                return Err(how);
            }
            Err(error) => (error.to_string(), LeaseMessage::GiveBack { begun: true }),
        };
        let was_held = give_back(leases, named, why).await;
        if was_held {
            log.wrote(
                LogSource::Host,
                &format!("{how}; it reported no outcome of the job"),
            );
        }
        if was_held && is_unacked {
            self.did_nothing(job, &how);
        } else {
            self.change(|slot| slot.failures = 0);
        }
        Ok(())
    }

    /// Records that a process did not even acknowledge its lease. That is the job's failure: the next job need
    /// not wait. The more follow each other, the fewer are logged.
    fn did_nothing(&self, job: JobId, how: &str) {
        let mut failures = 0;
        self.change(|slot| {
            slot.failures += 1;
            failures = slot.failures;
        });
        if failures.is_power_of_two() {
            let runner = worker(&self.pool.config.name, &self.runner_id());
            tracing::warn!(runner, %job, failures, "{how}; it had not acknowledged its lease");
        }
    }

    /// Returns whether a runner holds its lease and has not acknowledged it.
    async fn is_unacked(&self, job: JobId, lease: LeaseId) -> bool {
        let (respond, answer) = respond();
        self.pool.leases.read(job, respond);
        let kept = answer.await.ok().and_then(Result::ok).flatten();
        let current = kept.and_then(|kept| kept.job.lifecycle.lease);
        current.is_some_and(|it| it.id == lease && it.ack_by.is_some())
    }

    fn files(&self, granted: &GrantedLease) -> std::io::Result<AttemptFiles> {
        let message = convert::granted(granted, self.pool.pools.config.times);
        let text = serde_json::to_vec(&message)?;
        let attempt = granted.assignment.attempt;
        self.pool.files.make(granted.job, attempt, &text)
    }

    /// Starts the process and waits until it has ended. It gets a signal to end when its lease is over, at its time
    /// limit, or when the host stops. Returns whether it was the time limit.
    async fn live(
        &self,
        named: &NamedLease,
        (files, log): (&AttemptFiles, &JobLog),
        limit: Duration,
        stop: &Stop,
        stops: StopRequests,
    ) -> (Result<ExitStatus, ProcessError>, bool) {
        let (program, pool) = (self.program(files), &self.pool);
        let events = Life { place: self, log };
        let mut living = pin!(supervise(&pool.launcher, &program, &events, stops));
        let mut over = pin!(async {
            let (respond, ended) = respond();
            pool.leases.await_end(named.lease, respond);
            if ended.await == Ok(EndCause::Reported) {
                sleep(EXIT_TIME).await;
            }
        });
        let mut follow = interval(FOLLOW_TIME);
        let mut late = pin!(sleep(limit + LIMIT_SPARE));
        let (mut is_over, mut is_late, mut is_stopping) = (false, false, false);
        loop {
            tokio::select! {
                ended = &mut living => return (ended, is_late && !is_over),
                () = &mut late, if !is_late => {
                    is_late = true;
                    stop.stop(KILL_GRACE);
                }
                () = &mut over, if !is_over => {
                    is_over = true;
                    stop.stop(KILL_GRACE);
                }
                () = pool.stopping.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    stop.stop(STOP_GRACE);
                }
                _ = follow.tick() => log.follow(false),
            }
        }
    }

    /// Returns the program with the arguments of the document.
    fn program(&self, files: &AttemptFiles) -> Program {
        let launch = &self.pool.launch;
        let path = |path: std::path::PathBuf| path.display().to_string();
        let arguments = [
            ("-orchestrator", self.pool.url.clone()),
            ("-runner-id", self.runner_id()),
            ("-lease", path(files.lease())),
            ("-workdir", path(files.work())),
            ("-log", path(files.log())),
        ]
        .into_iter()
        .flat_map(|(flag, value)| [flag.to_owned(), value]);
        Program {
            command: launch.command.iter().cloned().chain(arguments).collect(),
            env: launch.env.clone(),
            cwd: None,
        }
    }
}

/// Returns the time limit of a process, as its lease tells it: in whole seconds.
const fn limit(timeout_ms: u64) -> Duration {
    Duration::from_secs(timeout_ms.div_ceil(1_000))
}

/// Ends an attempt whose process did not stop at its time limit.
fn timed_out(limit: Duration) -> LeaseMessage {
    let message = format!("the runner did not end within {} s", limit.as_secs());
    LeaseMessage::Complete {
        worker: None,
        outcome: Outcome::Failed(Failure::new(FailureKind::TimedOut, message)),
        meter: Meter::default(),
    }
}
