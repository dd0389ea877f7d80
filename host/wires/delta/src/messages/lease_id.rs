//! The lease id of the wire: it names the job and the lease, so that a lease is found again after a
//! restart of the host. A secret: `Debug` shows a hash of it.

use std::fmt;

use host_core::id::{JobId, LeaseId};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// What every lease id of ours begins with.
const PREFIX: &str = "lease_";

/// The length of a UUID without hyphens.
const UUID_CHARS: usize = 32;

/// The longest lease id that is read, in bytes.
pub(crate) const LEASE_ID_BYTES_MAX: usize = 512;

/// A lease id as a peer wrote it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct LeaseText(pub(crate) String);

impl LeaseText {
    /// Makes the lease id of the wire.
    pub(crate) fn of(job: JobId, lease: LeaseId) -> Self {
        Self(format!("{PREFIX}{}{}", job.0.simple(), lease.0.simple()))
    }

    /// Returns the job and the lease that it names, if it is one of ours.
    pub(crate) fn parse(&self) -> Option<(JobId, LeaseId)> {
        let digits = self.0.strip_prefix(PREFIX)?;
        let is_ours = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if digits.len() != 2 * UUID_CHARS || !digits.bytes().all(is_ours) {
            return None;
        }
        let (job, lease) = digits.split_at(UUID_CHARS);
        let (job, lease) = (Uuid::try_parse(job).ok()?, Uuid::try_parse(lease).ok()?);
        Some((JobId(job), LeaseId(lease)))
    }
}

impl fmt::Debug for LeaseText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digest = Sha256::digest(self.0.as_bytes());
        write!(
            f,
            "lease:{:02x}{:02x}{:02x}",
            digest[0], digest[1], digest[2]
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_id_leads_back_to_its_job_and_lease() {
        let (job, lease) = (
            JobId(Uuid::from_u128(7)),
            LeaseId(Uuid::from_u128(1 << 100)),
        );
        let text = LeaseText::of(job, lease);
        assert_eq!(text.parse(), Some((job, lease)));
        assert!(!format!("{text:?}").contains(&lease.0.simple().to_string()));
        let digits = &text.0[PREFIX.len()..];
        for other in [
            String::new(),
            PREFIX.to_owned(),
            digits.to_owned(),
            format!("{PREFIX}{}", &digits[1..]),
            format!("{PREFIX}{digits}0"),
            format!("{PREFIX}{}", digits.replace('0', "G")),
            format!("lease_{}", "é".repeat(32)),
            text.0.to_uppercase(),
        ] {
            assert_eq!(LeaseText(other.clone()).parse(), None, "{other}");
        }
    }
}
