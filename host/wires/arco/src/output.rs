//! The output of a successful task: what the contract knows in it has types, other fields are free. Pure.

use host_core::json::JsonText;
use host_core::time::Time;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Returns a result as an output that the contract allows: as it is, or as `{"result": …}`.
pub(super) fn output(result: &JsonText) -> JsonText {
    let text = result.as_str().trim_ascii();
    let is_known = || serde_json::from_str::<TaskOutput>(text).is_ok();
    if text == "null" || (text.starts_with('{') && is_known()) {
        result.clone()
    } else {
        JsonText(format!(r#"{{"result":{text}}}"#))
    }
}

/// What the contract knows in the output of a successful attempt. Other fields are allowed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only whether it can be read matters")]
struct TaskOutput {
    materialization_id: Option<String>,
    row_count: Option<u64>,
    byte_size: Option<u64>,
    output_path: Option<String>,
    delta_table: Option<String>,
    delta_version: Option<i64>,
    delta_partition: Option<String>,
    output_visibility_state: Option<VisibilityState>,
    #[serde(default, deserialize_with = "instant")]
    published_at: Option<String>,
    publish_error: Option<String>,
}

/// Whether an output can be used yet.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum VisibilityState {
    Pending,
    Visible,
    Failed,
}

/// Reads an instant, which stays text.
fn instant<'de, D: Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(value)?;
    if text
        .as_deref()
        .is_some_and(|it| Time::parse_rfc3339(it).is_none())
    {
        return Err(D::Error::custom("not an instant"));
    }
    Ok(text)
}
