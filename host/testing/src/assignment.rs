//! An attempt as a worker gets it.

use host_core::json::JsonText;
use host_core::port::Assignment;
use host_core::suspicion::Suspicion;
use host_core::time::Time;

/// Makes the first attempt of a job, with a time limit of `timeout_ms`.
pub fn assignment(handler: &str, params: &str, timeout_ms: u64) -> Assignment {
    Assignment {
        request_id: "request".to_owned(),
        job_id: "01990f3c-0000-7000-8000-000000000001".to_owned(),
        handler: handler.to_owned(),
        params: JsonText(params.to_owned()),
        queue: "default".to_owned(),
        priority: 5,
        attempt: 1,
        enqueued_at: Time(1_763_000_000_000),
        timeout_ms,
        deadline: None,
        trace: Vec::new(),
        attributes: Vec::new(),
        worker_id: "host".to_owned(),
        suspicion: Suspicion::NONE,
    }
}
