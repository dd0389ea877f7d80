//! Executes one run in a cell of its own, without a store: nothing is kept and nothing is retried.

use host_core::cell::{FromCell, Handover, LogLine, Start, ToCell};
use host_core::failure::{Failure, FailureKind};
use host_core::outcome::{Meter, Outcome, Progress};
use tokio::sync::mpsc;

use crate::port::{CellEvent, CellId};
use crate::process::Cells;
use crate::run::handlers::Program;

/// The reports of a run before its end.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEvent {
    /// Lines of its log, in order.
    Log(Vec<LogLine>),
    Progress(Progress),
}

impl Cells {
    /// Runs `start` and calls `on_event` with each report. If the future is dropped, the cell and
    /// its guest are killed.
    pub async fn run_once(
        &self,
        program: &Program,
        mut start: Start,
        mut on_event: impl FnMut(RunEvent),
    ) -> (Outcome, Meter) {
        let (sender, mut events) = mpsc::channel(16);
        let line = self.open(CellId(u64::MAX), "cell-once", 1, sender);
        start.component = program.component;
        let run = start.run;
        let messages = vec![
            ToCell::Load {
                component: program.component,
                path: program.path.clone(),
                sha256: program.sha256,
                file: Handover::Comes,
            },
            ToCell::Start(Box::new(start)),
        ];
        if line.outbound.send(messages).await.is_err() {
            return lost("it did not start");
        }
        while let Some(event) = events.recv().await {
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
                    } if ended == run => return (outcome, meter),
                    _ => {}
                }
            }
        }
        lost("the host is stopping")
    }
}

fn lost(how: &str) -> (Outcome, Meter) {
    let message = format!("the cell ended before the handler did: {how}");
    let failure = Failure::new(FailureKind::CellLost, message);
    (Outcome::Failed(failure), Meter::default())
}
