//! Makes ids. Only this file uses randomness. `uuid` is built with `fast-rng`, which asks the
//! system for randomness now and then instead of for each id.

use host_core::id::{JobId, LeaseId, NodeId};
use host_core::time::Time;
use uuid::{NoContext, Timestamp, Uuid};

/// Makes the id of a job accepted at `now`: ids sort by that instant.
pub fn job(now: Time) -> JobId {
    let ms = u64::try_from(now.0).unwrap_or_default();
    let nanos = u32::try_from(ms % 1000).unwrap_or_default() * 1_000_000;
    JobId(Uuid::new_v7(Timestamp::from_unix(
        NoContext,
        ms / 1000,
        nanos,
    )))
}

/// Makes the id of a lease: 128 random bits, so it is not a versioned UUID.
#[expect(
    clippy::disallowed_methods,
    reason = "the only place that uses randomness"
)]
pub fn lease() -> LeaseId {
    // Each UUID has six fixed bits. Rotating one by half aligns them with random bits of the other.
    let (one, other) = (Uuid::new_v4().as_u128(), Uuid::new_v4().as_u128());
    LeaseId(Uuid::from_u128(one ^ other.rotate_left(64)))
}

/// Makes the name of a file: 122 random bits.
#[expect(
    clippy::disallowed_methods,
    reason = "the only place that uses randomness"
)]
pub fn file() -> Uuid {
    Uuid::new_v4()
}

/// Makes the id of a node: 122 random bits.
#[expect(
    clippy::disallowed_methods,
    reason = "the only place that uses randomness"
)]
pub fn node() -> NodeId {
    NodeId(Uuid::new_v4())
}

/// Makes a random UUID in its hyphenated form.
#[expect(
    clippy::disallowed_methods,
    reason = "the only place that uses randomness"
)]
pub fn uuid() -> String {
    Uuid::new_v4().to_string()
}

/// Makes a random UUID without hyphens, for file names.
#[expect(
    clippy::disallowed_methods,
    reason = "the only place that uses randomness"
)]
pub fn unique() -> String {
    Uuid::new_v4().simple().to_string()
}

/// Makes the id of a trace, never zero.
#[expect(
    clippy::disallowed_methods,
    reason = "the only place that uses randomness"
)]
pub fn trace() -> u128 {
    Uuid::new_v4().as_u128()
}

/// Makes the id of a span, never zero.
#[expect(
    clippy::disallowed_methods,
    reason = "the only place that uses randomness"
)]
pub fn span() -> u64 {
    // The second half contains the variant, which is never zero.
    Uuid::new_v4().as_u64_pair().1
}

/// Makes a secret key: 256 random bits.
pub fn key() -> [u8; 32] {
    let mut key = [0; 32];
    let halves = [lease(), lease()];
    for (part, half) in key.chunks_exact_mut(16).zip(halves) {
        part.copy_from_slice(half.0.as_bytes());
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_a_lease_id_is_random() {
        let (mut ever, mut always) = (0, u128::MAX);
        // A bit stays constant by chance once in 2^199 runs.
        for _ in 0..200 {
            let id = lease().0.as_u128();
            ever |= id;
            always &= id;
        }
        assert_eq!((ever, always), (u128::MAX, 0));
    }
}
