//! The desk, asked by a cell that keeps to nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use host_cells::process::DeskConnection;
use host_cells::sandbox::broker::{SecretSource, Secrets};
use host_core::desk::{
    DESK_JOBS_BYTES_MAX, DeskAnswer, DeskError, DeskErrorKind, DeskPass, DeskRequest,
};
use host_core::id::JobId;
use host_core::jobs_grant::JobsGrant;
use host_core::secret::Secret;
use host_core::state::{KEYS_MAX, StateGrant, StateWrite, StateWrites};
use host_core::step::StepsGrant;
use host_core::time::Time;
use host_core::writes::{CollectedBytes, WriteBuffer};
use host_engine::state::SetState;
use host_runtime::ids;
use host_runtime::lifeline::Lifeline;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use super::fixture::Host;
use crate::webhooks::Webhooks;

/// A run's end of its socket to the desk.
struct Run {
    stream: Framed<UnixStream, LengthDelimitedCodec>,
    writes: WriteBuffer,
}

impl Run {
    async fn begin(
        visits: &mpsc::Sender<DeskConnection>,
        jobs: Vec<JobsGrant>,
        state: Option<StateGrant>,
    ) -> Self {
        Self::begin_for(visits, ids::job(Time(0)), jobs, state).await
    }

    async fn begin_for(
        visits: &mpsc::Sender<DeskConnection>,
        job: JobId,
        jobs: Vec<JobsGrant>,
        state: Option<StateGrant>,
    ) -> Self {
        Self::begin_until(visits, job, (jobs, state), None).await
    }

    async fn begin_until(
        visits: &mpsc::Sender<DeskConnection>,
        job: JobId,
        (jobs, state): (Vec<JobsGrant>, Option<StateGrant>),
        lifeline: Option<Arc<Lifeline>>,
    ) -> Self {
        let (socket, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let writes = WriteBuffer::new(CollectedBytes::default(), None);
        let pass = DeskPass {
            artifact_bytes: 0,
            steps: Some(StepsGrant {
                lease: ids::lease(),
                steps_max: 2,
            }),
            job,
            handler: "noop".parse().unwrap(),
            jobs,
            state,
            secrets: vec!["one".to_owned(), "gone".to_owned()],
            hold: vec!["by-customer".parse().unwrap()],
            notify: vec!["shop".parse().unwrap()],
            trace: Vec::new(),
            writes: writes.clone(),
        };
        visits
            .send(DeskConnection {
                pass: Box::new(pass),
                socket,
                lifeline,
            })
            .await
            .unwrap();
        theirs.set_nonblocking(true).unwrap();
        let stream = UnixStream::from_std(theirs).unwrap();
        let mut codec = LengthDelimitedCodec::new();
        codec.set_max_frame_length(usize::MAX);
        let stream = Framed::new(stream, codec);
        Self { stream, writes }
    }

    /// Sends a frame. Returns the answer, nothing if the desk has closed the socket.
    async fn send(&mut self, frame: Vec<u8>) -> Option<Result<DeskAnswer, DeskError>> {
        // It may be closed while a large frame is sent.
        let _ = self.stream.send(Bytes::from(frame)).await;
        let frame = self.stream.next().await?.ok()?;
        Some(postcard::from_bytes(&frame).unwrap())
    }

    async fn ask(&mut self, request: &DeskRequest) -> Result<DeskAnswer, DeskError> {
        let frame = postcard::to_stdvec(request).unwrap();
        self.send(frame).await.unwrap()
    }

    async fn expect_refusal(&mut self, request: &DeskRequest) -> DeskErrorKind {
        self.ask(request).await.unwrap_err().kind
    }

    /// Lists the keys of its space, page by page.
    async fn all_keys(&mut self) -> Vec<String> {
        let mut listed: Vec<String> = Vec::new();
        loop {
            let list = DeskRequest::List {
                space: None,
                prefix: String::new(),
                after: listed.last().cloned().unwrap_or_default(),
            };
            let Ok(DeskAnswer::Keys(page)) = self.ask(&list).await else {
                panic!("it is granted");
            };
            assert!(page.len() <= KEYS_MAX);
            if page.is_empty() {
                return listed;
            }
            listed.extend(page);
        }
    }
}

fn grant() -> Vec<JobsGrant> {
    vec![JobsGrant {
        handlers: vec!["noop".to_owned()],
        queues: vec!["rows".to_owned()],
    }]
}

fn enqueue(jobs: &str, now: bool) -> DeskRequest {
    let jobs = jobs.to_owned();
    DeskRequest::Enqueue { jobs, now }
}

fn set(value: Vec<u8>, now: bool) -> DeskRequest {
    DeskRequest::Set {
        space: None,
        key: "a".to_owned(),
        value: Some(value),
        expected: None,
        now,
    }
}

#[tokio::test]
async fn each_run_gets_what_its_own_manifest_grants() {
    let (visits, desk) = mpsc::channel(8);
    let host = Host::start_as(|api| api.desk = Some(desk)).await;
    let mut jobs_only = Run::begin(&visits, grant(), None).await;
    let mut state_only = Run::begin(&visits, Vec::new(), Some(StateGrant::default())).await;
    let granted = r#"{"handler": "noop", "queue": "rows"}"#;
    for now in [false, true] {
        let not_granted = DeskErrorKind::NotGranted;
        assert_eq!(
            jobs_only.expect_refusal(&set(vec![1], now)).await,
            not_granted
        );
        assert_eq!(
            state_only.expect_refusal(&enqueue(granted, now)).await,
            not_granted
        );
        let other = r#"[{"handler": "noop", "queue": "rows"}, {"handler": "noop"}]"#;
        assert_eq!(
            jobs_only.expect_refusal(&enqueue(other, now)).await,
            not_granted
        );
        let twice = r#"{"handler": "a/b", "queue": "rows", "handler": "noop"}"#;
        let kind = jobs_only.expect_refusal(&enqueue(twice, now)).await;
        assert_eq!(kind, DeskErrorKind::InvalidRequest);
        let Ok(DeskAnswer::Jobs(ids)) = jobs_only.ask(&enqueue(granted, now)).await else {
            panic!("it is granted");
        };
        let path = format!("/api/v1/jobs/{}", ids[0]);
        let there = host.get(&path).await.status;
        assert_eq!(there, if now { 200 } else { 404 }, "{now}");
        assert_eq!(
            state_only.ask(&set(vec![1], now)).await,
            Ok(DeskAnswer::Set(true))
        );
    }
    assert_eq!(jobs_only.writes.take().unwrap().jobs.len(), 1);
    assert_eq!(state_only.writes.take().unwrap().state.len(), 1);
}

#[tokio::test]
async fn a_run_notifies_only_webhooks_that_its_manifest_names() {
    let (visits, desk) = mpsc::channel(8);
    let allowed = |to: &str| {
        let fields = format!(r#"{{"to": "https://{to}.example", "secrets": ["s"]}}"#);
        serde_json::from_str(&fields).unwrap()
    };
    let webhooks = ["shop", "other"].map(|name| (name.parse().unwrap(), allowed(name)));
    let _host = Host::start_as(|api| {
        api.desk = Some(desk);
        api.webhooks = Webhooks::new(BTreeMap::from(webhooks));
    })
    .await;
    let mut run = Run::begin(&visits, grant(), None).await;
    let job = |to: &str| {
        let notify = format!(r#"{{"url": "https://{to}.example/a", "secret": "s"}}"#);
        enqueue(
            &format!(r#"{{"handler": "noop", "queue": "rows", "notify": {notify}}}"#),
            true,
        )
    };
    run.ask(&job("shop")).await.unwrap();
    let refused = run.ask(&job("other")).await.unwrap_err();
    assert_eq!(refused.kind, DeskErrorKind::NotGranted);
    assert!(
        refused.message.contains("notify the webhook \"other\""),
        "{refused}"
    );
    assert_eq!(
        run.expect_refusal(&job("nowhere")).await,
        DeskErrorKind::InvalidRequest
    );
}

#[tokio::test]
async fn a_handler_passes_on_no_results_of_other_jobs() {
    let (visits, desk) = mpsc::channel(8);
    let host = Host::start_as(|api| api.desk = Some(desk)).await;
    let other = host.enqueue(r#"{"handler": "noop"}"#).await;
    let mut run = Run::begin(&visits, grant(), None).await;
    let job = |more: &str| format!(r#"{{"handler": "noop", "queue": "rows"{more}}}"#);
    let takes = |of: &str| {
        job(&format!(
            r#", "depends_on": ["{of}"], "inputs": {{"a": "{of}"}}"#
        ))
    };
    for now in [false, true] {
        let refused = run.expect_refusal(&enqueue(&takes(&other), now)).await;
        assert_eq!(refused, DeskErrorKind::InvalidRequest);
        let own = format!("[{}, {}]", job(""), takes("#0"));
        let Ok(DeskAnswer::Jobs(ids)) = run.ask(&enqueue(&own, now)).await else {
            panic!("they are of one call");
        };
        assert_eq!(ids.len(), 2);
    }
}

/// As after this process was suspended: other nodes may have its job.
#[tokio::test]
async fn a_run_that_others_may_have_taken_over_gets_no_answer() {
    let (visits, desk) = mpsc::channel(8);
    let host = Host::start_as(|api| api.desk = Some(desk)).await;
    let lifeline = Lifeline::new(Lifeline::now() + Duration::from_hours(1));
    let lifeline = Arc::new(lifeline.unwrap());
    let job = ids::job(Time(0));
    let until = Some(Arc::clone(&lifeline));
    let mut run = Run::begin_until(&visits, job, (grant(), None), until).await;
    let granted = enqueue(r#"{"handler": "noop", "queue": "rows"}"#, true);
    let Ok(DeskAnswer::Jobs(ids)) = run.ask(&granted).await else {
        panic!("it is granted");
    };
    lifeline.extend(Lifeline::now()).unwrap();
    let frame = postcard::to_stdvec(&granted).unwrap();
    assert_eq!(run.send(frame).await, None);
    let listed = host.get("/api/v1/jobs").await.body;
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(ids.len()));
}

#[tokio::test]
async fn what_is_no_request_or_too_large_ends_the_run() {
    let (visits, desk) = mpsc::channel(8);
    let _host = Host::start_as(|api| api.desk = Some(desk)).await;
    for frame in [vec![0xff; 9], Vec::new(), vec![0; 10 << 20]] {
        let mut run = Run::begin(&visits, grant(), None).await;
        assert_eq!(run.send(frame).await, None);
    }
    let mut run = Run::begin(&visits, grant(), Some(StateGrant::default())).await;
    let long = enqueue(&" ".repeat(DESK_JOBS_BYTES_MAX + 1), false);
    assert_eq!(
        run.expect_refusal(&long).await,
        DeskErrorKind::InvalidRequest
    );
    let long = set(vec![0; (1 << 20) + 1], true);
    assert_eq!(
        run.expect_refusal(&long).await,
        DeskErrorKind::InvalidRequest
    );
    assert_eq!(run.writes.take(), None);
}

/// A page of the store ends between keys that the attempt itself has set, and one is removed as a whole.
#[tokio::test]
async fn keys_beyond_a_page_are_listed_with_what_the_attempt_has_changed() {
    let (visits, desk) = mpsc::channel(8);
    let host = Host::start_as(|api| api.desk = Some(desk)).await;
    let stored: Vec<String> = (0..2_500).map(|n| format!("k{n:04}")).collect();
    let write = |key: &String, value| StateWrite {
        key: key.clone(),
        value,
        expected: None,
    };
    let writes = stored.iter().map(|key| write(key, Some(vec![1])));
    let writes = StateWrites {
        space: "handler:noop".parse().unwrap(),
        quota_bytes: u64::MAX,
        writes: writes.collect(),
    };
    let set_all = SetState(Box::new(writes));
    host.dispatch.submit(set_all).await.unwrap();
    let added = ["a", "k0500x", "k0999x", "k1999x", "k2499x"].map(str::to_owned);
    for (added, removed) in [(&added[..], &stored[..0]), (&[], &stored[1_000..2_000])] {
        let mut run = Run::begin(&visits, Vec::new(), Some(StateGrant::default())).await;
        let sets = added.iter().map(|key| (key, Some(vec![2])));
        for (key, value) in sets.chain(removed.iter().map(|key| (key, None))) {
            let set = DeskRequest::Set {
                space: None,
                key: key.clone(),
                value,
                expected: None,
                now: false,
            };
            assert_eq!(run.ask(&set).await, Ok(DeskAnswer::Set(true)));
        }
        let mut expected = [&stored[..], added].concat();
        expected.retain(|key| !removed.contains(key));
        expected.sort();
        assert_eq!(run.all_keys().await, expected);
    }
}

#[tokio::test]
async fn a_secret_is_seen_after_the_audit_has_it_and_once_for_each_attempt() {
    let (visits, desk) = mpsc::channel(8);
    let value = |text: &str| SecretSource::Value(text.to_owned());
    let all = [("one", value("s3cret")), ("other", value("hush"))]
        .map(|(name, source)| (name.to_owned(), source));
    let host = Host::start_as(|api| {
        api.desk = Some(desk);
        api.secrets = Secrets::new(all.into());
    })
    .await;
    let reveal = |name: &str| DeskRequest::Reveal {
        name: name.to_owned(),
    };
    for attempts in 1..=2 {
        let mut run = Run::begin(&visits, Vec::new(), None).await;
        for (name, kind) in [
            ("other", DeskErrorKind::NotGranted),
            ("gone", DeskErrorKind::Unavailable),
            ("a b", DeskErrorKind::InvalidRequest),
        ] {
            assert_eq!(run.expect_refusal(&reveal(name)).await, kind, "{name}");
        }
        assert!(run.writes.revealed().is_none());
        for _ in 0..3 {
            let seen = run.ask(&reveal("one")).await;
            let secret = Secret {
                name: "one".to_owned(),
                value: "s3cret".to_owned(),
            };
            assert_eq!(seen, Ok(DeskAnswer::Secret(secret)));
        }
        let revealed = run.writes.revealed().unwrap();
        assert_eq!(revealed.value("one"), Some("s3cret"));
        let audit = host.get("/api/v1/audit?verb=reveal").await.body;
        let text = audit.to_string();
        assert_eq!(audit["items"].as_array().unwrap().len(), attempts, "{text}");
        assert!(text.contains("secret one"), "{text}");
        assert!(text.contains("to noop for job "), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
}

#[tokio::test]
async fn a_run_adds_to_the_batch_of_its_own_job() {
    let (visits, desk) = mpsc::channel(8);
    let host = Host::start_as(|api| api.desk = Some(desk)).await;
    let body = r#"{"jobs": [{"handler": "noop"}]}"#;
    let mut made = Vec::new();
    for _ in 0..2 {
        let answer = host.post("/api/v1/batches", body).await.body;
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        made.push((text(&answer["batch"]["id"]), text(&answer["jobs"][0]["id"])));
    }
    let mut run = Run::begin_for(&visits, made[0].1.parse().unwrap(), grant(), None).await;
    let into =
        |batch: &str| format!(r#"{{"handler": "noop", "queue": "rows", "batch": "{batch}"}}"#);
    let own = run.ask(&enqueue(&into(&made[0].0), false)).await;
    assert!(matches!(own, Ok(DeskAnswer::Jobs(_))), "{own:?}");
    let other = run
        .ask(&enqueue(&into(&made[1].0), false))
        .await
        .unwrap_err();
    assert!(
        other.message.contains("only to the batch of its own job"),
        "{other}"
    );
    assert_eq!(run.writes.take().unwrap().jobs.len(), 1);
}

#[tokio::test]
async fn only_keys_of_the_own_job_are_held_and_not_for_too_long() {
    let (visits, desk) = mpsc::channel(8);
    let _host = Host::start_as(|api| api.desk = Some(desk)).await;
    let mut run = Run::begin(&visits, grant(), None).await;
    let hold = |limit: &str, ms| DeskRequest::Hold {
        limit: limit.to_owned(),
        ms,
    };
    let unlimited = run.ask(&hold("by-customer", 5)).await.unwrap_err();
    assert_eq!(unlimited.kind, DeskErrorKind::InvalidRequest);
    assert_eq!(unlimited.message, "the job has no limit by-customer");
    run.writes.let_hold(ids::lease());
    let long = run.ask(&hold("by-customer", 86_400_001)).await.unwrap_err();
    assert_eq!(
        long.message,
        "a key can be held for at most 86400000 ms (24 hours), got 86400001"
    );
    let other = run.expect_refusal(&hold("by-queue", 5)).await;
    assert_eq!(other, DeskErrorKind::NotGranted);
    let kind = DeskErrorKind::InvalidRequest;
    assert_eq!(run.expect_refusal(&hold("a b", 5)).await, kind);
    // Its job is not running.
    assert_eq!(run.expect_refusal(&hold("by-customer", 5)).await, kind);
}

#[tokio::test]
async fn a_step_has_a_name_an_end_and_the_lease_of_its_attempt() {
    let (visits, desk) = mpsc::channel(8);
    let host = Host::start_as(|api| api.desk = Some(desk)).await;
    let body = r#"{"handler": "noop"}"#;
    let waiting = host.post("/api/v1/jobs", body).await.body;
    let job = waiting["id"].as_str().unwrap().parse().unwrap();
    let mut run = Run::begin_for(&visits, job, grant(), None).await;
    let begin = |name: &str| DeskRequest::BeginStep {
        name: name.to_owned(),
    };
    let complete = |result: &str| DeskRequest::CompleteStep {
        result: result.to_owned(),
    };
    let kind = DeskErrorKind::InvalidRequest;
    for request in [begin(""), begin("a b"), complete("1")] {
        assert_eq!(run.expect_refusal(&request).await, kind, "{request:?}");
    }
    assert_eq!(run.ask(&begin("a")).await, Ok(DeskAnswer::Step(None)));
    assert_eq!(run.expect_refusal(&begin("b")).await, kind, "within a step");
    // The job is not running, so this is not its attempt.
    let of_step = enqueue(r#"{"handler": "noop", "queue": "rows"}"#, false);
    let queued = run.ask(&of_step).await;
    assert!(matches!(queued, Ok(DeskAnswer::Jobs(_))));
    let stale = run.ask(&complete("1")).await.unwrap_err();
    assert!(stale.message.contains("not the current one"), "{stale}");
    assert!(
        run.writes.take().is_none(),
        "what the step has written is gone"
    );
    // The failure of the step is kept first, which is refused as well.
    let stale = run.ask(&begin("b")).await.unwrap_err();
    assert!(stale.message.contains("not the current one"), "{stale}");
    let path = format!("/api/v1/jobs?queue={}", "rows");
    assert_eq!(host.get(&path).await.body["items"], serde_json::json!([]));
}

#[tokio::test]
async fn what_the_journal_gets_is_checked() {
    let (visits, desk) = mpsc::channel(8);
    let _host = Host::start_as(|api| api.desk = Some(desk)).await;
    let long = format!("{:?}", "x".repeat(64 << 10));
    for (result, kind, words) in [
        ("{", DeskErrorKind::InvalidRequest, "is not valid JSON"),
        (&*long, DeskErrorKind::LimitReached, "at most 65536 bytes"),
        (
            r#"["\u0073ecret"]"#,
            DeskErrorKind::InvalidRequest,
            "no secrets",
        ),
    ] {
        let mut run = Run::begin(&visits, grant(), None).await;
        run.writes.reveal(Secret {
            name: "one".to_owned(),
            value: "secret".to_owned(),
        });
        let begin = DeskRequest::BeginStep {
            name: "a".to_owned(),
        };
        assert_eq!(run.ask(&begin).await, Ok(DeskAnswer::Step(None)));
        let result = result.to_owned();
        let answer = run.ask(&DeskRequest::CompleteStep { result }).await;
        let refused = answer.unwrap_err();
        assert_eq!(refused.kind, kind, "{refused}");
        assert!(refused.message.contains(words), "{refused}");
    }
}
