//! How many revisions of a component are kept.

use host_core::command::{Command, Reply};
use host_core::handler::Digest;
use host_core::rejection::Rejection;

use crate::cases::check;
use crate::jobs::{NOW, ask, revision};

/// As documented.
const KEPT: u32 = 20;

#[test]
fn the_latest_revisions_are_kept_with_their_bytes() {
    check(|store| {
        for digest in 1..=u8::try_from(KEPT).unwrap() + 5 {
            let deployed = ask(store, NOW, revision("a", &["noop"], digest));
            assert!(
                matches!(deployed, Ok(Reply::Deployed { .. })),
                "{deployed:?}"
            );
        }
        ask(store, NOW, revision("b", &["other"], 1)).unwrap();
        let reader = store.reader().unwrap();
        let (revisions, current) = reader.revisions(&"a".parse().unwrap()).unwrap();
        let numbers: Vec<u32> = revisions.iter().map(|revision| revision.revision).collect();
        assert_eq!(numbers, (6..=KEPT + 5).rev().collect::<Vec<u32>>());
        assert_eq!(current, KEPT + 5);
        let has = |digest| {
            reader
                .component_bytes(Digest([digest; 32]))
                .unwrap()
                .is_some()
        };
        assert!(has(1), "another component has these");
        assert!(!has(2) && !has(5) && has(6));
        let back = |revision| Command::Rollback {
            component: "a".parse().unwrap(),
            revision,
        };
        let gone = ask(store, NOW, back(5));
        assert!(
            matches!(gone, Err(Rejection::UnknownRevision { .. })),
            "{gone:?}"
        );
        ask(store, NOW, back(6)).unwrap();
    });
}
