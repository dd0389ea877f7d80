//! Commands of the document's operations, and valid and invalid answers.

use std::collections::{BTreeMap, BTreeSet};

use host_core::time::Time;
use serde_json::json;

use super::*;
use crate::job;
use crate::job::circles::Walk;
use crate::job::new::{NewJob, Task};
use crate::messages::Script;

fn id(n: u32) -> String {
    format!("3f2b8a1c-0000-4000-8000-{n:012}")
}

fn words(command: &Command) -> String {
    let Command::Plain(words) = command else {
        panic!("{command:?}")
    };
    let words: Vec<_> = words
        .iter()
        .map(|word| String::from_utf8_lossy(word))
        .collect();
    words.join(" ")
}

fn data(text: &str) -> Value {
    Value::Data(text.as_bytes().to_vec())
}

fn view(n: u32, fields: &[(&'static str, &str)]) -> JobView {
    let fields = fields.iter();
    JobView {
        id: id(n),
        fields: fields
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect(),
        ..JobView::default()
    }
}

/// Splits a script command into its script, keys and arguments.
fn script(command: Command) -> (Script, Vec<String>, Vec<String>) {
    let Command::Script { script, keys, args } = command else {
        panic!("{command:?}")
    };
    let args = args.into_iter().map(|arg| String::from_utf8(arg).unwrap());
    (script, keys, args.collect())
}

fn submission(n: u32, dependencies: &[u32]) -> NewJob {
    NewJob {
        id: id(n),
        worker_id: "w1".to_owned(),
        task: Task::Script("1".to_owned()),
        script_type: None,
        caller_id: "alice".to_owned(),
        context_id: "c".to_owned(),
        timeout_seconds: 5,
        retries: 1,
        concurrent: false,
        log_path: Some("a.log".to_owned()),
        env: BTreeMap::new(),
        dependencies: dependencies.iter().map(|n| id(*n)).collect(),
        attributes: BTreeMap::new(),
    }
}

#[test]
fn jobs_are_listed_without_keys() {
    let command = words(&scan(0, 1_000));
    assert_eq!(command, "SCAN 0 MATCH hero:job:* COUNT 1000 TYPE hash");
    let keys = Value::List(vec![
        data("hero:job:a"),
        data("other"),
        data("hero:job:b:c"),
    ]);
    let (cursor, ids) = scanned(&Value::List(vec![data("17"), keys])).unwrap();
    assert_eq!((cursor, ids), (17, vec!["a".to_owned(), "b:c".to_owned()]));
    for odd in [
        Value::Nil,
        Value::List(vec![]),
        Value::Error("NOPERM".to_owned()),
    ] {
        assert_eq!(scanned(&odd).unwrap_err().code(), "E_REPLY");
    }
}

#[test]
fn a_hash_is_a_view() {
    let (one, command, args) = script(read(["x", "y"], STATUS));
    assert_eq!(
        (one, args),
        (Script::Read, ["status", "64"].map(str::to_owned).to_vec())
    );
    assert_eq!(command, ["hero:job:x", "hero:job:y"]);
    let values = vec![data("w"), Value::Data(vec![255]), Value::Int(4_000)];
    let found = Value::List(vec![Value::Nil, Value::List(values)]);
    let views = parse(["x", "y"], SUMMARY, &found).unwrap();
    assert_eq!(views[0], None);
    let view = views[1].as_ref().unwrap();
    assert_eq!(view.get("worker_id"), Some("w"));
    assert_eq!((view.status(), view.has_ended()), ("\u{fffd}", false));
    assert_eq!(
        (view.get("handler"), view.left_out["handler"]),
        (None, 4_000)
    );
    let wrong = Value::Error("NOPERM".to_owned());
    assert_eq!(parse(["x"], STATUS, &wrong).unwrap_err().code(), "E_REPLY");
}

#[test]
fn a_time_limit_is_read_as_far_as_it_is_one() {
    for (text, ms) in [
        ("5", 5_000),
        ("0.3", 300),
        ("abc", 30_000),
        ("-1", 30_000),
        ("1e300", 30_000),
        ("NaN", 30_000),
    ] {
        assert_eq!(view(1, &[("timeout", text)]).timeout_ms(), ms, "{text}");
    }
    assert_eq!(view(1, &[]).timeout_ms(), 30_000);
}

fn read_back(args: &[String], first: usize) -> BTreeMap<&str, &str> {
    let pairs = args[first..].chunks(2);
    pairs
        .map(|pair| (pair[0].as_str(), pair[1].as_str()))
        .collect()
}

#[test]
fn what_is_submitted_is_what_our_worker_reads() {
    for others in [vec![], vec![2, 3]] {
        let command = submit(&submission(1, &others), Some("/logs"), Time(7)).unwrap();
        let (one, keys, args) = script(command);
        let (queue, first) = ("hero:work_queue:w1".to_owned(), messages::job_key(&id(1)));
        let fields = if others.is_empty() {
            assert_eq!((one, keys), (Script::Submit, vec![first, queue]));
            read_back(&args, 1)
        } else {
            assert_eq!(one, Script::Enter);
            let keys_expected = vec![
                first,
                queue,
                "hero:waiting".to_owned(),
                messages::job_key(&id(2)),
                messages::job_key(&id(3)),
            ];
            assert_eq!(keys, keys_expected);
            assert_eq!(args[..3], [id(1), "7".to_owned(), "1000".to_owned()]);
            read_back(&args, 3)
        };
        let value = |name: &str| {
            let text = fields.get(name);
            text.map_or(Value::Nil, |text| data(text))
        };
        let values: Vec<Value> = job::FIELDS.iter().map(|(name, _)| value(name)).collect();
        let terms = job::Terms {
            worker: "w1".to_owned(),
            log_root: Some("/logs".to_owned()),
        };
        let read = job::read(&id(1), &values, &terms).unwrap();
        let limits = (read.timeout_ms, read.retries, read.concurrent);
        assert_eq!(limits, (5_000, 1, false));
        let expected: BTreeSet<String> = others.iter().map(|n| id(*n)).collect();
        assert_eq!(read.depends_on, expected);
        assert_eq!(read.log_path.as_deref(), Some("a.log"));
    }
}

#[test]
fn what_no_worker_would_run_is_not_submitted() {
    let table: [(&str, fn(&mut NewJob)); 12] = [
        ("E_ID", |it| it.id = "*".to_owned()),
        ("E_ID", |it| it.id = format!("{}\n", id(1))),
        ("E_FIELD_RANGE", |it| it.worker_id = String::new()),
        ("E_FIELD_RANGE", |it| it.worker_id = "a b".to_owned()),
        ("E_FIELD_RANGE", |it| it.worker_id = "w\n1".to_owned()),
        ("E_FIELD_RANGE", |it| it.worker_id = "w".repeat(129)),
        ("E_FIELD_RANGE", |it| it.timeout_seconds = 0),
        ("E_FIELD_RANGE", |it| it.retries = 1_001),
        ("E_FIELD_RANGE", |it| {
            it.task = Task::Script("x".repeat(1 << 21));
        }),
        ("E_FIELD_RANGE", |it| {
            it.dependencies = ["*".to_owned()].into();
        }),
        ("E_LOG_PATH", |it| it.log_path = Some("../x".to_owned())),
        ("E_FIELD_RANGE", |it| {
            it.script_type = Some("perl".to_owned());
        }),
    ];
    for (place, (code, change)) in table.into_iter().enumerate() {
        let mut submission = submission(1, &[]);
        change(&mut submission);
        let refusal = submit(&submission, Some("/logs"), Time(0)).unwrap_err();
        assert_eq!(refusal.code(), code, "{place}: {}", refusal.text());
    }
    let mut many = submission(1, &[]);
    many.dependencies = (10..1_020).map(id).collect();
    let refusal = submit(&many, Some("/logs"), Time(0)).unwrap_err();
    assert_eq!(refusal.code(), "E_FIELD_RANGE");
    let nowhere = submit(&submission(1, &[]), None, Time(0)).unwrap_err();
    assert_eq!(nowhere.code(), "E_LOG_PATH");
}

#[test]
fn answers_to_a_submission_are_read() {
    let list = |words: &[&str]| Value::List(words.iter().map(|word| data(word)).collect());
    let waits = Submitted::Waits(vec!["a".to_owned(), "b".to_owned()]);
    for (value, read) in [
        (data("queued"), Submitted::Queued),
        (list(&["queued"]), Submitted::Queued),
        (data("known"), Submitted::Exists),
        (list(&["known"]), Submitted::Exists),
        (list(&["waits", "a", "b"]), waits),
    ] {
        assert_eq!(submitted(&value), Ok(read));
    }
    for odd in [Value::Nil, list(&[]), data("what")] {
        assert_eq!(submitted(&odd).unwrap_err().code(), "E_REPLY");
    }
}

/// The answer about what one job waits for: its dependencies and prerequisites.
fn lists(dependencies: &[u32], prerequisites: &[u32]) -> Value {
    let list = |ns: &[u32]| {
        let ids: Vec<String> = ns.iter().map(|n| id(*n)).collect();
        data(&json!(ids).to_string())
    };
    Value::List(vec![Value::Nil, list(prerequisites), list(dependencies)])
}

fn refused(submission: &NewJob, known: &[(u32, Value)]) -> Option<Refusal> {
    let mut walk = links(submission);
    for (n, lists) in known {
        assert!(walk.add(&[id(*n)], Some(&Value::List(vec![lists.clone()]))));
    }
    check_circles(submission, &walk).err()
}

#[test]
fn a_circle_is_refused_with_its_path() {
    let known = [(2, lists(&[3], &[])), (3, lists(&[], &[1]))];
    let refusal = refused(&submission(1, &[2]), &known).unwrap();
    assert_eq!(refusal.code(), "E_DEP_CYCLE");
    let path = format!("{} -> {} -> {} -> {}", id(1), id(2), id(3), id(1));
    assert!(refusal.text().ends_with(&path), "{}", refusal.text());
    let itself = submit(&submission(1, &[1]), Some("/logs"), Time(0)).unwrap_err();
    assert_eq!(itself.code(), "E_DEP_CYCLE");
    assert_eq!(refused(&submission(4, &[2]), &known[..1]), None);
}

#[test]
fn what_must_be_known_is_what_waits_and_is_not_known() {
    let mut walk: Walk = links(&submission(1, &[2, 5]));
    assert_eq!(walk.next(), [id(2), id(5)]);
    let ids = json!([id(3), id(4), "*"]).to_string();
    let two = Value::List(vec![Value::Nil, Value::Nil, data(&ids)]);
    // The second has ended, so that it waits for no other.
    let known = Value::List(vec![two, Value::Nil]);
    assert!(walk.add(&[id(2), id(5)], Some(&known)));
    assert_eq!(walk.next(), [id(3), id(4)]);
    let known = Value::List(vec![lists(&[], &[]), lists(&[], &[])]);
    assert!(walk.add(&[id(3), id(4)], Some(&known)));
    assert_eq!(walk.next(), Vec::<String>::new());
}

#[test]
fn a_job_behind_which_there_are_too_many_is_refused() {
    let submission = submission(1, &[2]);
    let mut walk = links(&submission);
    for n in 2..20_000 {
        walk.add(&[id(n)], Some(&Value::List(vec![lists(&[n + 1], &[])])));
    }
    let refusal = check_circles(&submission, &walk).unwrap_err();
    assert_eq!(refusal.code(), "E_FIELD_RANGE");
}

#[test]
fn a_job_is_queued_again_unless_it_has_finished_or_may_be_running() {
    let second = "1970-01-01T00:00:01.000Z";
    let w1 = ("worker_id", "w1");
    let names = ["status", "updated_at", "timeout"];
    let started = |at: &'static str| {
        let values = ["started", at, "5"];
        let fields = names.into_iter().zip(values).chain([w1]);
        view(1, &fields.collect::<Vec<_>>())
    };
    // Its time limit ends at 6 s, and the job counts as lost 10 s later.
    for (job, now, force, code) in [
        (view(1, &[("status", "error"), w1]), 0, false, None),
        (view(1, &[("status", "dispatched"), w1]), 0, false, None),
        (
            view(1, &[("status", "finished"), w1]),
            0,
            true,
            Some("E_JOB_ENDED"),
        ),
        (
            view(1, &[("status", "error")]),
            0,
            false,
            Some("E_FIELD_TYPE"),
        ),
        (started(second), 15_999, false, Some("E_JOB_BUSY")),
        (started(second), 15_999, true, None),
        (started(second), 16_000, false, None),
        (started("yesterday"), 16_000, false, Some("E_JOB_BUSY")),
    ] {
        let refusal = requeue(&job, force, Time(now)).err();
        assert_eq!(refusal.map(|refusal| refusal.code()), code, "{job:?}");
    }
    assert!(!is_stale(&started(second), Time(15_999)));
    assert!(is_stale(&started(second), Time(16_000)));
}

#[test]
fn a_job_that_should_be_in_its_queue_for_long_may_be_lost() {
    let second = "1970-01-01T00:00:01Z";
    let (changed, made) = (("updated_at", second), ("created_at", second));
    let queued = ("status", "dispatched");
    for (fields, is_lost) in [
        (vec![queued, changed], true),
        (vec![queued, made], true),
        (vec![queued, changed, ("waits_for", "[]")], true),
        (vec![queued, changed, ("waits_for", "[\"other\"]")], false),
        (
            vec![queued, made, ("updated_at", "1970-01-01T00:00:02Z")],
            false,
        ),
        (vec![queued], false),
        (vec![("status", "started"), changed], false),
        (vec![changed], false),
    ] {
        let job = view(1, &fields);
        assert_eq!(may_be_lost(&job, Time(11_000)), is_lost, "{job:?}");
        assert!(!may_be_lost(&job, Time(10_999)), "{job:?}");
    }
}

#[test]
fn what_waited_for_others_does_so_again() {
    let w1 = ("worker_id", "w1");
    let (two, none) = (json!([id(2)]).to_string(), "[]".to_owned());
    let on_two = ("dependencies", two.as_str());
    let failed = ("error", "prerequisite_failed: x");
    for (fields, waits_for) in [
        (vec![w1], &none),
        (vec![w1, on_two, ("error", "no")], &none),
        (vec![w1, on_two, failed], &two),
        (vec![w1, on_two, ("waits_for", &two)], &two),
        (vec![w1, on_two, failed, ("waits_for", "[]")], &none),
    ] {
        let (one, keys, args) = script(requeue(&view(1, &fields), false, Time(9)).unwrap());
        assert_eq!((one, keys.len()), (Script::Requeue, 8));
        assert_eq!(&args[3], waits_for, "{fields:?}");
    }
}

#[test]
fn answers_to_a_stop_and_to_a_requeue_are_read() {
    assert_eq!(stopped(&data("asked")), Ok(Some(StopResult::Asked)));
    assert_eq!(stopped(&data("stopped")), Ok(Some(StopResult::Ended)));
    assert_eq!(stopped(&data("missing")), Ok(None));
    assert_eq!(stopped(&data("ended")).unwrap_err().code(), "E_JOB_ENDED");
    assert_eq!(stopped(&Value::Nil).unwrap_err().code(), "E_REPLY");
    for word in ["queued", "waits"] {
        assert_eq!(requeued(&data(word)), Ok(Some(())));
    }
    assert_eq!(requeued(&data("missing")), Ok(None));
    for word in ["held", "changed"] {
        assert_eq!(requeued(&data(word)).unwrap_err().code(), "E_JOB_BUSY");
    }
    assert_eq!(requeued(&Value::Int(1)).unwrap_err().code(), "E_REPLY");
}

#[test]
fn queues_have_lengths_and_stops() {
    let job = view(1, &[("worker_id", "w1"), ("timeout", "7200")]);
    let (one, keys, args) = script(stop(&job, Time(0)).unwrap());
    assert_eq!(
        (one, keys[2].as_str()),
        (Script::Stop, "hero:stop_queue:w1")
    );
    assert_eq!(args[3], r#"{"error":"stopped_by_request"}"#);
    assert_eq!(args[4], "7200");
    let lengths: Vec<String> = lengths("w1").unwrap().iter().map(words).collect();
    assert_eq!(lengths[0], "LLEN hero:work_queue:w1");
    assert_eq!(lengths.len(), 4);
    assert!(super::lengths("*\n").is_err());
    let kept = words(&keep_reply(&job));
    assert_eq!(kept, format!("EXPIRE hero:reply:{} 7200 NX", id(1)));
}
