//! The state of handlers as the API shows it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use host_core::state::{Space, SpaceUsage, StateKey, StateValue};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A space of state.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = StateSpace)]
pub struct StateSpaceView {
    /// `handler:NAME`, the space of one handler, or `shared:NAME`.
    pub space: String,
    /// How many keys it has.
    #[serde(default)]
    #[schema(required = true)]
    pub keys: u64,
    /// The bytes of its keys and values, and 64 for each key.
    #[serde(default)]
    #[schema(required = true)]
    pub bytes: u64,
}

/// A key of state.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = StateKey)]
pub struct StateKeyView {
    /// The key.
    pub key: String,
    /// The length of its value.
    #[serde(default)]
    #[schema(required = true)]
    pub bytes: u64,
    /// When it was written last (RFC 3339).
    #[serde(default)]
    #[schema(required = true)]
    pub updated_at: String,
}

/// A key of state with its value.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = StateValue)]
pub struct StateValueView {
    /// The key.
    pub key: String,
    /// The value, if it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The value as Base64, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// When it was written last (RFC 3339).
    #[serde(default)]
    #[schema(required = true)]
    pub updated_at: String,
}

/// A value to write: one of the two.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetStateBody {
    /// As text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// As Base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// Which keys.
#[derive(Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct StateQuery {
    /// Only keys that start with this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// At most 1,000; 100 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

/// Which spaces.
#[derive(Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct StateSpacesQuery {
    /// `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// At most 1,000; 100 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

/// Which key.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct StateKeyQuery {
    /// The key.
    pub key: String,
}

/// Which keys to remove.
#[derive(Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct RemoveStateQuery {
    /// Only keys that start with this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

/// What was removed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = RemovedState)]
pub struct RemovedStateView {
    /// How many keys.
    pub removed: u64,
    /// Whether there may be more: repeat the request.
    pub more: bool,
}

/// A value is given as text and as Base64, or as neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOneValue;

impl SetStateBody {
    /// Makes the body that writes `value`.
    pub fn from_bytes(value: Vec<u8>) -> Self {
        match String::from_utf8(value) {
            Ok(value) => Self {
                value: Some(value),
                base64: None,
            },
            Err(error) => Self {
                value: None,
                base64: Some(STANDARD.encode(error.as_bytes())),
            },
        }
    }

    /// Returns the value.
    pub fn into_value(self) -> Result<Vec<u8>, NotOneValue> {
        match (self.value, self.base64) {
            (Some(value), None) => Ok(value.into_bytes()),
            (None, Some(text)) => STANDARD.decode(text).map_err(|_| NotOneValue),
            _ => Err(NotOneValue),
        }
    }
}

impl StateValueView {
    /// Makes the view of a key.
    pub fn new(key: String, found: StateValue) -> Self {
        let SetStateBody { value, base64 } = SetStateBody::from_bytes(found.value);
        Self {
            key,
            value,
            base64,
            updated_at: found.at.to_rfc3339(),
        }
    }

    /// Returns the value. Empty if it cannot be read.
    pub fn into_value(self) -> Vec<u8> {
        let Self { value, base64, .. } = self;
        SetStateBody { value, base64 }
            .into_value()
            .unwrap_or_default()
    }
}

impl From<StateKey> for StateKeyView {
    fn from(found: StateKey) -> Self {
        Self {
            key: found.key,
            bytes: found.bytes,
            updated_at: found.at.to_rfc3339(),
        }
    }
}

impl From<SpaceUsage> for StateSpaceView {
    fn from(found: SpaceUsage) -> Self {
        Self {
            space: Space::to_string(&found.space),
            keys: found.usage.keys,
            bytes: found.usage.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_text_or_base64() {
        for value in [&b"text"[..], b"", b"\xff\x00"] {
            let body = SetStateBody::from_bytes(value.to_vec());
            assert_eq!(body.into_value(), Ok(value.to_vec()));
        }
        assert_eq!(SetStateBody::default().into_value(), Err(NotOneValue));
    }
}
