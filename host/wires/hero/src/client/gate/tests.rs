//! Verdicts about jobs that wait for others, as tables.

use super::*;

fn id(n: u32) -> String {
    format!("3f2b8a1c-0000-4000-8000-{n:012}")
}

/// A job at the gate that waits for others.
#[expect(
    clippy::unnecessary_wraps,
    reason = "the gate reads jobs that may be gone"
)]
fn waits(n: u32, others: &[u32]) -> Option<JobView> {
    let open: Vec<String> = others.iter().map(|n| id(*n)).collect();
    Some(job(n, "dispatched", &json!(open).to_string()))
}

fn job(n: u32, status: &str, waits_for: &str) -> JobView {
    let fields = [
        ("status", status),
        ("worker_id", "w1"),
        ("timeout", "5"),
        ("waits_for", waits_for),
    ];
    JobView {
        id: id(n),
        fields: fields.map(|(name, value)| (name, value.to_owned())).into(),
        ..JobView::default()
    }
}

fn status(known: &[(u32, &str)]) -> BTreeMap<String, String> {
    let known = known.iter();
    known
        .map(|(n, status)| (id(*n), (*status).to_owned()))
        .collect()
}

#[test]
fn a_job_is_queued_once_all_have_finished() {
    let others = |ns: &[u32]| ns.iter().map(|n| id(*n)).collect();
    let failed = |n| Verdict::End(format!("prerequisite_failed: {}", id(n)));
    for (known, verdict) in [
        (vec![], Verdict::Wait),
        (vec![(2, "dispatched"), (3, "started")], Verdict::Wait),
        (vec![(2, "finished")], Verdict::Narrow(others(&[3]))),
        (
            vec![(3, "finished"), (2, "started")],
            Verdict::Narrow(others(&[2])),
        ),
        (vec![(2, "finished"), (3, "finished")], Verdict::Queue),
        (vec![(2, "finished"), (3, "error")], failed(3)),
        (vec![(2, "error")], failed(2)),
        (vec![(2, "Finished"), (3, "")], Verdict::Wait),
    ] {
        let verdicts = judge(&[waits(1, &[2, 3])], &status(&known));
        assert_eq!(verdicts, [verdict], "{known:?}");
    }
}

#[test]
fn what_is_not_as_it_was_stored_is_not_queued() {
    for (view, expected) in [
        (None, "leave"),
        (Some(job(1, "started", "[]")), "leave"),
        (Some(job(1, "finished", "[]")), "leave"),
        (Some(job(1, "error", "[]")), "leave"),
        (Some(job(1, "dispatched", "[]")), "queue"),
        (Some(job(1, "dispatched", "{}")), "tampered"),
        (Some(job(1, "dispatched", "")), "tampered"),
    ] {
        let verdicts = judge(std::slice::from_ref(&view), &BTreeMap::new());
        let found = match &verdicts[0] {
            Verdict::Leave => "leave",
            Verdict::Queue => "queue",
            Verdict::End(error) if error.starts_with("E_JOB_TAMPERED") => "tampered",
            other => panic!("{other:?}"),
        };
        assert_eq!(found, expected, "{view:?}");
    }
    let mut unowned = waits(1, &[]).unwrap();
    unowned.fields.remove("worker_id");
    let verdicts = judge(&[Some(unowned)], &BTreeMap::new());
    assert!(matches!(&verdicts[0], Verdict::End(_)), "{verdicts:?}");
}

#[test]
fn jobs_that_wait_for_each_other_end_with_their_path() {
    let waiting = [waits(9, &[1]), waits(1, &[2]), waits(2, &[1, 3])];
    let verdicts = judge(&waiting, &BTreeMap::new());
    let path = format!("{} -> {} -> {}", id(1), id(2), id(1));
    let Verdict::End(error) = &verdicts[1] else {
        panic!("{verdicts:?}")
    };
    assert!(
        error.starts_with("E_DEP_CYCLE") && error.ends_with(&path),
        "{error}"
    );
    assert_eq!(
        (&verdicts[0], &verdicts[2]),
        (&Verdict::Wait, &Verdict::Wait)
    );
    // Then the others follow, each with the rule for failed dependencies.
    let then = judge(&waiting, &status(&[(1, "error")]));
    let failed = Verdict::End(format!("prerequisite_failed: {}", id(1)));
    assert_eq!(then, [failed.clone(), Verdict::Wait, failed]);
}

#[test]
fn one_turn_checks_so_many() {
    let many: Vec<u32> = (100..1_100).collect();
    let wide: Vec<Option<JobView>> = (0..8)
        .map(|n| {
            waits(
                n,
                &many
                    .iter()
                    .map(|other| other + n * 2_000)
                    .collect::<Vec<_>>(),
            )
        })
        .collect();
    let (count, others) = turn(&wide);
    assert_eq!((count, others.len()), (5, 5_000));
    let (count, others) = turn(&[None, waits(1, &[2]), waits(3, &[2])]);
    assert_eq!((count, others), (3, [id(2)].into()));
}

#[test]
fn a_verdict_is_one_script() {
    let view = waits(1, &[2]);
    let command = |verdict| act(&id(1), view.as_ref(), &verdict, Time(0));
    assert_eq!(command(Verdict::Wait), None);
    let before = json!([id(2)]).to_string();
    for (verdict, word, after, error) in [
        (Verdict::Queue, "queue", "[]", ""),
        (Verdict::End("e".to_owned()), "end", before.as_str(), "e"),
        (Verdict::Leave, "wait", before.as_str(), ""),
    ] {
        let Some(Command::Script { script, keys, args }) = command(verdict) else {
            panic!("{word}")
        };
        assert_eq!((script, keys.len()), (Script::Gate, 4));
        assert_eq!(keys[2], "hero:work_queue:w1");
        let args: Vec<&str> = args
            .iter()
            .map(|arg| std::str::from_utf8(arg).unwrap())
            .collect();
        assert_eq!((args[1], args[2]), (word, before.as_str()));
        assert_eq!((args[3], args[5], args[7]), (after, error, "3600"));
    }
}

#[test]
fn what_no_job_can_be_called_is_taken_away_and_is_part_of_no_key() {
    let first = id(1);
    let entries: [&[u8]; 3] = [first.as_bytes(), b"*\n", b"\xff\x00"];
    let found = Value::List(entries.map(|entry| Value::Data(entry.to_vec())).to_vec());
    let remove = |entry: &[u8]| {
        let words: [&[u8]; 3] = [b"ZREM", WAITING.as_bytes(), entry];
        Command::Plain(words.map(<[u8]>::to_vec).to_vec())
    };
    let (ids, acts) = read_line(&found);
    assert_eq!(ids, [id(1)]);
    assert_eq!(acts, [remove(b"*\n"), remove(b"\xff\x00")]);
}

#[test]
fn a_circle_that_one_turn_does_not_see_is_found_by_a_walk() {
    // 1 and 4 are checked; 2 is further back in the line, 3 is at a worker.
    let waiting = [waits(1, &[2]), waits(4, &[1]), waits(5, &[6])];
    let mut verdicts = judge(&waiting, &status(&[(6, "finished")]));
    assert_eq!(verdicts, [Verdict::Wait, Verdict::Wait, Verdict::Queue]);
    let mut walk = links(&waiting, &verdicts);
    assert_eq!(walk.next(), [id(2)]);
    let list = |n: u32| Value::Data(json!([id(n)]).to_string().into_bytes());
    let at_gate = Value::List(vec![list(3), Value::Nil, list(9)]);
    assert!(walk.add(&[id(2)], Some(&Value::List(vec![at_gate]))));
    let at_worker = Value::List(vec![Value::Nil, list(1), Value::Nil]);
    assert!(walk.add(&[id(3)], Some(&Value::List(vec![at_worker]))));
    judge_circles(&waiting, &mut verdicts, &walk);
    let Verdict::End(error) = &verdicts[0] else {
        panic!("{verdicts:?}")
    };
    let path = [1, 2, 3, 1].map(id).join(" -> ");
    assert!(
        error.starts_with("E_DEP_CYCLE") && error.ends_with(&path),
        "{error}"
    );
    assert_eq!(verdicts[1..], [Verdict::Wait, Verdict::Queue]);
}

#[test]
fn a_circle_that_ends_in_this_turn_is_not_found_again() {
    let waiting = [waits(1, &[2]), waits(2, &[1])];
    let mut verdicts = judge(&waiting, &status(&[]));
    let walk = links(&waiting, &verdicts);
    assert!(walk.next().is_empty());
    judge_circles(&waiting, &mut verdicts, &walk);
    let ended = verdicts.iter().filter(|it| matches!(it, Verdict::End(_)));
    assert_eq!(ended.count(), 1);
}
