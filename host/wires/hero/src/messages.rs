//! Keys, commands, scripts and values of Redis. Knows nothing of the states of jobs.

pub(super) mod calls;

use std::time::Duration;

use host_core::time::Time;
use serde::Deserialize;

/// The error of a job that was stopped.
pub(super) const STOPPED: &str = "stopped_by_request";

/// How many of the newest stop requests are read.
pub(super) const STOPS_SCANNED_MAX: u32 = 1_024;

/// How many dead letters of a worker are kept.
pub(super) const DEAD_LETTERS_MAX: u32 = 1_000;

/// How many ids of a list are read to find missing jobs.
const LISTED_MAX: u32 = 10_000;

/// The shortest time that the reply to an ended job is kept, in seconds.
const REPLY_SECONDS_MIN: u64 = 3_600;

/// How many ids of a processing list are read to recover jobs.
const PROCESSING_SCANNED_MAX: u32 = 10_000;

/// About how many bytes are read of a job that is taken. Most have fewer.
const TAKEN_BYTES: usize = 128 << 10;

/// A script that Redis runs as one step. It is sent by its hash if Redis has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    /// Takes a job that was popped, unless another host has it or it has ended; returns its fields.
    Claim,
    /// Records that a job runs, unless another host has it or it has ended.
    Start,
    /// Records how a job ended and replies, unless another host has it.
    Finish,
    /// Renews claims. Returns the claims that are lost.
    Renew,
    /// Returns a job to its queue.
    Release,
    /// Stores a job and queues it.
    Submit,
    /// Takes a job back, or asks its worker to stop it.
    Withdraw,
    /// Returns which jobs are in no list.
    Absent,
    /// Queues a job again whose worker does not report, unless it has ended.
    Again,
    /// Returns fields of jobs.
    Read,
    /// Stores a job that depends on others. Queues it if they have finished.
    Enter,
    /// Queues or ends a job that waited for others, unless another host has done so.
    Gate,
    /// Asks for a job to be stopped, or ends it if it waits for others.
    Stop,
    /// Queues a job again.
    Requeue,
    /// Returns what jobs wait for.
    Links,
    /// Adds a dead letter.
    Bury,
    /// Gives a job the turn of its context.
    Turn,
    /// Queues the jobs whose rest is over.
    Wake,
}

impl Script {
    /// All scripts, for the driver to load.
    pub(super) const ALL: [Self; 18] = [
        Self::Claim,
        Self::Start,
        Self::Finish,
        Self::Renew,
        Self::Release,
        Self::Submit,
        Self::Withdraw,
        Self::Absent,
        Self::Again,
        Self::Read,
        Self::Enter,
        Self::Gate,
        Self::Stop,
        Self::Requeue,
        Self::Links,
        Self::Bury,
        Self::Turn,
        Self::Wake,
    ];

    /// Returns its text in Lua.
    pub(super) const fn source(self) -> &'static str {
        match self {
            Self::Claim => include_str!("lua/claim.lua"),
            Self::Start => include_str!("lua/start.lua"),
            Self::Finish => include_str!("lua/finish.lua"),
            Self::Renew => include_str!("lua/renew.lua"),
            Self::Release => include_str!("lua/release.lua"),
            Self::Submit => include_str!("lua/submit.lua"),
            Self::Withdraw => include_str!("lua/withdraw.lua"),
            Self::Absent => include_str!("lua/absent.lua"),
            Self::Again => include_str!("lua/again.lua"),
            Self::Read => include_str!("lua/read.lua"),
            Self::Enter => include_str!("lua/enter.lua"),
            Self::Gate => include_str!("lua/gate.lua"),
            Self::Stop => include_str!("lua/stop.lua"),
            Self::Requeue => include_str!("lua/requeue.lua"),
            Self::Links => include_str!("lua/links.lua"),
            Self::Bury => include_str!("lua/bury.lua"),
            Self::Turn => include_str!("lua/turn.lua"),
            Self::Wake => include_str!("lua/wake.lua"),
        }
    }
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// The words of the command, as Redis expects them.
    Plain(Vec<Vec<u8>>),
    /// A script with its keys and arguments.
    Script {
        script: Script,
        /// `KEYS`.
        keys: Vec<String>,
        /// `ARGV`.
        args: Vec<Vec<u8>>,
    },
}

/// The answer of Redis to one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Nil,
    Int(i64),
    /// A string, bulk or simple.
    Data(Vec<u8>),
    /// Several values.
    List(Vec<Value>),
    /// The text of an error: Redis refused the command.
    Error(String),
}

impl Value {
    /// Returns the text, if it is one.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Data(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Returns all texts of a list, with replacement characters where they are not UTF-8.
    pub(super) fn texts(&self) -> Vec<String> {
        let Self::List(values) = self else {
            return Vec::new();
        };
        let bytes = values.iter().filter_map(|value| match value {
            Self::Data(bytes) => Some(bytes),
            _ => None,
        });
        bytes
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .collect()
    }
}

/// The connection that a call uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    /// The shared connection. Its commands are pipelined and never block.
    Shared,
    /// The separate connection for one blocking command.
    Blocking,
    /// A connection of its own for one call that sends or reads much, so that it delays no other. It
    /// may be carried out before earlier calls or after later ones.
    Own,
}

/// Identifies one call between a session and its driver. Unique during the life of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CallTag(pub u64);

/// Commands that are sent together, in order, and whose answers come back together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// Identifies the answers.
    pub(super) tag: CallTag,
    pub(super) via: Via,
    /// The commands. Never empty.
    pub(super) commands: Vec<Command>,
}

impl Command {
    /// Makes the call of a script.
    pub(super) fn script<A: Into<Vec<u8>>>(
        script: Script,
        keys: Vec<String>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self::Script { script, keys, args }
    }

    /// Returns how many bytes its words have.
    pub(super) fn bytes(&self) -> usize {
        let sum = |words: &[Vec<u8>]| words.iter().map(Vec::len).sum::<usize>();
        match self {
            Self::Plain(words) => sum(words),
            Self::Script { keys, args, .. } => {
                keys.iter().map(String::len).sum::<usize>() + sum(args)
            }
        }
    }
}

impl Call {
    /// Returns how many bytes its commands have.
    pub(super) fn bytes(&self) -> usize {
        self.commands.iter().map(Command::bytes).sum()
    }

    /// Returns about how many bytes its answers have: what is read of jobs that are taken.
    pub(super) fn answer_bytes(&self) -> usize {
        let script = |command: &&Command| match command {
            Command::Plain(_) => false,
            Command::Script { script, .. } => *script == Script::Claim,
        };
        self.commands.iter().filter(script).count() * TAKEN_BYTES
    }
}

/// The end of a work queue from which jobs are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PopSide {
    /// Takes the newest job first, as the document's own workers do.
    Left,
    /// Takes the oldest job first.
    #[default]
    Right,
}

impl PopSide {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Left => "LEFT",
            Self::Right => "RIGHT",
        }
    }

    pub(super) const fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// Returns the key of a job's hash.
pub(super) fn job_key(id: &str) -> String {
    format!("hero:job:{id}")
}

/// Returns the key of the queue that clients push to.
pub(super) fn work_queue(worker: &str) -> String {
    format!("hero:work_queue:{worker}")
}

/// Returns the key of the list of jobs that a worker has taken and that have not ended.
pub(super) fn processing(worker: &str) -> String {
    format!("hero:processing:{worker}")
}

/// Returns the key of the list of jobs to stop.
pub(super) fn stop_queue(worker: &str) -> String {
    format!("hero:stop_queue:{worker}")
}

/// Returns the key of the list where a job's sender waits for the reply.
pub(super) fn reply_queue(id: &str) -> String {
    format!("hero:reply:{id}")
}

/// Returns the key of the list of ids that could not be executed, each with the reason.
pub(super) fn dead_letters(worker: &str) -> String {
    format!("hero:dead_letter:{worker}")
}

/// The key of the jobs that wait for others and are not queued yet, with the time of each one's
/// last check. Not part of the document.
pub(super) const WAITING: &str = "hero:waiting";

/// Returns the key with the host that has claimed a job.
pub(super) fn claim_key(id: &str) -> String {
    format!("hero:claim:{id}")
}

/// Returns the key with the job that has the turn of a context. Not part of the document.
pub(super) fn context_key(context: &str) -> String {
    format!("hero:context:{context}")
}

/// Returns the key of the jobs that rest until their next attempt. Not part of the document.
pub(super) fn resting(worker: &str) -> String {
    format!("hero:resting:{worker}")
}

/// Makes the command that queues the jobs of a worker whose rest is over by the wall clock, `jobs_max` at most.
pub(super) fn wake(worker: &str, wall: Time, jobs_max: usize) -> Command {
    let args = [wall.0.to_string(), jobs_max.to_string()];
    Command::script(
        Script::Wake,
        vec![resting(worker), work_queue(worker)],
        args,
    )
}

/// Ends the rest of a job, if it rests.
pub(super) fn wake_one(worker: &str, id: &str) -> Command {
    plain(&["ZADD", &resting(worker), "XX", "0", id])
}

/// Returns the key of the jobs that a host has sent to workers, each with its worker.
pub(super) fn out(instance: &str) -> String {
    format!("hero:out:{instance}")
}

/// Returns how long to keep the reply to a job with this time limit, in seconds.
pub(super) fn reply_seconds(timeout_ms: u64) -> u64 {
    timeout_ms.div_ceil(1_000).max(REPLY_SECONDS_MIN)
}

/// Makes a command from words.
pub(super) fn plain(words: &[&str]) -> Command {
    Command::Plain(words.iter().map(|word| word.as_bytes().to_vec()).collect())
}

/// Takes the next id, waiting `seconds` for one.
pub(super) fn pop_waiting(worker: &str, side: PopSide, seconds: u32) -> Command {
    plain(&[
        "BLMOVE",
        &work_queue(worker),
        &processing(worker),
        side.as_str(),
        "LEFT",
        &seconds.to_string(),
    ])
}

/// Takes the next id, if there is one.
pub(super) fn pop(worker: &str, side: PopSide) -> Command {
    let (from, to) = (work_queue(worker), processing(worker));
    plain(&["LMOVE", &from, &to, side.as_str(), "LEFT"])
}

pub(super) fn count_queued(worker: &str) -> Command {
    plain(&["LLEN", &work_queue(worker)])
}

pub(super) fn list_processing(worker: &str) -> Command {
    let last = (PROCESSING_SCANNED_MAX - 1).to_string();
    plain(&["LRANGE", &processing(worker), "0", &last])
}

pub(super) fn list_stops(worker: &str) -> Command {
    let last = (STOPS_SCANNED_MAX - 1).to_string();
    plain(&["LRANGE", &stop_queue(worker), "0", &last])
}

/// Removes the newest `count` stop requests for a job, or all if `count` is 0.
pub(super) fn forget_stop(worker: &str, id: &[u8], count: usize) -> Command {
    remove(&stop_queue(worker), count, id)
}

/// Waits for a job's reply without removing it, because others may wait for it too.
pub(super) fn await_reply(id: &str, at_most: Duration) -> Command {
    let key = reply_queue(id);
    let seconds = at_most.as_secs_f64().to_string();
    plain(&["BLMOVE", &key, &key, "LEFT", "LEFT", &seconds])
}

/// Removes one entry of an id from the processing list.
pub(super) fn forget_processing(worker: &str, id: &[u8]) -> Command {
    remove(&processing(worker), 1, id)
}

/// Removes an entry by its bytes, since it may not be UTF-8.
fn remove(key: &str, count: usize, entry: &[u8]) -> Command {
    let count = count.to_string().into_bytes();
    Command::Plain(vec![
        b"LREM".to_vec(),
        key.as_bytes().to_vec(),
        count,
        entry.to_vec(),
    ])
}

pub(super) fn status_of(id: &str) -> Command {
    plain(&["HGET", &job_key(id), "status"])
}

/// Adds a dead letter and removes the oldest ones. With `taken`, removes one entry of the id from
/// the processing list then; without such an entry, does nothing.
pub(super) fn bury(
    worker: &str,
    id: &[u8],
    letter: &str,
    taken: bool,
    job: Option<&str>,
) -> Command {
    let kept = DEAD_LETTERS_MAX.to_string();
    let args = [
        letter.as_bytes(),
        kept.as_bytes(),
        id,
        flag(taken).as_bytes(),
    ];
    let mut keys = vec![dead_letters(worker), processing(worker)];
    keys.extend(job.map(job_key));
    Command::script(Script::Bury, keys, args)
}

/// Asks what kind of value a job's key holds.
pub(super) fn kind_of(id: &str) -> Command {
    plain(&["TYPE", &job_key(id)])
}

/// Stores a job and queues it, in one step.
pub(super) fn store_and_queue(id: &str, worker: &str, fields: &[(&str, String)]) -> Command {
    let mut args = vec![id];
    for (field, value) in fields {
        args.extend([*field, value]);
    }
    Command::script(Script::Submit, vec![job_key(id), work_queue(worker)], args)
}

/// A job that its dispatcher takes back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Withdrawal<'a> {
    pub(super) id: &'a str,
    pub(super) worker: &'a str,
    /// The key of the jobs that are out.
    pub(super) out: &'a str,
    /// The current time.
    pub(super) at: &'a str,
    /// The error of the job if no worker has taken it.
    pub(super) error: &'a str,
    /// Whether the job is no longer watched.
    pub(super) forget: bool,
    /// How long to keep its hash in that case, in seconds; at least as long as its time limit.
    pub(super) kept_seconds: u64,
    /// Whether to leave the job to a worker that has taken it.
    pub(super) if_waiting: bool,
}

/// The answer of [`withdraw`] if no worker had taken the job. None can take it now.
pub(super) const WITHDRAWN: &[u8] = b"withdrawn";

/// The answer of [`withdraw`] if a worker has the job and was asked to stop it.
pub(super) const ASKED: &[u8] = b"asked";

/// Takes a job back, or asks its worker to stop it.
pub(super) fn withdraw(job: &Withdrawal<'_>) -> Command {
    let (id, worker) = (job.id, job.worker);
    let kept_seconds = job.kept_seconds.to_string();
    let (forget, if_waiting) = (flag(job.forget), flag(job.if_waiting));
    let args = [id, job.at, job.error, forget, &kept_seconds, if_waiting];
    let keys = vec![
        job_key(id),
        work_queue(worker),
        stop_queue(worker),
        reply_queue(id),
        job.out.to_owned(),
    ];
    Command::script(Script::Withdraw, keys, args)
}

/// Returns a flag as scripts read it.
pub(super) const fn flag(is: bool) -> &'static str {
    if is { "1" } else { "0" }
}

/// Queues a job again whose worker does not report.
pub(super) fn queue_again(id: &str, worker: &str, at: &str) -> Command {
    let keys = vec![job_key(id), work_queue(worker), stop_queue(worker)];
    Command::script(Script::Again, keys, [id, at])
}

/// Asks which of these jobs are neither queued nor being processed.
pub(super) fn absent(worker: &str, ids: &[String]) -> Command {
    let args = std::iter::once(LISTED_MAX.to_string()).chain(ids.iter().cloned());
    Command::script(
        Script::Absent,
        vec![work_queue(worker), processing(worker), resting(worker)],
        args,
    )
}
