//! Schedules: setting them, and what fires when, on each engine; and two nodes that let the same one fire.

use host_core::id::{JobId, NodeId};
use host_core::job::State;
use host_core::json::JsonText;
use host_core::lease::Fence;
use host_core::name::Name;
use host_core::outcome::Outcome;
use host_core::time::Time;
use host_engine::component::{ComponentRefusal, Deploy, RemoveComponent, Rollback};
use host_engine::job::Purge;
use host_engine::lease::Complete;
use host_engine::schedule::tables::read_firings;
use host_engine::schedule::{
    CatchUp, FIRINGS_KEPT, Fate, Fire, Firing, KeptSchedule, Overlap, RemoveSchedule, Schedule,
    ScheduleRefusal, SetSchedule, Source, WINDOW_MS_DEFAULT, When,
};
use host_engine::table::Range;
use host_engine::{Command, Rejection, Reply, Store, component, lease, schedule};
use host_store::postgres::PostgresStore;
use uuid::Uuid;

use crate::cases::{check, state};
use crate::jobs::{NOW, ask, claim, claimed, commit, complete, id, job, returned, revision};
use crate::postgres::{TESTED, target};
use crate::server::Schema;

pub(crate) fn every(name: &str, ms: u64, overlap: Overlap) -> Schedule {
    Schedule {
        name: name.parse().unwrap(),
        when: When::Every { ms, phase_ms: 0 },
        time_zone: "UTC".to_owned(),
        job: JsonText("{\"handler\":\"noop\"}".to_owned()),
        overlap,
        catch_up: CatchUp::All,
        window_ms: WINDOW_MS_DEFAULT,
        spread_ms: 0,
        from: None,
        until: None,
        is_paused: false,
        note: None,
        source: Source::Api,
        origin: None,
    }
}

pub(crate) fn set(schedule: Schedule, wall: Time) -> Command {
    let schedule = Box::new(schedule);
    Command::from(SetSchedule { schedule, wall })
}

/// Lets a schedule fire as it is now, with jobs of these ids.
pub(crate) fn fire(
    store: &dyn Store,
    schedule: &Name,
    wall: Time,
    ids: &[JobId],
    nominals: Option<Vec<Time>>,
) -> Command {
    let kept = store
        .reader()
        .unwrap()
        .get::<KeptSchedule>(schedule)
        .unwrap();
    let progress = kept.map(|kept| kept.progress).unwrap_or_default();
    Command::from(Fire {
        schedule: schedule.clone(),
        version: progress.version,
        open: progress.open,
        wall,
        ids: ids.to_vec(),
        job: Ok(Box::new(job(0))),
        nominals,
    })
}

fn ids(first: u128, jobs: u128) -> Vec<JobId> {
    (first..first + jobs).map(id).collect()
}

fn fired(store: &mut dyn Store, command: Command) -> Vec<Firing> {
    match ask(store, NOW, command).unwrap() {
        Reply::Fired(firings) => firings,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_schedule_whose_times_cannot_be_found_is_paused_and_can_be_removed() {
    check(|store| {
        let name: Name = "report".parse().unwrap();
        let broken = Schedule {
            when: When::Cron(vec![", * * * *".to_owned()]),
            ..every("report", 60_000, Overlap::Skip)
        };
        ask(store, NOW, set(broken, NOW)).unwrap();
        let command = fire(store, &name, NOW, &ids(1, 1), None);
        assert_eq!(fired(store, command), []);
        let kept = store
            .reader()
            .unwrap()
            .get::<KeptSchedule>(&name)
            .unwrap()
            .unwrap();
        assert!(kept.schedule.is_paused);
        let reason = kept.progress.refused.unwrap();
        assert!(reason.contains("has a comma without a value"), "{reason}");
        let schedule = name.clone();
        ask(store, NOW, Command::from(RemoveSchedule { schedule })).unwrap();
        assert_eq!(
            store.reader().unwrap().get::<KeptSchedule>(&name).unwrap(),
            None
        );
    });
}

/// Ends a job of a schedule.
fn run(store: &mut dyn Store, n: u128) {
    assert_eq!(claimed(store, NOW, claim([n], false)).len(), 1);
    ask(store, NOW, complete(n, n, returned())).unwrap();
}

#[test]
fn a_schedule_is_set_changed_and_removed_by_whom_it_belongs_to() {
    check(|store| {
        let mine = every("nightly", 60_000, Overlap::Skip);
        ask(store, NOW, set(mine.clone(), NOW)).unwrap();
        let name = &mine.name;
        let theirs = Schedule {
            source: Source::Configuration,
            ..mine.clone()
        };
        let refused = ask(store, NOW, set(theirs, NOW));
        let (schedule, owner) = (name.clone(), Source::Api);
        assert_eq!(
            refused,
            Err(Rejection::Schedule(ScheduleRefusal::Owned {
                schedule,
                owner
            }))
        );
        let command = fire(store, name, Time(1_140_000), &ids(1, 9), None);
        assert_eq!(
            fired(store, command).len(),
            3,
            "1,020 s, 1,080 s and 1,140 s"
        );
        let paused = Schedule {
            is_paused: true,
            ..mine.clone()
        };
        ask(store, NOW, set(paused, NOW)).unwrap();
        let reader = store.reader().unwrap();
        assert_eq!(
            reader
                .list::<KeptSchedule>(Range::all().due(Time(i64::MAX)).first(9))
                .unwrap(),
            []
        );
        assert_eq!(read_firings(&*reader, name).unwrap().len(), 3, "they stay");
        let remove = || {
            Command::from(RemoveSchedule {
                schedule: name.clone(),
            })
        };
        ask(store, NOW, remove()).unwrap();
        let unknown = Err(Rejection::Schedule(ScheduleRefusal::Unknown(name.clone())));
        assert_eq!(ask(store, NOW, remove()), unknown);
        let reader = store.reader().unwrap();
        assert_eq!(reader.get::<KeptSchedule>(name).unwrap(), None);
        assert_eq!(read_firings(&*reader, name).unwrap(), []);
        assert_eq!(state(store, 1), State::Available, "its job stays");
    });
}

/// Deploys a revision of the component `a` with these schedules.
fn deployed(digest: u8, schedules: &[(&str, u64)]) -> Command {
    let mut deploy = revision("a", &["noop"], digest);
    if let Command::Component(component::Command::Deploy(Deploy { revision, .. })) = &mut deploy {
        let schedules = schedules.iter().map(|(name, ms)| Schedule {
            source: Source::Component("a".parse().unwrap()),
            ..every(name, *ms, Overlap::Allow)
        });
        revision.schedules = schedules.collect();
    }
    deploy
}

/// Returns the schedules of a store, each with its interval and what has fired.
fn kept(store: &dyn Store) -> Vec<(String, When, u64)> {
    let all = store
        .reader()
        .unwrap()
        .list::<KeptSchedule>(Range::all().first(9))
        .unwrap()
        .into_iter()
        .map(|kept| {
            let schedule = kept.schedule;
            (
                schedule.name.into(),
                schedule.when,
                kept.progress.counts.fired,
            )
        });
    all.collect()
}

#[test]
fn the_schedules_of_a_component_come_and_go_with_it() {
    check(|store| {
        let every = |ms| When::Every { ms, phase_ms: 0 };
        ask(store, NOW, deployed(1, &[("x", 60_000), ("y", 60_000)])).unwrap();
        let name = "y".parse().unwrap();
        let command = fire(store, &name, NOW, &ids(1, 1), Some(vec![NOW]));
        fired(store, command);
        let paused = store
            .reader()
            .unwrap()
            .get::<KeptSchedule>(&name)
            .unwrap()
            .unwrap();
        let paused = Schedule {
            is_paused: true,
            ..paused.schedule
        };
        ask(store, NOW, set(paused, NOW)).unwrap();
        ask(store, NOW, deployed(2, &[("y", 70_000), ("z", 60_000)])).unwrap();
        let second = [
            ("y".to_owned(), every(70_000), 1),
            ("z".to_owned(), every(60_000), 0),
        ];
        assert_eq!(kept(store), second);
        let y = store
            .reader()
            .unwrap()
            .get::<KeptSchedule>(&name)
            .unwrap()
            .unwrap();
        assert!(y.schedule.is_paused, "it stays paused");
        let mine = crate::schedules::every("mine", 60_000, Overlap::Allow);
        ask(store, NOW, set(mine, NOW)).unwrap();
        let refused = ask(store, NOW, deployed(3, &[("w", 60_000), ("mine", 60_000)]));
        let (schedule, owner) = ("mine".parse().unwrap(), Source::Api);
        assert_eq!(
            refused,
            Err(Rejection::Schedule(ScheduleRefusal::Owned {
                schedule,
                owner
            }))
        );
        assert_eq!(kept(store).len(), 3, "a refused deploy changes nothing");
        let back = Command::from(Rollback {
            component: "a".parse().unwrap(),
            revision: 1,
            wall: NOW,
        });
        ask(store, NOW, back).unwrap();
        let names = |store: &dyn Store| kept(store).into_iter().map(|it| it.0).collect::<Vec<_>>();
        assert_eq!(names(store), ["mine", "x", "y"]);
        run(store, 1);
        let component = "a".parse().unwrap();
        ask(store, NOW, Command::from(RemoveComponent { component })).unwrap();
        assert_eq!(names(store), ["mine"]);
    });
}

#[test]
fn what_is_due_is_found_in_the_order_of_time() {
    check(|store| {
        for (name, ms) in [
            ("slow", 7_000_000),
            ("fast", 5_000_000),
            ("never", 9_000_000),
        ] {
            commit(store, NOW, vec![set(every(name, ms, Overlap::Skip), NOW)]);
        }
        let due = |until, limit| {
            let due = store
                .reader()
                .unwrap()
                .list::<KeptSchedule>(Range::all().due(Time(until)).first(limit))
                .unwrap();
            let names = due.into_iter().map(|kept| kept.schedule.name.to_string());
            names.collect::<Vec<_>>()
        };
        assert_eq!(due(4_999_999, 9), [""; 0]);
        assert_eq!(due(7_000_000, 9), ["fast", "slow"]);
        assert_eq!(due(7_000_000, 1), ["fast"]);
        let page = store
            .reader()
            .unwrap()
            .list::<KeptSchedule>(Range::all().after("fast").first(1))
            .unwrap();
        assert_eq!(page[0].schedule.name.as_str(), "never");
    });
}

#[test]
fn a_job_has_its_nominal_time_and_the_one_before() {
    check(|store| {
        let schedule = every("nightly", 60_000, Overlap::Allow);
        let name = schedule.name.clone();
        ask(store, NOW, set(schedule, NOW)).unwrap();
        let command = fire(store, &name, Time(1_080_000), &ids(1, 2), None);
        let again = command.clone();
        assert_eq!(fired(store, command).len(), 2);
        let changed = Err(Rejection::Schedule(ScheduleRefusal::Changed(name.clone())));
        assert_eq!(ask(store, NOW, again), changed, "each firing is taken once");
        let attributes = |n| {
            let detail = store.reader().unwrap().job(id(n)).unwrap().unwrap();
            let pairs = detail.payload.attributes.into_iter();
            pairs
                .map(|(key, value)| format!("{key}={value}"))
                .collect::<Vec<_>>()
        };
        let first = [
            "schedule.name=nightly",
            "schedule.nominal=1970-01-01T00:17:00.000Z",
        ];
        assert_eq!(attributes(1), first);
        let previous = "schedule.previous=1970-01-01T00:17:00.000Z";
        assert_eq!(
            attributes(2)[1..],
            ["schedule.nominal=1970-01-01T00:18:00.000Z", previous]
        );
    });
}

#[test]
fn an_earlier_job_holds_the_next_until_it_ends() {
    check(|store| {
        let schedule = every("nightly", 60_000, Overlap::QueueOne);
        let name = schedule.name.clone();
        ask(store, NOW, set(schedule, NOW)).unwrap();
        let command = fire(store, &name, Time(1_140_000), &ids(1, 9), None);
        let fates: Vec<Fate> = fired(store, command)
            .into_iter()
            .map(|it| it.fate)
            .collect();
        assert_eq!(fates, [Fate::Fired(id(1)), Fate::Held, Fate::Skipped]);
        let holding = |store: &dyn Store| {
            store
                .reader()
                .unwrap()
                .list::<KeptSchedule>(Range::all().marked().first(9))
                .unwrap()
        };
        assert_eq!(holding(store).len(), 1);
        let command = fire(store, &name, Time(1_141_000), &ids(11, 9), None);
        assert_eq!(fired(store, command), [], "the job has not ended");
        run(store, 1);
        let command = fire(store, &name, Time(1_142_000), &ids(21, 9), None);
        assert_eq!(fired(store, command)[0].fate, Fate::Fired(id(21)));
        assert_eq!(holding(store), []);
    });
}

#[test]
fn a_newer_firing_cancels_the_job_before() {
    check(|store| {
        let schedule = every("nightly", 60_000, Overlap::Cancel);
        let name = schedule.name.clone();
        ask(store, NOW, set(schedule, NOW)).unwrap();
        let command = fire(store, &name, Time(1_020_000), &ids(1, 2), None);
        fired(store, command);
        assert_eq!(claimed(store, NOW, claim([1], false)).len(), 1);
        let command = fire(store, &name, Time(1_080_000), &ids(11, 2), None);
        assert_eq!(fired(store, command)[0].fate, Fate::Held);
        let detail = store.reader().unwrap().job(id(1)).unwrap().unwrap();
        let reason = detail.lifecycle.cancel.unwrap().reason;
        assert_eq!(reason.as_deref(), Some("the schedule fired again"));
        let cancelled = complete(1, 1, Outcome::Cancelled { partial: None });
        ask(store, NOW, cancelled).unwrap();
        let command = fire(store, &name, Time(1_081_000), &ids(21, 2), None);
        assert_eq!(fired(store, command)[0].fate, Fate::Fired(id(21)));
    });
}

#[test]
fn a_refused_job_changes_nothing() {
    check(|store| {
        let schedule = every("nightly", 60_000, Overlap::Allow);
        let name = schedule.name.clone();
        ask(store, NOW, set(schedule, NOW)).unwrap();
        let before = store.reader().unwrap().get::<KeptSchedule>(&name).unwrap();
        let mut command = fire(store, &name, Time(1_080_000), &ids(1, 2), None);
        if let Command::Schedule(schedule::Command::Fire(fire)) = &mut command
            && let Ok(job) = &mut fire.job
        {
            job.component = Some("gone".parse().unwrap());
        }
        let removed =
            Rejection::Component(ComponentRefusal::HandlerRemoved("noop".parse().unwrap()));
        assert_eq!(ask(store, NOW, command), Err(removed));
        assert_eq!(
            store.reader().unwrap().get::<KeptSchedule>(&name).unwrap(),
            before
        );
        let mut command = fire(store, &name, Time(1_080_000), &ids(1, 2), None);
        if let Command::Schedule(schedule::Command::Fire(fire)) = &mut command {
            fire.job = Err("no handler is named noop".to_owned());
        }
        let reason = Fate::Failed("no handler is named noop".to_owned());
        let firings = fired(store, command);
        assert!(firings.iter().all(|it| it.fate == reason), "{firings:?}");
    });
}

#[test]
fn the_latest_firings_are_kept() {
    check(|store| {
        let schedule = every("nightly", 60_000, Overlap::Allow);
        let name = schedule.name.clone();
        ask(store, NOW, set(schedule, NOW)).unwrap();
        for turn in 0..3 {
            let nominals = (0..60).map(|n| Time(turn * 60 + n)).collect();
            let first = u128::try_from(turn * 60 + 1).unwrap();
            let command = fire(store, &name, NOW, &ids(first, 60), Some(nominals));
            assert_eq!(fired(store, command).len(), 60);
        }
        let kept = read_firings(&*store.reader().unwrap(), &name).unwrap();
        assert_eq!(kept.len() as u64, FIRINGS_KEPT);
        let newest: Vec<i64> = kept.iter().map(|firing| firing.nominal.0).collect();
        assert_eq!(newest, (80..180).rev().collect::<Vec<_>>());
        let progress = store
            .reader()
            .unwrap()
            .get::<KeptSchedule>(&name)
            .unwrap()
            .unwrap()
            .progress;
        assert_eq!((progress.counts.fired, progress.counts.late), (180, 0));
    });
}

/// Two nodes let the same schedule fire as fast as they can, and end its jobs.
#[test]
fn a_schedule_goes_on_without_the_jobs_that_are_removed() {
    check(|store| {
        let schedule = every("nightly", 1_000, Overlap::Skip);
        let name = schedule.name.clone();
        ask(store, NOW, set(schedule, Time(0))).unwrap();
        let command = fire(store, &name, Time(1_000), &[id(1)], None);
        assert_eq!(fired(store, command)[0].fate, Fate::Fired(id(1)));
        run(store, 1);
        ask(store, NOW, Command::from(Purge { job: id(1) })).unwrap();
        let command = fire(store, &name, Time(2_000), &[id(2)], None);
        assert_eq!(fired(store, command)[0].fate, Fate::Fired(id(2)));
    });
}

#[test]
fn two_nodes_never_fire_twice() {
    let schema = Schema::new();
    let open = |n| {
        let node = NodeId(Uuid::from_u128(n));
        PostgresStore::open(&target(&schema), node, TESTED).unwrap()
    };
    let mut first = open(1);
    let schedule = every("nightly", 1_000, Overlap::Skip);
    let name = schedule.name.clone();
    commit(&mut first, NOW, vec![set(schedule, Time(0))]);
    let node = |mut store: PostgresStore, of: u128| {
        let (mut taken, mut fired) = (0, Vec::new());
        for turn in 1..=40_u128 {
            let wall = Time(i64::try_from(turn).unwrap() * 1_000);
            let job = of * 1_000 + turn;
            let fire = fire(&store, &name, wall, &[id(job)], None);
            match ask(&mut store, NOW, fire) {
                Ok(Reply::Fired(firings)) => fired.extend(firings),
                Ok(other) => panic!("{other:?}"),
                Err(rejection) => {
                    assert_eq!(
                        rejection,
                        Rejection::Schedule(ScheduleRefusal::Changed(name.clone()))
                    );
                    taken += 1;
                }
            }
            let lease = crate::jobs::lease(job);
            let jobs = claimed(&mut store, NOW, claim([job], false));
            for job in jobs {
                let Command::Lease(lease::Command::Complete(Complete { report, writes, .. })) =
                    complete(1, 1, returned())
                else {
                    panic!("a completion");
                };
                let (job, fence) = (job.lifecycle.id, Fence::Lease(lease));
                let ended = Command::from(Complete {
                    job,
                    fence,
                    report,
                    writes,
                });
                ask(&mut store, NOW, ended).unwrap();
            }
        }
        (taken, fired)
    };
    let second = open(2);
    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(|| node(first, 1));
        let two = scope.spawn(|| node(second, 2));
        (one.join().unwrap(), two.join().unwrap())
    });
    let mut all: Vec<Firing> = one.1.into_iter().chain(two.1).collect();
    all.sort_by_key(|firing| firing.nominal);
    let mut nominals: Vec<i64> = all.iter().map(|firing| firing.nominal.0).collect();
    nominals.dedup();
    assert_eq!(nominals, (1..=40).map(|n| n * 1_000).collect::<Vec<_>>());
    assert_eq!(all.len(), 40, "each nominal time once");
    let store = open(3);
    let counts = store
        .reader()
        .unwrap()
        .get::<KeptSchedule>(&name)
        .unwrap()
        .unwrap()
        .progress
        .counts;
    assert_eq!(counts.fired + counts.skipped, 40);
    let fired = all
        .iter()
        .filter(|firing| matches!(firing.fate, Fate::Fired(_)));
    assert_eq!(fired.count() as u64, counts.fired);
}
