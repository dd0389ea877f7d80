//! How long an accepted job is kept.

use std::time::Duration;

use axum::http::StatusCode;
use host_core::policy::RetentionChoice;
use host_core::time::Time;
use serde_json::json;

use super::deployed::deploy;
use super::fixture::{HANDLERS, Host};
use crate::retention::Retentions;

const JOBS: &str = "/api/v1/jobs";

#[tokio::test]
async fn a_jobs_retention_comes_before_its_queues_and_that_before_its_handlers() {
    let host = Host::start_as(|api| {
        let day = RetentionChoice {
            ms: Some(86_400_000),
            discarded_ms: None,
        };
        let queues = [("nightly".parse().unwrap(), day)];
        api.retentions = Retentions::new(queues.into());
    })
    .await;
    let manifest = "[defaults]\nretention_seconds = 60\n\
                    [handlers.noop]\nretention_discarded_seconds = 600";
    let parts = [("component", HANDLERS), ("manifest", manifest)];
    deploy(&host, "basics", &parts)
        .await
        .is(StatusCode::CREATED);
    #[rustfmt::skip]
    let table = [
        (r#"{"handler":"a/b"}"#,                                             60.0, 60.0),
        (r#"{"handler":"noop"}"#,                                            60.0, 600.0),
        (r#"{"handler":"noop","queue":"nightly"}"#,                          86_400.0, 600.0),
        (r#"{"handler":"noop","queue":"nightly","retention_seconds":5}"#,    5.0, 600.0),
        (r#"{"handler":"noop","retention_discarded_seconds":5.5}"#,          60.0, 5.5),
        (r#"{"handler":"python#noop"}"#,                                     604_800.0, 604_800.0),
        (r#"{"handler":"python#noop","queue":"nightly"}"#,                   86_400.0, 86_400.0),
    ];
    for (job, kept, discarded_kept) in table {
        let id = host.enqueue(job).await;
        let path = format!("{JOBS}/{id}");
        let shown = host.get(&path).await.is(StatusCode::OK).body;
        let kept = [json!(kept), json!(discarded_kept)];
        let keys = ["retention_seconds", "retention_discarded_seconds"];
        assert_eq!(keys.map(|key| shown[key].clone()), kept, "{job}");
        assert!(shown.get("kept_until").is_none(), "{job}");
        host.post(&format!("{path}/cancel"), "{}").await;
        let ended = host.get(&path).await.body;
        assert_eq!(ended["state"], "cancelled", "{job}");
        let at = |key: &str| Time::parse_rfc3339(ended[key].as_str().unwrap()).unwrap();
        let kept_ms = at("kept_until").since_ms(at("finished_at"));
        let seconds = Duration::from_millis(kept_ms).as_secs_f64();
        assert_eq!(json!(seconds), kept[0], "{job}");
    }
    let handler = host.get("/api/v1/handlers/noop").await.body;
    assert_eq!(handler["retention_seconds"], 60.0);
    assert_eq!(handler["retention_discarded_seconds"], 600.0);
}
