//! The audit as the API shows it.

use host_core::hex::hex;
use host_engine::audit::Entry;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

/// Which entries to list.
#[derive(Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// From this instant on (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only those of this principal: `token:ID`, the name of a token, `uid:NUMBER` or `host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Only those with this verb.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verb: Option<String>,
    /// How many entries a page has at most, 1–1000; 100 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
    /// Where the page before ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// One entry. `hash` is the SHA-256 of `previous`, a line break, `number`, a line break, and the text of `record`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditEntry)]
pub struct EntryView {
    /// Its place, from 1.
    pub number: u64,
    /// The hash of the entry before it, in hexadecimal digits; zeros for the first.
    pub previous: String,
    /// Its own hash.
    pub hash: String,
    /// What happened.
    #[schema(value_type = RecordView)]
    pub record: Box<RawValue>,
}

/// What happened.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditRecord)]
#[serde(default)]
pub struct RecordView {
    /// When (RFC 3339).
    pub at: String,
    /// Who asked: `token:ID`, `uid:NUMBER`, `host`, or empty if that is unknown.
    pub principal: String,
    /// The name of the principal's token.
    pub token_name: Option<String>,
    /// From which address.
    pub address: Option<String>,
    /// What was asked for.
    pub verb: String,
    /// Of what.
    pub object: String,
    /// `done`, or why not.
    pub outcome: String,
    /// The id of the request.
    pub request: Option<String>,
    /// More about what was asked for.
    pub detail: Option<String>,
    /// How often, if the entry covers several.
    pub times: u32,
}

impl From<Entry> for EntryView {
    fn from(entry: Entry) -> Self {
        Self {
            number: entry.number,
            previous: hex(&entry.previous),
            hash: hex(&entry.hash),
            record: RawValue::from_string(entry.record)
                .unwrap_or_else(|_| RawValue::NULL.to_owned()),
        }
    }
}

impl EntryView {
    /// Reads the record.
    pub fn record(&self) -> Result<RecordView, serde_json::Error> {
        serde_json::from_str(self.record.get())
    }
}
