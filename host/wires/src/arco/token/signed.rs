//! One signed token, to measure what its check costs.

use host_core::id::JobId;
use host_core::time::Time;
use uuid::Uuid;

use super::key::Keys;
use super::{Scope, Tokens};
use crate::arco::messages::Secret;

/// A task token with the key that signed it.
pub struct SignedToken {
    tokens: Tokens,
    token: Secret,
    signed_at: Time,
}

impl SignedToken {
    /// Signs a token. Returns nothing if the key is too short.
    pub fn new(key: &[u8]) -> Option<Self> {
        let tokens = Tokens::new(&Keys::new(key, None)?);
        let scope = Scope {
            job: JobId(Uuid::nil()),
            tenant: "default".to_owned(),
            workspace: "default".to_owned(),
            run: Uuid::nil().to_string(),
            attempt: 1,
        };
        let signed_at = Time(1_800_000_000_000);
        let (token, _) = tokens.sign(signed_at, &scope, 3_600);
        Some(Self {
            tokens,
            token,
            signed_at,
        })
    }

    /// Checks the token as a control plane does.
    pub fn is_valid(&self) -> bool {
        let checked = self.tokens.check(self.signed_at, self.token.expose());
        checked.is_some()
    }
}
