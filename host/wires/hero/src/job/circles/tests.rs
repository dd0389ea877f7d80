//! Walks over jobs that wait for each other.

use std::collections::BTreeSet;

use super::*;

fn id(n: u32) -> String {
    format!("3f2b8a1c-0000-4000-8000-{n:012}")
}

fn ids(numbers: &[u32]) -> BTreeSet<String> {
    numbers.iter().map(|n| id(*n)).collect()
}

fn lists(waits_for: Option<&[u32]>, dependencies: &[u32]) -> Value {
    let text = |numbers: &[u32]| Value::Data(serde_json::json!(ids(numbers)).to_string().into());
    let first = waits_for.map_or(Value::Nil, text);
    Value::List(vec![first, Value::Nil, text(dependencies)])
}

#[test]
fn a_circle_is_followed_through_jobs_that_are_not_ours() {
    let mut walk = Walk::from([(id(5), ids(&[6])), (id(7), ids(&[9]))]);
    assert_eq!(walk.next(), [id(6), id(9)]);
    let read = Value::List(vec![lists(None, &[4]), Value::Nil]);
    assert!(walk.add(&[id(6), id(9)], Some(&read)));
    assert_eq!(walk.next(), [id(4)]);
    assert!(walk.add(&[id(4)], Some(&Value::List(vec![lists(Some(&[5]), &[1])]))));
    assert_eq!(walk.next(), Vec::<String>::new());
    let is_ours = |other: &str| [id(5), id(7)].contains(&other.to_owned());
    let circles = walk.circles(is_ours);
    assert_eq!(circles.len(), 1);
    assert_eq!(first(&circles[0], is_ours), Some(id(5).as_str()));
    assert_eq!(turned(&circles[0], &id(5)), [id(5), id(6), id(4), id(5)]);
    assert_eq!(walk.circles(|_| false), Vec::<Vec<String>>::new());
}

#[test]
fn a_job_that_has_passed_the_gate_waits_for_no_other() {
    let mut walk = Walk::from([(id(1), ids(&[2]))]);
    let read = Value::List(vec![lists(Some(&[]), &[1])]);
    assert!(walk.add(&[id(2)], Some(&read)));
    assert!(walk.circles(|_| true).is_empty());
    assert!(!walk.add(&[id(2)], Some(&Value::Error("OOM".to_owned()))));
}

#[test]
fn several_circles_are_found_and_a_walk_ends() {
    let rings = (0..50).flat_map(|n| {
        [
            (id(2 * n), ids(&[2 * n + 1])),
            (id(2 * n + 1), ids(&[2 * n])),
        ]
    });
    let walk = Walk::from(rings);
    assert_eq!(walk.circles(|_| true).len(), 50);
    let many: BTreeSet<String> = (0..20_000).map(id).collect();
    let mut walk = Walk::from([(id(30_000), many)]);
    let mut steps = 0;
    loop {
        let next = walk.next();
        if next.is_empty() {
            break;
        }
        steps += 1;
        walk.add(&next, Some(&Value::List(vec![Value::Nil; next.len()])));
    }
    assert_eq!(steps, KNOWN_MAX.div_ceil(STEP_MAX));
}
