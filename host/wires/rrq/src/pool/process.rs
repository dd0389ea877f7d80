//! The processes of a pool: gives each an address, starts it, and reports to the session.

mod address;

use std::io;
use std::sync::Arc;

use host_wire_kit::process::{
    Launcher, Output, Pipes, ProcessError, ProcessEvents, Program, StopRequests, supervise,
};

use super::RunnerPool;
use crate::config::{Dialect, Launch, Source};
use crate::orchestrator::PoolEvent;

/// The variable with the address on which a runner must listen.
pub(super) const SOCKET_VARIABLE: &str = "RRQ_RUNNER_TCP_SOCKET";
const SOCKET_ARGUMENT: &str = "--tcp-socket";

impl RunnerPool {
    /// Starts the process of a runner and waits until it has ended.
    pub(super) async fn live(self, runner: usize, launcher: Launcher, stops: StopRequests) {
        let line = match self.program(runner) {
            Ok(program) => {
                let events = Life {
                    pool: &self,
                    runner,
                };
                match supervise(&launcher, &program, &events, stops).await {
                    Ok(status) => format!("the runner has ended: {status}"),
                    Err(ProcessError::Start { source, .. }) => not_started(&source),
                    Err(ProcessError::Status(error)) => {
                        format!("the runner has ended; its status cannot be read: {error}")
                    }
                }
            }
            Err(error) => not_started(&error),
        };
        self.wrote(runner, Output::Host, &line);
        {
            let mut runners = self.runners.lock();
            runners[runner].stop = None;
            runners[runner].pid = None;
            runners[runner].listener = None;
            runners[runner].pipes = None;
        }
        self.hub.report(PoolEvent::Exited { runner });
    }

    /// Returns the program of a runner, with an address for it to listen on.
    fn program(&self, runner: usize) -> io::Result<Program> {
        let Source::Launched(launch) = &self.config.source else {
            return Err(io::Error::other("this host does not start it"));
        };
        let address = {
            let mut runners = self.runners.lock();
            let taken = |address| {
                let mut others = runners.iter();
                others.any(|process| process.address == Some(address))
            };
            let address = address::choose(runner, launch.tcp_port, taken)?;
            runners[runner].address = Some(address);
            address
        };
        Ok(program(launch, self.config.dialect, &address.to_string()))
    }
}

/// One run of a runner's process.
struct Life<'a> {
    pool: &'a RunnerPool,
    runner: usize,
}

impl ProcessEvents for Life<'_> {
    fn started(&self, pid: Option<u32>, pipes: Arc<Pipes>) {
        let runner = self.runner;
        {
            let process = &mut self.pool.runners.lock()[runner];
            process.pid = pid;
            process.listener = None;
            process.pipes = Some(pipes);
        }
        self.pool.hub.report(PoolEvent::Launched { runner });
    }

    fn wrote(&self, output: Output, line: &str) {
        self.pool.wrote(self.runner, output, line);
    }
}

fn program(launch: &Launch, dialect: Dialect, address: &str) -> Program {
    let mut program = Program {
        command: launch.command.clone(),
        env: launch.env.clone(),
        cwd: launch.cwd.clone(),
    };
    let variable = (SOCKET_VARIABLE.to_owned(), address.to_owned());
    program.env.extend([variable]);
    if dialect == Dialect::Current {
        let argument = [SOCKET_ARGUMENT, address].map(str::to_owned);
        program.command.extend(argument);
    }
    program
}

fn not_started(error: &io::Error) -> String {
    format!("cannot start the runner: {error}; check its cmd and cwd")
}
