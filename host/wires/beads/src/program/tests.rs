//! Calls of a program, which is a shell script here.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use super::*;

fn script(text: &str) -> (TempDir, Program) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("bd");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    let command = ProgramCommand {
        path: path.display().to_string(),
        env: BTreeMap::from([(
            "LOG".to_owned(),
            folder.path().join("log").display().to_string(),
        )]),
    };
    let program = Program::new(command, Launcher::start().unwrap());
    (folder, program)
}

#[tokio::test]
async fn arguments_reach_the_program_as_they_are() {
    let (folder, program) =
        script("for word; do echo \"[$word]\"; done >>\"$LOG\"; env >\"$LOG.env\"");
    let issue = "a b; $(touch x) `id` 'q' \"*\" ü";
    for call in [Call::Claim, Call::Close, Call::Reopen] {
        assert_eq!(program.call(call, issue.to_owned()).await, Ok(()));
    }
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let expected = format!(
        "[update]\n[{issue}]\n[--status=in_progress]\n[close]\n[{issue}]\n[update]\n[{issue}]\n[--status=open]\n"
    );
    assert_eq!(log, expected);
    let env = std::fs::read_to_string(folder.path().join("log.env")).unwrap();
    assert!(env.contains("LOG=") && !env.contains("CARGO"), "{env}");
}

#[tokio::test]
async fn a_call_that_fails_says_why() {
    let (_folder, program) = script("echo first >&2; echo 'no such issue' >&2; exit 3");
    let message = program
        .call(Call::Close, "b-1".to_owned())
        .await
        .unwrap_err();
    assert!(
        message.contains("exit status: 3") && message.contains("no such issue"),
        "{message}"
    );
    let (folder, program) = script("");
    drop(folder);
    let message = program
        .call(Call::Close, "b-1".to_owned())
        .await
        .unwrap_err();
    assert!(message.contains("cannot start"), "{message}");
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_ended() {
    let (_folder, mut program) = script("sleep 1000 & wait");
    program.call_time = Duration::from_millis(50);
    let message = program
        .call(Call::Claim, "b-1".to_owned())
        .await
        .unwrap_err();
    assert!(message.contains("did not end within"), "{message}");
}
