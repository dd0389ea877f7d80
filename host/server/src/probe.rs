//! How this system sandboxes cells, for `host doctor`.

use host_cells::sandbox::protection::{ProtectionError, probe};
use host_cells::sandbox::spawn::CellProgram;
use host_core::cell::Protection;

/// Starts a child in the sandbox of a cell, and asks it.
pub fn run(program: &CellProgram) -> Result<Protection, ProtectionError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| ProtectionError::Unknown(error.to_string()))?
        .block_on(probe(program))
}
