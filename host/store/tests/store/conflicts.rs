//! A new job may change the waiting one with its unique key.

use host_core::access::Scope;
use host_core::job::{OnConflict, Origin, State, UniqueKey, UniqueScope};
use host_core::json::JsonText;
use host_core::time::Time;
use host_engine::job::{Enqueue, Tick};
use host_engine::{Command, Reply, Store};

use crate::cases::check;
use crate::jobs::{NOW, ask, claim, claimed, enqueue, id, job, unique};

#[test]
fn a_new_job_may_change_the_waiting_one_with_its_key() {
    let with = |n: u128, params: &str, on_conflict: OnConflict, delay_ms: u64| {
        let mut new = job(n);
        new.payload.params = JsonText(params.to_owned());
        new.run_at = (delay_ms > 0).then(|| NOW.plus_ms(delay_ms));
        let unique = unique("k", UniqueScope::Active);
        new.unique_key = Some(UniqueKey {
            on_conflict,
            ..unique
        });
        new
    };
    let push_back = OnConflict::PushBack;
    check(|store| {
        let seen = |store: &mut dyn Store| {
            let kept = store.reader().unwrap().job(id(1)).unwrap().unwrap();
            (
                kept.payload.params.0,
                kept.lifecycle.run_at,
                kept.lifecycle.state,
            )
        };
        let mut first = with(1, "1", push_back, 400);
        first.payload.latest_start = Some(NOW.plus_ms(1_000));
        enqueue(store, vec![first]);
        enqueue(store, vec![with(2, "2", push_back, 900)]);
        let at = |ms| Some(NOW.plus_ms(ms));
        assert_eq!(seen(store), ("2".to_owned(), at(900), State::Scheduled));
        let both = [
            with(3, "3", push_back, 1_900),
            with(4, "4", OnConflict::Replace, 0),
        ];
        let reply = ask(store, NOW, Command::from(Enqueue(both.to_vec()))).unwrap();
        let Reply::Enqueued(replies) = reply else {
            panic!("{reply:?}")
        };
        let stands: Vec<_> = replies.iter().map(|it| (it.id, it.params_differ)).collect();
        assert_eq!(stands, [(id(1), true), (id(1), false)], "the last counts");
        assert_eq!(seen(store), ("4".to_owned(), at(1_000), State::Scheduled));

        let mut others = [
            with(5, "5", OnConflict::Keep, 0),
            with(6, "6", OnConflict::Replace, 0),
            with(7, "7", OnConflict::Replace, 0),
        ];
        others[1].handler = "other".parse().unwrap();
        others[2].payload.origin = Some(Box::new(Origin {
            principal: "token:b".to_owned(),
            scope: Scope::ALL,
            max_waiting: None,
        }));
        enqueue(store, others.to_vec());
        assert_eq!(
            seen(store).0,
            "4",
            "it is kept, or of another handler or principal"
        );
        let tick = Command::from(Tick { limit: 100 });
        ask(store, NOW.plus_ms(1_000), tick).unwrap();
        assert_eq!(
            params_claimed(store, NOW.plus_ms(1_000)),
            ["4"],
            "the params that it runs with"
        );
        enqueue(store, vec![with(8, "8", OnConflict::Replace, 0)]);
        assert_eq!(seen(store).0, "4", "it has begun");
    });
}

/// Claims what is available and returns the params that go to the worker.
fn params_claimed(store: &mut dyn Store, now: Time) -> Vec<String> {
    let claimed = claimed(store, now, claim(1..9, false));
    claimed.into_iter().map(|it| it.payload.params.0).collect()
}
