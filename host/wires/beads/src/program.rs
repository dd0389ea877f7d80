//! Calls the program of `--bd` for issues, one call after the other, each with a time limit. The arguments
//! never pass through a shell.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use host_wire_kit::process::{
    Launcher, Output, Pipes, ProcessEvents, Program as Process, Stop, supervise,
};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::worker::Call;

/// How long one call may take.
pub(super) const CALL_TIME: Duration = Duration::from_secs(30);

/// How long a program may take to end after its time limit.
const END_TIME: Duration = Duration::from_secs(1);

/// How many calls may wait. A worker waits for each before the next.
const CALLS_MAX: usize = 2;

/// The longest line of a program's output that is shown, in characters.
const LINE_CHARS_MAX: usize = 200;

/// The program and its environment.
#[derive(Clone, Debug)]
pub(super) struct Program {
    command: ProgramCommand,
    launcher: Launcher,
    call_time: Duration,
}

/// The command, before the arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProgramCommand {
    /// The program.
    pub(super) path: String,
    /// Its whole environment.
    pub(super) env: std::collections::BTreeMap<String, String>,
}

/// Requests calls.
pub(super) struct Calls(mpsc::Sender<(Call, String)>);

/// The requested calls.
pub(super) struct CallReceiver(mpsc::Receiver<(Call, String)>);

impl Calls {
    pub(super) fn channel() -> (Self, CallReceiver) {
        let (sender, receiver) = mpsc::channel(CALLS_MAX);
        (Self(sender), CallReceiver(receiver))
    }

    /// Requests a call. Returns whether it will be made.
    pub(super) fn ask(&self, call: Call, issue_id: String) -> bool {
        self.0.try_send((call, issue_id)).is_ok()
    }
}

impl CallReceiver {
    /// Makes the calls and reports how each ended. Never ends.
    pub(super) async fn serve(
        mut self,
        program: Option<Program>,
        report: impl Fn(Result<(), String>),
    ) {
        if let Some(program) = program {
            while let Some((call, issue_id)) = self.0.recv().await {
                report(program.call(call, issue_id).await);
            }
        }
        std::future::pending::<()>().await;
    }
}

/// Returns the arguments of a call, as in the document.
fn arguments(call: Call, issue_id: String) -> Vec<String> {
    match call {
        Call::Claim => vec![
            "update".to_owned(),
            issue_id,
            "--status=in_progress".to_owned(),
        ],
        Call::Close => vec!["close".to_owned(), issue_id],
        Call::Reopen => vec!["update".to_owned(), issue_id, "--status=open".to_owned()],
    }
}

/// The last line that a call wrote to standard error.
#[derive(Default)]
struct StderrTail(Mutex<Option<String>>);

impl ProcessEvents for StderrTail {
    fn started(&self, _pid: Option<u32>, _pipes: Arc<Pipes>) {}

    fn wrote(&self, output: Output, line: &str) {
        if output == Output::Stderr && !line.trim().is_empty() {
            let line = line.chars().take(LINE_CHARS_MAX).collect();
            *self.0.lock() = Some(line);
        }
    }
}

impl Program {
    pub(super) const fn new(command: ProgramCommand, launcher: Launcher) -> Self {
        Self {
            command,
            launcher,
            call_time: CALL_TIME,
        }
    }

    /// Makes one call. The error explains the failure.
    async fn call(&self, call: Call, issue_id: String) -> Result<(), String> {
        let path = &self.command.path;
        let process = Process {
            command: std::iter::once(path.clone())
                .chain(arguments(call, issue_id))
                .collect(),
            env: self.command.env.clone(),
            cwd: None,
        };
        let (stop, stops) = Stop::channel();
        let words = StderrTail::default();
        let mut running = std::pin::pin!(supervise(&self.launcher, &process, &words, stops));
        let Ok(ended) = timeout(self.call_time, &mut running).await else {
            stop.stop(END_TIME);
            let _ = running.await;
            return Err(format!(
                "{path} did not end within {} s",
                self.call_time.as_secs_f32()
            ));
        };
        match ended {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                let words = words.0.lock();
                let wrote = words.as_ref().map(|words| format!(", it wrote {words:?}"));
                Err(format!(
                    "{path} ended with {status}{}",
                    wrote.unwrap_or_default()
                ))
            }
            Err(error) => Err(error.to_string()),
        }
    }
}
