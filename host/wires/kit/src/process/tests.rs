//! Uses shells as children and checks what they write, how they end, and that they leave nothing
//! behind.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::lines::LineBuffer;
use super::*;

const BOUND: Duration = Duration::from_mins(1);

/// A grace longer than any test: it never ends by itself.
const LONG: Duration = Duration::from_hours(1);

fn shell(script: &str) -> Program {
    Program {
        command: ["/bin/sh", "-c", script].map(str::to_owned).into(),
        env: BTreeMap::from([("WORD".to_owned(), "hello".to_owned())]),
        cwd: Some("/".into()),
    }
}

/// Keeps all lines, and stops the process when it writes a given one.
struct Lines {
    written: watch::Sender<Vec<(Output, String)>>,
    stop_at: Option<(&'static str, Stop, Duration)>,
}

impl Lines {
    fn new(stop_at: Option<(&'static str, Stop, Duration)>) -> Self {
        let written = watch::Sender::default();
        Self { written, stop_at }
    }

    fn all(&self) -> Vec<(Output, String)> {
        self.written.borrow().clone()
    }
}

impl ProcessEvents for Lines {
    fn started(&self, pid: Option<u32>, _pipes: Arc<Pipes>) {
        assert!(pid.is_some());
    }

    fn wrote(&self, output: Output, line: &str) {
        self.written
            .send_modify(|lines| lines.push((output, line.to_owned())));
        if let Some((at, stop, grace)) = &self.stop_at
            && line.starts_with(at)
        {
            stop.stop(*grace);
        }
    }
}

async fn run(
    program: &Program,
    events: &Lines,
    stops: StopRequests,
) -> Result<Option<i32>, String> {
    let launcher = Launcher::start().unwrap();
    let ended = timeout(BOUND, supervise(&launcher, program, events, stops))
        .await
        .expect("an end");
    ended
        .map(|status| status.code().or(status.signal()))
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_process_has_its_environment_alone_and_all_its_lines_are_read() {
    let lines = Lines::new(None);
    let program = shell("echo $WORD $PATH_OF_HOST; pwd; echo bad >&2; exit 3");
    let (_stop, stops) = Stop::channel();
    assert_eq!(run(&program, &lines, stops).await, Ok(Some(3)));
    let mut all = lines.all();
    all.sort_by_key(|(output, _)| *output == Output::Stderr);
    let expected = [
        (Output::Stdout, "hello"),
        (Output::Stdout, "/"),
        (Output::Stderr, "bad"),
    ];
    assert_eq!(
        all,
        expected.map(|(output, line)| (output, line.to_owned()))
    );
}

#[tokio::test]
async fn a_process_may_end_itself_within_its_grace() {
    let (stop, stops) = Stop::channel();
    let lines = Lines::new(Some(("ready", stop, LONG)));
    let program =
        shell("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 1 & wait; done");
    assert_eq!(run(&program, &lines, stops).await, Ok(Some(7)));
    assert_eq!(lines.all().last().unwrap().1, "bye");
}

#[tokio::test]
async fn a_process_that_does_not_end_is_killed_with_all_that_it_started() {
    let (stop, stops) = Stop::channel();
    let lines = Lines::new(Some(("child", stop.clone(), LONG)));
    let program = shell("trap '' TERM; sleep 1000 & echo child $!; wait; while :; do wait; done");
    let running = run(&program, &lines, stops);
    let shorten = async {
        let mut written = lines.written.subscribe();
        let has_child = written.wait_for(|lines| !lines.is_empty());
        drop(has_child.await.unwrap());
        // A later call can only shorten the grace.
        stop.stop(Duration::ZERO);
        stop.stop(LONG);
    };
    let (ended, ()) = tokio::join!(running, shorten);
    assert_eq!(ended, Ok(Some(9)));
    let first = lines.all()[0].1.clone();
    let child = first.strip_prefix("child ").unwrap();
    let gone = async {
        // A killed child may exist for a moment until it is reaped.
        while is_running(child) {
            tokio::task::yield_now().await;
        }
    };
    timeout(BOUND, gone)
        .await
        .expect("the whole group is killed");
}

fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some(Some('Z' | 'X')))
}

#[tokio::test]
async fn what_cannot_be_started_is_named() {
    let lines = Lines::new(None);
    for (command, wanted) in [
        (
            vec!["/nowhere/at/all".to_owned()],
            "\"/nowhere/at/all\": No such file",
        ),
        (Vec::new(), "the command is empty"),
    ] {
        let program = Program {
            command,
            ..shell("")
        };
        let (_stop, stops) = Stop::channel();
        let error = run(&program, &lines, stops).await.unwrap_err();
        assert!(
            error.starts_with("cannot start ") && error.contains(wanted),
            "{error}"
        );
    }
    assert_eq!(lines.all(), []);
}

#[test]
fn the_reason_of_what_ends_again_and_again_is_short() {
    let mut reason = Reason::default();
    for n in 0..1_000 {
        let line = format!("the runner has ended: exit status: {n}");
        reason.note(Output::Host, &line);
    }
    let text = reason.text().unwrap();
    assert!(text.starts_with("the runner has ended: exit status: 999; before: the runner"));
    assert!(text.chars().count() <= 2 * REASON_CHARS_MAX, "{text}");
}

#[test]
fn lines_are_bounded_and_whole() {
    let long = "x".repeat(LINE_BYTES_MAX + 10);
    let full = "y".repeat(LINE_BYTES_MAX);
    let text = format!("a\r\n\n{long}\n{full}\nb\u{fffd}\nlast");
    for step in [1, 7, LINE_BYTES_MAX, text.len()] {
        let mut buffer = LineBuffer::default();
        let mut lines: Vec<String> = Vec::new();
        for bytes in text.as_bytes().chunks(step) {
            buffer.push(bytes, |line| lines.push(line.to_owned()));
        }
        buffer.finish(|line| lines.push(line.to_owned()));
        let lengths: Vec<usize> = lines.iter().map(String::len).collect();
        let expected = [1, 0, LINE_BYTES_MAX, 10, LINE_BYTES_MAX, 4, 4];
        assert_eq!(lengths, expected, "{step}");
        assert_eq!(lines.concat().len(), text.len() - 6);
    }
    let mut buffer = LineBuffer::default();
    buffer.push(b"\xff\xfe\n", |line| assert_eq!(line, "\u{fffd}\u{fffd}"));
}
