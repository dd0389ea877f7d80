//! Why commands about jobs are refused, also those that enqueue jobs.

use std::fmt;

use host_core::graph;
use host_core::id::JobId;
use host_core::job::State;
use host_core::problem::INVALID_REQUEST;

use crate::refusals;

refusals! {
    /// Why a job cannot be changed or enqueued.
    pub enum JobRefusal {
        #[error("no job has the id {0}")]
        Unknown(JobId) = JOB_NOT_FOUND 404 "job_not_found", "No such job",
            "No job has this id, in full or as a prefix.",
            "`host job ls` lists the jobs; one that has ended is kept for its retention, by default 7 days.";
        #[error("the job is already {0}")]
        Terminal(State) = JOB_TERMINAL 409 "job_terminal", "The job has ended",
            "The job has ended already in a way that does not allow this.",
            "Look at the job's state; enqueue a new job to run it again.";
        /// The state of the job does not allow this input.
        #[error("the job is {0}, which does not allow this")]
        WrongState(State) = JOB_NOT_TERMINAL 409 "job_not_terminal", "The job has not ended",
            "Only jobs that are discarded or cancelled can be run again.",
            "It runs by itself: wait for its end, or cancel it first. If it is pending, `host job retry ID \
             --force` starts it without the jobs that it waits for; over HTTP, retry with {\"force\": true}.";
        /// The job belongs to another orchestrator, which alone decides whether it runs again.
        #[error("the job belongs to another orchestrator, which alone decides whether it runs again")]
        Foreign = JOB_FOREIGN 409 "job_foreign", "A job of another orchestrator",
            "The job was executed for another orchestrator; what is kept here is its history.",
            "Ask the orchestrator that the job's wire and external_id name to run it again.";
        /// A job cannot depend on a job that does not exist.
        #[error("no job has the id {0} named in depends_on")]
        UnknownPrerequisite(JobId) = UNKNOWN_PREREQUISITE 422 "unknown_prerequisite", "Unknown prerequisite",
            "This host does not know, or no longer keeps, a job named in depends_on.",
            "Name a job that exists; one that has ended is kept for its retention, by default 7 days.";
        /// Jobs of one command wait for each other. Has their places in the command, the first repeated at the end.
        #[error(fmt = show_cycle)]
        DependencyCycle(Vec<usize>) = DEPENDENCY_CYCLE 422 "dependency_cycle", "Jobs wait for each other",
            "The jobs depend on each other in a circle, so none of them could ever start.",
            "Remove one of the references along the path in the detail from depends_on or dependencies.";
        /// Another job that has not ended has the same unique key.
        #[error("job {0} has the same unique key and has not ended")]
        UniqueKeyTaken(JobId) = UNIQUE_KEY_TAKEN 409 "unique_key_taken", "Another job has the unique key",
            "Another job of the queue has the same unique key and has not ended, so this one cannot run again now.",
            "Wait for the job that the detail names, or cancel it.";
        /// A job cannot wait again for a job that is no longer kept.
        #[error("the job {0} that it waits for is no longer kept")]
        PrerequisiteGone(JobId) = PREREQUISITE_GONE 409 "prerequisite_gone", "A prerequisite is gone",
            "A job that the job waits for was removed after its retention, and its outcome is unknown.",
            "`host job retry ID --force` runs the job without it; over HTTP, retry with {\"force\": true}.";
        /// A job waits for the failure of one that has completed, for good.
        #[error("the job {0} has completed, and this one waits for it to fail")]
        PrerequisiteCompleted(JobId) = PREREQUISITE_COMPLETED 409 "prerequisite_completed", "A prerequisite has completed",
            "The job waits for another one to fail, and that one has completed, which is final.",
            "`host job retry ID --force` runs the job all the same; over HTTP, retry with {\"force\": true}.";
        /// A handler or principal that may not read results of other jobs asks for one as an input.
        #[error("the result of job {0} cannot be an input here")]
        InputHidden(JobId) = INPUT_HIDDEN 403 "input_hidden", "Result of another job",
            "An input is the result of a job that was there before. That needs the verb read_payload, and handlers cannot ask for it.",
            "Enqueue both jobs in one request, and name the other one as \"#n\".";
        /// A job that runs again cannot have an input. Says which and why.
        #[error("{0}")]
        InputFailed(String) = INPUT_FAILED 409 "input_failed", "Input cannot be given",
            "The result of a job that the job depends on is too large for its params, too deep, or no longer kept.",
            "`host job retry ID --force` runs the job without the inputs that it lacks.";
        #[error(
            "the jobs ask for more than {results_max} results of jobs that have ended, or {bytes_max} bytes of them"
        )]
        TooManyInputs {
            results_max: usize,
            bytes_max: usize,
        } = TOO_MANY_INPUTS 413 "too_many_inputs", "Too many inputs in one request",
            "The jobs of a request may get the results of at most 100 jobs that have ended, with at most 8 MiB of params.",
            "Split the array, or enqueue the jobs before those that they depend on end.";
        /// Jobs that wait for this one, which has ended, are still to be settled.
        #[error("the jobs that wait for {0} are still being settled")]
        CascadeUnfinished(JobId) = CASCADE_UNFINISHED 409 "cascade_unfinished", "Dependents not settled yet",
            "The job, or one that it waits for, has ended with many dependents, which are still being settled.",
            "Retry it in a moment; over HTTP, {\"force\": true} runs a dependent immediately."
            retry 1;
        /// Too many jobs have not ended.
        #[error("{jobs} jobs have not ended, and at most {limit} may wait or run")]
        TooManyWaiting {
            /// How many have not ended.
            jobs: u64,
            limit: u64,
        } = TOO_MANY_WAITING 429 "too_many_waiting", "Too many jobs wait",
            "The waiting and running jobs have reached limits.waiting_jobs. Nothing of this request was kept.",
            "Wait until jobs have ended, cancel some, or raise limits.waiting_jobs.";
        /// A new job asks for too many attempts.
        #[error("max_attempts: must be 1–{limit}, got {asked}")]
        TooManyAttempts { asked: u32, limit: u32 } = INVALID_REQUEST;
    }
}

fn show_cycle(jobs: &[usize], formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        formatter,
        "the jobs wait for each other: {}",
        graph::path(jobs)
    )
}
