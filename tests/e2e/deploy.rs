//! Which components a deploy accepts and refuses, and that running attempts keep their revision.

use std::time::Duration;

use host_tests::client::Answer;
use host_tests::{Client, eventually, from_wat, guests};
use serde_json::{Value, json};

use crate::fixture::own;

/// Components in `guests/wat` that are refused: the possible codes, and a word in the detail.
const REFUSED: &[(&str, &[&str], &str)] = &[
    ("core-module", &["component_invalid"], "component"),
    (
        "wrong-world",
        &["component_wrong_world"],
        "host:jobs/handler",
    ),
    ("wrong-signature", &["component_wrong_world"], "handle"),
    (
        "unknown-import",
        &["component_forbidden_import"],
        "evil:host/shell",
    ),
    ("memory64", &["component_invalid"], "memory64"),
    ("shared-memory", &["component_invalid"], "shared"),
    (
        "huge-memory",
        &["describe_failed", "compile_failed"],
        "memory",
    ),
    ("describe-loop", &["describe_failed"], "ms"),
    ("start-loop", &["describe_failed"], "ms"),
    ("describe-trap", &["describe_failed"], "unreachable"),
    ("describe-memory", &["describe_failed"], "memory"),
    ("wild-pointer", &["describe_failed"], "out of bounds"),
    ("long-list", &["describe_failed"], ""),
    ("invalid-name", &["describe_failed"], "evil"),
    ("empty-name", &["describe_failed"], "name"),
    ("same-name-twice", &["describe_failed"], "twin"),
    ("no-handlers", &["describe_failed"], "handler"),
];

fn fails(what: &str, answer: &Answer, codes: &[&str], named: &str) {
    let code = answer.body["code"].as_str().unwrap_or_default();
    assert!(codes.contains(&code), "{what}: {answer:?}");
    assert!((400..500).contains(&answer.status), "{what}: {answer:?}");
    let detail = answer.body["detail"].as_str().unwrap();
    assert!(
        detail.contains(named),
        "{what}: the detail does not contain {named}: {detail}"
    );
    assert!(
        detail.len() < 4_096,
        "{what}: {} bytes of detail",
        detail.len()
    );
}

fn deployed(client: &Client) -> Vec<String> {
    let list = client.get("/api/v1/components").unwrap().body;
    let names = list["items"].as_array().unwrap().iter();
    names
        .map(|item| item["component"].as_str().unwrap().to_owned())
        .collect()
}

fn basics() -> Vec<u8> {
    std::fs::read(guests::component("basics")).unwrap()
}

fn attempt(client: &Client, id: &str) -> Value {
    let attempts = client.get(&format!("/api/v1/jobs/{id}/attempts")).unwrap();
    attempts.body["items"][0].clone()
}

#[test]
fn invalid_components_are_refused_with_a_reason() {
    let own = own();
    let client = own.server.client();
    for (name, codes, named) in REFUSED {
        let answer = client
            .deploy(name, &from_wat::component(name), None)
            .unwrap();
        fails(name, &answer, codes, named);
    }
    assert_eq!(
        deployed(&client),
        ["basics"],
        "no refused component is kept"
    );
    let job = client.run(&json!({"handler": "noop"}));
    assert_eq!(job["state"], "completed", "{job}");
}

#[test]
fn bytes_that_are_not_a_component_are_refused() {
    let own = own();
    let client = own.server.client();
    let whole = basics();
    let program = std::fs::read(host_tests::server::host()).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 0xff;
    flipped[whole.len() / 3] ^= 0xff;
    let cases: [(&str, &[u8]); 5] = [
        ("empty", b""),
        ("text", b"(component)"),
        ("truncated", &whole[..whole.len() / 2]),
        ("flipped", &flipped),
        ("program", &program[..1 << 20]),
    ];
    for (name, bytes) in cases {
        let answer = client.deploy(name, bytes, None).unwrap();
        let codes = ["component_invalid", "invalid_multipart"];
        fails(name, &answer, &codes, "");
    }
    let mut large = whole;
    large.resize((32 << 20) + 1, 0);
    let answer = client.deploy("large", &large, None).unwrap();
    let codes = ["component_too_large", "body_too_large"];
    fails("large", &answer, &codes, "");
    assert_eq!(deployed(&client), ["basics"]);
}

#[test]
fn an_invalid_manifest_is_refused() {
    let own = own();
    let client = own.server.client();
    let component = from_wat::component("good");
    for (manifest, named) in [
        ("[defaults]\nmemory_mb = 1\n", "memory_mib"),
        ("[handlers.missing]\nfuel = 1\n", "missing"),
        ("[defaults]\ntimeout_seconds = -1\n", "timeout_seconds"),
        ("defaults = [", ""),
        ("name = \"another\"\n", "another"),
    ] {
        let answer = client.deploy("good", &component, Some(manifest)).unwrap();
        fails(manifest, &answer, &["manifest_invalid"], named);
    }
    let missing = "[defaults]\nread_dirs = [{ host = \"/no/such/folder\", guest = \"/data\" }]\n";
    let answer = client.deploy("good", &component, Some(missing)).unwrap();
    fails("a folder", &answer, &["grant_missing"], "/no/such/folder");
    assert_eq!(deployed(&client), ["basics"]);
}

#[test]
fn a_schema_that_waiting_jobs_do_not_match_needs_force() {
    const WIDE: &str = r#"{"type": "object"}"#;
    const NARROW: &str = r#"{"type": "object", "required": ["n"]}"#;
    let own = own();
    let client = own.server.client();
    let wide = from_wat::with_schema(WIDE);
    let deployed = client.deploy("good", &wide, None).unwrap();
    assert_eq!(deployed.status, 201, "{deployed:?}");
    let waits =
        |params: Value| json!({"handler": "by_hand", "params": params, "delay_seconds": 3600});
    client.enqueue(&waits(json!({"n": 1})));
    let unfit = client.enqueue(&waits(json!({"a": 1})));
    client.enqueue(&waits(json!({})));

    let narrow = from_wat::with_schema(NARROW);
    let refused = client.deploy("good", &narrow, None).unwrap();
    let expected = format!("by_hand: 2 of 3 waiting jobs, such as {unfit} (");
    fails("narrow", &refused, &["waiting_jobs_unfit"], &expected);
    let handler = client.get("/api/v1/handlers/by_hand").unwrap().body;
    assert_eq!(handler["revision"], 1, "nothing has changed");

    let forced = client.deploy_forced("good", &narrow).unwrap();
    assert_eq!((forced.status, &forced.body["revision"]), (201, &json!(2)));
    let wide = client.deploy("good", &wide, None).unwrap();
    assert_eq!(
        wide.status, 201,
        "a schema that all of them match: {wide:?}"
    );

    let back = |body: Value| {
        let path = "/api/v1/components/good/rollback";
        client.post(path, &body).unwrap()
    };
    let refused = back(json!({"revision": 2}));
    fails("back", &refused, &["waiting_jobs_unfit"], &expected);
    let forced = back(json!({"revision": 2, "force": true}));
    assert_eq!((forced.status, &forced.body["revision"]), (200, &json!(2)));
}

#[test]
fn a_handler_name_belongs_to_one_component() {
    let own = own();
    let client = own.server.client();
    let answer = client.deploy("other", &basics(), None).unwrap();
    assert_eq!(answer.status, 409, "{answer:?}");
    fails("other", &answer, &["handler_owned"], "basics");
}

#[test]
fn an_unchanged_component_makes_no_new_revision() {
    let own = own();
    let client = own.server.client();
    let component = from_wat::component("good");
    let first = client.deploy("good", &component, None).unwrap();
    assert_eq!((first.status, &first.body["revision"]), (201, &json!(1)));
    let again = client.deploy("good", &component, None).unwrap();
    assert_eq!((again.status, &again.body["revision"]), (200, &json!(1)));
    assert_eq!(first.body["digest"], again.body["digest"]);
    let changed = client
        .deploy("good", &component, Some("[defaults]\nmemory_mib = 1\n"))
        .unwrap();
    assert_eq!(
        (changed.status, &changed.body["revision"]),
        (201, &json!(2))
    );
}

#[test]
fn attempts_keep_their_revision_and_a_rollback_restores_an_earlier_one() {
    const SHORT: &str = "[handlers.sleep]\ntimeout_seconds = 0.05\n";
    let own = own();
    let client = own.server.client();
    let sleep = json!({"handler": "sleep", "params": {"ms": 5_000}, "max_attempts": 1});

    let early = client.enqueue(&sleep);
    eventually("the job to run", Duration::from_secs(20), || {
        (client.job(&early)["state"] == "running").then_some(())
    });
    let answer = client.deploy("basics", &basics(), Some(SHORT)).unwrap();
    assert_eq!((answer.status, &answer.body["revision"]), (201, &json!(2)));

    let late = client.run(&sleep);
    assert_eq!(late["failure"]["kind"], "timed_out", "{late}");
    let early = client.wait(&early);
    assert_eq!(
        early["state"], "completed",
        "the attempt keeps its old limits: {early}"
    );
    for (job, revision) in [(&early, 1), (&late, 2)] {
        let attempt = attempt(&client, job["id"].as_str().unwrap());
        assert_eq!(attempt["revision"], revision, "{attempt}");
    }

    let rollback = client
        .post(
            "/api/v1/components/basics/rollback",
            &json!({"revision": 1}),
        )
        .unwrap();
    assert_eq!(rollback.status, 200, "{rollback:?}");
    let after = client.run(&sleep);
    assert_eq!(after["state"], "completed", "{after}");
    let unknown = client
        .post(
            "/api/v1/components/basics/rollback",
            &json!({"revision": 9}),
        )
        .unwrap();
    assert_eq!(unknown.status, 404, "{unknown:?}");
    assert_eq!(unknown.body["code"], "revision_not_found");
}

#[test]
fn a_component_with_live_jobs_cannot_be_removed() {
    let own = own();
    let client = own.server.client();
    let id = client.enqueue(&json!({"handler": "noop", "delay_seconds": 3600}));
    let refused = client
        .call("DELETE", "/api/v1/components/basics", None)
        .unwrap();
    assert_eq!(refused.status, 409, "{refused:?}");
    assert_eq!(refused.body["code"], "component_in_use");
    client
        .post(&format!("/api/v1/jobs/{id}/cancel"), &json!({}))
        .unwrap();
    let removed = client
        .call("DELETE", "/api/v1/components/basics", None)
        .unwrap();
    assert!(matches!(removed.status, 200 | 204), "{removed:?}");
    assert_eq!(deployed(&client), [""; 0]);
    let answer = client
        .post("/api/v1/jobs", &json!({"handler": "noop"}))
        .unwrap();
    assert_eq!(
        (answer.status, &answer.body["code"]),
        (422, &json!("handler_not_found"))
    );
}
