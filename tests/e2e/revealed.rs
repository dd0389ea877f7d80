//! Secrets that a handler sees, and what it leaves of them. When a host ends, its files and pages are searched for the
//! secret.

use std::fs;

use host_tests::reflector::{Reflector, SECRET, SOON};
use host_tests::secrets::has_secret;
use host_tests::{Client, Server, eventually, guests, postgres};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::nodes::Node;

const GRANTED: &str = "[handlers.reveal]\nsecrets = [\"api\"]\n";

const MASKED: &str = "{secret:api}";

struct Own {
    server: Server,
    _data: TempDir,
}

/// Starts a host with these settings below `[grants]`, and the component of the handler.
fn host(settings: &str, manifest: &str) -> Own {
    let data = TempDir::new().unwrap();
    let server = Server::start(&Reflector::start().options(&data, "", settings));
    let client = server.client();
    let answer = client.deploy_accepted("hostile", &component(), Some(manifest));
    assert_eq!(answer.unwrap().status, 201);
    Own {
        server,
        _data: data,
    }
}

fn component() -> Vec<u8> {
    fs::read(guests::component("hostile")).unwrap()
}

fn reveal(client: &Client, name: &str, end: &str) -> Value {
    let params = json!({"name": name, "end": end});
    client.run(&json!({"handler": "reveal", "params": params, "max_attempts": 1}))
}

/// Returns the log of a job, once it has this many lines.
fn log(client: &Client, job: &Value, lines: usize) -> String {
    let path = format!("/api/v1/jobs/{}/logs", job["id"].as_str().unwrap());
    eventually("the whole log", SOON, || {
        let items = client.items(&path);
        (items.len() >= lines).then(|| json!(items).to_string())
    })
}

#[test]
fn what_a_handler_leaves_of_a_secret_is_masked() {
    let own = host("secrets = [\"api\"]\n", GRANTED);
    let client = own.server.client();
    for (end, state) in [
        ("completed", "completed"),
        ("failed", "discarded"),
        ("retry", "discarded"),
        ("cancelled", "cancelled"),
        ("panic", "discarded"),
    ] {
        let job = reveal(&client, "api", end);
        assert_eq!(job["state"], state, "{job}");
        let id = job["id"].as_str().unwrap();
        let attempts = client.items(&format!("/api/v1/jobs/{id}/attempts"));
        let left = [job.clone(), json!(attempts)].map(|it| it.to_string());
        let log = log(&client, &job, 4);
        for text in left.iter().chain([&log]) {
            assert!(!text.contains(SECRET), "{end}: {text}");
        }
        assert!(left[0].contains(MASKED), "{end}: {job}");
        for line in [
            "a line with {secret:api} in it",
            "a line of stdout with {secret:api}",
            "the last words are {secret:api}",
            "\"key\":[\"{secret:api}\"]",
            "\"{secret:api}\":\"key\"",
        ] {
            assert!(log.contains(line), "{end}: {line} is not in {log}");
        }
    }
    let job = reveal(&client, "api", "completed");
    let expected = json!({"is": MASKED, MASKED: [1, MASKED]});
    assert_eq!(job["result"], expected, "{job}");
    assert_eq!(job["progress"]["message"], "at {secret:api}", "{job}");
    let audit = client.get("/api/v1/audit?verb=reveal").unwrap().body;
    let entries = audit["items"].as_array().unwrap();
    assert_eq!(entries.len(), 6, "one for each attempt: {audit}");
    let record = entries.last().unwrap()["record"].to_string();
    let id = job["id"].as_str().unwrap();
    assert!(
        record.contains("secret api") && record.contains(id),
        "{audit}"
    );
}

/// All that a database has of handlers that see a secret and send it.
#[test]
fn a_database_has_no_secret() {
    let (node, reflector) = (Node::new("revealed"), Reflector::start());
    let secret = node.data().join("secret");
    fs::write(&secret, SECRET).unwrap();
    let config = format!(
        "[secrets.api]\nfile = {secret:?}\n{}secrets = [\"api\"]\n",
        reflector.grants("")
    );
    let server = node.start_configured(&config);
    let client = server.client();
    let manifest = format!(
        "{GRANTED}[[handlers.request.http]]\nto = \"{}\"\nheaders = {{ x-key = \"{MASKED}\" }}\n",
        reflector.origin()
    );
    let answer = client.deploy_accepted("hostile", &component(), Some(&manifest));
    assert_eq!(answer.as_ref().unwrap().status, 201, "{answer:?}");
    for end in ["completed", "failed", "retry", "cancelled", "panic"] {
        let job = reveal(&client, "api", end);
        log(&client, &job, 4);
    }
    let params = json!({"requests": [{"url": reflector.url("/")}]});
    let job = client.run(&json!({"handler": "request", "params": params}));
    let head = reflector.requests.recv_timeout(SOON).unwrap();
    assert!(head.contains(SECRET), "{head}");
    assert!(job["result"].to_string().contains(MASKED), "{job}");
    assert!(!has_secret(postgres::dump("revealed").as_bytes()));
    // The search finds what a client itself hands in.
    let given = json!({"name": SECRET, "end": "completed"});
    client.enqueue(&json!({"handler": "reveal", "params": given, "delay_seconds": 3_600}));
    assert!(has_secret(postgres::dump("revealed").as_bytes()));
}

/// What masking cannot catch, as the documents say.
#[test]
fn a_secret_in_parts_is_not_masked() {
    let own = host("secrets = [\"api\"]\n", GRANTED);
    let client = own.server.client();
    let job = reveal(&client, "api", "in_parts");
    let log = log(&client, &job, 2);
    let (start, rest) = SECRET.split_at(5);
    assert!(log.contains(start) && log.contains(rest), "{log}");
}

#[test]
fn a_handler_without_the_grant_gets_a_sentence() {
    let manifest = "[[handlers.reveal.jobs]]\nhandlers = [\"noop\"]\n";
    for (manifest, part) in [
        ("", "secrets = [\"…\"]"),
        (manifest, "does not let reveal see the secret api"),
    ] {
        let own = host("secrets = [\"api\"]\n", manifest);
        let job = reveal(&own.server.client(), "api", "completed");
        assert_eq!(job["result"]["kind"], "NotGranted", "{job}");
        let message = job["result"]["message"].as_str().unwrap();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_manifest_shows_only_secrets_that_the_configuration_lets_handlers_see() {
    let own = host("", "");
    let client = own.server.client();
    let answer = client.deploy_accepted("hostile", &component(), Some(GRANTED));
    let body = answer.unwrap().body;
    assert_eq!(body["code"], "grant_missing", "{body}");
    let detail = body["detail"].as_str().unwrap();
    assert!(
        detail.contains("the secret api, which is not in grants.secrets"),
        "{detail}"
    );
    let own = host("secrets = [\"api\"]\n", "");
    let client = own.server.client();
    let answer = client.deploy("hostile", &component(), Some(GRANTED));
    let body = answer.unwrap().body;
    assert_eq!(body["code"], "grants_not_accepted", "{body}");
    let detail = body["detail"].as_str().unwrap();
    assert!(detail.contains("reveal: see the secret api"), "{detail}");
}
