//! Verbs, roles, globs and scopes.

use proptest::prelude::*;

use super::*;

fn glob(text: &str) -> Glob {
    Glob::try_from(text.to_owned()).unwrap()
}

fn scope(queues: &[&str], handlers: &[&str]) -> Scope {
    Scope {
        queues: queues.iter().map(|text| glob(text)).collect(),
        handlers: handlers.iter().map(|text| glob(text)).collect(),
    }
}

#[test]
fn words_are_read_as_written_and_unknown_ones_are_errors() {
    for verb in Verb::ALL {
        assert_eq!(verb.as_str().parse(), Ok(*verb));
    }
    for role in Role::ALL {
        assert_eq!(role.as_str().parse(), Ok(*role));
    }
    for unknown in ["", "Read", "everything", "*", "read ", "superuser"] {
        assert!(unknown.parse::<Verb>().is_err(), "{unknown:?}");
        assert!(unknown.parse::<Role>().is_err(), "{unknown:?}");
        let names = vec!["read".to_owned(), unknown.to_owned()];
        assert!(Verbs::try_from(names).is_err(), "{unknown:?}");
    }
}

#[test]
fn roles_are_sets_of_verbs() {
    let verbs = |role: Role| role.verbs().to_string();
    assert_eq!(verbs(Role::Producer), "enqueue,read,read_own,cancel");
    assert_eq!(verbs(Role::Viewer), "read,metrics");
    let operator = "read,read_payload,read_own,cancel,retry,schedule,operate,metrics";
    assert_eq!(verbs(Role::Operator), operator);
    assert_eq!(verbs(Role::Deployer), "read,deploy");
    assert_eq!(Role::Admin.verbs(), Verbs::ALL);
    assert_eq!(Verbs::ALL.iter().count(), Verb::ALL.len());
    for role in Role::ALL {
        assert_eq!(Verbs::try_from(Vec::from(role.verbs())), Ok(role.verbs()));
        assert_eq!(role.verbs().without(Verbs::ALL), Verbs::NONE);
    }
    assert_ne!(Verbs::ALL.without(Role::Operator.verbs()), Verbs::NONE);
}

#[test]
fn a_star_stands_for_any_characters() {
    for (pattern, name, expected) in [
        ("mail", "mail", true),
        ("mail", "mails", false),
        ("mail*", "mail", true),
        ("mail*", "mail-eu", true),
        ("*mail", "e/mail", true),
        ("*mail", "e/mails", false),
        ("a*b*c", "abc", true),
        ("a*b*c", "axxbxxbxc", true),
        ("a*b*c", "acb", false),
        ("*", "anything", true),
        ("**", "x", true),
        ("*a*a*a*a*b", &"a".repeat(128), false),
    ] {
        assert_eq!(glob(pattern).has(name), expected, "{pattern} {name}");
    }
    for bad in ["", "a b", "a?", "[a]", &"a".repeat(GLOB_BYTES_MAX + 1)] {
        assert!(Glob::try_from(bad.to_owned()).is_err(), "{bad}");
    }
}

#[test]
fn a_handler_of_a_runner_is_matched_by_its_address() {
    let python = scope(&[], &["python#*"]);
    assert!(python.has(Object::Handler(Some("python"), "send")));
    assert!(!python.has(Object::Handler(Some("ruby"), "send")));
    assert!(!python.has(Object::Handler(None, "send")));
    let own = scope(&["mail-*"], &["send"]);
    assert!(own.has(Object::Job("mail-eu", None, "send")));
    assert!(!own.has(Object::Job("mail-eu", Some("python"), "send")));
    assert!(!own.has(Object::Job("web", None, "send")));
    assert!(own.has(Object::Queue("mail-us")) && !own.has(Object::Queue("web")));
    assert!(own.has(Object::Host));
}

#[test]
fn a_scope_is_within_another_only_if_it_names_nothing_more() {
    let mail = scope(&["mail-*"], &[]);
    for (inner, expected) in [
        (scope(&["mail-*"], &[]), true),
        (scope(&["mail-eu", "mail-us-*"], &["send"]), true),
        (scope(&["mail*"], &[]), false),
        (scope(&["*"], &[]), false),
        (scope(&["mail-eu", "web"], &[]), false),
        (Scope::ALL, false),
        (scope(&[], &["send"]), false),
    ] {
        assert_eq!(inner.is_within(&mail), expected, "{inner:?}");
        assert!(inner.is_within(&Scope::ALL));
    }
}

fn names() -> impl Strategy<Value = String> {
    "[ab#]{0,4}"
}

fn globs() -> impl Strategy<Value = Vec<Glob>> {
    let one = "[ab*]{1,4}".prop_map(|text| glob(&text));
    proptest::collection::vec(one, 0..3)
}

/// Matches without cleverness.
fn naive(glob: &[u8], name: &[u8]) -> bool {
    match glob.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|n| naive(rest, &name[n..])),
        Some((letter, rest)) => name
            .split_first()
            .is_some_and(|(first, after)| first == letter && naive(rest, after)),
    }
}

proptest! {
    #[test]
    fn globs_match_as_the_naive_way_does(pattern in "[ab*]{1,6}", name in "[ab]{0,6}") {
        let expected = naive(pattern.as_bytes(), name.as_bytes());
        prop_assert_eq!(glob(&pattern).has(&name), expected);
    }

    #[test]
    fn what_a_narrower_scope_has_a_wider_one_has(
        (inner_queues, inner_handlers) in (globs(), globs()),
        (outer_queues, outer_handlers) in (globs(), globs()),
        queue in names(), handler in names(), executor in proptest::option::of(names()),
    ) {
        let inner = Scope { queues: inner_queues, handlers: inner_handlers };
        let outer = Scope { queues: outer_queues, handlers: outer_handlers };
        let objects = [
            Object::Queue(&queue),
            Object::Handler(executor.as_deref(), &handler),
            Object::Job(&queue, executor.as_deref(), &handler),
        ];
        if inner.is_within(&outer) {
            for object in objects {
                prop_assert!(!inner.has(object) || outer.has(object), "{:?}", object);
            }
        }
    }
}
