//! Which output is kept, and in which order, if a guest writes too much.

use std::sync::Arc;

use host_core::cell::{Level, LogSource};
use host_core::json::JsonText;

use super::{LINE_BYTES_MAX, RunOutput, STDERR_BYTES_KEPT, STDERR_LINES_KEPT};
use crate::limits::CellMemory;

fn output(log_bytes_max: u64) -> RunOutput {
    RunOutput::new(log_bytes_max, Arc::new(CellMemory::new(1 << 30)))
}

fn lines(output: &RunOutput) -> Vec<(LogSource, String)> {
    let unsent = output.take().unwrap_or_default();
    let lines = unsent.lines.into_iter();
    lines.map(|line| (line.source, line.message)).collect()
}

#[test]
fn output_is_split_into_lines_at_newlines_only() {
    let output = output(10_000);
    for piece in ["one\ntw", "o\r\n", "", "\nthr", "ee"] {
        output.print(LogSource::Stdout, piece.as_bytes());
    }
    output.print(LogSource::Stderr, b"other \xff");
    let stdout = |text: &str| (LogSource::Stdout, text.to_owned());
    assert_eq!(
        lines(&output),
        [stdout("one"), stdout("two"), stdout("")],
        "complete lines can be taken immediately"
    );
    output.finish();
    let stderr = (LogSource::Stderr, "other \u{fffd}".to_owned());
    assert_eq!(lines(&output), [stdout("three"), stderr]);
    assert_eq!(output.stderr_tail(), ["other \u{fffd}"]);
}

#[test]
fn lines_beyond_the_log_limit_are_dropped_and_counted() {
    let output = output(150);
    for text in ["a".repeat(40), "b".repeat(40), "c".to_owned()] {
        output.write(Level::Info, text, Vec::new());
    }
    output.finish();
    let lines = lines(&output);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0].1, "a".repeat(40));
    assert_eq!(lines[1].0, LogSource::Host);
    assert!(lines[1].1.starts_with("2 more lines were dropped"));
}

#[test]
fn a_huge_line_is_truncated_and_marked() {
    let output = output(1 << 20);
    for _ in 0..100 {
        output.print(LogSource::Stdout, &[b'x'; 4096]);
    }
    output.finish();
    let lines = lines(&output);
    let missing = 100 * 4096 - LINE_BYTES_MAX;
    let expected = format!("{} … ({missing} more bytes)", "x".repeat(LINE_BYTES_MAX));
    assert_eq!(lines, [(LogSource::Stdout, expected)]);
}

#[test]
fn the_end_of_standard_error_is_kept_whatever_the_log_takes() {
    let output = output(0);
    for n in 0..1_000 {
        output.print(LogSource::Stderr, format!("line {n}\n").as_bytes());
    }
    let tail = output.stderr_tail();
    assert_eq!(tail.len(), STDERR_LINES_KEPT);
    assert_eq!(tail.last().unwrap(), "line 999");
    let long = "x".repeat(STDERR_BYTES_KEPT / 2);
    for _ in 0..3 {
        output.print(LogSource::Stderr, format!("{long}\n").as_bytes());
    }
    assert_eq!(output.stderr_tail(), [long.clone(), long]);
    let longest = "y".repeat(STDERR_BYTES_KEPT);
    output.print(LogSource::Stderr, format!("{longest}z\n").as_bytes());
    assert_eq!(output.stderr_tail().len(), 1, "the last line stays");
}

#[test]
fn only_the_latest_progress_is_kept() {
    let output = output(0);
    assert!(output.take().is_none());
    output.progress(Some(10.0), "a".to_owned());
    output.progress(Some(f32::NAN), "b".to_owned());
    let progress = output.take().unwrap().progress.unwrap();
    assert_eq!((progress.percent, progress.message.as_str()), (None, "b"));
    output.progress(Some(1e9), String::new());
    let progress = output.take().unwrap().progress.unwrap();
    assert_eq!(progress.percent, Some(100.0));
}

#[test]
fn many_lines_are_taken_in_parts_that_fit_a_frame() {
    let output = output(64 << 20);
    for n in 0..30_000 {
        output.write(Level::Info, format!("{n:01000}"), Vec::new());
    }
    let mut taken = Vec::new();
    while let Some(unsent) = output.take() {
        let bytes: usize = unsent.lines.iter().map(|line| line.message.len()).sum();
        assert!(bytes <= 2 << 20, "{bytes} bytes at a time");
        taken.extend(unsent.lines);
    }
    let numbers = taken.iter().map(|line| line.message.parse::<usize>());
    assert_eq!(
        numbers.map(Result::unwrap).collect::<Vec<_>>(),
        (0..30_000).collect::<Vec<_>>()
    );
}

/// Empty lines and fields use memory too.
#[test]
fn empty_lines_and_fields_use_the_log_limit() {
    let empty = output(6_400);
    empty.print(LogSource::Stdout, &[b'\n'; 1_000]);
    empty.finish();
    assert_eq!(lines(&empty).len(), 100 + 1, "and the line of the host");
    let fields = output(6_400);
    for _ in 0..100 {
        let none = || (String::new(), JsonText(String::new()));
        fields.write(Level::Info, String::new(), (0..9).map(|_| none()).collect());
    }
    fields.finish();
    assert_eq!(lines(&fields).len(), 10 + 1);
}

#[test]
fn unsent_lines_use_the_memory_of_the_cell() {
    let memory = Arc::new(CellMemory::new(10_000));
    let output = RunOutput::new(1 << 20, Arc::clone(&memory));
    for _ in 0..100 {
        output.write(Level::Info, "x".repeat(1_000), Vec::new());
    }
    assert!(memory.take(2_000).is_err(), "the lines use it");
    assert_eq!(lines(&output).len(), 9);
    assert!(memory.take(9_000).is_ok(), "what is sent uses none");
    memory.give_back(9_000);
    output.finish();
    drop(output);
    assert!(memory.take(10_000).is_ok());
}
