//! The input of one turn of the loop, bounded in number and in bytes.

use host_core::command::Command;
use tokio::sync::mpsc;

use crate::Request;
use crate::nodes::RemoteChange;
use host_cells::port::CellEvent;

/// The most requests in one batch.
pub const BATCH_COMMANDS_MAX: usize = 512;

/// A batch ends with the request that takes it over this size, in bytes.
pub const BATCH_BYTES_MAX: usize = 8 << 20;

/// The most cell events in one turn.
const TURN_EVENTS_MAX: usize = 4_096;

/// The size that a small command is counted with, in bytes.
const COMMAND_BYTES: usize = 256;

/// The input of one turn.
#[derive(Debug, Default)]
pub(super) struct Intake {
    pub(super) requests: Vec<Request>,
    pub(super) events: Vec<CellEvent>,
    /// What other nodes have done: at most as much as may wait.
    pub(super) remote_changes: Vec<RemoteChange>,
    /// Whether the host was paused before this turn.
    pub(super) was_paused: bool,
    bytes: usize,
}

impl Intake {
    pub(super) fn add(&mut self, request: Request) {
        self.bytes += weight(&request.command);
        self.requests.push(request);
    }

    /// Takes the waiting input without waiting for more.
    pub(super) fn fill(
        &mut self,
        requests: &mut mpsc::Receiver<Request>,
        events: &mut mpsc::Receiver<CellEvent>,
    ) {
        while self.events.len() < TURN_EVENTS_MAX {
            let Ok(event) = events.try_recv() else { break };
            self.events.push(event);
        }
        while self.requests.len() < BATCH_COMMANDS_MAX && self.bytes < BATCH_BYTES_MAX {
            let Ok(request) = requests.try_recv() else {
                break;
            };
            self.add(request);
        }
    }
}

/// Estimates how much a command writes, in bytes.
fn weight(command: &Command) -> usize {
    let payload = match command {
        Command::Enqueue(jobs) => jobs
            .iter()
            .map(|job| {
                let pairs = job.payload.attributes.iter();
                let pairs = pairs.chain(&job.payload.trace_context);
                let pairs: usize = pairs.map(|(name, value)| name.len() + value.len()).sum();
                COMMAND_BYTES + job.payload.params.as_str().len() + pairs
            })
            .sum(),
        Command::Deploy { bytes, .. } => bytes.len(),
        _ => 0,
    };
    COMMAND_BYTES + payload
}
