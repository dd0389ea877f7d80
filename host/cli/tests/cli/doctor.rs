//! The findings depend on the machine; these tests hold on every one.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::canned::{Transcript, run, run_alone};

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
    let zones = lines
        .iter()
        .find(|line| line.contains("time zones"))
        .unwrap_or_else(|| panic!("{ran}"));
    let has_version = zones
        .split('"')
        .any(|text| text.starts_with("20") && text.ends_with(", for schedules"));
    assert!(has_version, "{zones}");
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

#[test]
fn the_configuration_of_the_file_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("host.toml");
    let path = file.to_str().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap();
    let text = format!("data = \"/proc/self/fdinfo\"\n[http]\nlisten = \"{listen}\"\n");
    std::fs::write(&file, text).unwrap();
    drop(taken);
    let ran = run_alone(&["doctor", "--config", path]);
    assert!(ran.contains("cannot be written to"), "{ran}");
    assert!(ran.contains(&format!("{listen} is free")), "{ran}");
    let elsewhere = dir.path().to_str().unwrap();
    let ran = run_alone(&["doctor", "--config", path, "--data", elsewhere]);
    assert!(!ran.contains("cannot be written to"), "{ran}");
    std::fs::write(&file, "dta = 1").unwrap();
    let ran = run_alone(&["doctor", "--config", path]);
    assert!(
        ran.contains("unknown key") && ran.ends_with("exit 1\n"),
        "{ran}"
    );
}

/// A Redis whose every answer is an error that would ring, colour and turn what a terminal shows.
fn rude_redis() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut asked = [0; 4_096];
            while stream.read(&mut asked).is_ok_and(|bytes| bytes > 0) {
                let rude = "-ERR rude \u{1b}[31m\u{1b}]0;x\u{7}\u{9b}2J\u{202e}\r\n".as_bytes();
                if stream.write_all(&rude.repeat(8)).is_err() {
                    break;
                }
            }
        }
    });
    url
}

#[test]
fn nothing_that_a_server_or_a_name_says_acts_on_a_terminal() {
    let url = rude_redis();
    let odd = "/nowhere/\u{1b}[31m\u{7}";
    for (name, value, message) in [
        ("HOST_HERO_URL", url.as_str(), "rude"),
        ("HOST_CONFIG", odd, "/nowhere/"),
        ("HOST_CELLS_COUNT", "\u{1b}[31m", "HOST_CELLS_COUNT"),
    ] {
        let ran = run(&["doctor", "--data", odd], "", &[(name, value)]);
        let (_command, ran) = ran.split_once('\n').unwrap();
        assert!(ran.contains(message), "{name}: {ran}");
        let acts = |c: &char| c.is_control() && *c != '\n' || *c == '\u{202e}';
        assert_eq!(ran.chars().find(acts), None, "{name}: {ran:?}");
    }
}
