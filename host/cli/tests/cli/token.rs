//! `host token`, `host audit` and `host context`.

use host_core::hex::hex;
use host_core::time::Time;
use host_engine::audit::Entry;

use crate::canned::{CannedHost, HANGS_UP, Transcript, run, run_alone};

const CI: &str = r#"{"id":"4fGh01QwErTy","name":"ci","created_by":"uid:0","created_at":"2026-05-17T18:00:00Z","expires_at":"2026-08-15T18:00:00Z","last_used_at":"2026-05-17T18:29:00Z","verbs":["read","deploy"],"queues":[],"handlers":["mail-*","send"],"from":["10.1.0.0/16"],"rate":100,"max_waiting":5000}"#;
const MINTED: &str = r#"{"token":"hst_4fGh01QwErTy_0000","id":"4fGh01QwErTy","name":"ci","created_by":"uid:0","created_at":"2026-05-17T18:00:00Z","expires_at":"2026-08-15T18:00:00Z","verbs":["read","deploy"],"queues":[],"handlers":[],"from":[]}"#;

/// A chain of two entries, as a host answers with it.
fn chain(second_record: &str) -> String {
    let zeros = "0".repeat(64);
    let first_record = r#"{"at":"2026-05-17T18:00:00.000Z","principal":"host","address":null,"verb":"start","object":"host","outcome":"done","request":null,"detail":null,"times":1}"#;
    let one = Entry::new(1, Time(0), [0; 32], first_record.to_owned());
    let second = r#"{"at":"2026-05-17T18:01:00.000Z","principal":"token:4fGh01QwErTy","address":"10.1.2.3","verb":"deploy","object":"component mail","outcome":"forbidden","request":"r1","detail":null,"times":3}"#;
    let two = Entry::new(2, Time(0), one.hash, second.to_owned());
    let (first, last) = (hex(&one.hash), hex(&two.hash));
    let shown = if second_record.is_empty() {
        second
    } else {
        second_record
    };
    format!(
        r#"{{"items":[{{"number":1,"previous":"{zeros}","hash":"{first}","record":{first_record}}},{{"number":2,"previous":"{first}","hash":"{last}","record":{shown}}}],"next_cursor":null}}"#
    )
}

#[test]
fn help() {
    let mut seen = Transcript::new("token_help");
    for verb in ["create", "ls", "show", "revoke", "rotate"] {
        seen.add(&run_alone(&["token", verb, "--help"]));
    }
    for verb in ["add", "use", "ls", "rm"] {
        seen.add(&run_alone(&["context", verb, "--help"]));
    }
    for verb in ["ls", "verify"] {
        seen.add(&run_alone(&["audit", verb, "--help"]));
    }
    seen.check();
}

#[test]
fn tokens_are_made_listed_shown_and_revoked() {
    let mut seen = Transcript::new("token_made_listed_shown_and_revoked");
    let page = format!(r#"{{"items":[{CI}],"next_cursor":null}}"#);
    let own = format!(
        r#"{{"principal":"token:4fGh01QwErTy","verbs":["read"],"waiting":7,"token":{CI}}}"#
    );
    let revoked = r#"{"id":"4fGh01QwErTy","revoked":true}"#;
    let host = CannedHost::start(&[
        (201, MINTED),
        (200, &page),
        (200, CI),
        (200, &own),
        (200, MINTED),
        (200, revoked),
    ]);
    let create = [
        "token",
        "create",
        "ci",
        "--role",
        "deployer",
        "--allow",
        "read,metrics",
    ];
    let limits = [
        "--queue",
        "mail-*",
        "--expires",
        "30d",
        "--rate",
        "100/s",
        "--max-waiting",
        "9",
    ];
    seen.add(&host.run(&[&create[..], &limits].concat()));
    seen.add(&host.run(&["token", "ls"]));
    seen.add(&host.run(&["token", "show", "4fGh01QwErTy"]));
    seen.add(&host.run(&["token", "show"]));
    seen.add(&host.run(&["token", "rotate", "4fGh01QwErTy", "--overlap", "1h"]));
    seen.add(&host.run(&["token", "revoke", "4fGh01QwErTy"]));
    seen.check();
}

#[test]
fn the_audit_is_listed_and_verified() {
    let mut seen = Transcript::new("token_the_audit_is_listed_and_verified");
    let whole = chain("");
    let changed = chain(
        r#"{"at":"","principal":"uid:1","verb":"read","object":"","outcome":"done","times":1}"#,
    );
    let none = r#"{"items":[],"next_cursor":null}"#;
    let answers = [&whole, &whole, &whole, &whole, none, &changed];
    let host = CannedHost::start(&answers.map(|answer| (200, answer)));
    seen.add(&host.run(&["audit", "ls", "--verb", "deploy"]));
    seen.add(&host.run(&["audit", "ls", "-o", "name"]));
    seen.add(&host.run(&["audit", "verify"]));
    for format in ["jsonl", "json"] {
        seen.add(&host.run(&["audit", "verify", "-o", format]));
    }
    seen.add(&host.run(&["audit", "verify"]));
    seen.check();
}

#[test]
fn contexts_are_added_listed_and_removed() {
    let mut seen = Transcript::new("token_contexts");
    let folder = tempfile::tempdir().unwrap();
    let home = [("HOME", folder.path().to_str().unwrap())];
    for arguments in [
        &["context", "ls"][..],
        &[
            "context",
            "add",
            "here",
            "--server",
            "http://127.0.0.1:7700",
        ],
        &[
            "context",
            "add",
            "prod",
            "--server",
            "https://jobs.example.com",
        ],
        &["context", "ls"],
        &["context", "ls", "-o", "json"],
        &["context", "ls", "-o", "name"],
        &["context", "rm", "here"],
        &["context", "ls", "-o", "jsonl"],
    ] {
        seen.add(&run(arguments, "", &home));
    }
    seen.add(&run(
        &["token", "ls", "--token-file", "gone.token"],
        "",
        &home,
    ));
    seen.check();
}

#[test]
fn the_audit_is_listed_since_a_time_or_so_long_ago_and_followed() {
    let mut seen = Transcript::new("token_the_audit_is_listed_since_and_followed");
    let whole = chain("");
    let none = r#"{"items":[],"next_cursor":null}"#;
    let host = CannedHost::start(&[
        (
            200,
            r#"{"status":"ok","version":"0.9.0","uptime_seconds":60,"isolation":"shared"}"#,
        ),
        (200, &whole),
        (200, none),
        (200, &whole),
        (200, none),
        (HANGS_UP, ""),
    ]);
    let principal = ["--principal", "token:4fGh01QwErTy"];
    let ls = ["audit", "ls", "--since"];
    seen.add(&host.run(&[&ls[..], &["1d"], &principal].concat()));
    seen.add(&host.run(&[&ls[..], &["2026-05-17T20:00:00+02:00"]].concat()));
    seen.add(&host.run(&[&ls[..], &["yesterday"]].concat()));
    // It asks for what comes after the last entry that it has seen, until the host is gone.
    seen.add(&host.run(&["audit", "ls", "-f", "-o", "jsonl"]));
    seen.check();
}
