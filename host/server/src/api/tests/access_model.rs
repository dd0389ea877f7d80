//! Who may do what, at each route and for each object, compared with a small model of verbs and scopes.

use axum::http::StatusCode;
use host_core::access::{Access, Verb};
use host_testing::Random;
use serde_json::{Value, json};

use super::access::{Guarded, is_long};
use crate::api::routes;

const QUEUES: [&str; 2] = ["mail-eu", "web"];
const HANDLERS: [&str; 2] = ["noop", "a/b"];

/// What a principal of the model may do.
struct Model {
    verbs: Vec<Verb>,
    queues: Vec<&'static str>,
    handlers: Vec<&'static str>,
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
        let token = guarded.make(&body).await;
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
            Access::Open | Access::Known | Access::Proof => return None,
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
        if (access, path) == (Access::Scoped(Verb::Enqueue), "/api/v1/jobs")
            && !self.sees(queue, handler)
        {
            return Some("out_of_scope");
        }
        None
    }
}

/// Returns a body that the route takes.
fn body_of(path: &str, queue: &str, handler: &str) -> Option<Value> {
    match path {
        "/api/v1/jobs" => Some(json!({"queue": queue, "handler": handler})),
        "/api/v1/jobs/{id}/priority" => Some(json!({"priority": 3})),
        "/api/v1/jobs/{id}/reschedule" => Some(json!({"delay_seconds": 9})),
        "/api/v1/schedules/{name}" => {
            let job = json!({"queue": queue, "handler": handler});
            Some(json!({"when": {"every": "24h"}, "job": job}))
        }
        "/api/v1/schedules/{name}/backfill" => {
            Some(json!({"from": "2026-01-01T00:00:00Z", "until": "2026-01-01T12:00:00Z"}))
        }
        "/api/v1/components/{name}/rollback" => Some(json!({"revision": 1})),
        // It makes nothing, because it has no name.
        "/api/v1/tokens" => Some(json!({"name": ""})),
        _ => None,
    }
}

/// Whether a route answers after a while, or changes the host for the routes after it.
fn is_apart(path: &str) -> bool {
    ["/api/v1/events", "/api/v1/components/{name}"].contains(&path) || path.ends_with("/drain")
}

/// What the paths of schedules begin with.
const SCHEDULE: &str = "/api/v1/schedules/{name}";

/// Returns the name of the schedule of jobs with this queue and handler.
fn schedule(queue: &str, handler: &str) -> String {
    format!("{queue}.{}", handler.replace('/', "."))
}

/// Puts an object into the place of a path.
fn fill(path: &str, job: &str, queue: &str, handler: &str) -> String {
    let name = match path {
        _ if path.starts_with("/api/v1/jobs/") => job,
        _ if path.starts_with("/api/v1/queues/") => queue,
        _ if path.starts_with("/api/v1/handlers/") => handler,
        _ if path.starts_with(SCHEDULE) => &schedule(queue, handler),
        _ => "nobody",
    };
    let filled = host_api::path::of(path, name);
    let filled = filled.trim_end_matches('/').to_owned();
    if !path.contains('{') {
        return path.to_owned();
    }
    match path {
        "/api/v1/jobs/{id}/wait" => format!("{filled}?timeout_seconds=0"),
        _ => filled,
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
            for route in routes::all() {
                let (access, path) = (route.access, route.path);
                if is_apart(path) {
                    continue;
                }
                let needs_job = path.starts_with("/api/v1/jobs/{id}");
                let job = if needs_job {
                    guarded.job(queue, handler).await
                } else {
                    String::new()
                };
                let filled = fill(path, &job, queue, handler);
                if path.starts_with(SCHEDULE) {
                    let set = fill(SCHEDULE, "", queue, handler);
                    let body = body_of(SCHEDULE, queue, handler);
                    let set = guarded.send(&guarded.admin, ("PUT", &set), body.as_ref());
                    set.await.is(StatusCode::OK);
                }
                let body = body_of(path, queue, handler);
                let body = body.filter(|_| route.method != "GET");
                let asked = (route.method, filled.as_str());
                let answer = guarded.send(&model.token, asked, body.as_ref()).await;
                let code = answer.body["code"].as_str();
                let context = format!("{asked:?} {:?} {queue} {handler}: {answer:?}", model.verbs);
                match model.expects(access, (route.method, path), queue, handler) {
                    Some("forbidden") => {
                        let detail = answer.refused(403, "forbidden");
                        let verb = access.verb().unwrap();
                        let lacks = !model.verbs.contains(&verb);
                        assert_eq!(detail.contains(verb.as_str()), lacks, "{context}");
                    }
                    Some("schedule_not_found") => {
                        assert_eq!(code, Some("schedule_not_found"), "{context}");
                        // No oracle: it reads as a name that no schedule has.
                        let name = schedule(queue, handler);
                        let other = filled.replace(&name, "nobody");
                        let asked = (route.method, other.as_str());
                        let missing = guarded.send(&model.token, asked, body.as_ref()).await;
                        assert_eq!(missing.text.replace("nobody", &name), answer.text);
                    }
                    Some(expected) => assert_eq!(code, Some(expected), "{context}"),
                    None => {
                        let refused = [401, 403].contains(&answer.status);
                        let names = needs_job && answer.status == 404;
                        assert!(!refused && !names, "{context}");
                    }
                }
                if code == Some("job_not_found") {
                    // No oracle: it reads as an id that nobody has.
                    let nobody = "01990f3c-1a2b-7000-8000-000000000001";
                    let other = fill(path, nobody, queue, handler);
                    let asked = (route.method, other.as_str());
                    let missing = guarded.send(&model.token, asked, body.as_ref()).await;
                    assert_eq!(missing.text.replace(nobody, &job), answer.text);
                }
            }
        }
        lists(&guarded, &model).await;
        pages(&guarded, &model).await;
    }
}

/// Pages let in those whom their verbs and scopes let in.
async fn pages(guarded: &Guarded, model: &Model) {
    // `/live` answers as long as somebody listens.
    for (method, path, access) in host_web::pages().filter(|(_, path, _)| *path != "/live") {
        let filled = fill(path, "nobody", "nobody", "nobody");
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
            let page = guarded.send(token, ("GET", &whole), None).await;
            let page = page.is(StatusCode::OK).body;
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
