//! Leases between a session and a host in memory.

use host_core::id::{JobId, LeaseId};
use host_core::port::Assignment;
use uuid::Uuid;

use super::*;

fn assignment(handler: &str, params: &str, priority: u8) -> Assignment {
    let assignment = host_testing::assignment(handler, params, 600_000);
    Assignment {
        priority,
        ..assignment
    }
}

#[test]
fn a_task_has_the_title_of_its_params_or_the_name_of_its_handler() {
    let (job, lease) = (JobId(Uuid::nil()), LeaseId(Uuid::nil()));
    #[rustfmt::skip]
    let table = [
        ("{\"title\":\"Fix\\n]}{ it\"}", "Fix\n]}{ it"), ("{}", "tidy"), ("{\"title\":7}", "tidy"),
        ("{\"title\":null}", "tidy"), ("{\"more\":{\"title\":\"no\"}}", "tidy"), ("{\"title\":\"\"}", "tidy"),
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
