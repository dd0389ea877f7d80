//! What a handler knows about its job and can do while it runs.

use std::fmt::Display;
use std::rc::Rc;
use std::time::Duration;

use crate::error::Error;
use crate::services::Services;

/// How urgent a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For whoever debugs the handler in depth.
    Trace,
    /// For whoever debugs the handler.
    Debug,
    /// Worth knowing.
    Info,
    /// Worth a look.
    Warn,
    /// Something failed.
    Error,
}

/// The job that a handler executes an attempt of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Identifies the job over all its attempts.
    pub id: String,
    /// Identifies this attempt.
    pub request_id: String,
    /// The handler's name.
    pub handler: String,
    /// The queue the job waited in.
    pub queue: String,
    /// The wire it came by.
    pub protocol: String,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// How many attempts count.
    pub max_attempts: Option<u32>,
    /// When the job was accepted, RFC 3339.
    pub enqueued_at: String,
    /// When no attempt may run any more, RFC 3339.
    pub deadline: Option<String>,
    /// Who executes it.
    pub worker_id: Option<String>,
    /// W3C trace context.
    pub trace: Vec<(String, String)>,
    /// Whatever else the job's sender attached.
    pub attributes: Vec<(String, String)>,
}

/// The job at hand, and the host.
#[derive(Clone)]
pub struct Ctx {
    job: Rc<Job>,
    services: Rc<dyn Services>,
}

impl Ctx {
    pub(crate) fn new(job: Job, services: impl Services + 'static) -> Self {
        Self {
            job: Rc::new(job),
            services: Rc::new(services),
        }
    }

    /// Returns the job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Returns the attribute `name` of the job.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let mut attributes = self.job.attributes.iter();
        attributes
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns why the job is to stop, once somebody wants that.
    pub fn cancelled(&self) -> Option<String> {
        self.services.cancelled()
    }

    /// Ends the handler with `?` once somebody wants it to stop. To keep what is done until then,
    /// look at [`Ctx::cancelled`] and return [`Error::cancelled`].
    pub fn check_cancelled(&self) -> Result<(), Error> {
        match self.cancelled() {
            Some(_) => Err(Error::Cancelled { partial: None }),
            None => Ok(()),
        }
    }

    /// Returns how much of the time limit is left.
    pub fn remaining(&self) -> Option<Duration> {
        let ms = self.services.remaining_ms()?;
        Some(Duration::from_millis(ms.into()))
    }

    /// Tells how far the job is, 0 to 100 percent, and what it is doing.
    pub fn progress(&self, percent: f32, message: impl Display) {
        self.services.progress(Some(percent), &message.to_string());
    }

    /// Waits without using CPU. Durations over 49 days are cut.
    pub fn sleep(&self, duration: Duration) {
        let ms = u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
        self.services.sleep_ms(ms);
    }

    /// Writes a line with fields to the job's log.
    pub fn log(&self, level: Level, message: impl Display, fields: &[(&str, &str)]) {
        self.services.log(level, &message.to_string(), fields);
    }

    /// Writes a line to the job's log.
    pub fn info(&self, message: impl Display) {
        self.log(Level::Info, message, &[]);
    }

    /// Writes a warning to the job's log.
    pub fn warn(&self, message: impl Display) {
        self.log(Level::Warn, message, &[]);
    }
}
