//! Task tokens: JSON Web Tokens signed with HMAC-SHA-256 and no other algorithm, whatever a token's
//! header says. Knows no clock: the caller passes the time.

mod hs256;
pub(super) mod key;
mod signed;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use host_core::id::JobId;
use host_core::time::Time;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};

use self::key::Keys;
use super::messages::Secret;

pub use self::signed::SignedToken;

/// The longest token that is looked at, in bytes.
const TOKEN_BYTES_MAX: usize = 4_096;

/// The longest life of a token, in seconds.
pub(super) const TTL_SECONDS_MAX: u64 = 7_200;

/// How far the clocks of hosts that share a key may differ, in seconds.
const LEEWAY_SECONDS: i64 = 30;

/// What a token is about: one attempt of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) job: JobId,
    pub(super) tenant: String,
    pub(super) workspace: String,
    pub(super) run: String,
    pub(super) attempt: u32,
}

#[derive(Serialize, Deserialize)]
struct Claims {
    task: String,
    tenant: String,
    workspace: String,
    run: String,
    attempt: u32,
    exp: i64,
    nbf: i64,
    iat: i64,
}

/// Signs and checks tokens. Cloning shares the keys.
#[derive(Clone)]
pub(super) struct Tokens {
    keys: Arc<KeyPair>,
}

struct KeyPair {
    signs: EncodingKey,
    /// The current key, then the one before, whose tokens are still taken.
    checks: Vec<DecodingKey>,
    validation: Validation,
}

impl Tokens {
    pub(super) fn new(keys: &Keys) -> Self {
        hs256::install();
        let mut validation = Validation::new(Algorithm::HS256);
        // Expiry is checked below, by host time.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        Self {
            keys: Arc::new(KeyPair {
                signs: EncodingKey::from_secret(keys.current()),
                checks: keys.all().map(DecodingKey::from_secret).collect(),
                validation,
            }),
        }
    }

    /// Signs a token that is valid for `ttl_seconds`; returns it with its end.
    pub(super) fn sign(
        &self,
        now: Time,
        scope: &Scope,
        ttl_seconds: u64,
    ) -> Option<(Secret, Time)> {
        let iat = now.0.div_euclid(1_000);
        let exp = iat.saturating_add_unsigned(ttl_seconds.min(TTL_SECONDS_MAX));
        let claims = Claims {
            task: scope.job.to_string(),
            tenant: scope.tenant.clone(),
            workspace: scope.workspace.clone(),
            run: scope.run.clone(),
            attempt: scope.attempt,
            exp,
            nbf: iat,
            iat,
        };
        let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.keys.signs);
        Some((Secret(token.ok()?), Time(exp.saturating_mul(1_000))))
    }

    /// Returns what a token is about if we signed it and it is valid at `now`.
    pub(super) fn check(&self, now: Time, token: &str) -> Option<Scope> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let mut keys = self.keys.checks.iter();
        let claims: Claims = keys.find_map(|key| {
            let read = jsonwebtoken::decode(token, key, &self.keys.validation);
            read.ok().map(|read| read.claims)
        })?;
        let now = now.0.div_euclid(1_000);
        let life = claims.exp.checked_sub(claims.iat)?;
        let is_valid = now < claims.exp.saturating_add(LEEWAY_SECONDS)
            && now.saturating_add(LEEWAY_SECONDS) >= claims.nbf
            && now.saturating_add(LEEWAY_SECONDS) >= claims.iat
            && (1..=i64::try_from(TTL_SECONDS_MAX).ok()?).contains(&life);
        let scope = Scope {
            job: super::task_id::job(&claims.task)?,
            tenant: claims.tenant,
            workspace: claims.workspace,
            run: claims.run,
            attempt: claims.attempt,
        };
        is_valid.then_some(scope)
    }
}
