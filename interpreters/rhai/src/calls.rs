//! `run(handler, params)`: calls of deployed handlers. A call without an answer ends the script with an error
//! that requests it; the host starts the script again with the answers so far.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;

use guest_sdk::schemars::{self, JsonSchema};
use guest_sdk::{Category, Error};
use rhai::{Dynamic, Engine, EvalAltResult, Map, Position};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::value;

/// The error kinds of a requested call, and of a script that a failed call ended.
const CALL: &str = "script_call";
const CALL_FAILED: &str = "script_call_failed";

/// The answer to one call.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Answer {
    /// Identifies the call: its handler and params.
    key: String,
    /// The handler's result.
    #[serde(default)]
    ok: Value,
    /// Why there is no result.
    failed: Option<FailedCall>,
}

/// A failed call, as scripts see it.
#[derive(Clone, Deserialize, JsonSchema)]
pub(crate) struct FailedCall {
    kind: String,
    message: String,
}

/// The calls of one run of a script. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Calls(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    answers: Vec<Answer>,
    made: usize,
    /// Why the script must end: a call without an answer, or a call that differs from the last run.
    ending: Option<Error>,
}

impl Calls {
    pub(crate) fn new(answers: Vec<Answer>) -> Self {
        Self(Rc::new(RefCell::new(State {
            answers,
            ..State::default()
        })))
    }

    /// Returns whether the script is still repeating what it did before its last answer.
    pub(crate) fn is_repeating(&self) -> bool {
        let state = self.0.borrow();
        state.made < state.answers.len()
    }

    /// Adds `run` to an engine.
    pub(crate) fn register(&self, engine: &mut Engine) {
        let calls = self.clone();
        engine.register_fn("run", move |handler: &str, params: Map| {
            calls.call(handler, params)
        });
        let calls = self.clone();
        engine.register_fn("run", move |handler: &str| calls.call(handler, Map::new()));
    }

    /// Takes the error that must end the script, if a call made one.
    pub(crate) fn ending(&self) -> Option<Error> {
        self.0.borrow_mut().ending.take()
    }

    /// Returns the error of a script that ends with this value because a call failed.
    pub(crate) fn failure(&self, thrown: &Dynamic) -> Option<Error> {
        let thrown = thrown.read_lock::<Map>()?;
        let number = thrown.get("number")?.as_int().ok()?;
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        let state = self.0.borrow();
        let failed = state.answers.get(place)?.failed.as_ref()?;
        let details = json!({"call": number});
        Some(Error::fatal(CALL_FAILED, &failed.message).details(&details))
    }

    fn call(&self, handler: &str, params: Map) -> Result<Dynamic, Box<EvalAltResult>> {
        let params = value::to_json(&params.into()).map_err(|error| thrown(text_of(&error)))?;
        let key = key(handler, &params);
        let mut state = self.0.borrow_mut();
        let place = state.made;
        state.made += 1;
        let number = state.made;
        let ending = match state.answers.get(place) {
            Some(answer) if answer.key == key => {
                return match &answer.failed {
                    None => Ok(value::from_json(&answer.ok)),
                    Some(failed) => Err(thrown(failed.thrown(number, handler)).into()),
                };
            }
            Some(_) => {
                let message = format!(
                    "call {number} differs from the previous run of the script; a script that calls \
                     handlers must do the same each time, so it must not depend on timestamp()"
                );
                Error::fatal("script_not_repeatable", message)
            }
            None => {
                let message = format!("the script calls {handler}, which needs a running host");
                let details = json!({"handler": handler, "params": params, "key": key});
                Error::new(Category::UserCode, CALL, message).details(&details)
            }
        };
        state.ending = Some(ending);
        // The script cannot catch this.
        let end = EvalAltResult::ErrorTerminated(Dynamic::UNIT, Position::NONE);
        Err(end.into())
    }
}

impl FailedCall {
    fn thrown(&self, number: usize, handler: &str) -> Dynamic {
        let mut thrown = Map::new();
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        thrown.insert("number".into(), number.into());
        thrown.insert("handler".into(), handler.to_owned().into());
        thrown.insert("kind".into(), self.kind.clone().into());
        thrown.insert("message".into(), self.message.clone().into());
        thrown.into()
    }
}

fn thrown(value: impl Into<Dynamic>) -> EvalAltResult {
    EvalAltResult::ErrorRuntime(value.into(), Position::NONE)
}

fn text_of(error: &Error) -> String {
    match error {
        Error::Failed(failed) => failed.message.clone(),
        _ => String::new(),
    }
}

fn key(handler: &str, params: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    (handler, params.to_string()).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
