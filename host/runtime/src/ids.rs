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

/// Makes the id of a lease: 122 random bits.
#[expect(clippy::disallowed_methods, reason = "the home of chance")]
pub fn lease() -> LeaseId {
    LeaseId(Uuid::new_v4())
}

/// Makes the id of a node: 122 random bits.
#[expect(clippy::disallowed_methods, reason = "the home of chance")]
pub fn node() -> NodeId {
    NodeId(Uuid::new_v4())
}

/// Makes a random UUID in its hyphenated form.
#[expect(clippy::disallowed_methods, reason = "the home of chance")]
pub fn uuid() -> String {
    Uuid::new_v4().to_string()
}

/// Makes a random UUID without hyphens, for file names.
#[expect(clippy::disallowed_methods, reason = "the home of chance")]
pub fn unique() -> String {
    Uuid::new_v4().simple().to_string()
}
