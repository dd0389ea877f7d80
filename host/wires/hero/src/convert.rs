//! Translates jobs into work for our cells, and outcomes into what is written to Redis.

pub(super) mod outcome;

use host_core::failure::{Failure, FailureKind};
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::port::ForeignJob;
use serde_json::{Value, json};

use super::NAME;
use super::job::{HeroJob, OUTPUT_BYTES_MAX};
use super::messages::STOPPED;
use super::refusals::Refusal;

/// The `error` of a job that exceeded its time limit.
const TIMEOUT: &str = "timeout";

/// How a job ended, as reported to its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The job finished with this output.
    Finished(String),
    /// The job failed with this error.
    Error(String),
}

impl Ending {
    /// Returns the ending of a job that was stopped.
    pub(super) fn stopped() -> Self {
        Self::Error(STOPPED.to_owned())
    }

    pub(super) const fn status(&self) -> &'static str {
        match self {
            Self::Finished(_) => "finished",
            Self::Error(_) => "error",
        }
    }

    /// Returns the name and the value of the result field.
    pub(super) fn field(&self) -> (&'static str, &str) {
        match self {
            Self::Finished(output) => ("output", output),
            Self::Error(error) => ("error", error),
        }
    }

    /// Returns the text that is pushed to the reply list; nothing for an output, which is its own
    /// reply.
    pub(super) fn reply(&self) -> String {
        match self {
            Self::Finished(_) => String::new(),
            Self::Error(error) => json!({"error": error}).to_string(),
        }
    }
}

/// What happens after an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The job has ended.
    Ended(Ending),
    /// The job is retried if retries are left, after its backoff, and not before `after_ms` if the handler asks for a wait.
    Again {
        after_ms: Option<u64>,
        /// How the job ends if no retry is left.
        ending: Ending,
        /// Whether this attempt counts against the retries.
        charged: bool,
    },
}

impl Verdict {
    /// Returns what happens after an attempt that exceeded its time limit.
    pub(super) fn timed_out() -> Self {
        Self::Again {
            after_ms: None,
            ending: Ending::Error(TIMEOUT.to_owned()),
            charged: true,
        }
    }
}

/// Returns what happens after an attempt with this outcome.
pub(super) fn verdict(outcome: Outcome) -> Verdict {
    match outcome {
        Outcome::Completed { result } => Verdict::Ended(Ending::Finished(output(result.as_ref()))),
        Outcome::Cancelled { .. } => Verdict::Ended(Ending::Error(STOPPED.to_owned())),
        Outcome::Retry { reason, after_ms } => Verdict::Again {
            after_ms,
            ending: Ending::Error(reason),
            charged: true,
        },
        Outcome::Failed(failure) => {
            let ending = Ending::Error(error(&failure));
            let lost = matches!(failure.kind, FailureKind::CellLost | FailureKind::LeaseLost);
            if failure.is_retryable() {
                Verdict::Again {
                    after_ms: None,
                    ending,
                    charged: !lost,
                }
            } else {
                Verdict::Ended(ending)
            }
        }
    }
}

/// Makes the output: a string as is, an empty text for `null` or no result, otherwise JSON.
fn output(result: Option<&JsonText>) -> String {
    let Some(result) = result else {
        return String::new();
    };
    match serde_json::from_str(result.as_str()) {
        Ok(Value::String(text)) => text,
        Ok(Value::Null) => String::new(),
        _ => result.as_str().to_owned(),
    }
}

fn error(failure: &Failure) -> String {
    match failure.kind {
        FailureKind::TimedOut => TIMEOUT.to_owned(),
        FailureKind::Cancelled | FailureKind::CancelTimeout => STOPPED.to_owned(),
        FailureKind::UserError => {
            let kind = failure.user_kind.as_deref().unwrap_or("error");
            format!("{kind}: {}", failure.message)
        }
        FailureKind::Trapped
        | FailureKind::FuelExhausted
        | FailureKind::MemoryLimit
        | FailureKind::ResultTooLarge
        | FailureKind::InvalidParams
        | FailureKind::HandlerNotFound
        | FailureKind::GrantMissing
        | FailureKind::LeaseLost
        | FailureKind::CellLost
        | FailureKind::Poison
        | FailureKind::PrerequisiteFailed
        | FailureKind::InputFailed
        | FailureKind::StepsDiverged
        | FailureKind::WritesRefused => {
            format!("{}: {}", failure.kind.as_str(), failure.message)
        }
    }
}

/// Makes the work for one attempt.
pub(super) fn work(job: &HeroJob, worker: &str, attempt: u32) -> Result<ForeignJob, Refusal> {
    let (handler, params) = job.call()?;
    let attributes = [
        ("caller_id", &job.caller_id),
        ("context_id", &job.context_id),
    ];
    Ok(ForeignJob {
        wire: NAME,
        external_id: job.id.clone(),
        request_id: format!("{}-{attempt}", job.id),
        handler,
        params: JsonText(params),
        kept_params: job.kept_params().map(JsonText),
        queue: worker.to_owned(),
        attempt,
        enqueued_at: job.created_at,
        deadline: None,
        timeout_ms: Some(job.timeout_ms),
        trace: Vec::new(),
        worker_id: Some(worker.to_owned()),
        attributes: attributes
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .chain(job.attributes.clone())
            .collect(),
        env: job.env.clone().into_iter().collect(),
        wants_log: job.log_path.is_some(),
        span: "hero.job",
        result_bytes_max: OUTPUT_BYTES_MAX as u64,
    })
}
