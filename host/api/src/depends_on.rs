//! A job to wait for, as requests write it and as jobs show it: an id, or that with how the job has to end.

use std::fmt;

use host_core::prerequisite::When;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::words::PrerequisiteWhen;

/// A job to wait for: its id if it must complete, or `{"job", "when"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = DependsOn)]
#[serde(untagged)]
pub enum DependsOnBody {
    Completed(String),
    Condition(ConditionBody),
}

/// A job to wait for, and how it has to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DependsOnCondition)]
#[serde(deny_unknown_fields)]
pub struct ConditionBody {
    /// The id of the job; in an enqueue also `#n`, entry n of the same array.
    pub job: String,
    /// How it has to end; `completed` if absent. `ended`: in any way. `failed`: it is discarded; if it completes or is
    /// cancelled, the job that waits is cancelled.
    #[serde(default)]
    #[schema(value_type = Option<PrerequisiteWhen>)]
    pub when: When,
}

impl DependsOnBody {
    /// Writes a condition in its short form if it has one.
    pub fn new(job: String, when: When) -> Self {
        match when {
            When::Completed => Self::Completed(job),
            When::Ended | When::Failed => Self::Condition(ConditionBody { job, when }),
        }
    }

    /// Returns the job, as it is named.
    pub fn job(&self) -> &str {
        match self {
            Self::Completed(job) => job,
            Self::Condition(condition) => &condition.job,
        }
    }

    /// Returns how the job has to end.
    pub const fn when(&self) -> When {
        match self {
            Self::Completed(_) => When::Completed,
            Self::Condition(condition) => condition.when,
        }
    }
}

impl From<String> for DependsOnBody {
    fn from(job: String) -> Self {
        Self::Completed(job)
    }
}

impl From<&str> for DependsOnBody {
    fn from(job: &str) -> Self {
        Self::Completed(job.to_owned())
    }
}

/// `ID` or `ID:WHEN`, as the command line has it.
impl fmt::Display for DependsOnBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.when() {
            When::Completed => f.write_str(self.job()),
            when => write!(f, "{}:{}", self.job(), when.as_str()),
        }
    }
}

/// The derived reader would not say what an entry may be.
impl<'de> Deserialize<'de> for DependsOnBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = DependsOnBody;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            r#"the id of a job, #n or {"job": ID, "when": "completed", "ended" or "failed"}"#,
        )
    }

    fn visit_str<E: Error>(self, job: &str) -> Result<DependsOnBody, E> {
        Ok(job.into())
    }

    fn visit_string<E: Error>(self, job: String) -> Result<DependsOnBody, E> {
        Ok(job.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<DependsOnBody, A::Error> {
        let condition = ConditionBody::deserialize(MapAccessDeserializer::new(map))?;
        Ok(DependsOnBody::new(condition.job, condition.when))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_an_id_or_a_condition() {
        for (text, shown) in [
            (r##""#0""##, "#0"),
            (r#"{"job":"a"}"#, "a"),
            (r#"{"job":"a","when":"completed"}"#, "a"),
            (r#"{"when":"failed","job":"a"}"#, "a:failed"),
        ] {
            let entry: DependsOnBody = serde_json::from_str(text).unwrap();
            assert_eq!(entry.to_string(), shown);
            let written = serde_json::to_string(&entry).unwrap();
            assert_eq!(
                serde_json::from_str::<DependsOnBody>(&written).unwrap(),
                entry
            );
        }
        for text in [
            "1",
            r#"{"when":"failed"}"#,
            r#"{"job":"a","on":1}"#,
            r#"{"job":"a","when":"lost"}"#,
        ] {
            let read = serde_json::from_str::<DependsOnBody>(text);
            assert!(read.is_err(), "{text}");
        }
    }
}
