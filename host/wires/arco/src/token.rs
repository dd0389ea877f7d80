//! Task tokens: JSON Web Tokens signed with HMAC-SHA-256 and no other algorithm, whatever a token's
//! header says. Knows no clock: the caller passes the time.

pub(super) mod key;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use host_core::id::JobId;
use host_core::time::Time;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use self::key::Keys;
use super::messages::Secret;

/// The longest token that is accepted, in bytes.
const TOKEN_BYTES_MAX: usize = 4_096;

/// The longest time that a token is valid, in seconds.
pub(super) const TTL_SECONDS_MAX: u64 = 7_200;

/// How much the clocks of hosts that share a key may differ, in seconds.
const LEEWAY_SECONDS: i64 = 30;

/// The one algorithm.
const ALGORITHM: &str = "HS256";

/// The header of each token that we sign.
const HEADER: &str = r#"{"typ":"JWT","alg":"HS256"}"#;

/// What a token is about: one attempt of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) job: JobId,
    pub(super) tenant: String,
    pub(super) workspace: String,
    pub(super) run: String,
    pub(super) attempt: u32,
}

/// The fields of a header that matter. Keys that it names or contains are ignored.
#[derive(Deserialize)]
struct Header<'a> {
    #[serde(borrow)]
    alg: &'a str,
    /// Extensions that a reader must support; we support none.
    crit: Option<IgnoredAny>,
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
    /// The current key, then the previous one, whose tokens are still accepted.
    keys: Arc<[Hmac<Sha256>]>,
}

impl Tokens {
    pub(super) fn new(keys: &Keys) -> Self {
        // HMAC takes keys of any length.
        let keys = keys.all().flat_map(Hmac::new_from_slice);
        Self {
            keys: keys.collect(),
        }
    }

    /// Signs a token that is valid for `ttl_seconds`. Returns it with the instant of its expiry.
    pub(super) fn sign(&self, now: Time, scope: &Scope, ttl_seconds: u64) -> (Secret, Time) {
        let iat = now.0.div_euclid(1_000);
        let exp = iat.saturating_add_unsigned(ttl_seconds.min(TTL_SECONDS_MAX));
        let content = Claims {
            task: scope.job.to_string(),
            tenant: scope.tenant.clone(),
            workspace: scope.workspace.clone(),
            run: scope.run.clone(),
            attempt: scope.attempt,
            exp,
            nbf: iat,
            iat,
        };
        let claims = serde_json::to_vec(&content).unwrap_or_default();
        let mut token = URL_SAFE_NO_PAD.encode(HEADER);
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(claims, &mut token);
        let mac = self.keys[0].clone().chain_update(&token);
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(mac.finalize().into_bytes(), &mut token);
        (Secret(token), Time(exp.saturating_mul(1_000)))
    }

    /// Returns what a token is about if we signed it and it is valid at `now`.
    pub(super) fn check(&self, now: Time, token: &str) -> Option<Scope> {
        let claims: Claims = object(&self.signed_claims(token)?)?;
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

    /// Returns the claims of a token that has our algorithm and a valid signature. The signature is compared
    /// in constant time, and the claims are not parsed before.
    fn signed_claims(&self, token: &str) -> Option<Vec<u8>> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decoded = URL_SAFE_NO_PAD.decode(header).ok()?;
        let header: Header<'_> = object(&decoded)?;
        if header.alg != ALGORITHM || header.crit.is_some() {
            return None;
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let is_signed = self.keys.iter().any(|key| {
            let mac = key.clone().chain_update(signed);
            mac.verify_slice(&signature).is_ok()
        });
        // A third dot is not a character of the encoding.
        is_signed.then(|| URL_SAFE_NO_PAD.decode(claims).ok())?
    }
}

/// Reads a JSON object, but not an array of its values, which serde would accept.
fn object<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Option<T> {
    let text = text.starts_with(b"{").then_some(text)?;
    serde_json::from_slice(text).ok()
}
