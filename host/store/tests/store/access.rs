//! Tokens, the chain of the audit, and what the scope of a job's principal holds it to.

use host_core::access::{Glob, Role, Scope};
use host_core::id::NodeId;
use host_core::job::{NewJob, Origin, UniqueScope};
use host_core::name::Name;
use host_core::time::Time;
use host_engine::audit::{AddNote, Chain, Entry, ForgetAudit, Note};
use host_engine::job::{Cancel, Enqueue, Enqueued, JobRefusal, Purge, Retry, Tick};
use host_engine::queue::SetPaused;
use host_engine::table::Range;
use host_engine::token::{
    BeginSession, EndSession, KeptToken, NewSession, PutToken, RevokeToken, Rights, SESSIONS_MAX,
    Token, TokenHash, TokenId, TokenRefusal, TokenText, UseTokens,
};
use host_engine::{Ask as _, Command, Rejection, Reply, Store};
use host_store::postgres::PostgresStore;
use uuid::Uuid;

use crate::cases::check;
use crate::jobs::{NOW, ask, commit, id, job, unique};
use crate::postgres::{TESTED, target};
use crate::server::Schema;

pub(crate) fn token(id: &str) -> Token {
    let id: TokenId = id.parse().unwrap();
    Token {
        hash: TokenText::new(&id, &[7; 32]).hash(),
        id,
        name: "ci".to_owned(),
        created_by: "uid:0".to_owned(),
        created_at: NOW,
        rights: Rights {
            verbs: Role::Producer.verbs(),
            scope: scope(&["mail-*"]),
            from: vec!["10.0.0.0/8".parse().unwrap()],
            rate: Some(9),
            max_waiting: Some(7),
            expires_at: Some(NOW.plus_ms(1)),
        },
        previous: None,
        sessions: Vec::new(),
    }
}

fn scope(queues: &[&str]) -> Scope {
    let glob = |text: &&str| Glob::try_from((*text).to_owned()).unwrap();
    Scope {
        queues: queues.iter().map(glob).collect(),
        handlers: Vec::new(),
    }
}

pub(crate) fn put(token: Token, is_new: bool) -> Command {
    let token = Box::new(token);
    Command::from(PutToken { token, is_new })
}

const ONE: &str = "000000000001";
const TWO: &str = "000000000002";

#[test]
fn tokens_are_kept_replaced_used_and_revoked() {
    check(|store| {
        let tokens = |store: &dyn Store| {
            store
                .reader()
                .unwrap()
                .list::<KeptToken>(Range::all())
                .unwrap()
        };
        ask(store, NOW, put(token(TWO), true)).unwrap();
        ask(store, NOW, put(token(ONE), true)).unwrap();
        let used_at = None;
        let kept = |id| KeptToken {
            token: token(id),
            used_at,
        };
        assert_eq!(tokens(store), [kept(ONE), kept(TWO)]);
        let used = [(ONE, 9), (ONE, 5), ("000000000009", 7)]
            .map(|(id, at)| (id.parse().unwrap(), Time(at)))
            .to_vec();
        ask(store, NOW, Command::from(UseTokens { used })).unwrap();
        let mut rotated = token(ONE);
        rotated.previous = Some((rotated.hash, NOW));
        ask(store, NOW, put(rotated.clone(), false)).unwrap();
        let rotated = KeptToken {
            token: rotated,
            used_at: Some(Time(9)),
        };
        assert_eq!(tokens(store), [rotated, kept(TWO)]);
        let revoke = || {
            Command::from(RevokeToken {
                token: ONE.parse().unwrap(),
            })
        };
        ask(store, NOW, revoke()).unwrap();
        assert_eq!(tokens(store), [kept(TWO)]);
        // It does not come back with a rotation that was on its way.
        let unknown = Err(Rejection::Token(TokenRefusal::Unknown(
            ONE.parse().unwrap(),
        )));
        assert_eq!(ask(store, NOW, put(token(ONE), false)), unknown);
        assert_eq!(ask(store, NOW, revoke()), unknown);
        assert_eq!(tokens(store), [kept(TWO)]);
    });
}

#[test]
fn a_session_begins_with_what_its_token_is_and_ends_with_it() {
    check(|store| {
        let session = |n| TokenHash::of(&format!("session {n}"));
        let begin = |n, presented| {
            Command::from(BeginSession(NewSession {
                token: ONE.parse().unwrap(),
                presented,
                session: session(n),
                until: NOW.plus_ms(n),
            }))
        };
        let mut kept = token(ONE);
        kept.rights.expires_at = None;
        let current = kept.hash;
        let unknown = Err(Rejection::Token(TokenRefusal::Unknown(kept.id.clone())));
        assert_eq!(ask(store, NOW, begin(9, current)), unknown, "no such token");
        ask(store, NOW, put(kept.clone(), true)).unwrap();
        let sessions = |store: &dyn Store| {
            let kept = store
                .reader()
                .unwrap()
                .list::<KeptToken>(Range::all())
                .unwrap()
                .remove(0)
                .token;
            kept.sessions
                .iter()
                .map(|(_, end)| end.since_ms(NOW))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            ask(store, NOW, begin(9, session(8))),
            unknown,
            "another text"
        );
        for n in [5, 6, 7] {
            ask(store, NOW, begin(n, current)).unwrap();
        }
        assert_eq!(
            ask(store, NOW, begin(8, session(5))),
            unknown,
            "a session begins none"
        );
        let token = kept.id.clone();
        let session = session(6);
        for _ in 0..2 {
            let token = token.clone();
            ask(store, NOW, Command::from(EndSession { token, session })).unwrap();
        }
        assert_eq!(sessions(store), [5, 7]);
        // Those whose time is over go when others come, and there is room for some.
        let last = u64::try_from(SESSIONS_MAX).unwrap() + 10;
        for n in 10..=last {
            ask(store, NOW.plus_ms(5), begin(n, current)).unwrap();
        }
        let left: Vec<u64> = (11..=last).collect();
        assert_eq!(sessions(store), left);
        ask(
            store,
            NOW,
            Command::from(RevokeToken {
                token: token.clone(),
            }),
        )
        .unwrap();
        ask(store, NOW, Command::from(EndSession { token, session })).unwrap();
        assert_eq!(
            store
                .reader()
                .unwrap()
                .list::<KeptToken>(Range::all())
                .unwrap(),
            []
        );
    });
}

/// Checks that the chain has no gap, and returns it.
pub(crate) fn chain(store: &dyn Store) -> Vec<Entry> {
    let reader = store.reader().unwrap();
    let all = reader.list::<Entry>(Range::all().first(1_000)).unwrap();
    let mut chain = Chain::default();
    for entry in &all {
        assert_eq!(chain.follow(entry.clone()), None, "{entry:?}");
    }
    assert_eq!(chain.flaw_at_start(), None, "what was forgotten is named");
    all
}

#[test]
fn a_change_and_its_entry_are_one() {
    check(|store| {
        let pause = |queue: &str| {
            let queue: Name = queue.parse().unwrap();
            let note = Note::new("operate", format!("queue {queue}"));
            let paused = true;
            Command::from(SetPaused { queue, paused })
                .noted(note)
                .into()
        };
        let unknown = Command::from(RevokeToken {
            token: ONE.parse().unwrap(),
        })
        .noted(Note::new("tokens", "ü \"quoted\"\n"))
        .into();
        let denied = Command::from(AddNote {
            note: Box::new(Note {
                principal: "token:x".to_owned(),
                times: 3,
                ..Note::new("read", "GET /")
            }),
            outcome: "forbidden".to_owned(),
        });
        let replies = commit(store, NOW, vec![pause("a"), unknown, denied]).replies;
        assert_eq!(replies[0], Ok(Reply::Done));
        assert!(replies[1].is_err());
        assert!(
            store
                .reader()
                .unwrap()
                .is_paused(&"a".parse().unwrap())
                .unwrap()
        );
        commit(store, NOW.plus_ms(5), vec![pause("b")]);
        let entries = chain(store);
        let numbers: Vec<u64> = entries.iter().map(|entry| entry.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert!(
            entries[0].record.contains("\"outcome\":\"done\""),
            "{entries:?}"
        );
        assert!(entries[1].record.contains("no token has the id"));
        assert!(entries[2].record.contains("\"times\":3"));
        let reader = store.reader().unwrap();
        let later = reader
            .list::<Entry>(Range::all().after(1_u64).since(NOW.plus_ms(1)).first(9))
            .unwrap();
        assert_eq!(later, entries[3..]);
        assert_eq!(
            reader
                .list::<Entry>(Range::all().after(1_u64).first(1))
                .unwrap(),
            entries[1..2]
        );
    });
}

#[test]
fn old_entries_are_forgotten_and_the_chain_goes_on() {
    check(|store| {
        let note = |n: u64| {
            let note = Box::new(Note::new("start", format!("{n}")));
            let outcome = "done".to_owned();
            (NOW.plus_ms(n), Command::from(AddNote { note, outcome }))
        };
        for (at, command) in (1..=4).map(note) {
            ask(store, at, command).unwrap();
        }
        let before = NOW.plus_ms(3);
        ask(store, NOW, Command::from(ForgetAudit { before })).unwrap();
        let numbers = |store: &dyn Store| -> Vec<u64> {
            chain(store).iter().map(|entry| entry.number).collect()
        };
        assert_eq!(numbers(store), [3, 4, 5], "the last one says so");
        ask(store, NOW, Command::from(ForgetAudit { before })).unwrap();
        assert_eq!(numbers(store), [3, 4, 5], "nothing is left to forget");
        let before = NOW.plus_ms(99);
        ask(
            store,
            NOW.plus_ms(100),
            Command::from(ForgetAudit { before }),
        )
        .unwrap();
        assert_eq!(numbers(store), [5, 6], "the last one stays");
        ask(store, NOW.plus_ms(101), note(7).1).unwrap();
        assert_eq!(numbers(store), [5, 6, 7]);
    });
}

pub(crate) fn of(n: u128, queue: &str, queues: &[&str]) -> NewJob {
    let mut new = job(n);
    new.queue = queue.parse().unwrap();
    new.payload.origin = Some(Box::new(Origin {
        principal: "token:x".to_owned(),
        scope: scope(queues),
        max_waiting: None,
    }));
    new
}

fn enqueue(store: &mut dyn Store, new: Vec<NewJob>) -> Result<Vec<Enqueued>, Rejection> {
    match ask(store, NOW, Command::from(Enqueue(new))) {
        Ok(Reply::Enqueued(accepted)) => Ok(accepted),
        Ok(other) => panic!("{other:?}"),
        Err(rejection) => Err(rejection),
    }
}

#[test]
fn a_job_is_held_to_the_scope_of_its_principal_wherever_it_comes_from() {
    check(|store| {
        let mail: &[&str] = &["mail-*"];
        let new = of(1, "mail-eu", mail);
        enqueue(store, vec![new.clone()]).unwrap();
        let kept = store.reader().unwrap().job(id(1)).unwrap().unwrap();
        assert_eq!(kept.payload, new.payload);
        let array = vec![of(2, "mail-eu", mail), of(3, "web", mail)];
        let refused = enqueue(store, array);
        assert!(
            matches!(
                refused,
                Err(Rejection::Token(TokenRefusal::OutOfScope { .. }))
            ),
            "{refused:?}"
        );
        assert_eq!(store.reader().unwrap().state(id(2)).unwrap(), None);
        // What others have looks like what does not exist.
        enqueue(store, vec![of(4, "web", &[])]).unwrap();
        let mut waits = of(5, "mail-eu", mail);
        waits.depends_on = vec![id(4)];
        let refused = enqueue(store, vec![waits.clone()]);
        assert_eq!(
            refused,
            Err(Rejection::Job(JobRefusal::UnknownPrerequisite(id(4))))
        );
        waits.depends_on = vec![id(1)];
        enqueue(store, vec![waits]).unwrap();
    });
}

#[test]
fn a_key_of_a_job_out_of_scope_is_free() {
    check(|store| {
        let handlers = |n, handlers: &[&str]| {
            let mut new = of(n, "q", &[]);
            let origin = new.payload.origin.as_mut().unwrap();
            origin.scope.handlers = scope(handlers).queues;
            new.unique_key = Some(unique("k", UniqueScope::Active));
            new
        };
        let mut theirs = handlers(1, &[]);
        theirs.handler = "other".parse().unwrap();
        enqueue(store, vec![theirs]).unwrap();
        let own = enqueue(store, vec![handlers(2, &["noop"])]).unwrap();
        assert_eq!((own[0].id, own[0].existing), (id(2), false));
        let again = enqueue(store, vec![handlers(3, &["noop"])]).unwrap();
        assert_eq!((again[0].id, again[0].existing), (id(2), true));
    });
}

#[test]
fn a_principal_has_no_more_waiting_jobs_than_it_may() {
    check(|store| {
        let limited = |n| {
            let mut new = of(n, "q", &[]);
            new.payload.origin.as_mut().unwrap().max_waiting = Some(2);
            new
        };
        let owned = |store: &dyn Store| store.reader().unwrap().owned("token:x").unwrap();
        enqueue(store, vec![limited(1), limited(2), of(3, "q", &[])]).unwrap();
        assert_eq!(owned(store), 2);
        let full = Err(Rejection::Token(TokenRefusal::TooManyJobs {
            jobs: 2,
            limit: 2,
        }));
        assert_eq!(enqueue(store, vec![limited(4)]), full);
        enqueue(store, vec![of(5, "q", &[])]).unwrap();
        let cancel = Command::from(Cancel {
            job: id(1),
            reason: None,
            grace_ms: None,
        });
        ask(store, NOW, cancel).unwrap();
        assert_eq!(owned(store), 1);
        assert!(enqueue(store, vec![limited(4), limited(6)]).is_err());
        enqueue(store, vec![limited(4)]).unwrap();
        // A job that runs again counts again.
        let (job, force) = (id(1), false);
        ask(store, NOW, Command::from(Retry { job, force })).unwrap();
        assert_eq!(owned(store), 3);
        ask(
            store,
            NOW,
            Command::from(Cancel {
                job,
                reason: None,
                grace_ms: None,
            }),
        )
        .unwrap();
        ask(store, NOW, Command::from(Purge { job })).unwrap();
        assert_eq!(owned(store), 2);
    });
}

/// Nodes enqueue for the same principal at the same time: together they let in no more than it may have.
#[test]
fn a_principal_has_no_more_waiting_jobs_at_all_nodes_than_it_may() {
    const MOST: u64 = 40;
    let schema = Schema::new();
    let open =
        |n| PostgresStore::open(&target(&schema), NodeId(Uuid::from_u128(n)), TESTED).unwrap();
    let fill = |mut store: PostgresStore, n: u128| {
        let mut let_in = 0;
        for number in 0.. {
            let mut new = of(1_000 * n + number, "q", &[]);
            new.payload.origin.as_mut().unwrap().max_waiting = Some(MOST);
            let batch = vec![Command::from(Enqueue(vec![new]))];
            // A conflict with the other node is tried again, as the dispatch loop does.
            let committed = loop {
                if let Ok(committed) = store.commit(NOW, &batch) {
                    break committed;
                }
            };
            match &committed.replies[0] {
                Ok(_) => let_in += 1,
                Err(Rejection::Token(TokenRefusal::TooManyJobs { jobs, limit })) => {
                    assert_eq!((*jobs, *limit), (MOST, MOST));
                    return (let_in, store);
                }
                Err(other) => panic!("{other:?}"),
            }
        }
        unreachable!("the limit was never reached")
    };
    let (one, two) = (open(1), open(2));
    let ((first, store), (second, _)) = std::thread::scope(|scope| {
        let one = scope.spawn(|| fill(one, 1));
        let two = scope.spawn(|| fill(two, 2));
        (one.join().unwrap(), two.join().unwrap())
    });
    assert_eq!(first + second, MOST, "{first} and {second}");
    assert_eq!(store.reader().unwrap().owned("token:x").unwrap(), MOST);
}

/// Nodes append entries at the same time: one chain comes out of it, and all nodes see changes of tokens.
#[test]
fn the_entries_of_several_nodes_are_one_chain() {
    const ENTRIES: u128 = 25;
    let schema = Schema::new();
    let open =
        |n| PostgresStore::open(&target(&schema), NodeId(Uuid::from_u128(n)), TESTED).unwrap();
    let write = |mut store: PostgresStore, n: u128| {
        for entry in 0..ENTRIES {
            let note = Note::new("operate", format!("{n} {entry}"));
            let new = job(1_000 * n + entry);
            let batch = vec![
                Command::from(Enqueue(vec![new])),
                Command::from(Tick { limit: 0 }).noted(note).into(),
            ];
            // A conflict with the other node is tried again, as the dispatch loop does.
            while store.commit(NOW, &batch).is_err() {}
        }
        store
    };
    let (one, two) = (open(1), open(2));
    let version = one.reader().unwrap().access_version().unwrap();
    let (mut one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(|| write(one, 1));
        let two = scope.spawn(|| write(two, 2));
        (one.join().unwrap(), two.join().unwrap())
    });
    assert_eq!(chain(&one).len() as u128, 2 * ENTRIES);
    ask(&mut one, NOW, put(token(ONE), true)).unwrap();
    let reader = two.reader().unwrap();
    assert_ne!(reader.access_version().unwrap(), version);
    assert_eq!(reader.list::<KeptToken>(Range::all()).unwrap().len(), 1);
}
