//! Components that the compile child accepts and refuses.

use host_core::cell::{CompileFlaw, FromCell, Handover, RunId, ToCell};
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
fn sockets_may_be_imported_and_fail_when_they_are_called() {
    let folder = TempDir::new().unwrap();
    let compiled = compile(&bytes("sockets-import"), &folder.path().join("out.cwasm")).unwrap();
    assert_eq!(compiled.stubbed, ["wasi:sockets/instance-network@0.2.6"]);
    let stubbed = code("hostile").compiled.stubbed;
    let others = |it: &String| !it.starts_with("wasi:sockets/");
    assert!(!stubbed.iter().any(others), "it has wasi:http: {stubbed:?}");
    let mut cell = Cell::start();
    for handler in ["sockets-import/never", "hostile/connect"] {
        let ran = cell.run(handler, "null", Limits::default());
        let Outcome::Failed(failure) = ran.outcome else {
            panic!("{handler}: {ran:?}")
        };
        assert_eq!(failure.kind, FailureKind::GrantMissing, "{handler}");
        assert!(
            failure
                .message
                .starts_with("the handler called wasi:sockets/")
                && failure.message.contains("but handlers have no sockets"),
            "{handler}: {failure:?}"
        );
    }
}
