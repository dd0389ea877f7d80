//! One life of one runner's process: started, listened to, ended with its whole group.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::launcher::Launcher;
use super::lines::read_lines;
use super::{Output, RunnerPool, lock};
use crate::rrq::config::{Dialect, Launch, Source};
use crate::rrq::orchestrator::RunnerSaid;

/// How long what a runner wrote last may take to arrive after its end.
const LAST_WORDS_TIME: Duration = Duration::from_millis(200);

/// How runners learn where to listen.
pub(super) const SOCKET_VARIABLE: &str = "RRQ_RUNNER_TCP_SOCKET";
const SOCKET_ARGUMENT: &str = "--tcp-socket";

/// Starts the process of `seat` and stays with it until it has ended.
pub(super) async fn run(
    pool: RunnerPool,
    seat: usize,
    launcher: Launcher,
    mut kill: mpsc::Receiver<Duration>,
) {
    match launch(&pool, seat, &launcher).await {
        Ok(child) => stay(&pool, seat, child, &mut kill).await,
        Err(error) => {
            let line = format!("cannot start the runner: {error}; check its cmd and cwd");
            pool.wrote(seat, Output::Host, &line);
        }
    }
    {
        let mut places = lock(&pool.places);
        places[seat].kill = None;
        places[seat].pid = None;
    }
    pool.hub.say(RunnerSaid::Exited { seat });
}

async fn launch(pool: &RunnerPool, seat: usize, launcher: &Launcher) -> std::io::Result<Child> {
    let Source::Launched(launch) = &pool.config.source else {
        return Err(std::io::Error::other("somebody else starts it"));
    };
    let address = pool.choose_address(seat, launch.tcp_port)?;
    lock(&pool.places)[seat].address = Some(address);
    let command = command(launch, pool.config.dialect, &address.to_string())?;
    let child = launcher.launch(command).await?;
    lock(&pool.places)[seat].pid = child.id();
    Ok(child)
}

fn command(launch: &Launch, dialect: Dialect, address: &str) -> std::io::Result<Command> {
    let Some((program, arguments)) = launch.command.split_first() else {
        return Err(std::io::Error::other("its cmd is empty"));
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(&launch.env)
        .env(SOCKET_VARIABLE, address)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if dialect == Dialect::Current {
        command.args([SOCKET_ARGUMENT, address]);
    }
    if let Some(cwd) = &launch.cwd {
        command.current_dir(cwd);
    }
    Ok(command)
}

/// Kills what is left of a process group, also when the task is dropped.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.0 {
            // It may be gone already.
            let _gone = kill_process_group(pid, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

async fn stay(
    pool: &RunnerPool,
    seat: usize,
    mut child: Child,
    kill: &mut mpsc::Receiver<Duration>,
) {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    let group = Group(pid.and_then(Pid::from_raw));
    pool.hub.say(RunnerSaid::Launched { seat });
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut output = Box::pin(async {
        tokio::join!(
            read_lines(stdout, |line| pool.wrote(seat, Output::Stdout, line)),
            read_lines(stderr, |line| pool.wrote(seat, Output::Stderr, line)),
        )
    });
    let mut written = false;
    let mut killed_at: Option<Instant> = None;
    let status = loop {
        let due = killed_at.unwrap_or_else(Instant::now);
        tokio::select! {
            status = child.wait() => break status,
            Some(grace) = kill.recv() => {
                group.signal(Signal::TERM);
                let at = Instant::now() + grace;
                killed_at = Some(killed_at.map_or(at, |earlier| earlier.min(at)));
            }
            () = sleep_until(due), if killed_at.is_some() => {
                group.signal(Signal::KILL);
                break child.wait().await;
            }
            _ = &mut output, if !written => written = true,
        }
    };
    // What it started and left behind may hold its port.
    drop(group);
    if !written {
        let _last_words = timeout(LAST_WORDS_TIME, output).await;
    }
    let line = match status {
        Ok(status) => format!("the runner has ended: {status}"),
        Err(error) => format!("the runner has ended; its status cannot be read: {error}"),
    };
    pool.wrote(seat, Output::Host, &line);
}
