//! What the kinds of failures mean to people: how an attempt of an accepted job ends, which is no
//! refusal.

use host_core::failure::FailureKind;

use super::Explanation;

/// Returns what a kind means and what to do about it.
pub fn explain(kind: FailureKind) -> &'static Explanation {
    macro_rules! kinds {
        ($($variant:ident $code:literal, $title:literal, $explanation:literal, $next:literal;)+) => {
            match kind {
                $(FailureKind::$variant => &Explanation {
                    code: $code,
                    status: None,
                    title: $title,
                    explanation: $explanation,
                    next: $next,
                },)+
            }
        };
    }
    kinds! {
        UserError "user_error", "The handler returned an error",
            "The handler ended with an error of its own; category, code and message are its own.",
            "Read the message and `host job logs ID`.";
        Trapped "trapped", "The guest trapped",
            "The handler panicked, aborted, exited, ran out of stack or broke the component model's rules.",
            "Read the message and the stack in `host job show ID`; correct the handler and deploy it.";
        FuelExhausted "fuel_exhausted", "CPU budget used up",
            "The attempt has used all the fuel that its handler may use.",
            "Make the work smaller, or raise `fuel` in the manifest.";
        TimedOut "timed_out", "Time is up",
            "The attempt did not end within its time limit, or the deadline of the job passed.",
            "Read which limit it was in the message: make the work smaller, raise `timeout_seconds` in the manifest or of the job, or give the job a later deadline.";
        MemoryLimit "memory_limit", "Out of memory",
            "The guest asked for more memory than its handler may have.",
            "Make the work smaller, or raise `memory_mib` in the manifest.";
        ResultTooLarge "result_too_large", "Result too large",
            "The handler returned more than it may.",
            "Return less, or raise `result_kib` in the manifest (at most 16 MiB).";
        InvalidParams "invalid_params", "Params do not fit the handler",
            "The handler cannot read its params.",
            "Enqueue a job with other params.";
        HandlerNotFound "handler_not_found", "No such handler",
            "When the attempt was to start, no deployed component had the handler.",
            "Deploy the component and `host job retry ID`.";
        GrantMissing "grant_missing", "Not available to the handler",
            "The handler called a function of sockets, which handlers do not have, or its manifest grants a directory or variable that this host does not have any more. The message names it.",
            "Send requests with host:jobs/http or wasi:http, to servers that the manifest names under `http`, and deploy the handler. Create the directory or variable, or take the grant out of the manifest. Then `host job retry ID`.";
        Cancelled "cancelled", "Cancelled",
            "The job was cancelled on request.",
            "`host job retry ID` runs it again.";
        CancelTimeout "cancel_timeout", "Cancel not answered",
            "The worker of a cancelled job did not confirm in time that it had stopped.",
            "Check the worker: it may still be running the job.";
        LeaseLost "lease_lost", "Lease lost",
            "The worker did not confirm its lease in time.",
            "Nothing: the job is retried. Check the worker if this happens often.";
        CellLost "cell_lost", "Cell lost",
            "The process that ran the guest ended, or the host did.",
            "Nothing: the job is retried and no attempt is charged.";
        Poison "poison", "Kills its cell",
            "The process that ran the guest died several times while the job was alone in it.",
            "Report it with the component and the params.";
        PrerequisiteFailed "prerequisite_failed", "Prerequisite failed",
            "A job that this one waited for was discarded or cancelled.",
            "Retry the prerequisite, then retry this job.";
        InputFailed "input_failed", "Input cannot be given",
            "The result of a job that this one depends on is too large for its params, too deep, or no longer kept. The message says which.",
            "Have that job return less, or a reference to the data. `host job retry ID --force` runs this job \
             without the inputs that it lacks.";
        StepsDiverged "steps_diverged", "Steps have diverged",
            "The handler meets its steps in another order than the attempts before it. The message names both steps.",
            "Deploy a handler that meets the steps of the journal in their order, then retry the job.";
        WritesRefused "writes_refused", "Writes refused",
            "The handler returned, but the jobs that it enqueued, or the state that it set, conflict with what the store has by now. The message says why. Nothing of the attempt was written.",
            "Nothing: the job is retried, and the next attempt sees what has changed. Read the message if it happens often.";
    }
}
