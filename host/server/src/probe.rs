//! How this system sandboxes cells and whether it can run guests, for `host doctor`.

use std::io;
use std::path::Path;

use host_cells::sandbox::protection::{CodeFile, ProtectionError, probe};
use host_cells::sandbox::spawn::CellProgram;
use host_core::cell::Protection;
use host_runtime::owner::Owner;

/// Starts a child in the sandbox of a cell, and asks it. It runs machine code of a file in `folder`.
pub fn run(
    program: &CellProgram,
    folder: &Path,
    slots: u32,
) -> Result<Protection, ProtectionError> {
    let unusable = |error: io::Error| ProtectionError::Unusable {
        failure: error.to_string(),
        advice: "run this command as the host's user".to_owned(),
    };
    let code = Owner::find(folder)
        .and_then(|owner| owner.act(|| CodeFile::make(folder)))
        .map_err(unusable)??;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(unusable)?
        .block_on(probe(program, code, slots))
}
