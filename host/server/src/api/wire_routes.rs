//! The routes that wires hand in, as far as they are known before any is configured.

use host_http::route::Description;

use super::hero;

/// Describes the routes of all wires.
pub(super) fn descriptions() -> Vec<Description> {
    vec![hero::description()]
}
