//! Both roles together.

mod pair;
pub(super) mod peer;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Writes the id of a task of a run.
pub(super) fn opaque_id(run: &str, key: &str) -> String {
    let id = URL_SAFE_NO_PAD.encode(format!("{run}\0{key}"));
    format!("ct1_{id}")
}
