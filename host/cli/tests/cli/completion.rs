//! `host completion`.

use std::process::Command;

use crate::canned::{CannedHost, Transcript, run_alone};

#[test]
fn help_and_errors() {
    let mut seen = Transcript::new("completion_help_and_errors");
    seen.add(&run_alone(&["completion", "--help"]));
    seen.add(&run_alone(&["completion", "csh"]));
    seen.check();
}

#[test]
fn every_shell_gets_a_script_that_asks_for_words() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = run_alone(&["completion", shell]);
        assert!(script.ends_with("exit 0\n"), "{shell}: {script}");
        assert!(script.contains("HOST_COMPLETE"), "{shell}: {script}");
    }
}

/// Returns the words that follow `line` for a shell that asks for them.
fn words(line: &[&str], server: &str) -> Vec<String> {
    let asked = Command::new(env!("CARGO_BIN_EXE_host"))
        .arg("--")
        .args(line)
        .env_clear()
        .env("HOST_COMPLETE", "bash")
        .env("HOST_SERVER", server)
        .env("_CLAP_COMPLETE_INDEX", (line.len() - 1).to_string())
        .env("_CLAP_COMPLETE_COMP_TYPE", "9")
        .env("_CLAP_COMPLETE_SPACE", "true")
        .env("_CLAP_IFS", "\n")
        .output()
        .unwrap();
    let words = String::from_utf8(asked.stdout).unwrap();
    words.lines().map(str::to_owned).collect()
}

#[test]
fn names_come_from_the_host() {
    let page = r#"{"items":[{"name":"default","paused":false,"counts":{}},{"name":"nightly","paused":false,"counts":{}}],"next_cursor":null}"#;
    let host = CannedHost::start(&[(200, page)]);
    let offered = words(&["host", "queue", "show", "ni"], &host.url());
    assert_eq!(offered, ["nightly"]);
    let offered = words(&["host", "queue", "sh"], "http://127.0.0.1:1");
    assert_eq!(offered, ["show"], "verbs need no host");
    let offered = words(&["host", "queue", "show", "x"], "http://127.0.0.1:1");
    assert!(offered.is_empty(), "{offered:?}");
}

#[test]
fn every_argument_that_names_something_has_words() {
    let counts = r#"{"jobs":0,"not_ended":0,"completed":0,"discarded":0,"cancelled":0}"#;
    let id = "01a22679-0479-7483-8997-e44704e8427b";
    let ids = format!(
        r#"{{"items":[{{"id":"{id}","state":"live","handler":"h","queue":"q","priority":5,"counts":{counts},"callbacks":[],"created_at":""}}],"next_cursor":null}}"#
    );
    let causes = r#"{"items":[{"fingerprint":"5f0e","handler":"h","kind":"trapped","pattern":"","jobs":1,"first_at":"","last_at":"","example":""}],"examined":1,"complete":true}"#;
    let spaces = r#"{"items":[{"space":"handler:import"}],"next_cursor":null}"#;
    let pools = r#"{"items":[{"name":"python"}],"next_cursor":null}"#;
    for (line, answer, word) in [
        ("batch show", &*ids, id),
        ("batch add", &*ids, id),
        ("job ls --batch", &*ids, id),
        ("job cancel", &*ids, id),
        ("node drain", &*ids, id),
        ("failure show", causes, "5f0e"),
        ("state get", spaces, "handler:import"),
        ("runner restart", pools, "python"),
    ] {
        let host = CannedHost::start(&[(200, answer)]);
        let mut words_of_line = vec!["host"];
        words_of_line.extend(line.split(' '));
        words_of_line.push("");
        let offered = words(&words_of_line, &host.url());
        assert!(offered.iter().any(|it| it == word), "{line}: {offered:?}");
    }
    let zone = ["host", "schedule", "set", "--time-zone", "Europe/Ber"];
    assert_eq!(words(&zone, "http://127.0.0.1:1"), ["Europe/Berlin"]);
    let none = ["host", "schedule", "set", "--time-zone", "Fac"];
    assert!(words(&none, "http://127.0.0.1:1").is_empty());
}
