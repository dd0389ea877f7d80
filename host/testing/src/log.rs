//! What the code under test logs, as an operator reads it at the default level.

use std::io;
use std::sync::{Arc, LazyLock, OnceLock};

use parking_lot::Mutex;
use tracing::Dispatch;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The log of this thread since it was made.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Keeps what this thread logs, until the guard is dropped.
    pub fn of_this_thread() -> (Self, impl Drop) {
        // While there is one subscriber alone, `tracing` asks the subscriber of the thread that comes first to an event
        // whether a subscriber wants it, and keeps the answer for all threads: a thread without a log would silence it.
        static SECOND: LazyLock<Dispatch> =
            LazyLock::new(|| Dispatch::new(Log::default().subscriber()));
        LazyLock::force(&SECOND);
        let log = Self::default();
        let guard = tracing::subscriber::set_default(log.subscriber());
        (log, guard)
    }

    /// Returns what all threads of this process log since the first call, if they keep no log of their own.
    pub fn of_this_process() -> Self {
        static LOG: OnceLock<Log> = OnceLock::new();
        let log = LOG.get_or_init(|| {
            let log = Self::default();
            // A process that logs elsewhere already keeps doing so.
            let _ = tracing::subscriber::set_global_default(log.subscriber());
            log
        });
        log.clone()
    }

    fn subscriber(&self) -> impl tracing::Subscriber + Send + Sync + 'static {
        tracing_subscriber::fmt()
            .with_max_level(LevelFilter::INFO)
            .with_ansi(false)
            .without_time()
            .with_writer(self.clone())
            .finish()
    }

    /// Returns the lines that have these words.
    pub fn lines_with(&self, words: &str) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.0.lock()).into_owned();
        let lines = text.lines().filter(|line| line.contains(words));
        lines.map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::Log;

    #[test]
    fn a_thread_without_a_log_silences_no_other() {
        let (log, _guard) = Log::of_this_thread();
        let say = || tracing::info!("for each test that listens");
        std::thread::spawn(say).join().unwrap();
        say();
        assert_eq!(log.lines_with("for each test that listens").len(), 1);
    }
}
