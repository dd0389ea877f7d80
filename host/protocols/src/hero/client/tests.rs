//! Commands of the document's operations, and answers good and odd.

use super::*;
use crate::hero::wire::Script;

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

fn view(n: u32, fields: &[(&str, &str)]) -> JobView {
    let fields = fields.iter();
    JobView {
        id: id(n),
        fields: fields
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
    }
}

fn submission(n: u32, dependencies: &[u32]) -> Submission {
    Submission {
        id: id(n),
        worker_id: "w1".to_owned(),
        task: Task::Script("1".to_owned()),
        caller_id: "alice".to_owned(),
        context_id: "c".to_owned(),
        timeout_seconds: 5,
        retries: 1,
        concurrent: false,
        log_path: Some("a.log".to_owned()),
        env: BTreeMap::new(),
        dependencies: dependencies.iter().map(|n| id(*n)).collect(),
    }
}

#[test]
fn jobs_are_listed_without_keys() {
    let command = words(&scan("0"));
    assert_eq!(command, "SCAN 0 MATCH hero:job:* COUNT 1000 TYPE hash");
    let keys = Value::List(vec![
        data("hero:job:a"),
        data("other"),
        data("hero:job:b:c"),
    ]);
    let (cursor, ids) = scanned(&Value::List(vec![data("17"), keys])).unwrap();
    assert_eq!(
        (cursor.as_str(), ids),
        ("17", vec!["a".to_owned(), "b:c".to_owned()])
    );
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
    assert_eq!(words(&look("x")), "HGETALL hero:job:x");
    let fields = Value::List(vec![
        data("status"),
        data("started"),
        data("x"),
        Value::Data(vec![255]),
    ]);
    let view = looked("x", &fields).unwrap().unwrap();
    assert_eq!(
        (view.status(), view.get("x")),
        ("started", Some("\u{fffd}"))
    );
    assert_eq!(looked("x", &Value::List(vec![])), Ok(None));
    let wrong = Value::Error("WRONGTYPE".to_owned());
    assert_eq!(looked("x", &wrong).unwrap_err().code(), "E_REPLY");
}

#[test]
fn what_is_submitted_is_what_our_worker_reads() {
    let command = submit(&submission(1, &[2]), &[], Time(0)).unwrap();
    let Command::Script { script, keys, args } = command else {
        panic!("{command:?}")
    };
    assert_eq!(script, Script::Submit);
    assert_eq!(
        keys,
        [
            format!("hero:job:{}", id(1)),
            "hero:work_queue:w1".to_owned()
        ]
    );
    let fields: BTreeMap<&[u8], &[u8]> = args[1..]
        .chunks(2)
        .map(|pair| (pair[0].as_slice(), pair[1].as_slice()))
        .collect();
    let values: Vec<Value> = job::FIELDS
        .iter()
        .map(|(name, _)| {
            fields
                .get(name.as_bytes())
                .map_or(Value::Nil, |value| Value::Data(value.to_vec()))
        })
        .collect();
    let terms = job::Terms {
        worker: "w1".to_owned(),
        timeout_ms: 1,
        log_root: Some("/logs".to_owned()),
    };
    let read = job::read(&id(1), &values, &terms).unwrap();
    assert_eq!(
        (read.timeout_ms, read.retries, read.concurrent),
        (5_000, 1, false)
    );
    assert_eq!(read.depends_on, [id(2)].into());
    assert_eq!(read.log_path.as_deref(), Some("a.log"));
}

#[test]
fn a_circle_is_refused_with_its_path() {
    let two = json!([id(3)]).to_string();
    let three = json!([id(1)]).to_string();
    let known = [
        view(2, &[("dependencies", &two)]),
        view(3, &[("prerequisites", &three)]),
    ];
    let refusal = submit(&submission(1, &[2]), &known, Time(0)).unwrap_err();
    assert_eq!(refusal.code(), "E_DEP_CYCLE");
    let path = format!("{} -> {} -> {} -> {}", id(1), id(2), id(3), id(1));
    assert!(refusal.text().ends_with(&path), "{}", refusal.text());
    assert_eq!(
        submit(&submission(1, &[1]), &[], Time(0))
            .unwrap_err()
            .code(),
        "E_DEP_CYCLE"
    );
    assert!(submit(&submission(4, &[2]), &known[..1], Time(0)).is_ok());
    let mut odd = submission(1, &[]);
    odd.id = "*".to_owned();
    assert_eq!(submit(&odd, &[], Time(0)).unwrap_err().code(), "E_ID");
}

#[test]
fn a_job_is_queued_again_unless_it_has_finished() {
    let failed = view(1, &[("status", "error"), ("worker_id", "w1")]);
    let commands: Vec<String> = requeue(&failed, Time(0))
        .unwrap()
        .iter()
        .map(words)
        .collect();
    assert_eq!(commands[4], format!("LPUSH hero:work_queue:w1 {}", id(1)));
    assert!(commands[0].contains("status dispatched"), "{commands:?}");
    let finished = view(1, &[("status", "finished"), ("worker_id", "w1")]);
    assert_eq!(
        requeue(&finished, Time(0)).unwrap_err().code(),
        "E_JOB_ENDED"
    );
    let nobody = view(1, &[("status", "error")]);
    assert_eq!(
        requeue(&nobody, Time(0)).unwrap_err().code(),
        "E_FIELD_TYPE"
    );
}

#[test]
fn queues_have_lengths_and_stops() {
    assert_eq!(words(&stop("w1", "x")), "LPUSH hero:stop_queue:w1 x");
    let lengths: Vec<String> = lengths("w1").iter().map(words).collect();
    assert_eq!(lengths[0], "LLEN hero:work_queue:w1");
}
