//! Calls of a script: it ends with a call that has no answer yet, that handler runs, and the script is
//! started again with the answers so far. It comes to the same call again, because nothing else that
//! it sees has changed. So one instance exists at a time, and nothing of a guest is kept.

use std::collections::BTreeMap;

use host_core::chain::{ANSWERS, CALL, CALL_FAILED};
use host_core::failure::{Failure, FailureKind};
use host_core::json::{DEPTH_MAX, JsonText, shorten};
use host_core::name::Name;
use host_core::outcome::Outcome;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::planning::{Listed, Wanted};
use super::{AttemptBudget, Chain, Next, Planned, STEPS_MAX, Step};
use crate::compile::schema;

/// How many levels an answer is nested in the script's params.
const LEVELS: usize = 3;

/// The calls of one attempt.
#[derive(Clone)]
pub(super) struct Calls {
    script: Step,
    current: Option<Current>,
    answers: Vec<String>,
    /// The failures of calls, by the number of the call.
    failures: BTreeMap<usize, Failure>,
    /// How many steps the checks of params may still take.
    checks_left: u64,
}

/// The call that runs.
#[derive(Clone)]
struct Current {
    handler: Name,
    key: String,
    /// What the script keeps with the answer.
    kept: Option<Box<RawValue>>,
}

/// The details of an error that requests a call.
#[derive(Deserialize)]
struct CallRequest {
    handler: Name,
    params: Box<RawValue>,
    key: String,
    kept: Option<Box<RawValue>>,
}

/// The details of an error that a failed call caused.
#[derive(Deserialize)]
struct Cause {
    call: usize,
}

impl Calls {
    pub(super) fn new(script: Step) -> Self {
        Self {
            script,
            current: None,
            answers: Vec::new(),
            failures: BTreeMap::new(),
            checks_left: schema::STEPS_MAX,
        }
    }

    /// Returns the script with the answers so far in its params.
    fn script(&self) -> Result<Step, Failure> {
        let params = self.script.params.as_str();
        let unread = |error: serde_json::Error| {
            let message = format!("the params of the script must be an object: {error}");
            Failure::new(FailureKind::InvalidParams, message)
        };
        let mut params: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(params).map_err(unread)?;
        let array = format!("[{}]", self.answers.join(","));
        let answers = RawValue::from_string(array).map_err(unread)?;
        params.insert(ANSWERS.to_owned(), answers);
        Ok(Step {
            params: JsonText(serde_json::to_string(&params).map_err(unread)?),
            ..self.script.clone()
        })
    }

    fn number(&self) -> usize {
        self.answers.len() + 1
    }

    /// Adds to a failure of the current call which call that is.
    fn blame(&self, mut failure: Failure) -> Failure {
        if let Some(Current { handler, .. }) = &self.current {
            failure.message = format!("call {}, {handler}: {}", self.number(), failure.message);
        }
        failure
    }

    /// Adds the answer to the current call.
    fn answer(&mut self, result: Result<JsonText, Failure>) {
        let failed = result.as_ref().err().cloned();
        if let Some(failure) = failed {
            let failure = self.blame(failure);
            self.failures.insert(self.number(), failure);
        }
        let current = self.current.take();
        let key = current
            .as_ref()
            .map(|current| json!(current.key))
            .unwrap_or_default();
        let saved = current.and_then(|current| current.kept);
        let kept = saved.map_or_else(String::new, |saved| format!(r#","kept":{saved}"#));
        self.answers.push(match result {
            Ok(result) => format!(r#"{{"key":{key},"ok":{}{kept}}}"#, result.as_str()),
            Err(failure) => {
                let kind = failure.error_name();
                let failed = json!({"kind": kind, "message": failure.message});
                format!(r#"{{"key":{key},"failed":{failed}{kept}}}"#)
            }
        });
    }
}

impl Chain {
    /// Records how the script or a handler that it called ended, and returns what to do next.
    pub(super) fn next_of_script(&mut self, outcome: Outcome, left: AttemptBudget) -> Next {
        match self.running.take() {
            None => self.script_ended(outcome),
            Some(_) => self.call_ended(outcome, left),
        }
    }

    /// Accepts the planned call and returns what to do next.
    pub(super) fn call_planned(&mut self, planned: Planned, left: AttemptBudget) -> Next {
        if let Some(calls) = &mut self.calls {
            calls.checks_left = planned.checks_left;
        }
        match planned.steps.map(|mut steps| steps.pop_front()) {
            Ok(Some(step)) if !left.stopping => {
                let name = step.handler.info.name.clone();
                let begun = self.begin(step, left);
                self.running = Some(name);
                begun.unwrap_or_else(|failure| self.end(failure))
            }
            Ok(_) => Next::End(Outcome::Cancelled { partial: None }),
            Err(failure) => self.record_answer(Err(failure), left),
        }
    }

    fn script_ended(&mut self, outcome: Outcome) -> Next {
        let Outcome::Failed(failure) = outcome else {
            return Next::End(outcome);
        };
        let details = failure.details.as_ref().map_or("null", JsonText::as_str);
        match failure.user_kind.as_deref() {
            Some(CALL) => match serde_json::from_str::<CallRequest>(details) {
                Ok(asked) => self.call(asked),
                Err(error) => {
                    let message = format!("the script requested an invalid call: {error}");
                    let broken = Failure::new(FailureKind::Trapped, message);
                    Next::End(Outcome::Failed(broken))
                }
            },
            Some(CALL_FAILED) => {
                let parsed = serde_json::from_str::<Cause>(details)
                    .ok()
                    .zip(self.calls.as_ref());
                let cause = parsed.and_then(|(parsed, calls)| calls.failures.get(&parsed.call));
                Next::End(Outcome::Failed(cause.cloned().unwrap_or(failure)))
            }
            _ => Next::End(Outcome::Failed(failure)),
        }
    }

    fn call(&mut self, asked: CallRequest) -> Next {
        let Some(calls) = &mut self.calls else {
            return Next::End(Outcome::Cancelled { partial: None });
        };
        if calls.number() > STEPS_MAX {
            let message = format!("the script made more than {STEPS_MAX} calls; split it");
            let failure = Failure::new(FailureKind::InvalidParams, message);
            return Next::End(Outcome::Failed(failure));
        }
        calls.current = Some(Current {
            handler: asked.handler.clone(),
            key: asked.key,
            kept: asked.kept,
        });
        let checks_left = calls.checks_left;
        let listed = Listed {
            handler: asked.handler,
            params: asked.params,
        };
        Next::Plan(self.plan(Wanted::Call(listed), checks_left))
    }

    fn call_ended(&mut self, outcome: Outcome, left: AttemptBudget) -> Next {
        match outcome {
            Outcome::Completed { result } => {
                self.record_answer(Ok(result.unwrap_or_else(JsonText::null)), left)
            }
            Outcome::Failed(failure) if is_caught(failure.kind) => {
                self.record_answer(Err(failure), left)
            }
            Outcome::Failed(failure) => self.end(failure),
            Outcome::Retry { .. } => Next::End(outcome),
            Outcome::Cancelled { .. } => Next::End(Outcome::Cancelled { partial: None }),
        }
    }

    /// Starts the script again with the answer to its last call.
    fn record_answer(&mut self, result: Result<JsonText, Failure>, left: AttemptBudget) -> Next {
        if left.stopping {
            return Next::End(Outcome::Cancelled { partial: None });
        }
        if let Ok(result) = &result
            && result.depth() + LEVELS > DEPTH_MAX
        {
            let levels = DEPTH_MAX - LEVELS;
            let message = format!("the result is nested deeper than {levels} levels");
            return self.end(Failure::new(FailureKind::ResultTooLarge, message));
        }
        let Some(calls) = &mut self.calls else {
            return Next::End(Outcome::Cancelled { partial: None });
        };
        if let Ok(result) = &result
            && let Some(number) = result.rounded_number()
        {
            let message = format!(
                "scripts would round {} in the result, which neither a 64-bit integer nor a double holds; return it \
                 as a string",
                shorten(number)
            );
            return self.end(Failure::new(FailureKind::Trapped, message));
        }
        calls.answer(result);
        self.result_bytes += calls.answers.last().map_or(0, String::len) as u64 + 1;
        let limit = self.limits.result_bytes_max;
        if self.result_bytes > limit {
            let message = format!("the answers to its calls have more than {limit} bytes together");
            let failure = Failure::new(FailureKind::ResultTooLarge, message);
            return Next::End(Outcome::Failed(failure));
        }
        let script = calls.script();
        let begun = script.and_then(|script| self.begin(script, left));
        begun.unwrap_or_else(|failure| Next::End(Outcome::Failed(failure)))
    }

    fn end(&self, failure: Failure) -> Next {
        let calls = self.calls.as_ref();
        let failure = match calls {
            Some(calls) => calls.blame(failure),
            None => failure,
        };
        Next::End(Outcome::Failed(failure))
    }
}

/// Returns whether a script may catch a call's failure of this kind. What the attempt shares ends it.
const fn is_caught(kind: FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::UserError
            | FailureKind::Trapped
            | FailureKind::MemoryLimit
            | FailureKind::ResultTooLarge
            | FailureKind::InvalidParams
            | FailureKind::HandlerNotFound
            | FailureKind::GrantMissing
    )
}
