//! Signs deliveries as Standard Webhooks says: HMAC-SHA256 over id, time and body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// What secrets may begin with, as the standard writes them.
const PREFIX: &str = "whsec_";

/// How many bytes a key has, as the standard says.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Returns the value of the header `webhook-signature`. The error is for users.
pub(super) fn sign(
    secret: &str,
    id: &str,
    timestamp: i64,
    body: &str,
) -> Result<String, &'static str> {
    const EXPECTED: &str = "its value must be whsec_ and 24–64 bytes in base64";
    let text = secret.strip_prefix(PREFIX).unwrap_or(secret);
    let key = STANDARD.decode(text).map_err(|_| EXPECTED)?;
    if !KEY_BYTES.contains(&key.len()) {
        return Err(EXPECTED);
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|_| EXPECTED)?;
    mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
    let signature = STANDARD.encode(mac.finalize().into_bytes());
    Ok(format!("v1,{signature}"))
}
