//! Checks of messages from a broken cell.

use host_core::cell::{LINE_FIELDS_MAX, Level, LogSource, RunId};
use host_core::failure::FailureKind;

use super::*;

const RUN: RunId = RunId(1);

fn end_message(outcome: Outcome) -> FromCell {
    FromCell::Ended {
        run: RUN,
        outcome,
        meter: Meter {
            fuel: u64::MAX,
            cpu_us: 3,
            peak_memory_bytes: u64::MAX,
        },
    }
}

fn completed(text: &str) -> FromCell {
    end_message(Outcome::Completed {
        result: Some(JsonText(text.to_owned())),
    })
}

fn kind(message: FromCell) -> Option<FailureKind> {
    match message {
        FromCell::Ended {
            outcome: Outcome::Failed(failure),
            ..
        } => Some(failure.kind),
        _ => None,
    }
}

#[test]
fn results_are_json_and_bounded() {
    let good = completed("{\"a\":[1,null]}");
    assert_eq!(kind(checked(good)), None);
    for bad in ["", "{", "1 2", "NaN", "\u{feff}1"] {
        let failed = kind(checked(completed(bad)));
        assert_eq!(failed, Some(FailureKind::Trapped), "{bad:?}");
    }
    let giant = completed(&format!("\"{}\"", "x".repeat(RESULT_BYTES_MAX)));
    assert_eq!(kind(checked(giant)), Some(FailureKind::ResultTooLarge));
}

#[test]
fn a_failure_is_cut_and_keeps_its_details_if_they_are_json() {
    let mut failure = Failure::new(FailureKind::UserError, "ü".repeat(TEXT_BYTES_MAX));
    failure.stack = Some("s".repeat(TEXT_BYTES_MAX + 1));
    for (details, kept) in [("{}", true), ("nonsense", false)] {
        failure.details = Some(JsonText(details.to_owned()));
        let FromCell::Ended {
            outcome: Outcome::Failed(cut),
            meter,
            ..
        } = checked(end_message(Outcome::Failed(failure.clone())))
        else {
            panic!("a failure stays one");
        };
        assert_eq!(cut.message.len(), TEXT_BYTES_MAX);
        assert_eq!(cut.stack.map(|stack| stack.len()), Some(TEXT_BYTES_MAX));
        assert_eq!(cut.details.is_some(), kept, "{details}");
        let storable = i64::MAX.unsigned_abs();
        assert_eq!((meter.fuel, meter.cpu_us), (storable, 3));
    }
}

#[test]
fn a_retry_waits_a_year_at_most() {
    let retry = Outcome::Retry {
        reason: "later".to_owned(),
        after_ms: Some(u64::MAX),
    };
    let FromCell::Ended {
        outcome: Outcome::Retry { after_ms, .. },
        ..
    } = checked(end_message(retry))
    else {
        panic!("a retry is accepted");
    };
    assert_eq!(after_ms, Some(365 * 24 * 3_600_000));
}

#[test]
fn progress_is_a_percentage_or_none() {
    #[rustfmt::skip]
    let table = [
        (Some(12.5), Some(12.5)),
        (Some(-1.0), Some(0.0)),
        (Some(1e30), Some(100.0)),
        (Some(f32::NAN), None),
        (Some(f32::INFINITY), None),
        (None, None),
    ];
    for (percent, expected) in table {
        let progress = Progress {
            percent,
            message: "m".repeat(PROGRESS_BYTES_MAX * 2),
        };
        let FromCell::Progress { progress, .. } =
            checked(FromCell::Progress { run: RUN, progress })
        else {
            panic!("progress is accepted");
        };
        assert_eq!(progress.percent, expected);
        assert_eq!(progress.message.len(), PROGRESS_BYTES_MAX);
    }
}

#[test]
fn log_lines_have_bounds() {
    let line = LogLine {
        at_ms: u64::MAX,
        level: Level::Info,
        source: LogSource::Log,
        message: "m".repeat(TEXT_BYTES_MAX + 1),
        fields: vec![
            ("n".repeat(5_000), JsonText("v".repeat(TEXT_BYTES_MAX + 1)));
            LINE_FIELDS_MAX + 1
        ],
    };
    let lines = vec![line];
    let FromCell::Log { lines, .. } = checked(FromCell::Log { run: RUN, lines }) else {
        panic!("lines are accepted");
    };
    assert_eq!(lines[0].message.len(), TEXT_BYTES_MAX);
    assert_eq!(lines[0].fields.len(), LINE_FIELDS_MAX);
    assert_eq!(lines[0].fields[0].0.len(), PROGRESS_BYTES_MAX);
    assert_eq!(lines[0].fields[0].1.plain().len(), TEXT_BYTES_MAX);
}
