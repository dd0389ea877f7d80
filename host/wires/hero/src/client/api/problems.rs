//! The kinds of problem that requests about Hero jobs answer with, and what the client of Redis
//! reports as problems.

use host_http::problem::{Problem, kinds};

use crate::client::live::ClientError;
use crate::refusals::Refusal;

host_http::kinds! {
    DEPENDENCY_CYCLE 422 "dependency_cycle", "Jobs wait for each other",
        "The jobs depend on each other in a circle, so none of them could ever start.",
        "Remove one of the references along the path in the detail from depends_on or dependencies.";
    HERO_OFF 409 "hero_off", "Hero is not configured",
        "No Redis of Hero dispatchers is configured, or no folder for their log files.",
        "Set protocol.hero.url (HOST_HERO_URL) or protocol.hero.log_dir (HOST_HERO_LOG_DIR) and restart the host.";
    HERO_REDIS_AWAY 503 "hero_redis_away", "Redis unreachable",
        "The Redis of Hero dispatchers cannot be reached or refuses the command. The request may or may not have been carried out.",
        "Start Redis or correct protocol.hero.url, and repeat the request; with an id a repeated submission is safe."
        retry 1;
    HERO_JOB_NOT_FOUND 404 "hero_job_not_found", "No such Hero job",
        "The Redis of Hero dispatchers has no job of this id.",
        "`host hero ls` lists the jobs; write their ids in full.";
    HERO_JOB_ENDED 409 "hero_job_ended", "The Hero job has ended",
        "The job has ended already in a way that does not allow this.",
        "Look at it with `host hero status ID`, or submit a new job.";
    HERO_JOB_BUSY 409 "hero_job_busy", "The Hero job is being run",
        "A worker may be running the job, or it has just changed; if it were queued again now, it could run twice.",
        "Wait until it ends, or stop it; if its worker is gone, `force` queues it again anyway.";
    HERO_LOG_MISSING 404 "hero_log_missing", "No log file",
        "The job names no log file, has written none on this host, or the file is not where log files may be.",
        "Submit the job with a log_path below protocol.hero.log_dir, and ask the host that runs it.";
}

impl From<ClientError> for Problem {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Away(why) => Self::new(&HERO_REDIS_AWAY, why),
            ClientError::Refused(refusal) => of_refusal(&refusal),
            ClientError::Full => Self::new(&kinds::BUSY, error.to_string()),
        }
    }
}

fn of_refusal(refusal: &Refusal) -> Problem {
    let kind = match refusal.code() {
        "E_DEP_CYCLE" => &DEPENDENCY_CYCLE,
        "E_JOB_ENDED" => &HERO_JOB_ENDED,
        "E_JOB_BUSY" => &HERO_JOB_BUSY,
        "E_REPLY" => &HERO_REDIS_AWAY,
        _ => &kinds::INVALID_REQUEST,
    };
    Problem::new(kind, refusal.text())
}

pub(super) fn unknown(id: &str) -> Problem {
    Problem::new(&HERO_JOB_NOT_FOUND, format!("Redis has no job {id}"))
}
