//! The contents of log files: whole lines, of all writers, up to a limit that the file mentions.

use std::sync::mpsc::{Receiver, sync_channel};

use host_core::cell::{Level, LogSource};
use host_core::json::JsonText;
use tempfile::TempDir;

use super::*;

const PATIENCE: Duration = Duration::from_mins(1);

struct Scene {
    folder: TempDir,
    files: LogFiles,
}

impl Scene {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let files = LogFiles::start(LogRoot::new(folder.path())).unwrap();
        Self { folder, files }
    }

    fn ask(
        &self,
        path: &str,
        job: &str,
        attempt: u32,
    ) -> Option<Receiver<Result<LogFile, String>>> {
        let (told, opened) = sync_channel(1);
        let then = move |opened: Result<LogFile, LogFileError>| {
            told.send(opened.map_err(|error| error.to_string()))
                .unwrap();
        };
        self.files.open(path, job, attempt, then).then_some(opened)
    }

    fn open(&self, path: &str, job: &str, attempt: u32) -> LogFile {
        let asked = self.ask(path, job, attempt).unwrap();
        asked.recv_timeout(PATIENCE).unwrap().unwrap()
    }

    fn text(&self, path: &str) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(self.files.flush(PATIENCE));
        std::fs::read_to_string(self.folder.path().join(path)).unwrap()
    }
}

fn line(at_ms: u64, level: Level, message: &str) -> LogLine {
    LogLine {
        at_ms,
        level,
        source: LogSource::Log,
        message: message.to_owned(),
        fields: Vec::new(),
    }
}

#[test]
fn a_file_may_be_rotated_while_its_job_runs() {
    let scene = Scene::new();
    let file = scene.open("a/b.log", "j1", 1);
    file.write(Time(0), &[line(0, Level::Info, "one")]);
    assert!(scene.text("a/b.log").ends_with("one\n"));
    let (path, rotated) = (
        scene.folder.path().join("a/b.log"),
        scene.folder.path().join("a/b.log.1"),
    );
    std::fs::rename(&path, &rotated).unwrap();
    file.write(Time(0), &[line(0, Level::Info, "two")]);
    assert!(scene.text("a/b.log").ends_with("two\n"));
    assert!(std::fs::read_to_string(rotated).unwrap().ends_with("one\n"));
    // It may also be removed with its folder.
    std::fs::remove_dir_all(scene.folder.path().join("a")).unwrap();
    file.write(Time(0), &[line(0, Level::Info, "three")]);
    assert!(scene.text("a/b.log").ends_with("three\n"));
}

#[test]
fn lines_have_their_time_level_and_job() {
    let scene = Scene::new();
    let file = scene.open("a/b.log", "j1", 1);
    let fields = [("user", "ann"), ("note", "two\nlines")];
    let mut fancy = line(1_500, Level::Error, "one\ntwo \u{1b}[31mred\u{202e}");
    fancy.fields = fields
        .map(|(name, value)| (name.into(), JsonText::string(value)))
        .into();
    file.write(Time(0), &[line(0, Level::Info, "tab\tand ü"), fancy]);
    assert_eq!(
        scene.text("a/b.log"),
        "1970-01-01T00:00:00.000Z info  j1 tab\tand ü\n\
         1970-01-01T00:00:01.500Z error j1 one\\ntwo \\u{1b}[31mred\\u{202e} user=ann \
         note=two\\nlines\n"
    );
}

#[test]
fn jobs_that_share_a_file_do_not_tear_each_others_lines() {
    let scene = Scene::new();
    let other = LogFiles::start(LogRoot::new(scene.folder.path())).unwrap();
    let words = "x".repeat(2_000);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (scene, other, words) = (&scene, &other, &words);
            scope.spawn(move || {
                let job = format!("j{n}");
                // Half of them go through the thread of another host.
                let files = if n % 2 == 0 { &scene.files } else { other };
                let (told, opened) = sync_channel(1);
                let asked = files.open("shared.log", &job, 1, move |opened| {
                    told.send(opened.unwrap()).unwrap();
                });
                assert!(asked);
                let file = opened.recv_timeout(PATIENCE).unwrap();
                for at_ms in 0..100 {
                    file.write(Time(0), &[line(at_ms, Level::Info, words)]);
                }
            });
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(other.flush(PATIENCE));
    let text = scene.text("shared.log");
    assert_eq!(text.lines().count(), 800);
    for line in text.lines() {
        assert_eq!(line.rsplit(' ').next(), Some(words.as_str()), "{line:.60}");
        assert_eq!(
            line.len(),
            "1970-01-01T00:00:00.000Z info  j0 ".len() + 2_000
        );
    }
}

#[test]
fn a_job_writes_no_more_than_its_share_over_all_attempts() {
    let scene = Scene::new();
    let large = "y".repeat(1 << 20);
    let share = usize::try_from(JOB_BYTES_MAX).unwrap();
    for attempt in 1..=2 {
        let file = scene.open("a.log", "j1", attempt);
        for _ in 0..9 {
            file.write(Time(0), &[line(0, Level::Info, &large)]);
            scene.text("a.log");
        }
    }
    let text = scene.text("a.log");
    assert!(
        (share - (1 << 20)..=share + 200).contains(&text.len()),
        "{}",
        text.len()
    );
    let last = text.lines().last().unwrap();
    assert!(last.contains("j1 the rest is left out"), "{last:.80}");
    scene
        .open("a.log", "j1", 3)
        .write(Time(0), &[line(0, Level::Info, "z")]);
    assert_eq!(scene.text("a.log").len(), text.len(), "it is said once");
    scene
        .open("a.log", "j2", 1)
        .write(Time(0), &[line(0, Level::Info, "z")]);
    assert!(scene.text("a.log").ends_with("info  j2 z\n"));
}

#[test]
fn what_finds_no_room_is_reported() {
    let scene = Scene::new();
    let file = scene.open("a.log", "j1", 1);
    let flood = vec![line(0, Level::Info, &"z".repeat(WAITING_BYTES_MAX / 4)); 5];
    file.write(Time(0), &flood);
    drop(file);
    let text = scene.text("a.log");
    assert!(text.contains("j1 5 lines are missing here"), "{text:.80}");
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn files_are_opened_up_to_a_bound_and_closed_again() {
    let scene = Scene::new();
    let mut open: Vec<LogFile> = (0..OPEN_MAX)
        .map(|n| scene.open(&format!("{n}"), "j", 1))
        .collect();
    assert!(scene.ask("more", "j", 1).is_none());
    open.pop();
    scene.text("0");
    scene.open("more", "j", 1);
    scene.text("more");
    let refused = scene.ask("../x", "j", 1).unwrap();
    let why = refused.recv_timeout(PATIENCE).unwrap().unwrap_err();
    assert!(why.contains("not inside"), "{why}");
}
