//! `host job import`: jobs in lines.

use crate::canned::{CannedHost, HANGS_UP, Transcript, run_alone};

const JOBS: &str = "{\"handler\": \"echo\"}\n\n{\"handler\": \"echo\", \"priority\": 10}\n{\"handler\": \"mail\"}\n";

const ANSWERS: &str = r#"{"id":"01990f3c-1a2b-7000-8000-000000000001","state":"available","existing":false}
{"code":"invalid_request","title":"The request is not valid","detail":"priority must be 0\u20139, got 10","status":400}
{"id":"01990f3c-1a2b-7000-8000-000000000002","state":"running","existing":true}
"#;

const STOPPING: &str = r#"{"id":"01990f3c-1a2b-7000-8000-000000000001","state":"available","existing":false}
{"code":"busy","detail":"the host is stopping; send the rest again"}
"#;

#[test]
fn lines_are_sent_together_and_each_has_its_answer() {
    let mut seen = Transcript::new("import_lines");
    seen.add(&run_alone(&["job", "import", "--help"]));
    let host = CannedHost::start(&[(200, ANSWERS); 4]);
    for format in ["table", "jsonl", "name", "json"] {
        seen.add(&host.run_with(&["job", "import", "-", "-o", format], JOBS));
    }
    seen.check();
}

#[test]
fn an_import_goes_on_where_it_stopped() {
    let mut seen = Transcript::new("import_goes_on");
    let host = CannedHost::start(&[(HANGS_UP, ""), (200, STOPPING), (200, ANSWERS)]);
    seen.add(&host.run_with(&["job", "import", "-"], JOBS));
    seen.add(&host.run_with(&["job", "import", "-"], JOBS));
    seen.add(&host.run_with(&["job", "import", "-", "--from-line", "4"], JOBS));
    seen.add(&run_alone(&["job", "import", "no-such-file"]));
    seen.check();
}

#[test]
fn a_line_that_is_too_long_holds_back_no_other() {
    let mut seen = Transcript::new("import_too_long");
    let first = ANSWERS.lines().next().unwrap();
    let host = CannedHost::start(&[(200, first), (200, first)]);
    let long = "x".repeat(3 << 20);
    let jobs = format!("{{\"handler\": \"echo\"}}\n{long}\n{{\"handler\": \"mail\"}}\n");
    seen.add(&host.run_with(&["job", "import", "-"], &jobs));
    seen.check();
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_line_and_other_encodings_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs");
    let path = file.to_str().unwrap();
    let host = CannedHost::start(&[(200, ANSWERS)]);
    std::fs::write(&file, format!("\u{feff}{JOBS}")).unwrap();
    let ran = host.run(&["job", "import", path, "-o", "name"]);
    assert!(ran.contains("> POST") && !ran.contains('\u{feff}'), "{ran}");
    let utf16: Vec<u8> = "\u{feff}{}\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    for (bytes, named) in [
        (&utf16[..], "it is UTF-16; convert it to UTF-8"),
        (b"\x1f\x8b\x08\x00", "it is packed with gzip; unpack it"),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let ran = host.run(&["job", "import", path]);
        assert!(ran.contains(named) && !ran.contains("> POST"), "{ran}");
    }
}
