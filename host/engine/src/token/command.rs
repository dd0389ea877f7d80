//! The commands about tokens and their sessions.

use host_core::time::Time;

use super::{NewSession, Token, TokenHash, TokenId};
use crate::commands;

/// Keep a token: a new one, or one that was rotated and is still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutToken {
    pub token: Box<Token>,
    pub is_new: bool,
}

/// Forget a token, which then lets no principal in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokeToken {
    pub token: TokenId,
}

/// Start a session for a browser that has presented a token. Refused like [`RevokeToken`] if the token is no longer what
/// was presented.
#[derive(Clone, Debug, PartialEq)]
pub struct BeginSession(pub NewSession);

/// End a session of a token, if it is there.
#[derive(Clone, Debug, PartialEq)]
pub struct EndSession {
    pub token: TokenId,
    pub session: TokenHash,
}

/// Record when tokens were used last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UseTokens {
    pub used: Vec<(TokenId, Time)>,
}

commands! {
    Token {
        PutToken(PutToken) "put_token" -> (), put_token, |_| 0, "one token";
        RevokeToken(RevokeToken) "revoke_token" -> (), revoke_token, |_| 0, "one token";
        BeginSession(BeginSession) "begin_session" -> (), begin_session, |_| 0, "one token";
        EndSession(EndSession) "end_session" -> (), end_session, |_| 0, "one token";
        UseTokens(UseTokens) "use_tokens" -> (), use_tokens, |_| 0, "the tokens of the store, which are limited";
    }
}
