//! Checks of the kernel, the limits of this process, memory and processors. What is read and
//! how it is judged are separate functions.

use host_cells::sandbox::needs::{FILE_BYTES_MIN, FILES_MIN, LARGER_FILES, MORE_FILES};
use host_console::human;
use host_engine::schedule::time_zones_version;

use super::Check;

/// The first kernel where a sandbox finds the pages it must clean by `PAGEMAP_SCAN`.
const KERNEL_PAGEMAP_SCAN: (u32, u32) = (6, 7);

/// Memory that a host with one cell needs, and that is enough for some cells.
const MEMORY_BYTES_MIN: u64 = 256 << 20;
const MEMORY_BYTES_EASE: u64 = 1 << 30;

/// Open files that hundreds of clients need.
const FILES_EASE: u64 = 1024;

/// Memory maps that a pool of sandboxes needs in one process.
const MAPS_MIN: u64 = 65_530;

/// Checks the machine and this process's limits.
pub(super) fn checks() -> Vec<Check> {
    let limits = read("/proc/self/limits");
    vec![
        kernel(read("/proc/sys/kernel/osrelease").trim()),
        processors(std::thread::available_parallelism().map_or(1, usize::from)),
        memory(&read("/proc/meminfo")),
        address_space(&limits),
        open_files(&limits),
        file_size(&limits),
        memory_maps(read("/proc/sys/vm/max_map_count").trim()),
        user(&read("/proc/self/status")),
        time_zones(),
    ]
}

/// Reads a file of the kernel; returns an empty text if it cannot be read.
fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Says how old the time zones of schedules are.
fn time_zones() -> Check {
    Check::ok(
        "time zones",
        format!("{}, for schedules", time_zones_version()),
    )
}

fn kernel(release: &str) -> Check {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|number| number.parse::<u32>().ok());
    let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
        return Check::fail(
            "kernel",
            "the release of the kernel cannot be read",
            "run on Linux, with /proc mounted",
        );
    };
    let found = format!("Linux {release}");
    match (major, minor) {
        version if version < KERNEL_PAGEMAP_SCAN => Check::warn(
            "kernel",
            format!("{found}: no PAGEMAP_SCAN, a fresh sandbox costs about twice the CPU"),
            "use Linux 6.7 or later",
        ),
        _ => Check::ok("kernel", found),
    }
}

fn processors(count: usize) -> Check {
    match count {
        1 => Check::warn(
            "processors",
            "1: the host and its guests take turns",
            "use two or more for steady response times under load",
        ),
        count => Check::ok("processors", count.to_string()),
    }
}

fn memory(meminfo: &str) -> Check {
    let Some(available) = field(meminfo, "MemAvailable:").map(|kib| kib * 1024) else {
        return Check::warn(
            "memory",
            "/proc/meminfo does not say what is available",
            "mount /proc",
        );
    };
    let found = format!("{} available", human::bytes(available));
    let next = "free memory or lower the number of cells in the configuration";
    match available {
        0..MEMORY_BYTES_MIN => Check::fail("memory", found, next),
        MEMORY_BYTES_MIN..MEMORY_BYTES_EASE => Check::warn("memory", found, next),
        _ => Check::ok("memory", found),
    }
}

fn address_space(limits: &str) -> Check {
    match limit(limits, "Max address space") {
        Some(u64::MAX) => Check::ok("address space", "unlimited"),
        Some(bytes) => Check::fail(
            "address space",
            format!("at most {}", human::bytes(bytes)),
            "a pool of sandboxes reserves terabytes of addresses: run `ulimit -v unlimited`",
        ),
        None => Check::warn("address space", "the limit cannot be read", "mount /proc"),
    }
}

fn open_files(limits: &str) -> Check {
    // A host raises its limit as far as it may.
    let Some(count) = hard_limit(limits, "Max open files") else {
        return Check::warn("open files", "the limit cannot be read", "mount /proc");
    };
    let found = match count {
        u64::MAX => "unlimited".to_owned(),
        count => format!("at most {}", human::count(count)),
    };
    let next = MORE_FILES;
    match count {
        0..FILES_MIN => Check::fail("open files", found, next),
        FILES_MIN..FILES_EASE => Check::warn("open files", found, next),
        _ => Check::ok("open files", found),
    }
}

fn file_size(limits: &str) -> Check {
    match limit(limits, "Max file size") {
        Some(u64::MAX) => Check::ok("file size", "unlimited"),
        Some(bytes) => {
            let found = format!("at most {}", human::bytes(bytes));
            match bytes {
                0..FILE_BYTES_MIN => Check::fail("file size", found, LARGER_FILES),
                _ => Check::warn("file size", found, LARGER_FILES),
            }
        }
        None => Check::warn("file size", "the limit cannot be read", "mount /proc"),
    }
}

fn memory_maps(count: &str) -> Check {
    match count.parse::<u64>() {
        Ok(count) if count >= MAPS_MIN => {
            Check::ok("memory maps", format!("at most {}", human::count(count)))
        }
        Ok(count) => Check::warn(
            "memory maps",
            format!("at most {}", human::count(count)),
            format!("run `sysctl vm.max_map_count={MAPS_MIN}` as root"),
        ),
        Err(_) => Check::warn("memory maps", "the limit cannot be read", "mount /proc"),
    }
}

fn user(status: &str) -> Check {
    match field(status, "Uid:") {
        Some(0) => Check::warn(
            "user",
            "root: code that escapes its sandbox and its cell controls the machine",
            "run the host as a user of its own",
        ),
        Some(uid) => Check::ok("user", format!("uid {uid}")),
        None => Check::warn(
            "user",
            "cannot read the user from /proc/self/status",
            "mount /proc",
        ),
    }
}

/// Returns the first number after the line's `key`.
fn field(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the soft limit on the line `name` of /proc/self/limits, `u64::MAX` if there is none.
fn limit(limits: &str, name: &str) -> Option<u64> {
    limit_in(limits, name, 0)
}

fn hard_limit(limits: &str, name: &str) -> Option<u64> {
    limit_in(limits, name, 1)
}

fn limit_in(limits: &str, name: &str, column: usize) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().nth(column)? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
