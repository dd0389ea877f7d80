//! Checks of the data directory: whether it can be written to, its free space and file system, and
//! how long a synced write takes.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use host_console::{human, plain};
use host_runtime::clock::Clock;
use host_store::sqlite::open_reader;

use super::Check;
use crate::commands::STORE;

/// How many synced writes are measured.
const SYNCS: usize = 32;

/// The median of a synced write from which jobs wait noticeably for the disk.
const SYNC_SLOW: Duration = Duration::from_millis(20);

/// Free space that a host needs to start, and that lasts for a while.
const FREE_BYTES_MIN: u64 = 64 << 20;
const FREE_BYTES_EASE: u64 = 1 << 30;

/// File systems by the number that `statfs` gives them.
const TMPFS: u64 = 0x0102_1994;
const NFS: u64 = 0x6969;

/// Checks the data directory `data`, or the directory where it would be created.
pub(super) fn checks(data: &Path) -> Vec<Check> {
    let place = existing(data);
    let shown = plain::line(&place.to_string_lossy()).into_owned();
    let mut checks = vec![match rustix::fs::statvfs(&place) {
        Ok(stat) => room(&shown, stat.f_bavail.saturating_mul(stat.f_frsize)),
        Err(error) => Check::fail(
            "disk space",
            format!("{shown}: {error}"),
            "name another --data",
        ),
    }];
    match sync_times(&place) {
        Ok(times) => {
            checks.push(Check::ok(
                "data directory",
                format!("{shown} can be written to"),
            ));
            checks.push(sync(times));
        }
        Err(error) => checks.push(Check::fail(
            "data directory",
            format!("{shown} cannot be written to: {error}"),
            "give its owner write permission or name another --data",
        )),
    }
    if let Ok(reader) = open_reader(&data.join(STORE))
        && let Ok(Some(behind_ms)) = reader.clock_behind_ms(Clock::start().now())
    {
        checks.push(clock(behind_ms));
    }
    if let Ok(stat) = rustix::fs::statfs(&place) {
        let kind = u64::try_from(stat.f_type).unwrap_or_default();
        checks.push(kind_of(kind));
    }
    checks
}

/// Returns the nearest directory at or above `path` that exists.
pub(super) fn existing(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = absolute.ancestors().find(|ancestor| ancestor.is_dir());
    found.unwrap_or(Path::new("/")).to_owned()
}

fn room(shown: &str, free_bytes: u64) -> Check {
    let found = format!("{} free at {shown}", human::bytes(free_bytes));
    let next = "free some space: a full disk refuses new jobs";
    match free_bytes {
        0..FREE_BYTES_MIN => Check::fail("disk space", found, next),
        FREE_BYTES_MIN..FREE_BYTES_EASE => Check::warn("disk space", found, next),
        _ => Check::ok("disk space", found),
    }
}

fn clock(behind_ms: u64) -> Check {
    let behind = human::took(behind_ms);
    Check::warn(
        "clock",
        format!("{behind} behind the last change of the store"),
        "set the clock right before a host starts: retries, delayed jobs and full limits would wait that much longer",
    )
}

fn kind_of(file_system: u64) -> Check {
    match file_system {
        TMPFS => Check::warn(
            "file system",
            "tmpfs: a restart of the machine loses all jobs",
            "keep the data on a disk",
        ),
        NFS => Check::warn(
            "file system",
            "NFS: its locks and syncs are not reliable",
            "keep the data on a local disk",
        ),
        _ => Check::ok("file system", "local"),
    }
}

fn sync(mut times: Vec<Duration>) -> Check {
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let worst = times.last().copied().unwrap_or_default();
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let found = format!("{:.2} ms each, {:.2} ms at worst", ms(median), ms(worst));
    if median < SYNC_SLOW {
        return Check::ok("safe writes", found);
    }
    Check::warn(
        "safe writes",
        found,
        "each job waits for two or three of these writes: use a faster disk for the data",
    )
}

/// Appends pages to a temporary file, syncs each and returns how long each took.
fn sync_times(place: &Path) -> io::Result<Vec<Duration>> {
    let path = place.join(format!(".host-doctor-{}", std::process::id()));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)?;
    let times = (0..SYNCS)
        .map(|_| {
            let started = now();
            file.write_all(&[0x55; 4096])?;
            file.sync_data()?;
            Ok(started.elapsed())
        })
        .collect();
    std::fs::remove_file(&path)?;
    times
}

#[expect(
    clippy::disallowed_methods,
    reason = "it measures the disk and decides nothing"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests;
