//! Brings the store to what the configuration sets in it, when the host starts.

use host_dispatch::Dispatch;
use host_runtime::clock::Clock;
use host_store::StoreError;

use crate::config::Config;
use crate::{limits, schedules};

/// Sets the limits and schedules of the configuration, and removes those that it no longer has.
pub(crate) async fn apply(
    dispatch: &Dispatch,
    config: &Config,
    clock: Clock,
) -> Result<(), StoreError> {
    limits::apply(dispatch, &config.limits).await?;
    schedules::apply(dispatch, &config.schedules, clock).await
}
