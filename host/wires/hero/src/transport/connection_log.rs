//! Logs the state of one session's connection for people. Why Redis cannot be reached is logged once; of
//! repeated refusals, the 1st, 2nd, 4th and so on.

use host_wire_kit::trouble::Trouble;

use super::url::RedisUrl;

pub(crate) struct ConnectionLog {
    redis: String,
    /// The worker id, if the session has the worker role.
    worker_id: Option<String>,
    texts: &'static Texts,
    trouble: Trouble,
}

struct Texts {
    connected: &'static str,
    away: &'static str,
    refused: &'static str,
}

const WORKER: Texts = Texts {
    connected: "taking jobs from Redis",
    away: "Redis cannot be reached; running jobs continue; retrying every 2 s",
    refused: "Redis refuses a command; retrying until it succeeds: check its memory, its \
              role, the user's permissions and the types of the keys hero:*",
};

const ORCHESTRATOR: Texts = Texts {
    connected: "ready to send jobs for Hero workers to Redis",
    away: "Redis cannot be reached; jobs for Hero workers wait; retrying every 2 s",
    refused: "Redis refuses commands for Hero workers; retrying until they succeed",
};

impl ConnectionLog {
    pub(crate) fn of_worker(url: &RedisUrl, worker_id: &str) -> Self {
        Self {
            redis: url.to_string(),
            worker_id: Some(worker_id.to_owned()),
            texts: &WORKER,
            trouble: Trouble::default(),
        }
    }

    pub(crate) fn of_orchestrator(url: &RedisUrl) -> Self {
        Self {
            redis: url.to_string(),
            worker_id: None,
            texts: &ORCHESTRATOR,
            trouble: Trouble::default(),
        }
    }

    /// Logs that Redis can be reached, for the first time or again.
    pub(crate) fn connected(&self) {
        let Self {
            redis,
            worker_id,
            texts,
            trouble,
        } = self;
        let _ = trouble.is_over();
        let worker_id = worker_id.as_deref();
        tracing::info!(worker_id, redis, "{}", texts.connected);
    }

    /// Logs that Redis cannot be reached, for the `tries`th time in a row. `why` has no secrets.
    pub(crate) fn away(&self, tries: u32, why: &str) {
        if self.trouble.is_news(why) {
            self.warn(tries, why, self.texts.away);
        }
    }

    /// Logs that Redis has refused a command, for the `times`th time in a row. `why` has no
    /// secrets.
    pub(crate) fn refused(&self, times: u32, why: &str) {
        if times.is_power_of_two() {
            self.warn(times, why, self.texts.refused);
        }
    }

    fn warn(&self, times: u32, why: &str, text: &str) {
        let worker_id = self.worker_id.as_deref();
        tracing::warn!(worker_id, redis = self.redis, times, why, "{text}");
    }
}
