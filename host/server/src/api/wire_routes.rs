//! The routes that wires hand in, as far as they are known before any is configured.

use host_http::route::Description;
use host_wires::WIRES;

/// Describes the routes of all wires.
pub(super) fn descriptions() -> Vec<Description> {
    WIRES.iter().map(|wire| (wire.http)()).collect()
}
