//! A host on a system that cannot fully sandbox cells.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use host_tests::{Options, Server};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use serde_json::json;
use tempfile::TempDir;

use crate::fixture::deploy;

/// The flag of `clone` for a mount namespace.
const MOUNTS: u64 = libc::CLONE_NEWNS.cast_unsigned() as u64;

/// Makes the kernel look to a program as if it had neither Landlock nor namespaces.
fn weaken(command: &mut Command) {
    let flags = SeccompCmpOp::MaskedEq(MOUNTS);
    let mounts = SeccompCondition::new(0, SeccompCmpArgLen::Dword, flags, MOUNTS).unwrap();
    let namespaces = vec![SeccompRule::new(vec![mounts]).unwrap()];
    let filters = [
        (libc::SYS_landlock_create_ruleset, Vec::new(), libc::ENOSYS),
        (libc::SYS_clone, namespaces, libc::EPERM),
    ]
    .map(|(call, rules, error)| -> BpfProgram {
        let filter = SeccompFilter::new(
            BTreeMap::from([(call, rules)]),
            SeccompAction::Allow,
            SeccompAction::Errno(error.cast_unsigned()),
            std::env::consts::ARCH.try_into().unwrap(),
        );
        filter.unwrap().try_into().unwrap()
    });
    // SAFETY: between fork and exec it makes only system calls.
    unsafe {
        command.pre_exec(move || {
            let mut filters = filters.iter();
            filters
                .try_for_each(|filter| seccompiler::apply_filter(filter))
                .map_err(|_| io::ErrorKind::Other.into())
        });
    }
}

#[test]
fn a_host_starts_on_a_weak_system_only_if_it_may_and_says_so() {
    let data = TempDir::new().unwrap();
    let mut options = Options::new(data.path());
    options.prepare = weaken;
    let error = Server::try_start(&options).err().unwrap();
    for words in ["not fully sandboxed", "Landlock", "cells.allow_weak"] {
        assert!(error.contains(words), "{error}");
    }
    options.args.push("--allow-weak=true".to_owned());
    let server = Server::start(&options);
    let client = server.client();
    let ready = client.get("/readyz").unwrap();
    let weak = ready.body["weak"][0].as_str().unwrap();
    assert!(weak.contains("Landlock"), "{}", ready.body);
    let log = std::fs::read_to_string(data.path().join("serve.log")).unwrap();
    assert!(log.contains("cells are not fully sandboxed"), "{log}");
    deploy(&client, "basics");
    let id = client.enqueue(&json!({"handler": "echo", "params": [1]}));
    assert_eq!(client.wait(&id)["result"], json!([1]));
}
