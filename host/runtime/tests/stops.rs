//! A process whose threads are all blocked ends at the second signal, and at the end of its grace.

#![expect(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use host_runtime::stops::{Hangup, Stops};
use rustix::process::{Pid, Signal, kill_process};

/// Longer than any limit of the process, short enough for a failing test.
const BOUND: Duration = Duration::from_mins(1);

/// Longer than [`BOUND`], so that a process that ends has not waited for the end of its grace.
const LONG: Duration = Duration::from_hours(1);

/// Not a test: a process that the tests below ask to stop. It blocks forever.
#[test]
#[ignore = "started by the other tests"]
fn blocked() {
    block(Duration::ZERO);
}

/// Not a test: the same with a long grace.
#[test]
#[ignore = "started by the other tests"]
fn blocked_with_a_long_grace() {
    block(LONG);
}

fn block(grace: Duration) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let _stops = Stops::listen(Some(grace), Duration::from_secs(3), Hangup::Reload).unwrap();
    runtime.block_on(async {
        let task = tokio::task::spawn_blocking(|| {
            println!("blocked");
            loop {
                std::thread::park();
            }
        });
        task.await.unwrap();
    });
}

fn start(process: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", process, "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    while !lines.next().unwrap().unwrap().ends_with("blocked") {}
    child
}

fn ask(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Waits for the end of the process and returns its exit code.
fn exit_code(mut child: Child) -> Option<i32> {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    let (ended, watched) = sync_channel(1);
    let watch = std::thread::spawn(move || {
        if watched.recv_timeout(BOUND).is_err() {
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    let status = child.wait().unwrap();
    let _ = ended.send(());
    watch.join().unwrap();
    status.code()
}

#[test]
fn a_blocked_process_ends_at_the_end_of_its_grace() {
    let child = start("blocked");
    ask(&child, Signal::TERM);
    assert_eq!(exit_code(child), Some(1));
}

#[test]
fn a_blocked_process_ends_at_the_second_signal() {
    let child = start("blocked_with_a_long_grace");
    ask(&child, Signal::TERM);
    // Another signal: two pending signals of one kind are merged.
    ask(&child, Signal::INT);
    assert_eq!(exit_code(child), Some(1));
}

#[test]
fn only_signals_to_stop_end_a_process() {
    let child = start("blocked_with_a_long_grace");
    for signal in [
        Signal::HUP,
        Signal::USR1,
        Signal::USR2,
        Signal::ALARM,
        Signal::XCPU,
        Signal::XFSZ,
        Signal::VTALARM,
        Signal::PROF,
        Signal::IO,
        Signal::POWER,
        Signal::TTOU,
        // SAFETY: it is a signal.
        unsafe { Signal::from_raw_unchecked(libc::SIGRTMIN()) },
        // The first that asks it to stop.
        Signal::QUIT,
        Signal::TERM,
    ] {
        ask(&child, signal);
    }
    assert_eq!(exit_code(child), Some(1));
}
