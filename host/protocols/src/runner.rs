//! The words for work that foreign runners do for us, whatever their wire: what one is told, how
//! much one can do, how it ended. Knows no wire.

use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::time::Time;

/// One attempt to be executed by a foreign runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Names this attempt; new for each.
    pub request_id: String,
    /// Names the job.
    pub job_id: String,
    /// The handler's name at the runner, without a runner's prefix.
    pub handler: String,
    /// An object.
    pub params: JsonText,
    /// The queue it waited in.
    pub queue: String,
    /// 1 for the first.
    pub attempt: u32,
    /// When the job was accepted.
    pub enqueued_at: Time,
    /// How long it may take, in milliseconds.
    pub timeout_ms: u64,
    /// The instant of host time after which it may not run.
    pub deadline: Option<Time>,
    /// W3C trace context.
    pub trace: Vec<(String, String)>,
    /// Whatever else the job's sender attached.
    pub attributes: Vec<(String, String)>,
    /// Who gives the work, for the runner's logs.
    pub worker_id: String,
}

/// How an execution by a foreign runner ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Its outcome is known.
    Outcome(Outcome),
    /// The runner is gone and nobody knows how far it came.
    Lost(String),
    /// It was not sent: no runner has room.
    NoRoom,
}

/// How much a pool can do: told whenever it changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// So many more starts are taken.
    pub free: usize,
    /// So many of those that were taken have not ended.
    pub in_flight: usize,
}

/// Where a runner is in its life, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeatState {
    /// There is none, or it cannot be reached; it is tried again after a wait.
    Down,
    /// It is being started or connected to.
    Starting,
    /// It takes requests.
    Up,
    /// It takes none and is restarted when those in flight have ended.
    Draining,
    /// It was told to end.
    Ending,
}

impl SeatState {
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
