//! Well-behaved handlers, and what is kept of them.

use host_core::cell::{FromCell, GivenDir, Handover, Level, LogSource, RunId, ToCell};
use host_core::failure::{Category, FailureKind};
use host_core::handler::{DirGrant, Limits};
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use tempfile::TempDir;

use crate::child::Cell;

fn completed(result: &str) -> Outcome {
    Outcome::Completed {
        result: Some(JsonText(result.to_owned())),
    }
}

#[test]
fn a_handler_returns_and_its_use_is_measured() {
    let mut cell = Cell::start();
    let ran = cell.run("basics/echo", r#"{"a":[1,"ü"]}"#, Limits::default());
    assert_eq!(ran.outcome, completed(r#"{"a":[1,"ü"]}"#));
    assert!(
        ran.meter.fuel > 1_000 && ran.meter.fuel < 10_000_000,
        "{ran:?}"
    );
    assert!(ran.meter.peak_memory_bytes >= 64 << 10, "{ran:?}");
    let again = cell.run("basics/echo", r#"{"a":[1,"ü"]}"#, Limits::default());
    assert_eq!(again.meter.fuel, ran.meter.fuel, "fuel is exact");
}

#[test]
fn a_missing_file_is_explained_by_the_directories_that_are_granted() {
    let folder = TempDir::new().unwrap();
    let mut cell = Cell::that_reads(folder.path());
    let grant = DirGrant {
        host: folder.path().to_str().unwrap().to_owned(),
        guest: "/data".to_owned(),
    };
    for (granted, expected) in [
        (Vec::new(), "no directory; grant one with read_dirs)"),
        (vec![grant.into()], "only these directories: /data)"),
    ] {
        let params = r#"{"message":"cannot open /etc/x: No such file (os error 44)"}"#;
        let mut start = cell.prepare("basics/fail", params, Limits::default());
        start.read_dirs = granted;
        let Outcome::Failed(failure) = cell.finish(start).outcome else {
            panic!("it fails")
        };
        let suffix = format!("(os error 44) (the manifest gives the handler {expected}");
        assert!(failure.message.ends_with(&suffix), "{failure:?}");
    }
}

#[test]
fn errors_retries_and_panics_keep_their_words() {
    let mut cell = Cell::start();
    let params = r#"{"message":"no luck","category":"data-quality","retryable":true}"#;
    let Outcome::Failed(failure) = cell.run("basics/fail", params, Limits::default()).outcome
    else {
        panic!("it fails")
    };
    assert_eq!(failure.kind, FailureKind::UserError);
    assert_eq!(failure.category(), Category::DataQuality);
    assert_eq!(
        (failure.message.as_str(), failure.retryable),
        ("no luck", Some(true))
    );

    let flaky = cell.run("basics/flaky", r#"{"fail_times":1}"#, Limits::default());
    assert!(
        matches!(
            flaky.outcome,
            Outcome::Retry {
                after_ms: Some(10),
                ..
            }
        ),
        "{flaky:?}"
    );

    let Outcome::Failed(failure) = cell.run("basics/panic", "null", Limits::default()).outcome
    else {
        panic!("it panics")
    };
    assert_eq!(failure.kind, FailureKind::Trapped);
    assert!(
        failure.message.contains("told to panic"),
        "{}",
        failure.message
    );
    assert!(
        failure.message.contains("src/lib.rs:"),
        "{}",
        failure.message
    );

    let stack = failure.stack.unwrap();
    assert!(stack.contains(" - basics::panic"), "{stack}");

    for (handler, params, kind) in [
        ("basics/sleep", r#"{"ms":"x"}"#, FailureKind::InvalidParams),
        ("basics/missing", "null", FailureKind::HandlerNotFound),
    ] {
        let Outcome::Failed(failure) = cell.run(handler, params, Limits::default()).outcome else {
            panic!("it fails")
        };
        assert_eq!(failure.kind, kind, "{}", failure.message);
    }
}

#[test]
fn log_lines_come_in_order_and_before_the_end() {
    let mut cell = Cell::start();
    let ran = cell.run("basics/log", r#"{"lines":300}"#, Limits::default());
    assert_eq!(ran.lines.len(), 300);
    for (index, line) in ran.lines.iter().enumerate() {
        assert_eq!(line.message, format!("line {} of 300", index + 1));
        assert_eq!((line.source, line.level), (LogSource::Log, Level::Info));
    }
}

/// What was built against the first version of the interface runs unchanged.
#[test]
fn a_component_of_the_first_version_reports_and_logs() {
    let mut cell = Cell::start();
    let ran = cell.run("old/by_hand", "null", Limits::default());
    assert_eq!(ran.outcome, Outcome::Completed { result: None });
    let [line] = &ran.lines[..] else {
        panic!("{ran:?}")
    };
    assert_eq!((&*line.message, line.level), ("half", Level::Info));
    let [progress] = &ran.progress[..] else {
        panic!("{ran:?}")
    };
    assert_eq!((&*progress.message, progress.percent), ("half", Some(50.0)));
}

#[test]
fn a_component_says_what_it_offers() {
    let mut cell = Cell::start();
    let component = cell.load("basics");
    cell.send(&ToCell::Describe {
        run: RunId(7),
        component,
    });
    let FromCell::Described { run, result } = cell.receive() else {
        panic!("it answers")
    };
    let handlers = result.unwrap().0;
    assert_eq!(run, RunId(7));
    assert_eq!(handlers.len(), 10);
    assert_eq!(handlers[0].name.as_str(), "noop");
    assert_eq!(handlers[0].description.as_deref(), Some("Does nothing."));
    assert!(handlers[2].params_schema.is_some());
}

#[test]
fn a_guest_sees_what_it_is_granted_and_nothing_else() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("granted.txt"), "hello").unwrap();
    let mut cell = Cell::that_reads(folder.path());
    let bare = cell.run("hostile/read_files", "null", Limits::default());
    let Outcome::Completed { result: Some(bare) } = bare.outcome else {
        panic!("{bare:?}")
    };
    assert!(
        !bare.as_str().contains("hello") && !bare.as_str().contains("root:"),
        "{bare:?}"
    );
    let nothing: serde_json::Value = serde_json::from_str(bare.as_str()).unwrap();
    assert_eq!(nothing["env"], serde_json::json!([]), "{nothing}");

    let mut start = cell.prepare("hostile/read_files", "null", Limits::default());
    start.env = vec![("GRANTED".to_owned(), "yes".to_owned())];
    start.read_dirs = vec![
        DirGrant {
            host: folder.path().to_str().unwrap().to_owned(),
            guest: "/".to_owned(),
        }
        .into(),
    ];
    let run = start.run;
    cell.send(&ToCell::Start(Box::new(start)));
    let Outcome::Completed { result: Some(seen) } = cell.wait_for_end(run).outcome else {
        panic!("it returns")
    };
    let seen: serde_json::Value = serde_json::from_str(seen.as_str()).unwrap();
    assert_eq!(seen["env"], serde_json::json!(["GRANTED=yes"]), "{seen}");
    assert_eq!(
        seen["paths"]["/"],
        serde_json::json!(["listed", "looked at"])
    );
    assert_eq!(seen["paths"]["/etc/passwd"], serde_json::Value::Null);
    assert!(!seen.to_string().contains("written"), "{seen}");

    let mut start = cell.prepare("basics/noop", "null", Limits::default());
    start.read_dirs = vec![GivenDir {
        grant: DirGrant {
            host: "/nowhere/at/all".to_owned(),
            guest: "/".to_owned(),
        },
        dir: Handover::Failed("it is gone".to_owned()),
    }];
    let run = start.run;
    cell.send(&ToCell::Start(Box::new(start)));
    let Outcome::Failed(failure) = cell.wait_for_end(run).outcome else {
        panic!("it fails")
    };
    assert_eq!(failure.kind, FailureKind::GrantMissing);
    assert!(failure.message.contains("/nowhere/at/all"));
    assert!(failure.message.contains("it is gone"));
}

#[test]
fn many_runs_at_once_keep_apart() {
    let mut cell = Cell::with_room(64, 4_096);
    let runs: Vec<RunId> = (0..64)
        .map(|n| cell.begin("basics/echo", &n.to_string(), Limits::default()))
        .collect();
    let mut ended = cell.all_ended(&runs);
    ended.sort_by_key(|(run, _)| *run);
    for (n, (_, ran)) in ended.iter().enumerate() {
        assert_eq!(ran.outcome, completed(&n.to_string()));
    }
}
