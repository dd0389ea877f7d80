//! Closed lists of words, as the OpenAPI document describes them. They come from the lists that the code has.

use std::borrow::Cow;

use host_core::access::Role;
use host_core::failure::{CATEGORIES, Category, FAILURE_KINDS, FailureKind};
use host_core::job::{STATES, State};
use host_core::prerequisite::When;
use host_core::requests::FAILED_ENDS;
use host_engine::node::{STANDINGS, Standing};
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Returns the word that the API has for a choice.
pub fn word_of(choice: impl Serialize) -> String {
    let value = serde_json::to_value(choice).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// Reads a choice by the word that the API has for it. The error has the words that there are.
pub fn choice<T: DeserializeOwned>(word: &str) -> Result<T, String> {
    serde_json::from_value(word.into()).map_err(|error| {
        let error = error.to_string();
        let words = error.split_once("expected ");
        words.map_or_else(String::new, |(_, words)| format!("expected {words}"))
    })
}

macro_rules! words {
    ($(#[doc = $about:literal] $name:ident: $words:expr;)+) => {$(
        #[doc = $about]
        #[derive(Debug)]
        pub enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let object = ObjectBuilder::new().schema_type(Type::String).description(Some($about.trim()));
                object.enum_values(Some($words)).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                stringify!($name).into()
            }
        }
    )+};
}

words! {
    /// Whether jobs may be added to a batch, and whether its jobs have ended.
    BatchState: ["open", "closed", "ended"];
    /// What a callback of a batch waits for.
    BatchCallback: ["on_first_failure", "on_success", "on_end"];
    /// What happens to a new job whose key of a limit is full.
    LimitWhenFull: ["wait", "refuse", "replace_waiting", "cancel_running"];
    /// What happens to a firing while an earlier job of the schedule has not ended.
    ScheduleOverlap: ["skip", "queue_one", "queue_all", "cancel", "allow"];
    /// What happens to firings that passed while no host was there.
    ScheduleCatchUp: ["none", "last", "all"];
    /// What became of a firing.
    FiringFate: ["fired", "held", "skipped", "missed", "failed"];
    /// The state of a job.
    JobState: STATES.map(State::as_str);
    /// How an attempt ended, or that it runs.
    AttemptOutcome: ["running", "completed", "failed", "retry", "cancelled", "lost"];
    /// Why an attempt failed.
    FailureWord: FAILURE_KINDS.map(FailureKind::as_str);
    /// Who has to act on a failure.
    FailureCategory: CATEGORIES.map(Category::as_str);
    /// A part of a document that the caller may not see.
    Withheld: [
        "params", "result", "artifacts", "failure", "reason", "keys", "waits_because", "depends_on", "inputs", "files",
    ];
    /// Why a request to an HTTP server got no answer.
    RequestErrorWord: FAILED_ENDS.map(|end| end.error().unwrap_or_default());
    /// The state of a node.
    NodeState: STANDINGS.map(Standing::as_str);
    /// The state of a foreign runner.
    RunnerState: ["down", "starting", "up", "draining", "ending"];
    /// How severe a line of a log is.
    LogLevel: ["trace", "debug", "info", "warn", "error"];
    /// Where a line of a log comes from.
    LogLineSource: ["log", "stdout", "stderr", "host"];
    /// Where a limit comes from.
    LimitSource: ["api", "configuration"];
    /// A named set of verbs.
    TokenRole: Role::ALL.iter().map(|role| role.as_str());
    /// What becomes of an earlier job with the same unique key.
    UniqueOnConflict: ["keep", "replace", "push_back"];
    /// How a job has to end for one that waits for it to start.
    PrerequisiteWhen: [When::Completed, When::Ended, When::Failed].map(When::as_str);
    /// The order of a list.
    ListOrder: ["newest", "oldest"];
}
