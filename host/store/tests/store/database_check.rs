//! The check finds nothing in an intact store in a database, and names each damage.

use host_core::job::UniqueScope;
use host_engine::job::Cancel;
use host_engine::schedule::Overlap;
use host_engine::{Command, Heartbeat as _};
use host_store::Finding;
use host_store::copy::to_sqlite;
use host_store::postgres::admin;
use host_store::postgres::check::check;
use host_store::postgres::target::Target;
use tempfile::TempDir;

use crate::job_batches::new_batch;
use crate::jobs::{
    NOW, ask, claim, claimed, commit, complete, enqueue, failed, id, job, returned, revision,
    set_state, unique,
};
use crate::limit_keys::one_waits;
use crate::schedules::{every, fire, set};
use crate::server::Schema;

/// Makes a store with jobs in many states, one component and two queues.
fn store() -> (Schema, Target) {
    let schema = Schema::new();
    let mut store = crate::postgres::open(&schema);
    let mut dependent = job(5);
    dependent.depends_on = vec![id(4)];
    let mut keyed = job(6);
    keyed.unique_key = Some(unique("k", UniqueScope::Active));
    keyed.queue = "other".parse().unwrap();
    let jobs = vec![job(1), job(2), job(3), job(4), dependent, keyed];
    enqueue(&mut store, jobs);
    claimed(&mut store, NOW, claim([1, 2, 3], false));
    let cancel = Command::from(Cancel {
        job: id(6),
        reason: None,
        grace_ms: None,
    });
    let batch = vec![
        revision("basics", &["noop"], 1),
        set_state("handler:noop", "ü", Some(b"17")),
        complete(1, 1, returned()),
        complete(2, 2, failed(true)),
        cancel,
        set(every("hourly", 3_600_000, Overlap::Skip), NOW),
    ];
    commit(&mut store, NOW, batch);
    let name = "hourly".parse().unwrap();
    let fired = fire(&store, &name, NOW, &[id(7)], Some(vec![NOW]));
    ask(&mut store, NOW, fired).unwrap();
    commit(&mut store, NOW, one_waits(8).to_vec());
    ask(&mut store, NOW, new_batch(1, false, vec![job(20)])).unwrap();
    store.heartbeat().leave().unwrap();
    let target = Target::parse(&schema.url(), None).unwrap();
    (schema, target)
}

pub(crate) fn found(target: &Target) -> Vec<Finding> {
    check(target, &mut |_, _| ()).unwrap().unwrap()
}

#[test]
fn nothing_is_found_in_a_good_database() {
    let (_schema, target) = store();
    assert_eq!(found(&target), []);
    let status = admin::status(&target).unwrap();
    assert_eq!(status.schema, status.known);
    assert_eq!(status.unsafe_settings, ["fsync", "synchronous_commit"]);
    let known = status.known;
    assert_eq!(admin::migrate(&target).unwrap(), (known, known));
}

#[test]
fn a_database_without_a_store_is_reported_and_migrated() {
    let target = Target::parse(&Schema::new().url(), None).unwrap();
    assert_eq!(admin::status(&target).unwrap().schema, 0);
    assert_eq!(check(&target, &mut |_, _| ()).unwrap(), None);
    let known = admin::status(&target).unwrap().known;
    assert_eq!(admin::migrate(&target).unwrap(), (0, known));
    assert_eq!(found(&target), []);
}

#[test]
fn a_database_of_a_later_host_is_refused() {
    let (schema, target) = store();
    schema.run("INSERT INTO host_schema (version) VALUES (1000)");
    let refusals = [
        check(&target, &mut |_, _| ()).map(drop),
        admin::migrate(&target).map(drop),
    ];
    for refusal in refusals {
        let refusal = refusal.unwrap_err().to_string();
        assert!(refusal.contains("version 1000"), "{refusal}");
        assert!(refusal.ends_with("or another database"), "{refusal}");
    }
}

#[test]
fn each_damage_of_a_database_is_named() {
    let named = |n| format!("job {}", id(n));
    for (damage, what, message) in [
        (
            "UPDATE host_live SET state = 2 WHERE seq = 3",
            named(3),
            "its state differs",
        ),
        (
            "UPDATE host_live SET wakeup_at = 5 WHERE seq = 4",
            named(4),
            "its wakeup differs",
        ),
        (
            "UPDATE host_live SET runner = 'x' WHERE seq = 4",
            named(4),
            "its runner differs",
        ),
        (
            "UPDATE host_live SET body = '\\x02ff' WHERE seq = 3",
            named(3),
            "record cannot be read",
        ),
        (
            "INSERT INTO host_live SELECT * FROM host_ended",
            named(1),
            "both in the table of ended jobs",
        ),
        (
            "UPDATE host_counts SET jobs = 7 WHERE state = 3",
            "queue default".to_owned(),
            "running jobs is 7, but there are 1",
        ),
        ("DELETE FROM host_payloads", named(3), "params are missing"),
        (
            "DELETE FROM host_ended",
            format!("attempt 1 of {}", named(1)),
            "belongs to no job",
        ),
        (
            "UPDATE host_unique_keys SET job = NULL",
            "a unique key of queue other".to_owned(),
            "refers to no job",
        ),
        (
            "DELETE FROM host_dependencies",
            named(5),
            "it waits for no job",
        ),
        (
            "UPDATE host_state_spaces SET bytes = 1",
            "the state handler:noop".to_owned(),
            "its size differs",
        ),
        (
            "DELETE FROM host_state_spaces",
            "the state handler:noop".to_owned(),
            "its size differs",
        ),
        (
            "UPDATE host_attempts SET number = 9 WHERE number = 1",
            format!("attempt 9 of {}", named(1)),
            "its number",
        ),
        (
            "UPDATE host_live SET waits_for = NULL",
            named(9),
            "its limit differs",
        ),
        (
            "DELETE FROM host_blobs",
            "component basics".to_owned(),
            "is missing",
        ),
        (
            "DELETE FROM host_queues",
            "queue default".to_owned(),
            "is not registered",
        ),
    ] {
        is_named(damage, &what, message);
    }
}

#[test]
fn each_damage_of_limits_in_a_database_is_named() {
    for (damage, what, message) in [
        (
            "UPDATE host_limit_keys SET waiting = 7",
            "the key \"\" of limit 1000000",
            "jobs that wait is 7, but there are 1",
        ),
        (
            "UPDATE host_limit_keys SET reserved_units = 7",
            "the key \"\" of limit 1000000",
            "units of available jobs is 7, but there are 1",
        ),
        (
            "INSERT INTO host_limit_running SELECT 1000000, '', 1, id FROM host_live LIMIT 1",
            "the key \"\" of limit 1000000",
            "its list of running jobs is wrong about job",
        ),
        (
            "DELETE FROM host_limit_keys",
            "the key \"\" of limit 1000000",
            "available jobs is 0, but there are 1",
        ),
    ] {
        is_named(damage, what, message);
    }
}

#[test]
fn each_damage_of_schedules_in_a_database_is_named() {
    for (damage, what, message) in [
        (
            "UPDATE host_schedules SET body = '{}'",
            "schedule hourly",
            "missing field",
        ),
        (
            "UPDATE host_schedules SET fires_at = 1",
            "schedule hourly",
            "when it fires differs",
        ),
        (
            "UPDATE host_firings SET body = '{}'",
            "firing of schedule hourly 1",
            "missing field",
        ),
        (
            "DELETE FROM host_schedules",
            "firings of schedule hourly",
            "they belong to no schedule",
        ),
    ] {
        is_named(damage, what, message);
    }
}

#[test]
fn a_damaged_batch_of_a_database_is_named() {
    for (damage, what, message) in [
        (
            "UPDATE host_batches SET progress = replace(progress, '\"jobs\":1', '\"jobs\":2')",
            "batch 01990000-0000-7000-9000-000000000001".to_owned(),
            "its numbers are",
        ),
        (
            "UPDATE host_live SET batch = NULL WHERE batch IS NOT NULL",
            format!("job {}", id(20)),
            "its batch differs",
        ),
    ] {
        is_named(damage, &what, message);
    }
}

/// Damages a store, and checks that this is found.
fn is_named(damage: &str, what: &str, message: &str) {
    let (schema, target) = store();
    schema.run(damage);
    let findings = found(&target);
    let found = findings
        .iter()
        .any(|finding| finding.what == what && finding.message.contains(message));
    assert!(found, "{damage}: {findings:?}");
}

/// How often a test looks at what the server does.
const LOOKS_MAX: u32 = 2_000;

/// Long reads of a store: the check, and a copy into a file.
fn long_reads(target: &Target) -> [Box<dyn Fn() -> Option<String> + Send + Sync>; 2] {
    let (checked, copied) = (target.clone(), target.clone());
    let check = move || {
        let found = check(&checked, &mut |_, _| ()).unwrap().unwrap();
        Some(found.last()?.what.clone())
    };
    let copy = move || {
        let folder = TempDir::new().unwrap();
        let copied = to_sqlite(&copied, &folder.path().join("host.db"), &mut |_| {});
        Some(copied.err()?.to_string())
    };
    [Box::new(check), Box::new(copy)]
}

/// Lets each look at the queues, which is a part of each long read, call a function.
fn watch(schema: &Schema, function: &str) {
    schema.run(&format!(
        "ALTER TABLE host_queues RENAME TO kept_queues; \
         CREATE VIEW host_queues AS SELECT kept_queues.* FROM kept_queues, {function}",
    ));
}

/// A check or a copy of many jobs takes long; it stops if its client was killed.
#[test]
fn the_server_ends_a_check_and_a_copy_whose_client_is_gone() {
    let (schema, _) = store();
    watch(&schema, "pg_sleep(600)");
    let is_asleep = |expected: bool| {
        let sleeping = "EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep')";
        let sql = format!("SELECT 1 / ({sleeping} = {expected})::int");
        (0..LOOKS_MAX).any(|_| schema.accepts(&sql))
    };
    for which in 0..2 {
        let (proxy, url) = schema.proxy();
        let reads = long_reads(&Target::parse(&url, None).unwrap());
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| reads[which]());
            assert!(is_asleep(true), "it does not begin");
            proxy.cut();
            let error = reading.join().unwrap().unwrap();
            assert!(error.contains("the store"), "{error}");
        });
        assert!(is_asleep(false), "the server continues");
    }
}

#[test]
fn each_statement_of_a_check_and_of_a_copy_has_a_time_limit() {
    let (schema, target) = store();
    let is_limited = "(current_setting('statement_timeout') = '2h')::int";
    watch(&schema, &format!("generate_series(1, 1 / {is_limited})"));
    for read in long_reads(&target) {
        assert_eq!(read(), None);
    }
}

#[test]
fn a_check_says_how_far_it_is() {
    let (schema, target) = store();
    schema.run(
        "INSERT INTO host_attempts (job, number, body) SELECT job, 1000 + n, body \
         FROM (SELECT * FROM host_attempts LIMIT 1) AS one, generate_series(1, 20000) AS n",
    );
    let mut reports = Vec::new();
    check(&target, &mut |part, rows| {
        reports.push((part.to_owned(), rows));
    })
    .unwrap();
    let attempts: Vec<u64> = reports
        .iter()
        .filter(|(part, _)| part == "attempts")
        .map(|(_, rows)| *rows)
        .collect();
    assert_eq!(attempts, [0, 10_000, 20_000]);
    assert_eq!(reports.last().unwrap().0, "that the tables agree");
}
