//! Tokens as the API makes and shows them.

use host_core::seconds::Seconds;
use host_core::time::Time;
use host_engine::token::KeptToken;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words::TokenRole;

/// A token to make. It may not allow more than the token that makes it.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTokenBody {
    /// What it is for, in 1 to 128 bytes.
    pub name: String,
    /// Its verbs are added to those of `allow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<TokenRole>)]
    pub role: Option<String>,
    /// The verbs that it allows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Globs of the queues that it is for, in which `*` matches any characters; none for all queues.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// Globs of the handlers that it is for; none for all handlers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handlers: Vec<String>,
    /// How long it lasts; 90 days if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, minimum = 1, maximum = 31_536_000)]
    pub expires_seconds: Option<Seconds>,
    /// The networks it may be used from, such as `10.1.0.0/16`; none for all networks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
    /// How many requests it may make per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub rate: Option<u32>,
    /// How many of its jobs may wait or run concurrently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_waiting: Option<u64>,
}

/// How to exchange the text of a token.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RotateBody {
    /// How long the text before still counts; not at all if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 31_536_000)]
    pub overlap_seconds: Option<Seconds>,
}

/// A token, without its text.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = Token)]
pub struct TokenView {
    /// Its id, which is the part between `hst_` and the next `_`.
    pub id: String,
    /// What it is for.
    pub name: String,
    /// The principal that made it.
    #[serde(default)]
    #[schema(required = true)]
    pub created_by: String,
    /// When it was made (RFC 3339).
    #[serde(default)]
    #[schema(required = true)]
    pub created_at: String,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When it was used last, up to a minute late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<String>,
    /// Until when the text before the last rotation counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlaps_until: Option<String>,
    /// The verbs that it allows.
    #[serde(default)]
    #[schema(required = true)]
    pub verbs: Vec<String>,
    /// Globs of the queues that it is for; none for all queues.
    #[serde(default)]
    #[schema(required = true)]
    pub queues: Vec<String>,
    /// Globs of the handlers that it is for; none for all handlers.
    #[serde(default)]
    #[schema(required = true)]
    pub handlers: Vec<String>,
    /// The networks it may be used from; none for all networks.
    #[serde(default)]
    #[schema(required = true)]
    pub from: Vec<String>,
    /// How many requests it may make per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// How many of its jobs may wait or run concurrently.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_waiting: Option<u64>,
}

/// A new token with its text, which is shown only once.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = MintedToken)]
pub struct MintedView {
    /// The text, to be sent as `Authorization: Bearer TOKEN`.
    pub token: String,
    /// The token.
    #[serde(flatten)]
    pub view: TokenView,
}

/// The caller of a request.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Caller)]
pub struct SelfView {
    /// Who it is: `token:ID`, `uid:NUMBER`, or empty on a host that asks for no tokens.
    pub principal: String,
    /// What it may do.
    pub verbs: Vec<String>,
    /// How many of its jobs wait or run, if that is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    /// What it uses of its share at this node, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<ShareView>,
    /// Its token, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenView>,
}

/// How much of its share of a node a token uses.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Share)]
pub struct ShareView {
    /// The memory that bodies of its requests use, in bytes; the first 16 KiB of each are free.
    pub body_bytes: usize,
    /// The most that they may use.
    pub body_bytes_max: usize,
    /// How many streams of events it has open.
    pub streams: usize,
    /// The most that it may have open.
    pub streams_max: usize,
}

/// A token that was revoked.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RevokedView {
    /// Its id.
    pub id: String,
    /// Always true.
    pub revoked: bool,
}

/// The session of a browser, whose cookie is beside it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Session)]
pub struct SessionView {
    /// When it ends (RFC 3339), unless its token ends before.
    pub expires_at: String,
}

/// A session that was ended.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = SessionEnded)]
pub struct SessionEndedView {
    /// Whether the request had the cookie of one.
    pub ended: bool,
}

impl From<KeptToken> for TokenView {
    fn from(kept: KeptToken) -> Self {
        let KeptToken { token, used_at } = kept;
        let rights = token.rights;
        let globs = |globs: Vec<_>| globs.into_iter().map(String::from).collect();
        Self {
            id: token.id.into(),
            name: token.name,
            created_by: token.created_by,
            created_at: token.created_at.to_rfc3339(),
            expires_at: rights.expires_at.map(Time::to_rfc3339),
            last_used_at: used_at.map(Time::to_rfc3339),
            overlaps_until: token.previous.map(|(_, until)| until.to_rfc3339()),
            verbs: rights.verbs.into(),
            queues: globs(rights.scope.queues),
            handlers: globs(rights.scope.handlers),
            from: rights.from.iter().map(ToString::to_string).collect(),
            rate: rights.rate,
            max_waiting: rights.max_waiting,
        }
    }
}
