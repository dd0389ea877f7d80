//! Replays transcripts: sessions written as text. Lines with `peer>`, `host>` or no arrow are
//! input; `peer<` and `host<` are the answers of the session.

use std::fs;

/// A session that reads and answers lines of a transcript.
pub trait Stage {
    /// Handles one line of input and returns the lines that follow.
    fn play(&mut self, line: &str) -> Vec<String>;
}

/// Replays all transcripts in a folder. With `UPDATE_DOCS=1` in the environment, writes the actual
/// answers into the files.
#[expect(
    clippy::disallowed_methods,
    reason = "a switch for those who run the tests"
)]
pub fn replay_all<S: Stage>(folder: &str, stage: impl Fn() -> S) {
    let bless = std::env::var_os("UPDATE_DOCS").is_some();
    let mut replayed = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let expected = fs::read_to_string(&path).unwrap();
        let actual = replay(&expected, &mut stage());
        if bless {
            fs::write(&path, &actual).unwrap();
        } else {
            let name = path.file_name().unwrap().to_string_lossy();
            let (at, ours, theirs) = first_difference(&actual, &expected);
            assert!(
                actual == expected,
                "{name}:{at}\n  expected {theirs}\n  actual     {ours}\nUPDATE_DOCS=1 rewrites it"
            );
        }
        replayed += 1;
    }
    assert!(replayed > 0, "no transcripts in {folder}");
}

fn replay(text: &str, stage: &mut impl Stage) -> String {
    let mut actual = String::new();
    for line in text.lines() {
        if line.starts_with("peer<") || line.starts_with("host<") {
            continue;
        }
        actual.push_str(line);
        actual.push('\n');
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        for line in stage.play(line) {
            actual.push_str(&line);
            actual.push('\n');
        }
    }
    actual
}

fn first_difference<'a>(ours: &'a str, theirs: &'a str) -> (usize, &'a str, &'a str) {
    let (mut left, mut right) = (ours.lines(), theirs.lines());
    let mut at = 0;
    loop {
        at += 1;
        match (left.next(), right.next()) {
            (None, None) => return (at, "", ""),
            (ours, theirs) if ours == theirs => {}
            (ours, theirs) => return (at, ours.unwrap_or("nothing"), theirs.unwrap_or("nothing")),
        }
    }
}
