//! Leases between a session and a host in memory.

pub(in crate::beads) mod host;

use host_core::id::{JobId, LeaseId};
use host_core::json::JsonText;
use host_core::port::Assignment;
use host_core::time::Time;
use uuid::Uuid;

use super::*;

fn assignment(handler: &str, params: &str, priority: u8) -> Assignment {
    Assignment {
        request_id: "r".to_owned(),
        job_id: "j".to_owned(),
        handler: handler.to_owned(),
        params: JsonText(params.to_owned()),
        queue: "default".to_owned(),
        priority,
        attempt: 1,
        enqueued_at: Time(0),
        timeout_ms: 600_000,
        deadline: None,
        trace: Vec::new(),
        attributes: Vec::new(),
        worker_id: "host".to_owned(),
        losses: 0,
    }
}

#[test]
fn a_task_has_the_title_of_its_params_or_the_name_of_its_handler() {
    let (job, lease) = (JobId(Uuid::nil()), LeaseId(Uuid::nil()));
    #[rustfmt::skip]
    let table = [
        ("{\"title\":\"Fix\\n]}{ it\"}", "Fix\n]}{ it"), ("{}", "tidy"), ("{\"title\":7}", "tidy"),
        ("{\"title\":null}", "tidy"), ("{\"more\":{\"title\":\"no\"}}", "tidy"), ("{\"title\":\"\"}", ""),
    ];
    for (params, title) in table {
        let task = task(job, lease, assignment("tidy", params, 5));
        assert_eq!(
            (task.title.as_str(), task.timeout_ms),
            (title, 600_000),
            "{params}"
        );
    }
    let long = format!("{{\"title\":\"{}\"}}", "ü".repeat(5 << 20));
    let task_of_long = task(job, lease, assignment("tidy", &long, 5));
    assert!(task_of_long.title.len() <= TITLE_BYTES_MAX);
    assert!(task_of_long.title.ends_with("… [cut]"));
    for (priority, on_the_wire) in [(0, 0), (1, 0), (2, 1), (5, 2), (8, 4), (9, 4)] {
        let task = task(job, lease, assignment("tidy", "{}", priority));
        assert_eq!(task.priority, on_the_wire);
    }
}
