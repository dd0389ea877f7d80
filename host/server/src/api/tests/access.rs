//! Tokens at the whole API: who gets in, what they see, and when it ends.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request as HttpRequest, StatusCode};
use axum::response::Response;
use host_core::access::{Access, Role, Verb};
use host_dispatch::numbers::Numbers;
use host_engine::token::{TokenId, TokenText, token_id};
use host_http::peer::Peer;
use host_http::share::STREAMS_MAX;
use host_runtime::clock::Clock;
use host_testing::Random;
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::fixture::{Answer, Host, call};
use crate::auth::{ADMIN_TOKEN, Auth, AuthMode};

/// A host that asks for tokens, and its first one.
pub(super) struct Guarded {
    pub(super) host: Host,
    /// The routes of wires: method, path, and who may use each.
    pub(super) of_wires: Vec<(&'static str, &'static str, Access)>,
    pub(super) auth: Auth,
    pub(super) numbers: Numbers,
    pub(super) clock: Clock,
    pub(super) admin: String,
    folder: TempDir,
}

impl Guarded {
    pub(super) async fn start() -> Self {
        let (mut kept, mut of_wires) = (None, Vec::new());
        let host = Host::start_as(|api| {
            let routes = api.wire_routes.iter().flat_map(|group| &group.routes);
            of_wires.extend(routes.map(|route| (route.method, route.path, route.access)));
            api.auth = Auth::new(AuthMode::Tokens, api.dispatch.clone(), api.clock);
            kept = Some((api.auth.clone(), api.numbers.clone(), api.clock));
        })
        .await;
        let ((auth, numbers, clock), folder) = (kept.unwrap(), TempDir::new().unwrap());
        let path = folder.path().join(ADMIN_TOKEN);
        auth.start(&path).await.unwrap();
        let admin = std::fs::read_to_string(path).unwrap().trim().to_owned();
        Self {
            host,
            of_wires,
            auth,
            numbers,
            clock,
            admin,
            folder,
        }
    }

    /// Sends a request with a token, or with none.
    pub(super) async fn send(
        &self,
        token: &str,
        (method, path): (&str, &str),
        body: Option<&Value>,
    ) -> Answer {
        self.send_from(Peer::default(), token, (method, path), body)
            .await
    }

    pub(super) async fn send_from(
        &self,
        peer: Peer,
        token: &str,
        (method, path): (&str, &str),
        body: Option<&Value>,
    ) -> Answer {
        let mut request = HttpRequest::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1:7700")
            .extension(peer);
        if !token.is_empty() {
            let (name, value) = proof(token);
            request = request.header(name, value);
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        } else if method == "PUT" {
            request = request.header("content-type", "application/wasm");
        }
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        call(&self.host.router, request.body(body).unwrap()).await
    }

    /// Asks with a token for an answer that may continue. A stream tells all that has happened.
    pub(super) async fn open(&self, token: &str, path: &str) -> Response {
        let request = HttpRequest::get(path)
            .header("host", "127.0.0.1:7700")
            .header(proof(token).0, proof(token).1)
            .header("last-event-id", "0");
        let service = TowerToHyperService::new(self.host.router.clone());
        let asked = service.call(request.body(Body::empty()).unwrap());
        asked.await.unwrap()
    }

    /// Reads a stream of what has happened until now, and stops the host.
    pub(super) async fn streamed(&self, token: &str, path: &str) -> String {
        let stream = self.open(token, path).await;
        assert_eq!(stream.status(), 200);
        self.host.tasks.stop();
        let all = tokio::time::timeout(Duration::from_secs(30), stream.into_body().collect())
            .await
            .expect("a stream ends when the host stops");
        String::from_utf8(all.unwrap().to_bytes().to_vec()).unwrap()
    }

    /// Makes a token as the administrator.
    pub(super) async fn make(&self, body: &Value) -> String {
        let made = self
            .send(&self.admin, ("POST", "/api/v1/tokens"), Some(body))
            .await
            .is(StatusCode::CREATED);
        made.body["token"].as_str().unwrap().to_owned()
    }

    /// Begins a session with a token, and returns its cookie.
    pub(super) async fn session(&self, token: &str) -> String {
        let begun = self
            .send(token, ("POST", "/api/v1/sessions"), None)
            .await
            .is(StatusCode::CREATED);
        let set = begun.headers["set-cookie"].to_str().unwrap();
        set.split(';').next().unwrap().to_owned()
    }

    /// Enqueues a job as the administrator, and returns its id.
    pub(super) async fn job(&self, queue: &str, handler: &str) -> String {
        let body = json!({"queue": queue, "handler": handler});
        let made = self
            .send(&self.admin, ("POST", "/api/v1/jobs"), Some(&body))
            .await
            .is(StatusCode::CREATED);
        made.body["id"].as_str().unwrap().to_owned()
    }
}

/// Returns the header that shows a token, or the cookie of a session.
pub(super) fn proof(token: &str) -> (&'static str, String) {
    if token.starts_with("host_session=") {
        ("cookie", token.to_owned())
    } else {
        ("authorization", format!("Bearer {token}"))
    }
}

/// Whether tests go through all that they can.
#[expect(clippy::disallowed_methods, reason = "it is for tests only")]
pub(super) fn is_long() -> bool {
    std::env::var_os("HOST_LONG_TESTS").is_some()
}

#[tokio::test]
async fn no_token_and_a_wrong_one_look_the_same() {
    let guarded = Guarded::start().await;
    let path = ("GET", "/api/v1/jobs");
    let none = guarded.send("", path, None).await;
    none.fails(401, "unauthenticated");
    assert_eq!(none.headers["www-authenticate"], "Bearer realm=\"host\"");
    let mut last = guarded.admin.clone();
    let end = if last.ends_with('0') { "1" } else { "0" };
    last.replace_range(last.len() - 1.., end);
    let unknown = "hst_000000000000_0000000000000000000000000000000000000000000000000";
    for wrong in ["x", "hst_", unknown, &last, &guarded.admin.to_lowercase()] {
        let answer = guarded.send(wrong, path, None).await;
        assert_eq!((answer.status, &answer.text), (401, &none.text), "{wrong}");
        assert_eq!(answer.headers, none.headers, "{wrong}");
    }
    guarded
        .send(&guarded.admin, path, None)
        .await
        .is(StatusCode::OK);
    // What says nothing about jobs needs no token.
    for open in ["/healthz", "/readyz", "/api/v1/openapi.json"] {
        let answer = guarded.send("", ("GET", open), None).await;
        answer.is(StatusCode::OK);
    }
}

/// Mutations of a real token, and random texts of its form: none is accepted, and all answers are the same.
#[tokio::test]
async fn no_mutated_token_is_accepted() {
    let tries = if is_long() { 1_000_000 } else { 3_000 };
    let guarded = Guarded::start().await;
    let path = ("GET", "/api/v1/tokens/self");
    let expected = guarded.send("x", path, None).await;
    let mut random = Random::new(77);
    let digits = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for n in 0..tries {
        let mut text = guarded.admin.clone().into_bytes();
        let changes = 1 + random.below(if n % 2 == 0 { 2 } else { 60 });
        for _ in 0..changes {
            let at = usize::try_from(random.below(text.len() as u64)).unwrap();
            text[at] = digits[usize::try_from(random.below(62)).unwrap()];
        }
        match n % 7 {
            0 => text.truncate(usize::try_from(random.below(66)).unwrap()),
            1 => text.extend(b"0"),
            _ => {}
        }
        let text = String::from_utf8(text).unwrap();
        if text == guarded.admin || text.is_empty() {
            continue;
        }
        let answer = guarded.send(&text, path, None).await;
        assert_eq!((answer.status, &answer.text), (401, &expected.text));
        assert_eq!(answer.headers, expected.headers);
    }
    guarded
        .send(&guarded.admin, path, None)
        .await
        .is(StatusCode::OK);
}

#[tokio::test]
async fn ten_wrong_tokens_put_off_wrong_ones_of_their_address_alone() {
    let path = ("GET", "/api/v1/jobs");
    let peer = |n: u8| Peer::remote(std::net::IpAddr::from([192, 0, 2, n]));
    // A host of its own for each, because a host looks up only so many unknown tokens a second.
    for kind in ["no token", "revoked", "unknown", "from elsewhere"] {
        let guarded = Guarded::start().await;
        let from = json!({"name": "w", "role": "viewer", "from": ["10.0.0.0/8"]});
        let wrong = match kind {
            "no token" => "wrong".to_owned(),
            "unknown" => TokenText::new(&token_id(&[7; 32]), &[8; 32])
                .expose()
                .to_owned(),
            _ => guarded.make(&from).await,
        };
        if kind == "revoked" {
            let revoke = format!("/api/v1/tokens/{}", &wrong[4..16]);
            let revoked = guarded.send(&guarded.admin, ("DELETE", &revoke), None);
            revoked.await.is(StatusCode::OK);
        }
        for n in 1..=10 {
            let answer = guarded.send_from(peer(1), &wrong, path, None).await;
            assert_eq!(answer.status, 401, "{kind}, request {n}: {answer:?}");
        }
        let slowed = guarded.send_from(peer(1), &wrong, path, None).await;
        slowed.fails(429, "too_many_wrong_tokens");
        let seconds: u32 = slowed.headers["retry-after"]
            .to_str()
            .unwrap()
            .parse()
            .unwrap();
        assert!((1..=60).contains(&seconds), "{seconds}");
        // What is right counts, at this address too.
        for n in [1, 2] {
            let right = guarded.send_from(peer(n), &guarded.admin, path, None).await;
            right.is(StatusCode::OK);
        }
        // Another wrong token has a count of its own, whether or not there is one with its id.
        for id in [guarded.admin[4..16].to_owned(), "unknownidabc".to_owned()] {
            let id = TokenId::try_from(id).unwrap();
            let guess = TokenText::new(&id, &[9; 32]);
            let answer = guarded.send_from(peer(1), guess.expose(), path, None).await;
            assert_eq!(answer.status, 401, "{kind}: {answer:?}");
        }
        let elsewhere = guarded.send_from(peer(2), &wrong, path, None).await;
        assert_eq!(elsewhere.status, 401, "{kind}");
    }
}

#[tokio::test]
async fn the_users_of_the_host_and_root_are_administrators_on_the_local_socket() {
    let guarded = Guarded::start().await;
    let own = rustix::process::geteuid().as_raw();
    let path = ("GET", "/api/v1/tokens/self");
    for uid in [own, 0] {
        let answer = guarded.send_from(Peer::local(uid), "", path, None).await;
        let view = answer.is(StatusCode::OK).body;
        assert_eq!(view["principal"], format!("uid:{uid}"));
        assert_eq!(view["verbs"].as_array().unwrap().len(), Verb::ALL.len());
    }
    let other = guarded
        .send_from(Peer::local(own + 1), "", path, None)
        .await;
    other.fails(401, "unauthenticated");
    // A request with a token has what the token allows there, too.
    let viewer = guarded.make(&json!({"name": "v", "role": "viewer"})).await;
    let answer = guarded
        .send_from(Peer::local(own), &viewer, path, None)
        .await;
    assert_eq!(answer.body["verbs"], json!(["read", "metrics"]));
}

#[tokio::test]
async fn a_token_makes_only_narrower_tokens() {
    let guarded = Guarded::start().await;
    let narrow = json!({
        "name": "team", "allow": ["tokens", "enqueue", "read"], "queues": ["mail-*"],
        "from": ["10.0.0.0/8"], "rate": 50, "max_waiting": 100, "expires_seconds": 3_600,
    });
    let team = guarded.make(&narrow).await;
    let peer = Peer::remote(std::net::IpAddr::from([10, 1, 1, 1]));
    let make = async |change: Value| {
        let mut body = json!({
            "name": "sub", "allow": ["enqueue"], "queues": ["mail-eu"], "from": ["10.1.0.0/16"],
            "rate": 10, "max_waiting": 5, "expires_seconds": 60,
        });
        for (key, value) in change.as_object().unwrap() {
            body[key] = value.clone();
        }
        guarded
            .send_from(peer.clone(), &team, ("POST", "/api/v1/tokens"), Some(&body))
            .await
    };
    for more in [
        json!({"allow": ["enqueue", "cancel"]}),
        json!({"role": "admin"}),
        json!({"queues": []}),
        json!({"queues": ["mail*"]}),
        json!({"queues": ["mail-eu", "web"]}),
        json!({"from": []}),
        json!({"from": ["10.0.0.0/7"]}),
        json!({"rate": 51}),
        json!({"rate": null}),
        json!({"max_waiting": 101}),
        json!({"max_waiting": null}),
        json!({"expires_seconds": 7_200}),
    ] {
        let answer = make(more.clone()).await;
        assert_eq!(answer.body["code"], "token_too_broad", "{more} {answer:?}");
    }
    let usual = make(json!({"expires_seconds": null}))
        .await
        .is(StatusCode::CREATED)
        .body;
    let own = guarded
        .send_from(peer.clone(), &team, ("GET", "/api/v1/tokens/self"), None)
        .await
        .body;
    assert_eq!(usual["expires_at"], own["token"]["expires_at"]);
    let id = usual["id"].as_str().unwrap();
    let revoked = ("DELETE", &*format!("/api/v1/tokens/{id}"));
    let revoked = guarded.send_from(peer.clone(), &team, revoked, None).await;
    revoked.is(StatusCode::OK);
    let narrower = make(json!({})).await.is(StatusCode::CREATED).body;
    // It sees and changes only tokens that are not above it.
    let listed = guarded
        .send_from(peer.clone(), &team, ("GET", "/api/v1/tokens"), None)
        .await;
    let names: Vec<&Value> = listed.body["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let admin_id = &guarded.admin[4..16];
    for (method, path) in [
        ("GET", format!("/api/v1/tokens/{admin_id}")),
        ("DELETE", format!("/api/v1/tokens/{admin_id}")),
        ("POST", format!("/api/v1/tokens/{admin_id}/rotate")),
    ] {
        let answer = guarded
            .send_from(peer.clone(), &team, (method, &path), None)
            .await;
        answer.fails(404, "token_not_found");
    }
    // It gets the text of no token that lasts longer than those it could make.
    let mut lasting = narrow.clone();
    lasting["expires_seconds"] = json!(7_200);
    let lasting = guarded.make(&lasting).await;
    let rotate = |id: &str| format!("/api/v1/tokens/{id}/rotate");
    for (id, status) in [
        (&lasting[4..16], 403),
        (narrower["id"].as_str().unwrap(), 200),
    ] {
        let path = rotate(id);
        let rotated = guarded
            .send_from(peer.clone(), &team, ("POST", &path), None)
            .await;
        assert_eq!(rotated.status, status, "{rotated:?}");
    }
    let id = narrower["id"].as_str().unwrap();
    let revoked = format!("/api/v1/tokens/{id}");
    guarded
        .send_from(peer.clone(), &team, ("DELETE", &revoked), None)
        .await
        .is(StatusCode::OK);
    // It is not for other networks.
    let away = guarded
        .send(&team, ("GET", "/api/v1/tokens/self"), None)
        .await;
    away.fails(401, "unauthenticated");
}

#[tokio::test]
async fn a_revoked_token_lets_nobody_in_and_ends_what_it_has_open() {
    let guarded = Guarded::start().await;
    let token = guarded
        .make(&json!({"name": "w", "role": "operator"}))
        .await;
    let id = guarded.job("web", "noop").await;
    let wait = format!("/api/v1/jobs/{id}/wait?timeout_seconds=60");
    let stream = guarded.open(&token, "/api/v1/events").await;
    assert_eq!(stream.status(), 200);
    let waiting = guarded.send(&token, ("GET", &wait), None);
    let revoking = async {
        // The request waits by then, except on a slow machine: it has the same answer there.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let path = format!("/api/v1/tokens/{}", &token[4..16]);
        guarded
            .send(&guarded.admin, ("DELETE", &path), None)
            .await
            .is(StatusCode::OK);
    };
    let all = async { tokio::join!(waiting, stream.into_body().collect(), revoking) };
    let (waited, streamed, ()) = tokio::time::timeout(Duration::from_secs(30), all)
        .await
        .expect("both end with the token");
    waited.fails(401, "unauthenticated");
    streamed.unwrap();
    let after = guarded.send(&token, ("GET", "/api/v1/jobs"), None).await;
    after.fails(401, "unauthenticated");
}

#[tokio::test]
async fn jobs_out_of_scope_are_no_prerequisites_and_hold_no_keys() {
    let guarded = Guarded::start().await;
    let body = json!({"name": "m", "role": "producer", "handlers": ["noop"]});
    let token = guarded.make(&body).await;
    let hidden = guarded.job("web", "a/b").await;
    let unknown = "01990f3c-1a2b-7000-8000-000000000001";
    let enqueue = async |token: &str, body: Value| {
        guarded
            .send(token, ("POST", "/api/v1/jobs"), Some(&body))
            .await
    };
    let on = |id: &str| json!({"handler": "noop", "depends_on": [id]});
    let refused = enqueue(&token, on(&hidden)).await;
    refused.fails(422, "unknown_prerequisite");
    let missing = enqueue(&token, on(unknown)).await;
    assert_eq!(missing.text.replace(unknown, &hidden), refused.text);
    // In arrays each job is checked, and none is kept if one is refused.
    let array = json!([{"handler": "noop"}, {"handler": "a/b"}]);
    let answer = enqueue(&token, array).await;
    assert!(answer.fails(403, "out_of_scope").starts_with("#1"));
    let keyed = |handler: &str| json!({"handler": handler, "queue": "q", "unique_key": "k"});
    enqueue(&guarded.admin, keyed("a/b"))
        .await
        .is(StatusCode::CREATED);
    let own = enqueue(&token, keyed("noop"))
        .await
        .is(StatusCode::CREATED)
        .body;
    let again = enqueue(&token, keyed("noop")).await;
    assert_eq!(again.is(StatusCode::OK).body["id"], own["id"]);
    let shown = format!("/api/v1/jobs/{}", own["id"].as_str().unwrap());
    let shown = guarded.send(&token, ("GET", &shown), None).await.body;
    assert_eq!(shown["created_by"], format!("token:{}", &token[4..16]));
}

#[tokio::test]
async fn events_and_numbers_keep_to_the_scope() {
    let guarded = Guarded::start().await;
    let body = json!({"name": "m", "allow": ["read", "metrics"], "queues": ["mail-*"]});
    let token = guarded.make(&body).await;
    guarded.job("web", "noop").await;
    guarded.job("mail-eu", "noop").await;
    let numbers = guarded
        .send(&token, ("GET", "/metrics"), None)
        .await
        .is(StatusCode::OK)
        .text;
    assert!(numbers.contains("queue=\"mail-eu\"") && !numbers.contains("\"web\""));
    let all = guarded
        .send(&guarded.admin, ("GET", "/metrics"), None)
        .await;
    assert!(all.text.contains("queue=\"web\""));
    let events = guarded.streamed(&token, "/api/v1/events").await;
    assert!(events.contains("mail-eu"), "{events}");
    assert!(!events.contains("web"), "{events}");
}

#[tokio::test]
async fn state_keeps_to_the_handlers_of_the_scope() {
    let guarded = Guarded::start().await;
    let put = async |token: &str, space: &str| {
        let path = format!("/api/v1/state/{space}/value?key=k");
        let request = HttpRequest::put(path)
            .header("host", "127.0.0.1:7700")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json");
        let body = Body::from(json!({"value": "v"}).to_string());
        call(&guarded.host.router, request.body(body).unwrap()).await
    };
    for space in ["handler:noop", "handler:typed", "shared:all"] {
        put(&guarded.admin, space).await.is(StatusCode::OK);
    }
    let body = json!({"name": "s", "role": "operator", "handlers": ["noop"]});
    let token = guarded.make(&body).await;
    let listed = guarded
        .send(&token, ("GET", "/api/v1/state?limit=1"), None)
        .await
        .is(StatusCode::OK)
        .body;
    assert_eq!(listed["items"][0]["space"], "handler:noop");
    let rest = ("GET", "/api/v1/state?cursor=handler:noop");
    let rest = guarded.send(&token, rest, None).await.body;
    assert_eq!(rest["items"], json!([]));
    put(&token, "handler:noop").await.is(StatusCode::OK);
    for space in ["handler:typed", "shared:all", "handler:missing"] {
        let path = format!("/api/v1/state/{space}");
        let keys = guarded.send(&token, ("GET", &path), None).await;
        assert_eq!(keys.is(StatusCode::OK).body["items"], json!([]), "{space}");
        let removed = guarded.send(&token, ("DELETE", &path), None).await;
        assert_eq!(removed.is(StatusCode::OK).body["removed"], 0, "{space}");
        let value = format!("{path}/value?key=k");
        for method in ["GET", "DELETE"] {
            let missing = guarded.send(&token, (method, &value), None).await;
            missing.fails(404, "state_not_found");
        }
        put(&token, space).await.fails(403, "out_of_scope");
    }
    let body = json!({"name": "q", "role": "operator", "queues": ["mail-*"]});
    let of_queues = guarded.make(&body).await;
    let listed = guarded.send(&of_queues, ("GET", "/api/v1/state"), None);
    assert_eq!(listed.await.is(StatusCode::OK).body["items"], json!([]));
    put(&of_queues, "handler:noop")
        .await
        .fails(403, "out_of_scope");
    let kept = "/api/v1/state/handler:typed/value?key=k";
    let kept = guarded.send(&guarded.admin, ("GET", kept), None).await;
    assert_eq!(kept.is(StatusCode::OK).body["value"], "v");
    let audit = guarded.send(&guarded.admin, ("GET", "/api/v1/audit"), None);
    assert!(audit.await.text.contains("state handler:noop"));
}

#[tokio::test]
async fn one_token_leaves_streams_and_memory_for_others() {
    let guarded = Guarded::start().await;
    let viewer = json!({"name": "v", "role": "viewer"});
    let (one, two) = (guarded.make(&viewer).await, guarded.make(&viewer).await);
    let open = async |token: &str| guarded.open(token, "/api/v1/events").await;
    let mut streams = Vec::new();
    for _ in 0..STREAMS_MAX {
        let stream = open(&one).await;
        assert_eq!(stream.status(), 200);
        streams.push(stream);
    }
    assert_eq!(open(&one).await.status(), 429);
    assert_eq!(open(&two).await.status(), 200);
    let own = ("GET", "/api/v1/tokens/self");
    let share = guarded.send(&one, own, None).await.body["share"].clone();
    assert_eq!(
        (&share["streams"], &share["streams_max"]),
        (&json!(STREAMS_MAX), &json!(STREAMS_MAX))
    );
    assert_eq!(share["body_bytes"], 0);
    assert_eq!(share["body_bytes_max"], 128 << 20);
    streams.pop();
    assert_eq!(open(&one).await.status(), 200);
}

#[tokio::test]
async fn the_first_token_is_for_the_hosts_user_alone_and_is_made_once() {
    use std::os::unix::fs::MetadataExt as _;
    let guarded = Guarded::start().await;
    let path = guarded.folder.path().join(ADMIN_TOKEN);
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    assert!(TokenText::read(&guarded.admin).is_some());
    std::fs::remove_file(&path).unwrap();
    guarded.auth.start(&path).await.unwrap();
    assert!(!path.exists(), "there is one that can make others");
    let own = ("GET", "/api/v1/tokens/self");
    let own = guarded.send(&guarded.admin, own, None).await.body;
    assert_eq!(own["token"]["created_by"], "host");
    assert_eq!(
        own["verbs"].as_array().unwrap().len(),
        Role::Admin.verbs().iter().count()
    );
}
