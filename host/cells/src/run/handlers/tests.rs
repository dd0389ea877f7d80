//! What runs while a new revision is compiled, and what a host reports about its components.

use host_core::time::Time;
use host_engine::component::Manifest;
use host_testing::compiled;

use super::*;

/// A revision of the component `basics` whose digest consists of `digest`.
fn revision(number: u32, digest: u8, handlers: &[&str]) -> Revision {
    let info = |name: &&str| HandlerInfo {
        name: name.parse().unwrap(),
        description: None,
        params_schema: None,
        result_schema: None,
    };
    Revision {
        component: "basics".parse().unwrap(),
        revision: number,
        digest: Digest([digest; 32]),
        manifest: Manifest::default(),
        handlers: handlers.iter().map(info).collect(),
        deployed_at: Time(0),
        signature: None,
        schedules: Vec::new(),
        release: host_engine::component::Release::default(),
    }
}

/// Compiles a revision.
fn take_in(handlers: &Handlers, revision: &Revision) {
    handlers.add_program(revision.digest, PathBuf::from("/basics.cwasm"), compiled(1));
    handlers.record_loaded(revision, None);
}

fn broken(may_pass: bool) -> Flaw {
    let message = "x".repeat(2 * FLAW_CHARS);
    Flaw { message, may_pass }
}

/// Returns the revision with which a handler runs.
fn runs(handlers: &Handlers, name: &str) -> Option<u32> {
    let executable = handlers.executable(&name.parse().unwrap());
    executable
        .ok()
        .map(|(handler, _)| handler.revision.revision)
}

fn unrunnable(handlers: &Handlers) -> Vec<String> {
    handlers.unrunnable().iter().map(Name::to_string).collect()
}

fn reported(handlers: &Handlers) -> Vec<(u32, bool)> {
    let components = handlers.components();
    let revisions = components.values();
    revisions
        .map(|it| (it.revision, it.flaw.is_some()))
        .collect()
}

#[test]
fn the_revision_before_runs_until_the_new_one_is_compiled() {
    let handlers = Handlers::default();
    let (first, second) = (revision(1, 1, &["a", "old"]), revision(2, 2, &["a", "b"]));
    take_in(&handlers, &first);
    handlers.replace(vec![first.clone()]);
    assert_eq!(
        (runs(&handlers, "a"), reported(&handlers)),
        (Some(1), vec![(1, false)])
    );
    assert!(handlers.has_taken_in(&first) && unrunnable(&handlers).is_empty());

    // It is known immediately, however often it is published.
    for _ in 0..2 {
        handlers.replace(vec![second.clone()]);
        assert!(handlers.get(&"b".parse().unwrap()).is_some());
        assert_eq!(
            (runs(&handlers, "a"), runs(&handlers, "b")),
            (Some(1), None)
        );
        assert_eq!(runs(&handlers, "old"), None, "it is no longer deployed");
        assert_eq!(unrunnable(&handlers), ["b"]);
        assert_eq!(reported(&handlers), [], "it is not compiled yet");
    }
    let old = handlers.program(first.digest).unwrap().component;
    assert!(handlers.needs(old));

    take_in(&handlers, &second);
    handlers.replace(vec![second.clone()]);
    assert_eq!(
        (runs(&handlers, "a"), runs(&handlers, "b")),
        (Some(2), Some(2))
    );
    assert!(unrunnable(&handlers).is_empty() && !handlers.needs(old));
    assert_eq!(reported(&handlers), [(2, false)]);
}

#[test]
fn a_revision_that_cannot_run_here_does_not_leave_the_one_before_running() {
    for may_pass in [true, false] {
        let handlers = Handlers::default();
        let (first, second) = (revision(1, 1, &["a"]), revision(2, 2, &["a"]));
        take_in(&handlers, &first);
        handlers.replace(vec![first]);
        handlers.record_loaded(&second, Some(broken(may_pass)));
        handlers.replace(vec![second.clone()]);
        assert_eq!(
            handlers.has_taken_in(&second),
            !may_pass,
            "it is tried again"
        );
        assert_eq!(
            (runs(&handlers, "a"), unrunnable(&handlers)),
            (None, vec!["a".to_owned()])
        );
        let flaw = handlers.components().into_values().next().unwrap().flaw;
        assert_eq!(flaw.unwrap().len(), FLAW_CHARS);
        take_in(&handlers, &second);
        assert_eq!(
            (runs(&handlers, "a"), unrunnable(&handlers).len()),
            (Some(2), 0)
        );
    }
}

/// The component compiles, but the host lacks what its manifest grants.
#[test]
fn a_grant_that_a_host_lacks_is_a_flaw_of_the_revision() {
    // A run sees for itself whether a directory is there now. What a configuration does not allow, no run gets.
    for (may_pass, runs_now) in [(true, Some(2)), (false, None)] {
        let handlers = Handlers::default();
        let (first, second) = (revision(1, 1, &["a"]), revision(2, 1, &["a"]));
        take_in(&handlers, &first);
        handlers.replace(vec![first]);
        handlers.record_loaded(&second, Some(broken(may_pass)));
        handlers.replace(vec![second]);
        assert_eq!(unrunnable(&handlers), ["a"]);
        assert_eq!(reported(&handlers), [(2, true)]);
        assert_eq!(runs(&handlers, "a"), runs_now);
    }
}

#[test]
fn what_cannot_be_compiled_again_is_a_flaw() {
    let handlers = Handlers::default();
    let only = revision(1, 1, &["a"]);
    take_in(&handlers, &only);
    handlers.replace(vec![only.clone()]);
    let component = handlers.program(only.digest).unwrap().component;
    handlers.record_damaged(component);
    handlers.record_repair(only.digest, Some("the disk is full".to_owned()));
    assert_eq!(
        (reported(&handlers), unrunnable(&handlers).len()),
        (vec![(1, true)], 1)
    );
    assert!(!handlers.has_taken_in(&only));
}
