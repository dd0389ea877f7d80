//! Hostile guests: each ends with its own outcome, and its neighbours are unaffected.

use std::fmt::Write as _;

use host_core::cell::{FromCell, LogSource, RunId, ToCell};
use host_core::failure::FailureKind;
use host_core::handler::Limits;
use host_core::outcome::Outcome;

use crate::child::{Cell, resident_kib};

/// How many good runs each hostile one has beside it.
const NEIGHBOURS: usize = 8;

/// How a run is expected to end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Expected {
    Completed,
    Failed(FailureKind),
}

fn limits() -> Limits {
    Limits {
        timeout_ms: 60_000,
        fuel: Some(1_000_000_000_000),
        ..Limits::default()
    }
}

/// Runs `handler` beside good ones and returns its end.
fn beside_good_ones(
    cell: &mut Cell,
    handler: &str,
    params: &str,
    limits: Limits,
) -> crate::child::Ran {
    let hostile = cell.begin(handler, params, limits);
    let mut runs = vec![hostile];
    for n in 0..NEIGHBOURS {
        runs.push(cell.begin("basics/echo", &n.to_string(), Limits::default()));
    }
    let mut ended = cell.all_ended(&runs);
    let place = ended.iter().position(|(run, _)| *run == hostile).unwrap();
    let (_, ran) = ended.remove(place);
    for (run, good) in ended {
        assert!(
            matches!(good.outcome, Outcome::Completed { .. }),
            "{handler} harmed {run:?}: {good:?}"
        );
    }
    ran
}

#[test]
fn each_attack_ends_with_its_outcome() {
    use Expected::{Completed, Failed};
    use FailureKind::{FuelExhausted, MemoryLimit, ResultTooLarge, TimedOut, Trapped};
    let mut cell = Cell::start();
    let short = Limits {
        timeout_ms: 200,
        ..limits()
    };
    let large = Limits {
        memory_bytes: 160 << 20,
        timeout_ms: 300,
        ..limits()
    };
    let little_fuel = Limits {
        fuel: Some(1_000_000_000),
        ..limits()
    };
    let cases = [
        ("hostile/busy_loop", "null", &short, Failed(TimedOut)),
        ("hostile/burn", "null", &little_fuel, Failed(FuelExhausted)),
        ("hostile/host_calls", "null", &short, Failed(TimedOut)),
        ("hostile/sleep_forever", "null", &short, Failed(TimedOut)),
        (
            "hostile/wasi_sleep_forever",
            "null",
            &short,
            Failed(TimedOut),
        ),
        ("hostile/memcpy_loop", "null", &large, Failed(TimedOut)),
        (
            "hostile/memory_bomb",
            "null",
            &limits(),
            Failed(MemoryLimit),
        ),
        (
            "hostile/memory_many",
            "null",
            &limits(),
            Failed(MemoryLimit),
        ),
        (
            "hostile/memory_refused",
            "null",
            &limits(),
            Failed(MemoryLimit),
        ),
        ("hostile/deep_recursion", "null", &limits(), Failed(Trapped)),
        ("hostile/deep_frames", "null", &limits(), Failed(Trapped)),
        ("hostile/random_flood", "{}", &limits(), Failed(Trapped)),
        ("hostile/pollable_flood", "{}", &limits(), Failed(Trapped)),
        ("hostile/trap", "null", &limits(), Failed(Trapped)),
        ("hostile/exit", "null", &limits(), Failed(Trapped)),
        ("hostile/abort", "null", &limits(), Failed(Trapped)),
        ("hostile/panic_loop", "null", &limits(), Failed(Trapped)),
        (
            "hostile/giant_result",
            r#"{"mib":2}"#,
            &limits(),
            Failed(ResultTooLarge),
        ),
        (
            "hostile/bad_json_result",
            "null",
            &limits(),
            Failed(Trapped),
        ),
        ("hostile/log_fields", "null", &limits(), Completed),
        ("huge-memory/x", "null", &limits(), Failed(MemoryLimit)),
        ("wild-pointer/x", "null", &limits(), Failed(Trapped)),
        ("wild-result/x", "null", &limits(), Failed(Trapped)),
    ];
    let mut wrong = String::new();
    for (handler, params, limits, expected) in cases {
        let ran = beside_good_ones(&mut cell, handler, params, limits.clone());
        let ended = match &ran.outcome {
            Outcome::Completed { .. } => Completed,
            Outcome::Failed(failure) => Failed(failure.kind),
            other => panic!("{handler}: {other:?}"),
        };
        if ended != expected {
            writeln!(wrong, "{handler}: expected {expected:?}, {:?}", ran.outcome).unwrap();
        }
    }
    assert_eq!(wrong, "");
}

#[test]
fn floods_are_cut_and_counted() {
    let mut cell = Cell::start();
    let limits = Limits {
        log_bytes_max: 100_000,
        timeout_ms: 60_000,
        ..limits()
    };
    for (handler, params) in [
        ("hostile/log_flood", r#"{"count":200000}"#),
        ("hostile/stdout_flood", r#"{"mib":8}"#),
    ] {
        let ran = beside_good_ones(&mut cell, handler, params, limits.clone());
        assert!(
            matches!(ran.outcome, Outcome::Completed { .. }),
            "{handler}: {:?}",
            ran.outcome
        );
        let bytes: usize = ran.lines.iter().map(|line| line.message.len()).sum();
        assert!(bytes <= 101_000, "{handler} left {bytes} bytes");
        let last = ran.lines.last().unwrap();
        assert_eq!(last.source, LogSource::Host);
        assert!(
            last.message.contains("lines were dropped"),
            "{}",
            last.message
        );
    }
    let ran = beside_good_ones(
        &mut cell,
        "hostile/progress_flood",
        r#"{"count":100000}"#,
        limits,
    );
    assert!(
        ran.progress.len() < 1_000,
        "{} progress reports were sent",
        ran.progress.len()
    );
    let fine = |percent: f32| (0.0..=100.0).contains(&percent);
    assert!(
        ran.progress
            .iter()
            .all(|progress| progress.percent.is_none_or(fine))
    );
}

#[test]
fn a_component_that_attacks_when_it_is_asked_is_refused() {
    let mut cell = Cell::start();
    for (name, kind) in [
        ("describe-loop", FailureKind::TimedOut),
        ("describe-memory", FailureKind::MemoryLimit),
        ("describe-trap", FailureKind::Trapped),
        ("start-loop", FailureKind::TimedOut),
        ("invalid-name", FailureKind::Trapped),
        ("wild-pointer", FailureKind::Trapped),
    ] {
        let component = cell.load(name);
        let run = RunId(1_000);
        cell.send(&ToCell::Describe { run, component });
        let FromCell::Described { result, .. } = cell.receive() else {
            panic!("{name}: it answers")
        };
        let failure = result.expect_err(name);
        assert_eq!(failure.kind, kind, "{name}: {failure:?}");
    }
}

#[test]
fn guests_share_what_their_cell_has() {
    let mut cell = Cell::with_room(8, 100);
    let hungry = |cell: &mut Cell| cell.begin("hostile/memory_refused", "null", limits());
    let runs = [hungry(&mut cell), hungry(&mut cell)];
    for (_, ran) in cell.all_ended(&runs) {
        let Outcome::Failed(failure) = ran.outcome else {
            panic!("{ran:?}")
        };
        assert_eq!(failure.kind, FailureKind::MemoryLimit);
    }
    let ran = cell.run("basics/alloc", r#"{"mib":40}"#, limits());
    assert!(matches!(ran.outcome, Outcome::Completed { .. }), "{ran:?}");
}

#[test]
fn memory_is_given_back() {
    let mut cell = Cell::start();
    cell.run("hostile/memory_bomb", "null", limits());
    let before = resident_kib(cell.pid());
    for _ in 0..20 {
        cell.run("hostile/memory_bomb", "null", limits());
    }
    let after = resident_kib(cell.pid());
    assert!(
        after < before + 16 * 1024,
        "{before} KiB became {after} KiB"
    );
}
