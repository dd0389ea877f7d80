//! Results of prerequisites in the params of a job that waits for them, below `/inputs`. Pure; texts are passed on as they
//! are written.

use std::collections::BTreeMap;

use host_core::failure::{Failure, FailureKind};
use host_core::id::JobId;
use host_core::json::{DEPTH_MAX, JsonText};
use serde_json::value::RawValue;
use thiserror::Error;

/// The most inputs of a job, and the most results of ended jobs that a request or an operator's retry reads.
pub const INPUTS_MAX: usize = 100;

/// The largest params with inputs, in bytes: as large as a request.
pub const PARAMS_BYTES_MAX: usize = 8 << 20;

/// The member of the params that has the inputs.
const MEMBER: &str = "inputs";

/// The members of an object as they are written.
type Members = BTreeMap<String, Box<RawValue>>;

/// Why params do not get an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InputError {
    #[error("it is no longer kept")]
    Gone,
    #[error("with it the params have {bytes} bytes, and they may have {PARAMS_BYTES_MAX}")]
    TooLarge { bytes: usize },
    #[error("it is nested too deep: params may have {DEPTH_MAX} levels")]
    TooDeep,
    #[error("the params are no object with room for it")]
    NoObject,
}

impl InputError {
    /// Returns the failure of the job.
    pub fn failure(self, name: &str, prerequisite: JobId) -> Failure {
        let message = format!("input_failed: {}", self.sentence(name, prerequisite));
        Failure::new(FailureKind::InputFailed, message)
    }

    /// Says which input it is about.
    pub fn sentence(self, name: &str, prerequisite: JobId) -> String {
        format!("the input {name:?} is the result of job {prerequisite}: {self}")
    }
}

/// Returns the params of a new job that will get inputs: an object without a member of that name.
pub fn prepare(params: JsonText) -> Result<JsonText, InputError> {
    if params == JsonText::null() {
        return Ok(JsonText("{}".to_owned()));
    }
    let members = object(params.as_str()).ok_or(InputError::NoObject)?;
    if members.contains_key(MEMBER) {
        return Err(InputError::NoObject);
    }
    Ok(params)
}

/// Returns the params with one more input.
pub fn add(params: &JsonText, name: &str, value: &JsonText) -> Result<JsonText, InputError> {
    let bytes = params.as_str().len() + name.len() + value.as_str().len();
    if bytes > PARAMS_BYTES_MAX {
        return Err(InputError::TooLarge { bytes });
    }
    let mut members = object(params.as_str()).ok_or(InputError::NoObject)?;
    let mut inputs = match members.get(MEMBER) {
        Some(inputs) => object(inputs.get()).ok_or(InputError::NoObject)?,
        None => Members::new(),
    };
    inputs.insert(name.to_owned(), raw(value.as_str())?);
    members.insert(MEMBER.to_owned(), raw(&text(&inputs))?);
    let with = JsonText(text(&members));
    let bytes = with.as_str().len();
    if bytes > PARAMS_BYTES_MAX {
        return Err(InputError::TooLarge { bytes });
    }
    if with.depth() > DEPTH_MAX {
        return Err(InputError::TooDeep);
    }
    Ok(with)
}

/// Returns whether the params have an input.
pub fn has(params: &JsonText, name: &str) -> bool {
    let member = object(params.as_str()).and_then(|mut members| members.remove(MEMBER));
    let inputs = member.and_then(|member| object(member.get()));
    inputs.is_some_and(|inputs| inputs.contains_key(name))
}

/// Returns the params without inputs.
pub fn without(params: &JsonText) -> JsonText {
    match object(params.as_str()) {
        Some(mut members) => {
            members.remove(MEMBER);
            JsonText(text(&members))
        }
        None => params.clone(),
    }
}

fn object(text: &str) -> Option<Members> {
    serde_json::from_str(text).ok()
}

fn raw(text: &str) -> Result<Box<RawValue>, InputError> {
    RawValue::from_string(text.to_owned()).map_err(|_| InputError::NoObject)
}

fn text(members: &Members) -> String {
    serde_json::to_string(members).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn json(text: &str) -> JsonText {
        JsonText(text.to_owned())
    }

    #[test]
    fn inputs_join_the_params_as_they_are_written() {
        let params = prepare(json(r#"{"z": 1.10, "a": 18446744073709551616}"#)).unwrap();
        let one = add(&params, "a/b", &json("[ 1.0 ]")).unwrap();
        let two = add(&one, "c", &json("null")).unwrap();
        let expected = r#"{"a":18446744073709551616,"inputs":{"a/b":[ 1.0 ],"c":null},"z":1.10}"#;
        assert_eq!(two.as_str(), expected);
        assert_eq!(two.scalar_at("/inputs/a~1b/0").as_deref(), Some("1.0"));
        assert!(has(&two, "c") && !has(&one, "c") && !has(&params, "c"));
        assert_eq!(
            without(&two).as_str(),
            r#"{"a":18446744073709551616,"z":1.10}"#
        );
        assert_eq!(
            add(&two, "c", &json("2")).unwrap().as_str(),
            expected.replace("null", "2")
        );
    }

    #[test]
    fn params_without_room_for_inputs_are_refused() {
        assert_eq!(prepare(JsonText::null()), Ok(json("{}")));
        for text in ["[]", "1", r#"{"inputs":1}"#, r#"{"inputs":{}}"#] {
            assert_eq!(prepare(json(text)), Err(InputError::NoObject), "{text}");
        }
        assert_eq!(add(&json("[]"), "a", &json("1")), Err(InputError::NoObject));
        assert!(!has(&json("[]"), "a"));
        assert_eq!(without(&json("[]")), json("[]"));
    }

    #[test]
    fn params_are_never_larger_or_deeper_than_any_job_may_have() {
        let long = |bytes: usize| json(&format!("{:?}", "x".repeat(bytes - 2)));
        let around = r#"{"inputs":{"a":}}"#.len();
        let most = long(PARAMS_BYTES_MAX - around);
        let largest = add(&json("{}"), "a", &most).unwrap();
        assert_eq!(largest.as_str().len(), PARAMS_BYTES_MAX);
        let bytes = PARAMS_BYTES_MAX + 1;
        let error = add(&json("{}"), "a", &long(bytes - around)).unwrap_err();
        assert_eq!(error, InputError::TooLarge { bytes });
        let job = JobId(Uuid::nil());
        assert_eq!(
            error.failure("a", job).message,
            "input_failed: the input \"a\" is the result of job 00000000-0000-0000-0000-000000000000: with it the \
             params have 8388609 bytes, and they may have 8388608"
        );
        let nested = |levels| json(&("[".repeat(levels) + &"]".repeat(levels)));
        assert!(add(&json("{}"), "a", &nested(DEPTH_MAX - 2)).is_ok());
        let error = add(&json("{}"), "a", &nested(DEPTH_MAX - 1));
        assert_eq!(error, Err(InputError::TooDeep));
    }
}
