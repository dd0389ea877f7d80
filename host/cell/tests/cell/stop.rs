//! Stopping: by request, by time, by the end of the orchestrator.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;

use host_core::cell::FromCell;
use host_core::failure::FailureKind;
use host_core::handler::Limits;
use host_core::outcome::Outcome;

use crate::child::Cell;

fn kind(outcome: &Outcome) -> FailureKind {
    match outcome {
        Outcome::Failed(failure) => failure.kind,
        other => panic!("it did not fail: {other:?}"),
    }
}

#[test]
fn a_guest_that_looks_keeps_what_it_has_done() {
    let mut cell = Cell::start();
    let run = cell.begin("basics/cooperate", "null", Limits::default());
    cell.stop(run, 60_000);
    let Outcome::Cancelled {
        partial: Some(partial),
    } = cell.wait_for_end(run).outcome
    else {
        panic!("it returns its partial result")
    };
    assert!(partial.as_str().contains("rounds"));
}

#[test]
fn a_guest_that_does_not_is_stopped_wherever_it_is() {
    let mut cell = Cell::start();
    let limits = Limits {
        memory_bytes: 160 << 20,
        ..Limits::default()
    };
    for handler in [
        "basics/spin",
        "hostile/host_calls",
        "hostile/sleep_forever",
        "hostile/wasi_sleep_forever",
        "hostile/memcpy_loop",
        "start-loop/x",
        "realloc-loop/x",
        "post-return-loop/x",
        "bulk-loop/x",
    ] {
        let run = cell.begin(handler, "null", limits.clone());
        cell.stop(run, 20);
        let ran = cell.wait_for_end(run);
        assert_eq!(
            kind(&ran.outcome),
            FailureKind::Cancelled,
            "{handler}: {ran:?}"
        );
    }
    let ran = cell.run("basics/noop", "null", Limits::default());
    assert!(
        matches!(ran.outcome, Outcome::Completed { .. }),
        "the cell is unaffected"
    );
}

#[test]
fn time_runs_out_for_any_guest() {
    let mut cell = Cell::start();
    let limits = Limits {
        timeout_ms: 100,
        ..Limits::default()
    };
    for handler in ["basics/spin", "hostile/sleep_forever", "start-loop/x"] {
        let ran = cell.run(handler, "null", limits.clone());
        assert_eq!(kind(&ran.outcome), FailureKind::TimedOut, "{handler}");
    }
}

#[test]
fn a_later_stop_only_shortens_the_grace() {
    let mut cell = Cell::start();
    let run = cell.begin("basics/spin", "null", Limits::default());
    cell.stop(run, 60_000);
    cell.stop(run, 10);
    cell.stop(run, 60_000);
    assert_eq!(
        kind(&cell.wait_for_end(run).outcome),
        FailureKind::Cancelled
    );
    cell.stop(run, 0);
    let ran = cell.run("basics/noop", "null", Limits::default());
    assert!(matches!(ran.outcome, Outcome::Completed { .. }));
}

#[test]
fn a_loop_uses_up_its_fuel() {
    let mut cell = Cell::start();
    let limits = Limits {
        fuel: Some(50_000_000),
        ..Limits::default()
    };
    let ran = cell.run("basics/spin", "null", limits);
    assert_eq!(kind(&ran.outcome), FailureKind::FuelExhausted);
    assert_eq!(ran.meter.fuel, 50_000_000);
    assert!(ran.meter.cpu_us > 0);
}

#[test]
fn a_cell_ends_with_its_orchestrator_whatever_it_does() {
    let mut cell = Cell::start();
    cell.begin("basics/spin", "null", Limits::default());
    assert_eq!(cell.hang_up(), Some(0));
}

/// Neither the message nor the backtrace of a panic shows the cell's memory.
#[test]
fn a_cell_that_panics_ends_and_shows_nothing_of_its_runs() {
    const SECRET: &str = "pl4nted-s3cret-of-a-job";
    let (reader, writer) = std::io::pipe().unwrap();
    let mut cell = Cell::that_panics(reader.into());
    let run = cell.begin("basics/spin", &format!("{SECRET:?}"), Limits::default());
    loop {
        if matches!(cell.receive(), FromCell::Used { run: of, .. } if of == run) {
            break;
        }
    }
    (&writer).write_all(b"!").unwrap();
    let (status, words) = cell.last_words();
    assert_eq!(status.signal(), Some(libc::SIGABRT), "{words}");
    assert!(words.contains("this panic was provoked"), "{words}");
    assert!(!words.contains(SECRET), "{words}");
}

#[test]
fn a_cell_has_given_up_what_it_does_not_need() {
    let cell = Cell::start();
    let status = std::fs::read_to_string(format!("/proc/{}/status", cell.pid())).unwrap();
    let is = |name: &str, value: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        assert_eq!(line.unwrap().split_whitespace().nth(1), Some(value));
    };
    is("Seccomp:", "2");
    is("NoNewPrivs:", "1");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", cell.pid())).unwrap();
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    assert_eq!(core.unwrap().split_whitespace().nth(4), Some("0"));
}

#[test]
fn what_a_run_has_used_is_reported_while_it_runs() {
    let mut cell = Cell::start();
    let run = cell.begin("basics/spin", "null", Limits::default());
    let meter = loop {
        match cell.receive() {
            FromCell::Used { run: of, meter } if of == run => break meter,
            FromCell::Ended { .. } => panic!("it has ended without a message"),
            _ => {}
        }
    };
    assert!(
        meter.fuel > 0 && meter.cpu_us > 0 && meter.peak_memory_bytes > 0,
        "{meter:?}"
    );
    cell.stop(run, 0);
    let ended = cell.wait_for_end(run).meter;
    assert!(ended.fuel >= meter.fuel && ended.cpu_us >= meter.cpu_us);
}
