//! What the checks of the machine make of what they find.

use super::super::Status;
use super::{address_space, file_size, kernel, memory, memory_maps, open_files, processors, user};

#[test]
fn kernels() {
    assert_eq!(kernel("6.7.0").status, Status::Ok);
    assert_eq!(kernel("10.0-rc1").status, Status::Ok);
    assert_eq!(kernel("6.1.0-18-amd64").status, Status::Warn);
    assert_eq!(kernel("5.10.0").status, Status::Warn);
    assert_eq!(kernel("").status, Status::Fail);
}

#[test]
fn memory_and_processors() {
    let of = |kib: u64| memory(&format!("MemTotal: 1 kB\nMemAvailable:   {kib} kB\n")).status;
    assert_eq!(of(8 << 20), Status::Ok);
    assert_eq!(of(512 << 10), Status::Warn);
    assert_eq!(of(1 << 10), Status::Fail);
    assert_eq!(memory("").status, Status::Warn);
    assert_eq!(
        (processors(1).status, processors(2).status),
        (Status::Warn, Status::Ok)
    );
}

const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units
Max open files            1024                 524288               files
Max address space         unlimited            unlimited            bytes
";

#[test]
fn limits() {
    assert_eq!(address_space(LIMITS).found, "unlimited");
    let capped = LIMITS.replacen("unlimited", "1073741824", 1);
    assert_eq!(address_space(&capped).found, "at most 1.0 GiB");
    assert_eq!(address_space(&capped).status, Status::Fail);
    assert_eq!(open_files(LIMITS).found, "at most 524,288");
    let files = |soft, hard| {
        let limits = LIMITS.replace("1024", soft);
        open_files(&limits.replace("524288", hard))
    };
    assert_eq!(files("64", "1024").status, Status::Ok, "it is raised");
    assert_eq!(files("64", "256").status, Status::Warn);
    assert_eq!(files("64", "64").status, Status::Fail);
    assert_eq!(files("64", "unlimited").found, "unlimited");
    let size = |bytes: &str| file_size(&format!("Max file size  {bytes}  unlimited  bytes")).status;
    assert_eq!(size("unlimited"), Status::Ok);
    assert_eq!(size("2000000000"), Status::Warn);
    assert_eq!(size("1024000"), Status::Fail);
    assert_eq!(address_space("").status, Status::Warn);
    assert_eq!(memory_maps("65530").status, Status::Ok);
    assert_eq!(memory_maps("1000").status, Status::Warn);
}

#[test]
fn users() {
    assert_eq!(user("Name:\thost\nUid:\t0\t0\t0\t0\n").status, Status::Warn);
    assert_eq!(user("Uid:\t1000\t0\t0\t0\n").found, "uid 1000");
}
