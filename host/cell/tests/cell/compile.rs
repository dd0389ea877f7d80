//! Components that the compile child accepts and refuses.

use host_core::cell::{CompileFlaw, FromCell, Handover, LogLine, RunId, ToCell};
use host_core::failure::FailureKind;
use host_core::handler::Limits;
use host_core::outcome::Outcome;
use tempfile::TempDir;

use crate::child::{Cell, bytes, code, compile};

#[test]
fn what_is_no_handler_component_is_refused_with_the_reason() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("out.cwasm");
    let refusal = |component: &[u8]| compile(component, &output).expect_err("it is refused");
    assert_eq!(refusal(b""), CompileFlaw::NotAComponent);
    assert_eq!(refusal(b"#!/bin/sh"), CompileFlaw::NotAComponent);
    assert_eq!(refusal(&bytes("core-module")), CompileFlaw::NotAComponent);
    let name = "evil:host/shell@1.0.0".to_owned();
    assert_eq!(
        refusal(&bytes("unknown-import")),
        CompileFlaw::ForbiddenImport { name }
    );
    for name in ["wrong-world", "wrong-signature"] {
        assert!(
            matches!(refusal(&bytes(name)), CompileFlaw::WrongWorld { .. }),
            "{name}"
        );
    }
    for name in ["memory64", "shared-memory"] {
        assert!(
            matches!(refusal(&bytes(name)), CompileFlaw::Invalid { .. }),
            "{name}"
        );
    }
    let truncated = &bytes("basics")[..10_000];
    assert!(matches!(refusal(truncated), CompileFlaw::Invalid { .. }));
    let limit = host_cell::COMPONENT_BYTES_MAX;
    let large = vec![0; usize::try_from(limit).unwrap() + 1];
    assert_eq!(refusal(&large), CompileFlaw::TooLarge { limit });
    let written = std::fs::metadata(&output).unwrap().len();
    assert_eq!(written, 0, "nothing is written for what is refused");

    let compiled = compile(&bytes("good"), &output).unwrap();
    let code = std::fs::read(&output).unwrap();
    assert_eq!(code.len() as u64, compiled.bytes);
    assert_eq!(refusal(&code), CompileFlaw::Precompiled);
}

#[test]
fn a_compiled_file_that_was_changed_is_not_loaded() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("good.cwasm");
    let compiled = compile(&bytes("good"), &path).unwrap();
    let mut code = std::fs::read(&path).unwrap();
    let middle = code.len() / 2;
    code[middle] ^= 1;
    std::fs::write(&path, code).unwrap();
    let mut cell = Cell::start();
    let mut start = cell.prepare("good/x", "null", Limits::default());
    start.component.0 += 1_000;
    cell.send(&ToCell::Load {
        component: start.component,
        path,
        sha256: compiled.sha256,
        file: Handover::Comes,
    });
    assert!(matches!(cell.receive(), FromCell::LoadFailed { .. }));
    let run: RunId = start.run;
    cell.send(&ToCell::Start(Box::new(start)));
    let Outcome::Failed(failure) = cell.wait_for_end(run).outcome else {
        panic!("it fails")
    };
    assert_eq!(failure.kind, FailureKind::CellLost);
}

#[test]
fn what_is_not_given_may_be_imported_and_fails_when_it_is_called() {
    let folder = TempDir::new().unwrap();
    let compiled = compile(&bytes("sockets-import"), &folder.path().join("out.cwasm")).unwrap();
    assert_eq!(compiled.stubbed, ["wasi:sockets/udp-create-socket@0.2.6"]);
    let stubbed = code("hostile").compiled.stubbed;
    let others = |it: &String| !it.starts_with("wasi:sockets/");
    assert!(!stubbed.iter().any(others), "it has wasi:http: {stubbed:?}");
    let mut cell = Cell::start();
    let ran = cell.run("sockets-import/never", "null", Limits::default());
    let Outcome::Failed(failure) = ran.outcome else {
        panic!("{ran:?}")
    };
    assert_eq!(failure.kind, FailureKind::GrantMissing);
    let message = &failure.message;
    assert!(
        message.starts_with("the handler called wasi:sockets/udp-create-socket"),
        "{message}"
    );
    // Connections are given, by grants: without one, the log says so.
    let ran = cell.run("hostile/connect", "null", Limits::default());
    assert!(
        matches!(&ran.outcome, Outcome::Failed(failure) if failure.kind == FailureKind::UserError),
        "{ran:?}"
    );
    let says = |line: &LogLine| {
        line.message
            .contains("the manifest grants this handler no connection to 127.0.0.1:80")
    };
    assert!(ran.lines.iter().any(says), "{:?}", ran.lines);
}
