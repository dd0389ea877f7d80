//! Holds: a handler keeps jobs from starting with the key that its own job has of a limit, immediately and on all nodes.

use host_core::desk::{DeskError, DeskErrorKind, DeskPass};
use host_core::lease::Fence;
use host_core::name::Name;
use host_engine::limit::{HOLD_MS_MAX, KeyHold};

use super::{Shared, desk_error};

/// Holds a key.
pub(super) async fn hold(
    shared: &Shared,
    pass: &DeskPass,
    limit: &str,
    ms: u32,
) -> Result<(), DeskError> {
    let invalid = |message: String| DeskError::new(DeskErrorKind::InvalidRequest, message);
    let limit: Name = limit
        .parse()
        .map_err(|error| invalid(format!("the name of a limit {error}")))?;
    if !pass.hold.contains(&limit) {
        return Err(DeskError::new(
            DeskErrorKind::NotGranted,
            format!(
                "the handler may not hold keys of the limit {limit}; its manifest must list it in `hold`"
            ),
        ));
    }
    let Some(lease) = pass.writes.holder() else {
        return Err(invalid(format!("the job has no limit {limit}")));
    };
    let ms = u64::from(ms);
    if ms > HOLD_MS_MAX {
        return Err(invalid(format!(
            "a key can be held for at most {HOLD_MS_MAX} ms (24 hours), got {ms}"
        )));
    }
    let hold = KeyHold {
        job: pass.job,
        fence: Fence::Lease(lease),
        limit,
        ms,
    };
    let submitted = shared.api.dispatch.submit(hold);
    let answer = submitted.await;
    answer.map(drop).map_err(|error| desk_error(&error.into()))
}
