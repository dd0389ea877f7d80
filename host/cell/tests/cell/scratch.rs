//! Scratch directories: what a guest can do with one, and that it gets no more than that.

use host_core::cell::Handover;
use host_core::failure::FailureKind;
use host_core::handler::Limits;
use host_core::outcome::Outcome;
use serde_json::{Value, json};

use crate::child::Cell;

/// 64 blocks of 16 KiB for each MiB.
const BYTES: u64 = 4 << 20;

fn limits() -> Limits {
    Limits {
        timeout_ms: 60_000,
        scratch_bytes: BYTES,
        ..Limits::default()
    }
}

/// Returns what the guest has seen, and the last line of its log.
fn attack(cell: &mut Cell, attack: &str) -> (Value, String) {
    let params = json!({ "attack": attack }).to_string();
    let mut start = cell.prepare("hostile/scratch", &params, limits());
    start.scratch = Some(Handover::Comes);
    let ran = cell.finish(start);
    let Outcome::Completed { result: Some(seen) } = ran.outcome else {
        panic!("{attack}: {ran:?}")
    };
    let last = ran.lines.last().map(|line| line.message.clone());
    let seen = serde_json::from_str(seen.as_str()).unwrap();
    (seen, last.unwrap_or_default())
}

#[test]
fn a_hostile_guest_gets_no_more_than_its_scratch_directory() {
    let mut cell = Cell::start();
    let full = "full";
    let whole = BYTES / 1_000 * 1_000;
    for (name, expected) in [
        ("fill", json!([[whole, full], [whole, full], [whole, full]])),
        ("small files", json!([256, full])),
        ("empty files", json!([10_000, full])),
        ("long names", json!([10_000, full])),
        ("sparse", json!([full, full, full, "done", 1 << 20])),
        ("unlinked", json!([64, full, "done"])),
        (
            "renamed",
            json!(["InvalidInput", "IsADirectory", "not empty", 1 << 20]),
        ),
        ("links", json!(["not supported", "not supported", 1])),
        ("outside", json!([])),
        ("stale", json!([200_003, 0])),
        ("listing", json!([3_000, 0])),
    ] {
        let is_full = expected.to_string().contains(full);
        let (seen, line) = attack(&mut cell, name);
        assert_eq!(seen, expected, "{name}");
        assert_eq!(
            line.contains("scratch directory is full"),
            is_full,
            "{name}"
        );
    }
    let (depth, _) = attack(&mut cell, "depth");
    assert!(depth.as_u64().unwrap() < 4_200, "{depth}");
}

#[test]
fn a_full_disk_is_an_error_of_the_guest() {
    let mut cell = Cell::start();
    let mut device = std::fs::File::options();
    let full = device.read(true).write(true).open("/dev/full").unwrap();
    cell.give_scratch(full.into());
    let (seen, line) = attack(&mut cell, "small files");
    assert_eq!(seen, json!([0, "full"]));
    assert!(line.contains("the disk of the host"), "{line}");
}

#[test]
fn a_run_whose_scratch_directory_cannot_be_made_says_why() {
    let mut cell = Cell::start();
    let mut start = cell.prepare("basics/noop", "null", limits());
    start.scratch = Some(Handover::Failed("No space left on device".to_owned()));
    let Outcome::Failed(failure) = cell.finish(start).outcome else {
        panic!("it fails")
    };
    assert_eq!(failure.kind, FailureKind::CellLost);
    assert!(failure.message.contains("scratch directory"), "{failure:?}");
    assert!(failure.message.contains("No space left"), "{failure:?}");
}
