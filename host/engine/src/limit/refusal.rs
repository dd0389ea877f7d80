//! Why commands about limits are refused, and new jobs because of limits.

use host_core::name::Name;

use crate::refusals;
use crate::schedule::Source;

refusals! {
    /// Why a limit cannot be changed, or refuses a job.
    pub enum LimitRefusal {
        #[error("no limit is named {0}")]
        Unknown(Name) = LIMIT_NOT_FOUND 404 "limit_not_found", "No such limit",
            "No limit has this name.",
            "`host limit ls` lists the limits.";
        #[error("there are {limit} limits already; remove some")]
        TooMany { limit: usize } = TOO_MANY_LIMITS 409 "too_many_limits", "Too many limits",
            "The host keeps at most 1000 limits.",
            "Remove some with `host limit rm`; `host limit ls` lists them.";
        /// The limit belongs to something else, with which it changes.
        #[error("the limit {limit} belongs to {}; change it there", .owner.in_words())]
        Owned { limit: Name, owner: Source } = LIMIT_OWNED 409 "limit_owned", "Limit is managed elsewhere",
            "The limit comes from the configuration, and changes with it.",
            "Change it there, or choose another name.";
        /// A key of a limit is full, and the limit refuses new jobs then.
        #[error("the limit {limit} is full{}", of_key(key))]
        Full { limit: Name, key: String } = LIMIT_FULL 422 "limit_full", "Limit is full",
            "The job's key has reached a limit that refuses further jobs.",
            "Send it again later. `host limit show NAME` shows how full the limit is; with `when_full` set to `wait`, jobs wait.";
        #[error("more than {limit} limits match the job")]
        TooManyOfJob { limit: usize } = TOO_MANY_LIMITS_OF_JOB 422 "too_many_limits_of_job", "Too many limits for one job",
            "More than 4 limits match the job.",
            "Narrow `match` of some; `host limit ls` lists the limits.";
        /// The key that a limit finds in a job is too long.
        #[error("the key of the limit {limit} has {bytes} bytes, more than {bytes_max}")]
        KeyTooLong {
            limit: Name,
            bytes: usize,
            bytes_max: usize,
        } = LIMIT_KEY_TOO_LONG 422 "limit_key_too_long", "Limit key too long",
            "The value that a limit takes from the job as its key is longer than 256 bytes.",
            "Send a shorter value, or let the key of the limit name another one.";
        /// A handler holds a key of a limit that its job does not have.
        #[error("the job has no limit {0}")]
        NotOfJob(Name) = LIMIT_NOT_FOUND;
        /// The units of a job are not a whole number, or more than the bucket ever holds.
        #[error(
            "the units of the limit {limit} must be a whole number, 0–{burst}: its bucket holds no more"
        )]
        Units { limit: Name, burst: u32 } = INVALID_LIMIT_UNITS 422 "invalid_limit_units", "Invalid units of a limit",
            "What a limit takes from the job as its units is not a whole number, or is more than its burst, so that the job could never start.",
            "Send a whole number that is not above the burst, or raise the burst; `host limit show NAME` shows the limit.";
    }
}

/// Names the key that is full, if the limit has several.
fn of_key(key: &str) -> String {
    if key.is_empty() {
        return String::new();
    }
    format!(" for {key}")
}
