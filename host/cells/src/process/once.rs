//! Executes runs of one component in a cell of its own, one after another and without a store: nothing is kept and
//! nothing is retried.

use std::sync::Arc;

use host_core::cell::{FromCell, Handover, LogLine, RunId, Start, ToCell};
use host_core::failure::{Failure, FailureKind};
use host_core::outcome::{Meter, Outcome, Progress};
use tokio::sync::mpsc;

use crate::port::{CellEvent, CellId};
use crate::process::{Cells, Line};
use crate::run::handlers::Program;

/// The reports of a run before its end.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEvent {
    /// Lines of its log, in order.
    Log(Vec<LogLine>),
    Progress(Progress),
}

/// A cell for one component. If it ends, the next run starts another. When this is dropped, the cell and its guest are
/// killed.
pub struct SoloCell {
    cells: Cells,
    program: Arc<Program>,
    /// How many runs it has started.
    runs: u64,
    open: Option<OpenCell>,
}

struct OpenCell {
    line: Line,
    events: mpsc::Receiver<CellEvent>,
}

impl SoloCell {
    /// Makes a cell that the first run starts.
    pub const fn new(cells: Cells, program: Arc<Program>) -> Self {
        Self {
            cells,
            program,
            runs: 0,
            open: None,
        }
    }

    /// Runs `start` and calls `on_event` with each report.
    pub async fn run(
        &mut self,
        mut start: Start,
        mut on_event: impl FnMut(RunEvent),
    ) -> (Outcome, Meter) {
        let run = RunId(self.runs);
        self.runs += 1;
        (start.run, start.component) = (run, self.program.component);
        let mut messages = Vec::new();
        let mut cell = if let Some(cell) = self.open.take() {
            cell
        } else {
            messages.push(self.load());
            self.start_cell()
        };
        messages.push(ToCell::Start(Box::new(start)));
        if cell.line.outbound.send(messages).await.is_err() {
            return lost("it did not start");
        }
        while let Some(event) = cell.events.recv().await {
            let messages = match event {
                CellEvent::Received { messages, .. } => messages,
                CellEvent::Gone { how, .. } => return lost(&how),
                CellEvent::Planned { .. } => continue,
            };
            for message in messages {
                match message {
                    FromCell::Log { lines, .. } => on_event(RunEvent::Log(lines)),
                    FromCell::Progress { progress, .. } => on_event(RunEvent::Progress(progress)),
                    FromCell::Ended {
                        run: ended,
                        outcome,
                        meter,
                    } if ended == run => {
                        self.open = Some(cell);
                        return (outcome, meter);
                    }
                    _ => {}
                }
            }
        }
        lost("the host is stopping")
    }

    fn start_cell(&self) -> OpenCell {
        let (sender, events) = mpsc::channel(16);
        let line = self.cells.open(CellId(u64::MAX), "cell-once", 1, sender);
        OpenCell { line, events }
    }

    fn load(&self) -> ToCell {
        ToCell::Load {
            component: self.program.component,
            path: self.program.path.clone(),
            sha256: self.program.sha256,
            file: Handover::Comes,
        }
    }
}

fn lost(how: &str) -> (Outcome, Meter) {
    let message = format!("the cell ended before the handler did: {how}");
    let failure = Failure::new(FailureKind::CellLost, message);
    (Outcome::Failed(failure), Meter::default())
}
