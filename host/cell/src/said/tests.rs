//! What is kept of a guest that says too much, and in which order.

use host_core::cell::{Level, LogSource};

use super::{LINE_BYTES_MAX, Said};

fn lines(said: &Said) -> Vec<(LogSource, String)> {
    let news = said.take().unwrap_or_default();
    let lines = news.lines.into_iter();
    lines.map(|line| (line.source, line.message)).collect()
}

#[test]
fn output_becomes_lines_whatever_pieces_it_comes_in() {
    let said = Said::new(10_000);
    for piece in ["one\ntw", "o\r\n", "", "\nthr", "ee"] {
        said.print(LogSource::Stdout, piece.as_bytes());
    }
    said.print(LogSource::Stderr, b"other \xff");
    let stdout = |text: &str| (LogSource::Stdout, text.to_owned());
    assert_eq!(
        lines(&said),
        [stdout("one"), stdout("two"), stdout("")],
        "ended lines are told at once"
    );
    said.finish();
    let stderr = (LogSource::Stderr, "other \u{fffd}".to_owned());
    assert_eq!(lines(&said), [stdout("three"), stderr]);
    assert_eq!(said.stderr_tail(), ["other \u{fffd}"]);
}

#[test]
fn what_exceeds_the_quota_is_counted_once_and_for_all() {
    let said = Said::new(100);
    for text in ["a".repeat(40), "b".repeat(40), "c".to_owned()] {
        said.write(Level::Info, text, Vec::new());
    }
    said.finish();
    let lines = lines(&said);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0].1, "a".repeat(40));
    assert_eq!(lines[1].0, LogSource::Host);
    assert!(lines[1].1.starts_with("2 more lines were dropped"));
}

#[test]
fn a_huge_line_is_cut_and_says_so() {
    let said = Said::new(1 << 20);
    for _ in 0..100 {
        said.print(LogSource::Stdout, &[b'x'; 4096]);
    }
    said.finish();
    let lines = lines(&said);
    let missing = 100 * 4096 - LINE_BYTES_MAX;
    let expected = format!("{} … ({missing} more bytes)", "x".repeat(LINE_BYTES_MAX));
    assert_eq!(lines, [(LogSource::Stdout, expected)]);
}

#[test]
fn only_the_latest_progress_is_told() {
    let said = Said::new(0);
    assert!(said.take().is_none());
    said.progress(Some(10.0), "a".to_owned());
    said.progress(Some(f32::NAN), "b".to_owned());
    let progress = said.take().unwrap().progress.unwrap();
    assert_eq!((progress.percent, progress.message.as_str()), (None, "b"));
    said.progress(Some(1e9), String::new());
    let progress = said.take().unwrap().progress.unwrap();
    assert_eq!(progress.percent, Some(100.0));
}

#[test]
fn many_lines_are_told_in_pieces_that_fit_a_frame() {
    let said = Said::new(64 << 20);
    for n in 0..30_000 {
        said.write(Level::Info, format!("{n:01000}"), Vec::new());
    }
    let mut told = Vec::new();
    while let Some(news) = said.take() {
        let bytes: usize = news.lines.iter().map(|line| line.message.len()).sum();
        assert!(bytes <= 2 << 20, "{bytes} bytes at once");
        told.extend(news.lines);
    }
    let numbers = told.iter().map(|line| line.message.parse::<usize>());
    assert_eq!(
        numbers.map(Result::unwrap).collect::<Vec<_>>(),
        (0..30_000).collect::<Vec<_>>()
    );
}
