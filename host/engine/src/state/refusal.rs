//! Why changes of state are refused.

use host_core::state::Space;

use crate::refusals;

refusals! {
    /// Why state cannot be changed.
    pub enum StateRefusal {
        /// A key does not have the value that a change of it expects.
        #[error("the key {key:?} of the state {space} has changed in the meantime")]
        Changed { space: Space, key: String } = STATE_CHANGED 409 "state_changed", "State has changed",
            "A key of state does not have the value that the change expects.",
            "Read the key again and retry with its new value.";
        /// A change would make a space of state larger than its writer may.
        #[error(
            "the state {space} would have {bytes} bytes, more than the {quota_bytes} of state.quota_kib in the manifest"
        )]
        Full {
            space: Space,
            bytes: u64,
            quota_bytes: u64,
        } = STATE_FULL 409 "state_full", "State is full",
            "The change would make the space of state larger than the handler's manifest allows.",
            "Remove keys with `host state rm`, or raise `state.quota_kib` in the manifest.";
    }
}
