//! The findings depend on the machine; these tests hold on every one.

use crate::canned::{Transcript, run_alone};

#[test]
fn help() {
    let mut seen = Transcript::new("doctor_help");
    seen.add(&run_alone(&["doctor", "--help"]));
    seen.check();
}

#[test]
fn each_check_has_a_line_and_each_complaint_an_advice() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let ran = run_alone(&["doctor", "--data", data.to_str().unwrap(), "-o", "jsonl"]);
    let lines: Vec<_> = ran.lines().filter(|line| line.starts_with('{')).collect();
    assert!(lines.len() >= 10, "{ran}");
    for line in &lines {
        let check: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            check["status"] != "ok",
            check["next"].is_string(),
            "{check}"
        );
    }
    let failed = lines.iter().any(|line| line.contains(r#""status":"fail""#));
    assert!(
        ran.ends_with(if failed { "exit 1\n" } else { "exit 0\n" }),
        "{ran}"
    );
    assert!(!data.exists());
}

#[test]
fn a_data_directory_on_no_disk_fails() {
    let ran = run_alone(&["doctor", "--data", "/proc/self/fdinfo"]);
    assert!(ran.contains("cannot be written to"), "{ran}");
    assert!(ran.ends_with("exit 1\n"), "{ran}");
}
