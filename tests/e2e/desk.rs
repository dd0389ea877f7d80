//! Jobs that handlers enqueue.

use std::fs;
use std::time::Duration;

use host_tests::{Client, Options, Server, eventually, guests};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::{Own, deploy, own};

/// How long something may take that happens soon.
const SOON: Duration = Duration::from_mins(3);

/// The grant of `ask`.
pub(crate) const MANIFEST: &str = "[[handlers.ask.jobs]]\nhandlers = [\"noop\", \"ec*\", \"sleep\"]\n\
                        queues = [\"default\", \"rows-*\"]\n";

/// Starts a host with the handler `ask`, which may enqueue some of the examples.
fn host() -> Own {
    let own = own();
    let client = own.server.client();
    deploy_ask(&client, MANIFEST);
    own
}

pub(crate) fn deploy_ask(client: &Client, manifest: &str) {
    let hostile = fs::read(guests::component("hostile")).unwrap();
    let answer = client
        .deploy_accepted("hostile", &hostile, Some(manifest))
        .unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
}

fn ask(asks: &Value, more: &Value) -> Value {
    let mut params = json!({"asks": asks});
    let more = more.as_object().cloned().unwrap_or_default();
    params.as_object_mut().unwrap().extend(more);
    json!({"handler": "ask", "params": params, "max_attempts": 3})
}

fn children(client: &Client) -> Vec<Value> {
    let jobs = client.items("/api/v1/jobs").into_iter();
    jobs.filter(|job| job["handler"] != "ask").collect()
}

#[test]
fn jobs_exist_exactly_if_the_attempt_completes() {
    let own = host();
    let client = own.server.client();
    let asks = json!([
        {"enqueue": [
            {"handler": "echo", "params": {"a": 1}, "priority": 2, "attributes": {"row": "7"}},
            {"handler": "noop", "queue": "rows-1", "depends_on": ["#0"]},
        ]},
        {"enqueue_now": [{"handler": "noop", "queue": "rows-2", "unique_key": "once"}]},
    ]);
    let parent = ask(&asks, &json!({"failures": 1, "hangs": false}));
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut parent = parent;
    parent["trace_context"] = json!({"traceparent": traceparent});
    let job = client.run(&parent);
    assert_eq!(
        (&job["state"], &job["attempt"]),
        (&json!("completed"), &json!(2)),
        "{job}"
    );
    let of_end = job["result"][0].as_array().unwrap();
    let [echo, noop] = [0, 1].map(|n| client.wait(of_end[n].as_str().unwrap()));
    assert_eq!(echo["result"], json!({"a": 1}), "{echo}");
    assert_eq!(echo["priority"], 2, "{echo}");
    assert_eq!(echo["attributes"]["row"], "7", "{echo}");
    assert_eq!(echo["wire"], "handler", "{echo}");
    let trace = echo["trace_context"].to_string();
    assert!(trace.contains("0af7651916cd43dd8448eb211c80319c"), "{echo}");
    assert_eq!(noop["state"], "completed", "{noop}");
    let children = children(&client);
    let handlers = |queue: &str| children.iter().filter(|it| it["queue"] == queue).count();
    assert_eq!(handlers("default"), 1, "{children:?}");
    assert_eq!(handlers("rows-1"), 1, "{children:?}");
    // The first attempt had enqueued it too. Its job may have ended before the second attempt asked.
    assert!((1..=2).contains(&handlers("rows-2")), "{children:?}");
}

#[test]
fn an_attempt_that_does_not_complete_leaves_no_job_but_those_of_now() {
    let own = host();
    let client = own.server.client();
    let asks = json!([
        {"enqueue": [{"handler": "noop"}]},
        {"enqueue_now": [{"handler": "noop", "queue": "rows-now"}]},
    ]);
    let failed = client.run(&ask(&asks, &json!({"failures": 9})));
    assert_eq!(failed["state"], "discarded", "{failed}");
    let mut hanging = ask(&asks, &json!({"hangs": true}));
    hanging["max_attempts"] = json!(1);
    let id = client.enqueue(&hanging);
    let now = |client: &Client| {
        let all = children(client);
        assert!(all.iter().all(|it| it["queue"] == "rows-now"), "{all:?}");
        all.len()
    };
    // It has asked for everything when its job of now is there.
    eventually("the job of the attempt that hangs", SOON, || {
        (now(&client) == 4).then_some(())
    });
    let cancelled = client.post(
        &format!("/api/v1/jobs/{id}/cancel"),
        &json!({"grace_seconds": 0}),
    );
    assert!(cancelled.unwrap().status < 300);
    assert_eq!(client.wait(&id)["state"], "cancelled");
    assert_eq!(now(&client), 4);
}

#[test]
fn what_the_manifest_and_the_api_do_not_allow_is_refused_with_a_sentence() {
    let own = host();
    let client = own.server.client();
    let many: Vec<Value> = (0..1_001).map(|_| json!({"handler": "noop"})).collect();
    let cases = [
        (
            json!({"handler": "fail"}),
            "NotGranted",
            "to enqueue \"fail\" in the queue \"default\"",
        ),
        (
            json!({"handler": "noop", "queue": "other"}),
            "NotGranted",
            "in the queue \"other\"",
        ),
        (json!({"handler": "echoes"}), "InvalidRequest", "echoes"),
        (json!({"handler": "sleep"}), "InvalidRequest", "params"),
        (
            json!({"handler": "noop", "priority": 10}),
            "InvalidRequest",
            "priority must be 0",
        ),
        (
            json!({"handler": "noop", "unknown": 1}),
            "InvalidRequest",
            "unknown",
        ),
        (
            json!({"handler": "noop", "depends_on": ["#7"]}),
            "InvalidRequest",
            "#7",
        ),
    ];
    let mut asks: Vec<Value> = Vec::new();
    for (job, ..) in &cases {
        asks.push(json!({"enqueue": [job]}));
        asks.push(json!({"enqueue_now": [job]}));
    }
    asks.push(json!({"enqueue": many}));
    asks.extend([json!({"enqueue_many": 600}), json!({"enqueue_many": 600})]);
    let job = client.run(&ask(&json!(asks), &json!({"failures": 9})));
    // The last attempt's answers are not kept, so one that completes asks again.
    assert_eq!(job["state"], "discarded", "{job}");
    let job = client.run(&ask(&json!(asks), &json!({})));
    let answers = job["result"].as_array().unwrap();
    for (n, (asked, kind, part)) in cases.iter().enumerate() {
        for answer in &answers[2 * n..2 * n + 2] {
            assert_eq!(answer["kind"], *kind, "{asked}: {answer}");
            let message = answer["message"].as_str().unwrap();
            assert!(
                message.replace(": must", " must").contains(part),
                "{asked}: {message}"
            );
        }
    }
    let rest = &answers[2 * cases.len()..];
    assert_eq!(rest[0]["kind"], "InvalidRequest", "{rest:?}");
    assert_eq!(rest[1], 600);
    assert_eq!(rest[2]["kind"], "LimitReached", "{rest:?}");
    assert_eq!(children(&client).len(), 600);
}

#[test]
fn a_handler_without_a_grant_gets_a_sentence() {
    let own = host();
    let client = own.server.client();
    deploy_ask(&client, "");
    let asks = json!([{"enqueue": [{"handler": "noop"}]}]);
    let job = client.run(&ask(&asks, &json!({})));
    let refused = &job["result"][0];
    assert_eq!(refused["kind"], "NotGranted", "{job}");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("[[handlers.NAME.jobs]]"), "{message}");
}

#[test]
fn a_deploy_shows_which_jobs_a_handler_may_enqueue() {
    let own = own();
    let client = own.server.client();
    let hostile = fs::read(guests::component("hostile")).unwrap();
    let answer = client.deploy("hostile", &hostile, Some(MANIFEST)).unwrap();
    assert_eq!(answer.body["code"], "grants_not_accepted", "{answer:?}");
    let detail = answer.body["detail"].as_str().unwrap();
    assert!(
        detail.contains("ask: enqueue noop,ec*,sleep in default,rows-*"),
        "{detail}"
    );
    deploy_ask(&client, MANIFEST);
    let handler = client.get("/api/v1/handlers/ask").unwrap().body;
    let jobs = json!([{"handlers": ["noop", "ec*", "sleep"], "queues": ["default", "rows-*"]}]);
    assert_eq!(handler["grants"]["jobs"], jobs, "{handler}");
    let wrong = MANIFEST.replace("\"noop\"", "\"no op\"");
    let answer = client
        .deploy_accepted("hostile", &hostile, Some(&wrong))
        .unwrap();
    assert_eq!(answer.body["code"], "manifest_invalid", "{answer:?}");
}

#[test]
fn what_was_refused_by_the_end_fails_the_attempt() {
    let own = host();
    let client = own.server.client();
    let first = client.run(&json!({"handler": "noop"}));
    let prerequisite = first["id"].as_str().unwrap();
    let asks = json!([{"enqueue": [{"handler": "noop", "depends_on": [prerequisite]}]}]);
    let purged = client.post(&format!("/api/v1/jobs/{prerequisite}/purge"), &json!({}));
    assert!(purged.unwrap().status < 300);
    let job = client.run(&ask(&asks, &json!({})));
    assert_eq!(job["state"], "discarded", "{job}");
    assert_eq!(job["failure"]["kind"], "writes_refused", "{job}");
    let message = job["failure"]["message"].as_str().unwrap();
    assert!(message.contains(prerequisite), "{message}");
    assert_eq!(children(&client).len(), 0);
}

/// Jobs that handlers and scripts enqueue or call, and those that these enqueue, are held to the scope of the token that
/// enqueued the first.
#[test]
fn the_scope_of_a_token_holds_for_all_that_follows_from_its_jobs() {
    let data = TempDir::new().unwrap();
    let mut options = Options::new(data.path());
    let tokens = ("HOST_AUTH_MODE".to_owned(), "tokens".to_owned());
    options.env.push(tokens);
    let server = Server::start(&options);
    let first = fs::read_to_string(data.path().join("admin.token")).unwrap();
    let admin = server.client().with_token(first.trim());
    deploy(&admin, "basics");
    deploy_ask(&admin, &MANIFEST.replace("sleep", "ask"));
    deploy_rhai(&admin);
    let body = json!({
        "name": "m", "allow": ["enqueue", "read", "read_payload"],
        "queues": ["mail", "rows-1"], "handlers": ["ask", "noop", "hero.rhai"],
    });
    let made = admin.post("/api/v1/tokens", &body).unwrap().body;
    let token = made["token"].as_str().unwrap();
    let scoped = server.client().with_token(token);
    let into = |queue: &str| json!({"handler": "noop", "queue": queue});
    let job = |asks: Value| json!({"handler": "ask", "queue": "mail", "params": {"asks": asks}, "max_attempts": 1});
    let mut inner = job(json!([{"enqueue_now": [into("rows-2")]}]));
    inner["queue"] = json!("rows-1");
    let rows = |queue: &str| {
        let count = admin.get(&format!("/api/v1/jobs/count?handler=noop&queue={queue}"));
        count.unwrap().body["jobs"].clone()
    };
    let mut expected = 0;
    for how in ["enqueue", "enqueue_now"] {
        // For the administrator, all of it works.
        for (client, works) in [(&scoped, 0), (&admin, 1)] {
            client.run(&job(json!([{how: [into("rows-2")]}])));
            expected += works;
            assert_eq!(rows("rows-2"), expected, "{how}");
            let parent = client.run(&job(json!([{how: [inner]}])));
            let child = parent["result"][0][0].as_str();
            admin.wait(child.unwrap_or_else(|| panic!("{parent}")));
            expected += works;
            assert_eq!(rows("rows-2"), expected, "{how}, by a child");
        }
        let parent = scoped.run(&job(json!([{how: [into("rows-1")]}])));
        let child = scoped.wait(parent["result"][0][0].as_str().unwrap());
        let by = format!("token:{}", &token[4..16]);
        assert_eq!(child["created_by"], by, "{child}");
    }
    for script in ["enqueue(\"noop\", #{}); 7", "run(\"echo\", #{x: 7}).x"] {
        let job = json!({"handler": "hero.rhai", "queue": "mail", "params": {"script": script}, "max_attempts": 1});
        let refused = scoped.run(&job);
        assert_eq!(refused["state"], "discarded", "{refused}");
        assert_eq!(admin.run(&job)["result"], 7, "{script}");
    }
    assert_eq!(rows("default"), 1, "the administrator's");
}

fn deploy_rhai(client: &Client) {
    let path = guests::component("hero-rhai");
    let mut manifest = fs::read_to_string(path.with_extension("toml")).unwrap();
    manifest += "\n[[handlers.\"hero.rhai\".jobs]]\nhandlers = [\"noop\"]\n[handlers.\"hero.rhai\".state]\n";
    let component = fs::read(&path).unwrap();
    let answer = client.deploy_accepted("hero-rhai", &component, Some(&manifest));
    assert_eq!(answer.unwrap().status, 201);
}

/// Each call starts the script again from its beginning. Only what its last run has written counts.
#[test]
fn a_script_writes_once_however_often_it_starts_again() {
    let own = own();
    let client = own.server.client();
    deploy_rhai(&client);
    let script = "enqueue(\"noop\", #{});\nlet before = state_get(\"n\");\n\
                  state_set(\"n\", if before == () { 1 } else { before + 1 });\n\
                  let a = run(\"echo\", #{x: 1});\nlet b = run(\"echo\", #{x: a.x + 1});\n\
                  [b.x, state_get(\"n\")]";
    for n in 1..=2 {
        let job = client.run(&json!({"handler": "hero.rhai", "params": {"script": script}}));
        assert_eq!(job["result"], json!([2, n]), "{job}");
        let jobs = client.items("/api/v1/jobs").into_iter();
        assert_eq!(jobs.filter(|job| job["handler"] == "noop").count(), n);
    }
}
