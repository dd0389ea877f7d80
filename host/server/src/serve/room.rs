//! Waits for room if the disk is full when a host starts, as a host that runs does.

use std::path::Path;
use std::time::Duration;

use host_runtime::stops::Stops;
use host_store::sqlite;
use rustix::fs::statvfs;

/// How much a store needs to be opened, in bytes: for the files beside it and the logs.
const OPEN_BYTES: u64 = 1 << 20;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Waits until the store at `store` has room to be opened: on its disk, or in the space that it has reserved, which it
/// then uses. Returns false if the process has to stop first.
pub(super) async fn wait(store: &Path, stops: &mut Stops) -> bool {
    let mut is_logged = false;
    while !has_room(free(store), sqlite::reserved(store)) {
        if !is_logged {
            tracing::warn!(
                "the disk of the data directory is full: free some space, and the host starts"
            );
            is_logged = true;
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = stops.wait_for_stop() => return false,
        }
    }
    true
}

const fn has_room(free: u64, reserved: u64) -> bool {
    free.saturating_add(reserved) >= OPEN_BYTES
}

/// Returns the free space beside a file, in bytes. If it is unknown, opening the store shows whether there is any.
fn free(file: &Path) -> u64 {
    let folder = file.parent().unwrap_or(file);
    statvfs(folder).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}
