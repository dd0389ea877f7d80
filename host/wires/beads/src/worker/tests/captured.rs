//! Replays the real orchestrator's messages of a captured session: our worker must do the same as the real
//! one, which asks once more than the orchestrator expects and gets a second task.

use serde_json::Value;

use super::fixture::{Bench, done, failed, setup};
use crate::frame::{Dialect, text_of};
use crate::orchestrator::tests::captured::messages;
use crate::worker::Call;

/// The document's calls in the captured session, in their order.
const CALLS: &str = include_str!("../../../tests/golden/session-beads-calls.log");

#[test]
fn the_real_orchestrator_is_served() {
    let mut bench = Bench::new(setup(true, Dialect::Framed));
    let (mut ours, mut calls) = (vec!["READY".to_owned()], Vec::new());
    for (is_workers, message) in messages() {
        if is_workers {
            continue;
        }
        let value: Value = serde_json::from_slice(text_of(&message)).unwrap();
        let issue_id = value["payload"]["issue_id"].as_str().map(str::to_owned);
        let is_second = issue_id.is_some() && bench.session_is_busy();
        bench.receive_frame(message);
        if is_second {
            for _ in 0..2 {
                calls.push(bench.called(Ok(())));
                bench.end(done());
                calls.push(bench.called(Ok(())));
            }
        } else if issue_id.as_deref() == Some("beads-workers-002") {
            calls.push(bench.called(Ok(())));
            bench.end(failed("no luck"));
            calls.push(bench.called(Ok(())));
        }
        ours.extend(bench.types());
    }
    assert_eq!(ours, ["READY", "FAILED", "DONE", "DONE"]);
    assert_eq!(bench.closed, 1, "SHUTDOWN is the end");
    let [one, two, three] = [1, 2, 3].map(|number| format!("beads-workers-00{number}"));
    let expected = [
        (Call::Claim, two.clone()),
        (Call::Reopen, two),
        (Call::Claim, one.clone()),
        (Call::Close, one),
        (Call::Claim, three.clone()),
        (Call::Close, three),
    ];
    assert_eq!(calls, expected);
    // The real worker made the same calls.
    for line in [
        "bd update beads-workers-001 --status=in_progress",
        "bd close beads-workers-001",
        "bd update beads-workers-003 --status=in_progress",
        "bd close beads-workers-003",
    ] {
        assert!(CALLS.lines().any(|call| call.ends_with(line)), "{line}");
    }
}
