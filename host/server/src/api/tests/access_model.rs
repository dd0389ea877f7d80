//! Who may do what, at each route and for each object, compared with a small model of verbs and scopes.

use axum::http::StatusCode;
use host_core::access::{Access, Verb};
use host_http::peer::Peer;
use host_testing::Random;
use serde_json::{Value, json};

use super::access::{Guarded, is_long};
use crate::api::routes;

const QUEUES: [&str; 2] = ["mail-eu", "web"];
const HANDLERS: [&str; 2] = ["noop", "a/b"];

/// The answer to a caller that sees the job.
const NO_ARTIFACT: &str = "artifact_not_found";

/// What a principal of the model may do.
struct Model {
    verbs: Vec<Verb>,
    queues: Vec<&'static str>,
    handlers: Vec<&'static str>,
    /// What it shows: a token, or the cookie of a session, which does the same.
    token: String,
}

impl Model {
    async fn random(guarded: &Guarded, random: &mut Random) -> Self {
        let mut verbs: Vec<Verb> = Verb::ALL.to_vec();
        verbs.retain(|_| random.below(2) == 0);
        if verbs.is_empty() {
            verbs.push(Verb::Read);
        }
        let mut pick = |globs: &[&'static str]| -> Vec<&'static str> {
            let picked = globs.iter().filter(|_| random.below(3) == 0);
            picked.copied().collect()
        };
        let queues = pick(&["mail-*", "web", "other"]);
        let handlers = pick(&["noop", "a/*", "typed"]);
        let names: Vec<&str> = verbs.iter().map(|verb| verb.as_str()).collect();
        let body = json!({"name": "one", "allow": names, "queues": queues, "handlers": handlers});
        let mut token = guarded.make(&body).await;
        if random.below(2) == 0 {
            token = guarded.session(&token).await;
        }
        Self {
            verbs,
            queues,
            handlers,
            token,
        }
    }

    fn has(globs: &[&str], name: &str) -> bool {
        globs.is_empty()
            || globs.iter().any(|glob| match glob.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => *glob == name,
            })
    }

    fn has_all(&self) -> bool {
        self.queues.is_empty() && self.handlers.is_empty()
    }

    fn sees(&self, queue: &str, handler: &str) -> bool {
        Self::has(&self.queues, queue) && Self::has(&self.handlers, handler)
    }

    /// Returns how a route must answer: with the code of a refusal, or `None`.
    fn expects(
        &self,
        access: Access,
        (method, path): (&str, &str),
        queue: &str,
        handler: &str,
    ) -> Option<&str> {
        let (verb, keeps_to_scopes) = match access {
            Access::Open | Access::AnyPrincipal | Access::Proof => return None,
            Access::Needs(verb) => (verb, false),
            Access::Scoped(verb) => (verb, true),
        };
        if !self.verbs.contains(&verb) || !(keeps_to_scopes || self.has_all()) {
            return Some("forbidden");
        }
        let is_below = |start: &str| path.starts_with(start);
        if is_below("/api/v1/schedules/{name}") {
            let is_set = method == "PUT";
            if is_set && !self.verbs.contains(&Verb::Enqueue) {
                return Some("forbidden");
            }
            let hidden = if is_set {
                "out_of_scope"
            } else {
                "schedule_not_found"
            };
            return (!self.sees(queue, handler)).then_some(hidden);
        }
        if is_below("/api/v1/jobs/{id}") && !self.sees(queue, handler) {
            return Some("job_not_found");
        }
        if is_below("/api/v1/queues/{name}") && !Self::has(&self.queues, queue) {
            return Some("queue_not_found");
        }
        if is_below("/api/v1/handlers/{name}") && !Self::has(&self.handlers, handler) {
            return Some("handler_not_found");
        }
        // The job was enqueued by another principal, and has not run.
        if path == "/api/v1/jobs/{id}/artifacts/{name}" {
            let sees_payload = self.verbs.contains(&Verb::ReadPayload);
            return Some(if sees_payload {
                NO_ARTIFACT
            } else {
                "forbidden"
            });
        }
        let brings_jobs = [
            "/api/v1/jobs",
            "/api/v1/batches",
            "/api/v1/batches/{id}/jobs",
        ];
        let brings_jobs = verb == Verb::Enqueue && brings_jobs.contains(&path);
        if brings_jobs && !self.sees(queue, handler) {
            return Some("out_of_scope");
        }
        // It was made by another principal.
        if is_below("/api/v1/batches/{id}") && !self.has_all() {
            return Some("batch_not_found");
        }
        if path == "/api/v1/state/{space}/value" && !self.sees_state(handler) {
            let is_set = method == "PUT";
            return Some(if is_set {
                "out_of_scope"
            } else {
                "state_not_found"
            });
        }
        // It allows to read these jobs.
        if is_below("/api/v1/tokens/{id}")
            && !(self.verbs.contains(&Verb::Read) && self.sees(queue, handler))
        {
            return Some("token_not_found");
        }
        None
    }

    fn sees_state(&self, handler: &str) -> bool {
        let is_named = !self.handlers.is_empty() && Self::has(&self.handlers, handler);
        self.has_all() || is_named
    }
}

/// Returns a body that the route takes.
pub(super) fn body_of(path: &str, queue: &str, handler: &str) -> Option<Value> {
    let job = json!({"queue": queue, "handler": handler});
    match path {
        "/api/v1/jobs" | "/api/v1/batches/{id}/jobs" => Some(job),
        "/api/v1/batches" => Some(json!({"open": true, "jobs": [job]})),
        "/api/v1/jobs/{id}/priority" | "/api/v1/jobs/priority" => Some(json!({"priority": 3})),
        "/api/v1/jobs/{id}/reschedule" => Some(json!({"delay_seconds": 9})),
        SCHEDULE => Some(json!({"when": {"every": "24h"}, "job": job})),
        "/api/v1/schedules/{name}/backfill" => {
            Some(json!({"from": "2026-01-01T00:00:00Z", "until": "2026-01-01T12:00:00Z"}))
        }
        "/api/v1/state/{space}/value" => Some(json!({"value": "v"})),
        "/api/v1/components/{name}/rollback" => Some(json!({"revision": 1})),
        // It makes nothing, because it has no name.
        "/api/v1/tokens" => Some(json!({"name": ""})),
        _ => None,
    }
}

/// Routes whose answer continues as long as a client listens.
pub(super) const STREAMS: [&str; 2] = ["/api/v1/events", "/live"];

/// What the paths of schedules begin with.
const SCHEDULE: &str = "/api/v1/schedules/{name}";

/// Returns the name of the schedule of jobs with this queue and handler.
fn schedule(queue: &str, handler: &str) -> String {
    format!("{queue}.{}", handler.replace('/', "."))
}

/// Makes an object for a route, as the administrator, and returns its name or id.
pub(super) async fn object(guarded: &Guarded, path: &str, queue: &str, handler: &str) -> String {
    let put = async |method, path: &str, body: Value| {
        let made = guarded
            .send(&guarded.admin, (method, path), Some(&body))
            .await;
        assert!([200, 201].contains(&made.status), "{path}: {made:?}");
        made.body
    };
    let body = body_of(path, queue, handler).unwrap_or_default();
    let is_below = |start: &str| path.starts_with(start);
    if is_below("/api/v1/jobs/{id}") {
        guarded.job(queue, handler).await
    } else if is_below("/api/v1/queues/") {
        queue.to_owned()
    } else if is_below("/api/v1/handlers/") {
        handler.to_owned()
    } else if is_below(SCHEDULE) {
        let name = schedule(queue, handler);
        let body = body_of(SCHEDULE, queue, handler).unwrap();
        put("PUT", &host_api::path::with_name(SCHEDULE, &name), body).await;
        name
    } else if is_below("/api/v1/batches/") {
        let made = put("POST", "/api/v1/batches", json!({"open": true})).await;
        made["batch"]["id"].as_str().unwrap().to_owned()
    } else if is_below("/api/v1/state/") {
        let space = format!("handler:{handler}");
        if !body.is_null() {
            put("PUT", &fill(path, &space), body).await;
        }
        space
    } else if is_below("/api/v1/tokens/{id}") {
        // It ends before the tokens of models, which may get its text.
        let token = json!({
            "name": "t", "allow": ["read"], "queues": [queue], "handlers": [handler], "expires_seconds": 3_600,
        });
        guarded.make(&token).await[4..16].to_owned()
    } else {
        "missing".to_owned()
    }
}

/// Puts an object into the place of a path, and adds what the route needs.
pub(super) fn fill(path: &str, object: &str) -> String {
    let mut filled = path.to_owned();
    while filled.contains('{') {
        filled = host_api::path::with_name(&filled, object);
    }
    let filled = filled.trim_end_matches('/');
    let changes_many = ["retry", "cancel", "purge", "priority"];
    match path.strip_prefix("/api/v1/jobs/") {
        Some("{id}/wait") => format!("{filled}?timeout_seconds=0"),
        Some(verb) if changes_many.contains(&verb) => format!("{filled}?state=available&limit=2"),
        _ if path.ends_with("/value") => format!("{filled}?key=k"),
        _ if path == "/" => path.to_owned(),
        _ => filled.to_owned(),
    }
}

/// Returns an id or a name that nothing has.
fn nothing_like(object: &str, path: &str) -> String {
    if path.starts_with("/api/v1/jobs/") || path.starts_with("/api/v1/batches/") {
        "01990f3c-1a2b-7000-8000-000000000001".to_owned()
    } else if path.starts_with("/api/v1/tokens/") {
        "0".repeat(object.len())
    } else if path.starts_with("/api/v1/state/") {
        "handler:missing".to_owned()
    } else {
        // No name is so near to it that it would be suggested.
        "xxxxxxxxxx".to_owned()
    }
}

/// The rights of many random principals, at each route, for each object: the host answers as the model.
#[tokio::test]
async fn each_route_answers_as_the_model_of_verbs_and_scopes() {
    let principals = if is_long() { 2_000 } else { 24 };
    let guarded = Guarded::start().await;
    for seed in 0..principals {
        let model = Model::random(&guarded, &mut Random::new(2 * seed + 1)).await;
        for (queue, handler) in QUEUES.iter().flat_map(|q| HANDLERS.map(|h| (*q, h))) {
            for route in routes::list() {
                // A session begins no other, and would end.
                let is_of_sessions = route.path.starts_with("/api/v1/sessions");
                let is_left_out = is_of_sessions && model.token.starts_with("host_session=");
                if !STREAMS.contains(&route.path) && !is_left_out {
                    let route = (route.access, route.method, route.path);
                    answers(&guarded, &model, route, (queue, handler)).await;
                }
            }
        }
        lists(&guarded, &model).await;
        pages(&guarded, &model).await;
        streams(&guarded, &model).await;
        wires(&guarded, &model).await;
    }
}

/// Principals without a token: the host's own user and root may do everything, other users and names of certificates
/// nothing that is not open to everybody.
#[tokio::test]
async fn without_a_token_only_the_own_user_of_the_machine_gets_in() {
    let guarded = Guarded::start().await;
    let own = rustix::process::geteuid().as_raw();
    let of_user = |uid| Peer {
        uid: Some(uid),
        ..Peer::default()
    };
    let named = Peer {
        certificate_name: Some("a.ci.example.com".into()),
        ..Peer::remote([127, 0, 0, 1].into())
    };
    let own_routes = routes::list()
        .into_iter()
        .map(|route| (route.method, route.path, route.access));
    for (method, path, access) in own_routes.chain(host_web::pages()) {
        // A session needs a token.
        if STREAMS.contains(&path) || path.starts_with("/api/v1/sessions") {
            continue;
        }
        let filled = fill(path, "missing");
        let body =
            body_of(path, QUEUES[0], HANDLERS[0]).filter(|_| !["GET", "DELETE"].contains(&method));
        for (peer, gets_in) in [
            (of_user(own), true),
            (of_user(0), true),
            (of_user(own + 1), false),
            (named.clone(), false),
        ] {
            let asked = (method, filled.as_str());
            let answer = guarded.send_from(peer.clone(), "", asked, body.as_ref());
            let status = answer.await.status;
            let is_refused = [401, 403].contains(&status);
            let expected = !gets_in && !matches!(access, Access::Open | Access::Proof);
            assert_eq!(is_refused, expected, "{method} {path} {peer:?}: {status}");
        }
    }
}

/// A route answers as the model says, for an object of this queue and handler.
async fn answers(
    guarded: &Guarded,
    model: &Model,
    (access, method, path): (Access, &'static str, &'static str),
    (queue, handler): (&str, &str),
) {
    let object = object(guarded, path, queue, handler).await;
    let filled = fill(path, &object);
    let body = body_of(path, queue, handler).filter(|_| !["GET", "DELETE"].contains(&method));
    let asked = (method, filled.as_str());
    let answer = guarded.send(&model.token, asked, body.as_ref()).await;
    let code = answer.body["code"].as_str();
    let context = format!("{asked:?} {:?} {queue} {handler}: {answer:?}", model.verbs);
    match model.expects(access, (method, path), queue, handler) {
        Some("forbidden") => {
            let detail = answer.fails(403, "forbidden");
            let verb = access.verb().unwrap();
            let lacks = !model.verbs.contains(&verb);
            let mut words = detail.split(|letter: char| !letter.is_alphabetic() && letter != '_');
            let names_it = words.any(|word| word == verb.as_str());
            assert_eq!(names_it, lacks, "{context}");
        }
        Some(expected) => assert_eq!(code, Some(expected), "{context}"),
        None => {
            let refused = [401, 403].contains(&answer.status);
            let is_hidden = object != "missing" && answer.status == 404;
            assert!(!refused && !is_hidden, "{context}");
        }
    }
    let is_hidden = |code: &str| code.ends_with("_not_found") && code != NO_ARTIFACT;
    if code.is_some_and(is_hidden) && object != "missing" {
        // No oracle: it reads as an id or a name that nothing has.
        let nothing = nothing_like(&object, path);
        let other = fill(path, &nothing);
        let missing = guarded
            .send(&model.token, (method, &other), body.as_ref())
            .await
            .text;
        assert_eq!(missing.replace(&nothing, &object), answer.text, "{context}");
    }
    if path.starts_with("/api/v1/tokens/{id}") {
        // There may be only so many.
        let revoke = ("DELETE", &*format!("/api/v1/tokens/{object}"));
        guarded.send(&guarded.admin, revoke, None).await;
    }
}

/// Streams begin only for principals with their verbs.
async fn streams(guarded: &Guarded, model: &Model) {
    let own = routes::list()
        .into_iter()
        .map(|route| (route.method, route.path, route.access));
    for (method, path, access) in own.chain(host_web::pages()) {
        if STREAMS.contains(&path) {
            let expected = model.expects(access, (method, path), "", "");
            let status = guarded.open(&model.token, path).await.status();
            let expected = if expected.is_some() { 403 } else { 200 };
            assert_eq!(status, expected, "{path} {:?}", model.verbs);
        }
    }
}

/// The routes of wires need verbs like others, or check proofs of their own: there a token of the API changes nothing.
async fn wires(guarded: &Guarded, model: &Model) {
    for (method, path, access) in &guarded.of_wires {
        let filled = fill(path, "missing");
        let asked = (*method, filled.as_str());
        let body = json!({});
        let body = Some(&body).filter(|_| *method == "POST");
        let one = guarded.send(&model.token, asked, body).await;
        let context = format!("{asked:?} {:?}: {one:?}", model.verbs);
        if *access == Access::Proof {
            let none = guarded.send("", asked, body).await;
            assert_eq!((one.status, &one.text), (none.status, &none.text), "{path}");
        } else if model.expects(*access, (method, path), "", "").is_some() {
            assert_eq!(one.status, 403, "{context}");
        } else {
            assert!(![401, 403].contains(&one.status), "{context}");
        }
    }
}

/// Pages let in those whom their verbs and scopes let in.
async fn pages(guarded: &Guarded, model: &Model) {
    for (method, path, access) in host_web::pages().filter(|(_, path, _)| !STREAMS.contains(path)) {
        let filled = fill(path, "missing");
        let answer = guarded.send(&model.token, (method, &filled), None).await;
        let context = format!("{method} {filled} {:?}: {}", model.verbs, answer.status);
        match model.expects(access, (method, path), "", "") {
            Some(_) => assert_eq!(answer.status, 403, "{context}"),
            // Forms need what a form sends.
            None if method == "POST" => assert_eq!(answer.status, 415, "{context}"),
            None => assert!([200, 404].contains(&answer.status), "{context}"),
        }
    }
}

/// Lists and counts show what the scope has, and all of it.
async fn lists(guarded: &Guarded, model: &Model) {
    if !model.verbs.contains(&Verb::Read) {
        return;
    }
    let list = async |token: &str, path: &str| {
        let mut items = Vec::new();
        let mut cursor = String::new();
        loop {
            let whole = format!("{path}{cursor}");
            let page = guarded
                .send(token, ("GET", &whole), None)
                .await
                .is(StatusCode::OK)
                .body;
            items.extend(page["items"].as_array().unwrap().clone());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return items,
            }
        }
    };
    let jobs = "/api/v1/jobs?limit=1000";
    let all = list(&guarded.admin, jobs).await;
    let text = |job: &Value, key: &str| job[key].as_str().unwrap().to_owned();
    let mut expected = all;
    expected.retain(|job| model.sees(&text(job, "queue"), &text(job, "handler")));
    let ids = |jobs: &[Value]| jobs.iter().map(|job| text(job, "id")).collect::<Vec<_>>();
    let seen = list(&model.token, jobs).await;
    assert_eq!(ids(&seen), ids(&expected));
    let counted = ("GET", "/api/v1/jobs/count");
    let counted = guarded.send(&model.token, counted, None).await.body;
    assert_eq!(counted["jobs"], expected.len());
    let names = |items: &[Value]| items.iter().map(|it| text(it, "name")).collect::<Vec<_>>();
    let of_schedules = |scoped: &str| format!("/api/v1/schedules?{scoped}");
    let mut expected = list(&guarded.admin, &of_schedules("limit=1000")).await;
    expected.retain(|it| {
        let job = &it["schedule"]["job"];
        model.sees(&text(job, "queue"), &text(job, "handler"))
    });
    // Page by page: a cursor names a schedule, and none that is hidden.
    let seen = list(&model.token, &of_schedules("limit=1")).await;
    assert_eq!(names(&seen), names(&expected));
    for (path, globs) in [
        ("/api/v1/queues?", &model.queues),
        ("/api/v1/handlers?", &model.handlers),
    ] {
        let mut expected = names(&list(&guarded.admin, path).await);
        expected.retain(|name| Model::has(globs, name));
        assert_eq!(names(&list(&model.token, path).await), expected, "{path}");
    }
}

#[tokio::test]
async fn changes_of_many_jobs_keep_to_the_scope() {
    let guarded = Guarded::start().await;
    let body = json!({"name": "m", "role": "operator", "queues": ["mail-*"], "handlers": ["noop"]});
    let token = guarded.make(&body).await;
    let jobs = [("mail-eu", "noop"), ("mail-eu", "a/b"), ("web", "noop")];
    let mut ids = Vec::new();
    for (queue, handler) in jobs {
        ids.push(guarded.job(queue, handler).await);
    }
    let seen = async |field: &str| {
        let mut seen = Vec::new();
        for id in &ids {
            let path = format!("/api/v1/jobs/{id}");
            let job = guarded.send(&guarded.admin, ("GET", &path), None).await;
            seen.push(job.body[field].clone());
        }
        seen
    };
    let change = async |token: &str, change: &str, body: Value| {
        let path = format!("/api/v1/jobs/{change}");
        let changed = guarded.send(token, ("POST", &path), Some(&body)).await;
        changed.is(StatusCode::OK).body["changed"].clone()
    };
    let none = json!({});
    assert_eq!(
        change(&token, "priority?state=available", json!({"priority": 1})).await,
        1
    );
    let [own, others @ ..] = &seen("priority").await[..] else {
        panic!("three jobs");
    };
    assert_eq!(*own, 1);
    assert!(others.iter().all(|priority| *priority != 1), "{others:?}");
    assert_eq!(
        change(&token, "cancel?state=available", none.clone()).await,
        1
    );
    assert_eq!(seen("state").await, ["cancelled", "available", "available"]);
    assert_eq!(
        change(&guarded.admin, "cancel?state=available", none.clone()).await,
        2
    );
    assert_eq!(
        change(&token, "retry?state=cancelled", none.clone()).await,
        1
    );
    assert_eq!(seen("state").await, ["available", "cancelled", "cancelled"]);
    assert_eq!(
        change(&guarded.admin, "cancel?state=available", none.clone()).await,
        1
    );
    assert_eq!(change(&token, "purge?state=cancelled", none).await, 1);
    assert_eq!(
        seen("state").await,
        [json!(null), json!("cancelled"), json!("cancelled")]
    );
}
