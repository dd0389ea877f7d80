//! A spinner or a bar on the terminal while a command waits. If standard error is not a terminal, nothing is shown, or
//! a line now and then.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::Output;

/// One line on standard error that says what the command waits for.
#[derive(Debug)]
pub struct Spinner(Option<ProgressBar>);

impl Spinner {
    /// Shows `text` until the spinner is dropped.
    pub fn new(output: Output, text: &str) -> Self {
        Self(output.is_live().then(|| {
            let style = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed:>5}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            let bar = ProgressBar::new_spinner().with_style(style);
            bar.enable_steady_tick(Duration::from_millis(100));
            bar.set_message(text.to_owned());
            bar
        }))
    }

    /// Shows another text.
    pub fn say(&self, text: &str) {
        if let Self(Some(bar)) = self {
            bar.set_message(text.to_owned());
        }
    }

    /// Calls `write` while the spinner is hidden, so that its lines appear above the spinner.
    pub fn above(&self, write: impl FnOnce()) {
        match &self.0 {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Self(Some(bar)) = self {
            bar.finish_and_clear();
        }
    }
}

/// How long a wait takes before its first line, and the longest time between two lines.
const LINE_AFTER: Duration = Duration::from_secs(2);
const LINE_EVERY: Duration = Duration::from_mins(1);

/// A [`Spinner`], or lines on standard error where no spinner can be shown.
#[derive(Debug)]
pub struct Progress {
    _spinner: Spinner,
    lines: Option<Lines>,
}

impl Progress {
    /// Shows `text` until it is dropped.
    pub fn new(output: Output, text: &str) -> Self {
        let shows_lines = output.is_human() && !output.is_live();
        Self {
            _spinner: Spinner::new(output, text),
            lines: shows_lines.then(|| Lines::start(output, text.to_owned())),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(Lines { waits, thread }) = self.lines.take() {
            drop(waits);
            let _ = thread.join();
        }
    }
}

/// A thread that writes lines until the other side of its channel is dropped.
#[derive(Debug)]
struct Lines {
    waits: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Lines {
    fn start(output: Output, text: String) -> Self {
        let (waits, ended) = sync_channel(1);
        let thread = thread::spawn(move || {
            let (mut waited, mut pause) = (Duration::ZERO, LINE_AFTER);
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                waited += pause;
                output.note(&format!("{text}: {} s", waited.as_secs()));
                pause = waited.min(LINE_EVERY);
            }
        });
        Self { waits, thread }
    }
}

/// A bar on standard error that shows how much of a known amount is done.
#[derive(Debug)]
pub struct Bar(Option<ProgressBar>);

impl Bar {
    /// Shows `text` and a bar until it is dropped.
    pub fn new(output: Output, text: &str, total: u64) -> Self {
        Self(output.is_live().then(|| {
            let template = "{msg} {wide_bar} {human_pos} of {human_len}, {per_sec}, {eta}";
            let style = ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::new(total).with_style(style);
            bar.set_message(text.to_owned());
            bar
        }))
    }

    /// Adds progress.
    pub fn add(&self, more: u64) {
        if let Self(Some(bar)) = self {
            bar.inc(more);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Self(Some(bar)) = self {
            bar.finish_and_clear();
        }
    }
}
