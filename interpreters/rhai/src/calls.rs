//! `run(handler, params)`: calls of deployed handlers. A call without an answer ends the script with an error
//! that requests it; the host starts the script again with the answers so far. What must happen once, such as a request
//! to a server, is kept with them.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::rc::Rc;

use guest_sdk::schemars::{self, JsonSchema};
use guest_sdk::{Category, Error};
use rhai::{Dynamic, Engine, EvalAltResult, Map, Position};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::value::{self, thrown};

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
    /// What the script has done since the call before, and what came of it.
    #[serde(default)]
    kept: Vec<OnceResult>,
}

/// The result of a step that a script does once.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct OnceResult {
    /// Identifies what was done.
    key: String,
    #[serde(default)]
    ok: Value,
    failed: Option<FailedCall>,
}

/// A failed call, as scripts see it.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct FailedCall {
    pub(crate) kind: String,
    pub(crate) message: String,
}

/// The calls of one run of a script. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Calls(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    answers: Vec<Answer>,
    made: usize,
    /// What earlier runs of the script have done, and how much of it this one has repeated.
    kept: Vec<OnceResult>,
    repeated: usize,
    /// What this run has done since its last answer.
    done: Vec<OnceResult>,
    /// Why the script must end: a call without an answer, or a call that differs from the last run.
    ending: Option<Error>,
}

impl Calls {
    pub(crate) fn new(mut answers: Vec<Answer>) -> Self {
        let kept = answers.iter_mut().map(|it| std::mem::take(&mut it.kept));
        Self(Rc::new(RefCell::new(State {
            kept: kept.flatten().collect(),
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

    /// Does what must happen once in an attempt, or returns what came of it in an earlier run of the script. `what`
    /// identifies it.
    pub(crate) fn once(
        &self,
        what: impl Hash,
        act: impl FnOnce() -> Result<Value, FailedCall>,
    ) -> Result<Dynamic, Box<EvalAltResult>> {
        let mut state = self.0.borrow_mut();
        let key = key(what);
        let place = state.repeated;
        state.repeated += 1;
        let (ok, failed) = match state.kept.get(place) {
            Some(kept) if kept.key == key => (kept.ok.clone(), kept.failed.clone()),
            Some(_) => {
                let number = place + 1;
                return Err(state
                    .end(not_repeatable(&format!("request {number}")))
                    .into());
            }
            None => {
                let (ok, failed) = match act() {
                    Ok(ok) => (ok, None),
                    Err(failed) => (Value::Null, Some(failed)),
                };
                state.done.push(OnceResult {
                    key,
                    ok: ok.clone(),
                    failed: failed.clone(),
                });
                (ok, failed)
            }
        };
        match failed {
            None => Ok(value::from_json(&ok)),
            Some(failed) => Err(thrown(failed.map()).into()),
        }
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
        let params = value::argument(&params.into())?;
        let key = key((handler, params.to_string()));
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
            Some(_) => not_repeatable(&format!("call {number}")),
            None => {
                let message = format!("the script calls {handler}, which needs a running host");
                let mut details = json!({"handler": handler, "params": params, "key": key});
                if !state.done.is_empty() {
                    details["kept"] = json!(state.done);
                }
                Error::new(Category::UserCode, CALL, message).details(&details)
            }
        };
        Err(state.end(ending).into())
    }
}

impl State {
    /// Ends the script with an error, which it cannot catch.
    fn end(&mut self, ending: Error) -> EvalAltResult {
        self.ending = Some(ending);
        EvalAltResult::ErrorTerminated(Dynamic::UNIT, Position::NONE)
    }
}

fn not_repeatable(what: &str) -> Error {
    let message = format!(
        "{what} differs from the previous run of the script; a script that calls handlers must do the same each \
         time, so it must not depend on timestamp()"
    );
    Error::fatal("script_not_repeatable", message)
}

impl FailedCall {
    fn thrown(&self, number: usize, handler: &str) -> Dynamic {
        let mut thrown = self.map();
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        thrown.insert("number".into(), number.into());
        thrown.insert("handler".into(), handler.to_owned().into());
        thrown.into()
    }

    fn map(&self) -> Map {
        let mut map = Map::new();
        map.insert("kind".into(), self.kind.clone().into());
        map.insert("message".into(), self.message.clone().into());
        map
    }
}

fn key(what: impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
