//! Dispatches as a real control plane's library sends them, and what a real worker answered. Where we
//! answer otherwise, the table says so; `SPEC.md` says why.

use serde_json::Value;

use super::fixture::World;

const DISPATCHES: &str = include_str!("../../../tests/captures/dispatch.jsonl");

/// The label of a dispatch, what the real worker answered, and what we answer.
const ANSWERS: &[(&str, u16, u16)] = &[
    ("ok", 200, 200),
    ("redelivery after completion", 200, 200),
    ("user error", 200, 200),
    ("unknown taskKey", 200, 200),
    ("started->409 terminal", 500, 200),
    ("no secret", 401, 401),
    ("bearer secret", 200, 200),
    ("tenant mismatch", 400, 200),
    ("callback url mismatch", 400, 400),
    ("heartbeat timeout below floor", 400, 200),
    ("no taskId (legacy)", 200, 200),
    ("missing attemptId", 400, 200),
    ("legacy snake_case", 200, 200),
    ("redelivery while running", 503, 503),
    ("slow + shouldCancel", 200, 200),
    ("slow + 410 heartbeat", 200, 200),
];

#[tokio::test]
async fn captured_dispatches_are_answered() {
    let lines: Vec<Value> = DISPATCHES
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    assert_eq!(lines.len(), ANSWERS.len());
    let world = World::start().await;
    let ours = format!("http://{}", world.plane.address);
    for (line, (label, real, expected)) in lines.iter().zip(ANSWERS) {
        assert_eq!(
            (&line["label"], &line["response"]["status"]),
            (&(*label).into(), &(*real).into())
        );
        if label.starts_with("redelivery while") {
            // This is what `a_repeated_dispatch_is_executed_once` is about.
            continue;
        }
        let body = line["request"]["body"]
            .as_str()
            .unwrap()
            .replace("http://127.0.0.1:18090", &ours);
        let headers: Vec<(&'static str, &str)> = line["request"]["headers"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| match name.as_str() {
                "Authorization" => ("authorization", value.as_str().unwrap()),
                _ => ("x-arco-dispatch-secret", value.as_str().unwrap()),
            })
            .collect();
        let playing = async {
            loop {
                let callback = world.plane.next().await;
                match callback.verb() {
                    "started" if label.starts_with("started->409") => {
                        callback.answer(
                            409,
                            &[],
                            &serde_json::json!({"error": "task_already_terminal"}),
                        );
                    }
                    _ => callback.acknowledge(false),
                }
            }
        };
        let answer = tokio::select! {
            answer = world.send(&headers, body) => answer,
            () = playing => unreachable!(),
        };
        assert_eq!(answer.status, *expected, "{label}");
    }
    world.stop_all().await;
}
