//! What the audit has: an entry for each kind of change, before what no command changes, and one for each denial.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request as HttpRequest, StatusCode};
use host_core::access::Access;
use host_core::secret::hide_tokens;
use host_core::time::Time;
use host_engine::token::{TokenText, token_id};
use host_http::door::Door;
use host_http::route::{Group, Route};
use serde_json::{Value, json};

use super::access::Guarded;
use super::access_model::{body_of, fill, object};
use super::fixture::{Answer, Host, call};
use super::nodes::{Two, alone};
use super::sample_executors::Sample;
use crate::api::ports::Nodes as _;
use crate::api::routes;
use crate::audit::forget;
use crate::executors::{Executors, Routes};

const NODE: &str = "node 00000001-0000-0000-0000-000000000000";

/// Returns the entries with a verb: object, detail and outcome of each.
async fn entries(host: &Host, verb: &str) -> Vec<[String; 3]> {
    let page = host.get(&format!("/api/v1/audit?verb={verb}")).await;
    let items = page.is(StatusCode::OK).body["items"].clone();
    let text = |record: &Value, field: &str| record[field].as_str().unwrap_or_default().to_owned();
    let entry =
        |item: &Value| ["object", "detail", "outcome"].map(|field| text(&item["record"], field));
    items.as_array().unwrap().iter().map(entry).collect()
}

/// Makes a change, and checks that it has one entry more, with this object, and a detail that has this text.
async fn change(
    host: &Host,
    (method, path, body): (&str, &str, &str),
    (verb, object, detail): (&str, &str, &str),
) {
    let before = entries(host, verb).await.len();
    let answer = host
        .send(method, path, "application/json", body.to_owned())
        .await;
    let context = format!("{method} {path}");
    assert!([200, 201].contains(&answer.status), "{context}: {answer:?}");
    let all = entries(host, verb).await;
    let [its_object, its_detail, outcome] = all.last().unwrap();
    assert_eq!(all.len(), before + 1, "{context}");
    let found = (its_object.as_str(), outcome.as_str());
    assert_eq!(found, (object, "done"), "{context}");
    assert!(its_detail.contains(detail), "{context}: {its_detail:?}");
}

#[tokio::test]
async fn each_change_has_its_entry() {
    let host = alone().await;
    for (asked, object, detail) in [
        ("POST nodes/one/drain", NODE, "drain"),
        ("POST nodes/one/resume", NODE, "resume"),
        ("POST runners/python/restart", "runner python", "restart"),
        ("PUT limits/few", "limit few", ""),
        ("DELETE limits/few", "limit few", "removed"),
        ("PUT schedules/daily", "schedule daily", ""),
        ("POST schedules/daily/pause", "schedule daily", ""),
        ("POST schedules/daily/trigger", "schedule daily", ""),
        ("DELETE schedules/daily", "schedule daily", "removed"),
    ] {
        let (method, path) = asked.split_once(' ').unwrap();
        let (body, verb) = match path.split_once('/').unwrap() {
            ("limits", _) => (r#"{"concurrency":3}"#, "operate"),
            ("schedules", "daily") => (
                r#"{"when":{"every":"24h"},"job":{"handler":"noop"}}"#,
                "schedule",
            ),
            ("schedules", _) => ("{}", "schedule"),
            _ => ("{}", "operate"),
        };
        let path = format!("/api/v1/{path}");
        change(&host, (method, &path, body), (verb, object, detail)).await;
    }
    let id = host.enqueue(r#"{"handler":"noop"}"#).await;
    for verb in ["cancel", "retry"] {
        let path = format!("/api/v1/jobs/{id}/{verb}");
        let object = format!("job {id}");
        change(&host, ("POST", &path, "{}"), (verb, &object, "")).await;
    }
}

/// Routes that are left out: jobs and uploads name who made them; a test of a receiver needs one in the
/// configuration; and a session ends with the entry that `sessions.rs` looks for.
const WITHOUT: [(&str, &str); 6] = [
    ("PUT", "/api/v1/artifacts"),
    ("POST", "/api/v1/jobs"),
    ("POST", "/api/v1/batches"),
    ("POST", "/api/v1/batches/{id}/jobs"),
    ("POST", "/api/v1/webhooks/test"),
    ("DELETE", "/api/v1/sessions/self"),
];

/// Goes through all routes that change something: after each, the audit has more.
#[tokio::test]
async fn no_route_changes_anything_without_an_entry() {
    let guarded = Guarded::start().await;
    let number = async || {
        let page = guarded.send(&guarded.admin, ("GET", "/api/v1/audit?limit=1000"), None);
        page.await.body["items"].as_array().unwrap().len()
    };
    let changes = routes::list()
        .into_iter()
        .filter(|route| route.method != "GET");
    for (method, path) in changes.map(|route| (route.method, route.path)) {
        if WITHOUT.contains(&(method, path)) {
            continue;
        }
        let (object, body) = ready(&guarded, (method, path)).await;
        let mut filled = fill(path, &object);
        if ENDED.contains(&path) {
            filled = filled.replace("available", "cancelled");
        }
        let before = number().await;
        let asked = (method, filled.as_str());
        let answer = if asked == ("PUT", "/api/v1/components/c") {
            deploy(&guarded, "c", "three").await
        } else {
            guarded.send(&guarded.admin, asked, body.as_ref()).await
        };
        let context = format!("{method} {filled}: {answer:?}");
        assert!([200, 201, 204].contains(&answer.status), "{context}");
        assert!(number().await > before, "{context}");
    }
}

/// Routes about jobs that have ended.
const ENDED: [&str; 4] = [
    "/api/v1/jobs/retry",
    "/api/v1/jobs/purge",
    "/api/v1/jobs/{id}/retry",
    "/api/v1/jobs/{id}/purge",
];

/// Deploys a component with this handler.
async fn deploy(guarded: &Guarded, name: &str, handler: &str) -> Answer {
    let request = HttpRequest::put(format!("/api/v1/components/{name}"))
        .header("host", "127.0.0.1:7700")
        .header("authorization", format!("Bearer {}", guarded.admin))
        .header("content-type", "application/wasm");
    let component = json!([{"name": handler}]).to_string();
    call(
        &guarded.host.router,
        request.body(Body::from(component)).unwrap(),
    )
    .await
}

/// Makes what a route changes. Returns its name and the body of the request.
async fn ready(guarded: &Guarded, (method, path): (&str, &str)) -> (String, Option<Value>) {
    let call = async |asked: (&str, &str), body: Value| {
        let done = guarded.send(&guarded.admin, asked, Some(&body)).await;
        assert!([200, 201].contains(&done.status), "{asked:?}: {done:?}");
    };
    let body = body_of(path, "web", "noop");
    match path {
        "/api/v1/tokens" => {
            let token = json!({"name": "t", "allow": ["read"]});
            return (String::new(), Some(token));
        }
        "/api/v1/limits/{name}" => {
            let few = json!({"concurrency": 3});
            call(("PUT", "/api/v1/limits/few"), few).await;
            let more = (method == "PUT").then(|| json!({"concurrency": 4}));
            return ("few".to_owned(), more);
        }
        _ if path.starts_with("/api/v1/components/") => {
            // Two revisions.
            let name = if path.ends_with("/rollback") {
                "d"
            } else {
                "c"
            };
            for handler in ["one", "two"] {
                let deployed = deploy(guarded, name, handler).await;
                deployed.is(StatusCode::CREATED);
            }
            return (name.to_owned(), body);
        }
        _ if path.starts_with("/api/v1/nodes/") => return ("one".to_owned(), body),
        _ if path.starts_with("/api/v1/runners/") => return ("python".to_owned(), body),
        _ => {}
    }
    let object = object(guarded, path, "web", "noop").await;
    let job = guarded.job("web", "noop").await;
    if ENDED.contains(&path) {
        let ended = if path.contains("{id}") { &object } else { &job };
        let cancel = format!("/api/v1/jobs/{ended}/cancel");
        call(("POST", &cancel), json!({})).await;
    }
    match path {
        "/api/v1/batches/{id}/cancel" => {
            let add = format!("/api/v1/batches/{object}/jobs");
            call(("POST", &add), json!({"handler": "noop"})).await;
        }
        "/api/v1/queues/{name}" => {
            call(
                ("POST", "/api/v1/queues/empty/pause"),
                json!({"create": true}),
            )
            .await;
            return ("empty".to_owned(), None);
        }
        "/api/v1/state/{space}" => {
            let set = format!("/api/v1/state/{object}/value?key=k");
            call(("PUT", &set), json!({"value": "v"})).await;
        }
        _ => {}
    }
    (object, body.filter(|_| method != "DELETE"))
}

#[tokio::test]
async fn what_was_refused_has_no_entry_of_a_restart() {
    let host = alone().await;
    let refused = host.post("/api/v1/runners/python/restart", r#"{"runner":3}"#);
    refused.await.fails(422, "invalid_request");
    assert_eq!(entries(&host, "operate").await.len(), 0);
}

#[tokio::test]
async fn nothing_is_drained_or_restarted_without_an_entry() {
    let (sample, nodes) = (Arc::new(Sample::default()), Arc::new(Two::default()));
    let host = Host::start_as(|api| {
        api.executors = Executors::new(vec![Arc::clone(&sample) as _], Routes::default());
        api.nodes = Arc::clone(&nodes) as _;
        api.dispatch = Host::ended_loop();
    })
    .await;
    for path in ["/api/v1/nodes/one/drain", "/api/v1/runners/python/restart"] {
        let answer = host.post(path, "{}").await;
        assert!(answer.status >= 500, "{path}: {answer:?}");
    }
    assert_eq!(sample.restarts(), 0);
    let nodes = nodes.list().await.unwrap();
    assert!(nodes.iter().all(|node| !node.drain));
}

/// Refuses as a wire does that checks its peers' proofs itself: this proof is wrong.
fn sample_wire() -> Group {
    let lease = Route::post(Access::Proof, "/sample/lease", async || {
        StatusCode::UNAUTHORIZED
    });
    Group {
        prefix: "/sample",
        render: host_http::problem::render,
        routes: vec![lease.behind(&[Door::Callbacks])],
    }
}

#[tokio::test]
async fn denials_of_wires_and_of_a_host_without_tokens_are_recorded() {
    let mut auth = None;
    let host = Host::start_as(|api| {
        api.wire_routes.push(sample_wire());
        auth = Some(api.auth.clone());
    })
    .await;
    let wrong = [("authorization", "Bearer planted")];
    for _ in 0..3 {
        let lease = host.send_with("POST", "/sample/lease", &wrong, b"{}".to_vec());
        assert_eq!(lease.await.status, 401);
    }
    let foreign = [("origin", "http://evil.example"), ("x-request-id", "r-77")];
    let page = host.send_with("GET", "/api/v1/jobs", &foreign, Vec::new());
    page.await.is(StatusCode::FORBIDDEN);
    // A client may put a token anywhere.
    let token = TokenText::new(&token_id(&[7; 32]), &[8; 32]);
    let misplaced = [
        ("origin", "http://evil.example"),
        ("x-request-id", token.expose()),
    ];
    let path = format!("/api/v1/jobs/{}", token.expose());
    let page = host.send_with("GET", &path, &misplaced, Vec::new());
    page.await.is(StatusCode::FORBIDDEN);
    auth.unwrap().store_rest().await;
    let listed = host.get("/api/v1/audit").await;
    let items = listed.body["items"].as_array().unwrap();
    let seen = |item: &Value| {
        let record = &item["record"];
        (
            record["object"].clone(),
            record["outcome"].clone(),
            record["times"].clone(),
        )
    };
    let of_wire = |times: u32| {
        (
            json!("POST /sample/lease"),
            json!("unauthenticated"),
            json!(times),
        )
    };
    let of_page = (json!("GET /api/v1/jobs"), json!("forbidden"), json!(1));
    let hidden = hide_tokens(&format!("GET {path}"));
    let of_token = (json!(hidden), json!("forbidden"), json!(1));
    let expected = [of_wire(1), of_page, of_token, of_wire(2)];
    let denials = items
        .iter()
        .filter(|item| item["record"]["outcome"] != "done");
    assert_eq!(denials.map(seen).collect::<Vec<_>>(), expected);
    assert!(listed.text.contains("r-77") && !listed.text.contains("planted"));
    assert!(!listed.text.contains(&token.expose()[17..]));
}

#[tokio::test]
async fn entries_are_listed_by_principal_and_time() {
    let guarded = Guarded::start().await;
    let body = json!({"name": "o", "role": "operator"});
    let tokens = [guarded.make(&body).await, guarded.make(&body).await];
    let create = json!({"create": true});
    for token in &tokens {
        let pause = guarded.send(token, ("POST", "/api/v1/queues/q/pause"), Some(&create));
        pause.await.is(StatusCode::OK);
    }
    let listed = async |query: &str| {
        let path = format!("/api/v1/audit?{query}");
        let listed = guarded.send(&guarded.admin, ("GET", &path), None).await;
        let items = listed.is(StatusCode::OK).body["items"].clone();
        items.as_array().unwrap().clone()
    };
    let principals = async |query: &str| -> Vec<String> {
        let items = listed(query).await;
        let of = |item: &Value| item["record"]["principal"].as_str().unwrap().to_owned();
        items.iter().map(of).collect()
    };
    let names = tokens.map(|token| format!("token:{}", &token[4..16]));
    assert_eq!(principals("verb=operate").await, names);
    assert_eq!(
        principals(&format!("principal={}", names[0])).await,
        names[..1]
    );
    let all = listed("").await;
    let last = all.last().unwrap()["record"]["at"].as_str().unwrap();
    let since = listed(&format!("since={last}")).await;
    let is_before = |item: &&Value| item["record"]["at"].as_str() < Some(last);
    assert_eq!(since.iter().find(is_before), None);
    assert_eq!(since.last(), all.last());
    assert_eq!(
        listed("since=2100-01-01T00:00:00Z").await,
        Vec::<Value>::new()
    );
}

#[tokio::test]
async fn entries_are_kept_as_long_as_they_should_be() {
    let guarded = Guarded::start().await;
    for _ in 0..5 {
        let pause = ("POST", "/api/v1/queues/q/pause");
        let create = json!({"create": true});
        let paused = guarded.send(&guarded.admin, pause, Some(&create)).await;
        paused.is(StatusCode::OK);
    }
    let numbers = async || -> Vec<u64> {
        let page = guarded
            .send(&guarded.admin, ("GET", "/api/v1/audit"), None)
            .await;
        let items = page.body["items"].as_array().unwrap().clone();
        items
            .iter()
            .map(|it| it["number"].as_u64().unwrap())
            .collect()
    };
    let all = numbers().await;
    assert!(all.len() >= 5, "{all:?}");
    let (dispatch, now) = (&guarded.host.dispatch, guarded.clock.now());
    forget(dispatch, Time(now.0 - 86_400_000)).await;
    assert_eq!(numbers().await, all);
    while guarded.clock.now() == now {
        tokio::task::yield_now().await;
    }
    // Each part that goes has an entry that says so.
    forget(dispatch, now.plus_ms(1)).await;
    let last = all[all.len() - 1];
    assert_eq!(numbers().await, [last + 1, last + 2]);
}
