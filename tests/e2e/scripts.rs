//! Scripts: interpreters deployed like any other component, and actions that run in order in one attempt.

use std::time::Duration;

use host_tests::reflector::{Reflector, SECRET, SOON};
use host_tests::{Client, eventually, guests};
use serde_json::{Value, json};

use crate::fixture::{Own, deploy, own};

fn host() -> Own {
    let own = own();
    for component in ["hero-rhai", "hero-heroscript", "actions"] {
        deploy(&own.server.client(), component);
    }
    own
}

fn heroscript(script: &str) -> Value {
    json!({"handler": "hero.heroscript", "params": {"script": script}, "max_attempts": 1})
}

#[test]
fn a_script_is_a_job() {
    let own = host();
    let client = own.server.client();
    let job = client.run(&json!({"handler": "hero.rhai", "params": {"script": "40 + 2"}}));
    assert_eq!(
        (&job["state"], &job["result"]),
        (&json!("completed"), &json!(42)),
        "{job}"
    );
    let job = client.run(&json!({"handler": "hero.rhai", "params": {"script": "let x = ;"}}));
    assert_eq!(job["state"], "discarded", "{job}");
    assert_eq!(job["failure"]["user_kind"], "script_syntax", "{job}");
}

#[test]
fn actions_run_in_order_in_one_attempt() {
    let own = host();
    let client = own.server.client();
    let script = "// two of them\n!!vm.define name:'a b' cpu:4 fast\n!!vm.attempt\n";
    let job = client.run(&heroscript(script));
    assert_eq!(job["state"], "completed", "{job}");
    let expected = json!([
        {"args": ["fast"], "cpu": "4", "name": "a b"},
        {"attempt": 1, "handler": "vm.attempt"},
    ]);
    assert_eq!(job["result"], expected, "{job}");
    assert_eq!(job["attempt"], 1, "{job}");
    let id = job["id"].as_str().unwrap();
    eventually("the action's log", Duration::from_secs(20), || {
        let logs = client.get(&format!("/api/v1/jobs/{id}/logs")).unwrap();
        logs.body.to_string().contains("defined").then_some(())
    });
}

#[test]
fn a_retry_repeats_all_actions() {
    let own = host();
    let client = own.server.client();
    let script = "!!vm.attempt\n!!vm.fail_first attempts:1\n";
    let mut job = heroscript(script);
    job["max_attempts"] = json!(3);
    let job = client.run(&job);
    assert_eq!(job["state"], "completed", "{job}");
    let expected = json!([{"attempt": 2, "handler": "vm.attempt"}, null]);
    assert_eq!(job["result"], expected, "{job}");
}

#[test]
fn actions_share_one_time_limit_and_are_cancelled_together() {
    let own = host();
    let client = own.server.client();
    let mut endless = heroscript("!!vm.attempt\n!!vm.spin\n!!vm.attempt\n");
    endless["timeout_seconds"] = json!(5);
    let job = client.run(&endless);
    assert_eq!(job["failure"]["kind"], "timed_out", "{job}");
    let message = job["failure"]["message"].as_str().unwrap();
    assert!(message.starts_with("action 2 of 3, vm.spin: "), "{message}");

    endless["timeout_seconds"] = json!(300);
    let id = client.enqueue(&endless);
    eventually("the job to run", Duration::from_secs(20), || {
        (client.job(&id)["state"] == "running").then_some(())
    });
    let cancel = json!({"reason": "enough", "grace_seconds": 0});
    client
        .post(&format!("/api/v1/jobs/{id}/cancel"), &cancel)
        .unwrap();
    assert_eq!(client.wait(&id)["state"], "cancelled");
}

fn rhai(script: &str) -> Value {
    json!({"handler": "hero.rhai", "params": {"script": script}, "max_attempts": 1})
}

#[test]
fn a_rhai_script_calls_handlers_in_its_own_attempt() {
    let own = host();
    let client = own.server.client();
    let script = r#"
        print("once");
        let made = run("vm.define", #{name: "a", cpu: 2});
        let seen = ();
        try { run("vm.missing"); } catch (e) { seen = e.kind; }
        [made.cpu + 40, run("vm.attempt").attempt, seen]
    "#;
    let job = client.run(&rhai(script));
    assert_eq!(job["state"], "completed", "{job}");
    assert_eq!(job["result"], json!([42, 1, "handler_not_found"]), "{job}");
    let id = job["id"].as_str().unwrap();
    eventually("the logs of both", Duration::from_secs(20), || {
        let logs = client
            .get(&format!("/api/v1/jobs/{id}/logs"))
            .unwrap()
            .body
            .to_string();
        (logs.contains("defined") && logs.matches("once").count() == 1).then_some(())
    });
}

#[test]
fn what_a_rhai_script_calls_shares_its_limits_and_its_end() {
    let own = host();
    let client = own.server.client();
    let mut endless = rhai("try { run(\"vm.spin\") } catch { 1 }");
    endless["timeout_seconds"] = json!(5);
    let job = client.run(&endless);
    assert_eq!(job["failure"]["kind"], "timed_out", "{job}");
    let message = job["failure"]["message"].as_str().unwrap();
    assert!(message.starts_with("call 1, vm.spin: "), "{message}");

    endless["timeout_seconds"] = json!(300);
    let id = client.enqueue(&endless);
    eventually("the job to run", Duration::from_secs(20), || {
        (client.job(&id)["state"] == "running").then_some(())
    });
    let cancel = json!({"reason": "enough", "grace_seconds": 0});
    let path = format!("/api/v1/jobs/{id}/cancel");
    client.post(&path, &cancel).unwrap();
    assert_eq!(client.wait(&id)["state"], "cancelled");

    let mut again = rhai("run(\"vm.fail_first\", #{attempts: \"1\"}); run(\"vm.attempt\").attempt");
    again["max_attempts"] = json!(3);
    let job = client.run(&again);
    assert_eq!(
        (&job["state"], &job["result"]),
        (&json!("completed"), &json!(2)),
        "{job}"
    );

    let job = client.run(&rhai("run(\"vm.missing\")"));
    assert_eq!(job["failure"]["kind"], "handler_not_found", "{job}");
}

#[test]
fn a_script_with_an_unknown_handler_runs_no_action() {
    let own = host();
    let client = own.server.client();
    let job = client.run(&heroscript("!!vm.define\n!!vm.missing\n"));
    assert_eq!(job["state"], "discarded", "{job}");
    assert_eq!(job["failure"]["kind"], "handler_not_found", "{job}");
    let message = job["failure"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("action 2 of 2, vm.missing: "),
        "{message}"
    );
    let id = job["id"].as_str().unwrap();
    let logs = client
        .get(&format!("/api/v1/jobs/{id}/logs"))
        .unwrap()
        .body
        .to_string();
    assert!(!logs.contains("defined"), "{logs}");
}

#[test]
fn interpreters_allow_scripts_one_hour() {
    let own = host();
    for handler in ["hero.rhai", "hero.heroscript"] {
        let path = format!("/api/v1/handlers/{handler}");
        let shown = own.server.client().get(&path).unwrap().body;
        assert_eq!(shown["limits"]["timeout_ms"], 3_600_000, "{shown}");
    }
}

/// Deploys the interpreter of Rhai with a grant to send requests to the reflector, and actions for its scripts.
fn deploy_rhai(client: &Client, reflector: &Reflector, grant: &str) {
    let origin = reflector.origin();
    let manifest = format!("[[handlers.\"hero.rhai\".http]]\nto = \"{origin}\"\n{grant}\n");
    let interpreter = std::fs::read(guests::component("hero-rhai")).unwrap();
    let deployed = client.deploy_accepted("hero-rhai", &interpreter, Some(&manifest));
    assert_eq!(deployed.unwrap().status, 201);
    deploy(client, "actions");
}

#[test]
fn a_rhai_script_makes_each_request_once_under_the_grants_of_its_manifest() {
    let (data, reflector) = (tempfile::TempDir::new().unwrap(), Reflector::start());
    let server = reflector.host(&data);
    let client = server.client();
    let grant = "headers = { authorization = \"Bearer {secret:api}\" }";
    deploy_rhai(&client, &reflector, grant);
    let script = format!(
        r#"
        let got = http_get("{0}/a");
        let made = run("vm.define", #{{name: "a"}});
        let posted = http_post("{0}/b", made);
        let kind = ();
        try {{ http_get("http://example.com/") }} catch (e) {{ kind = e.kind; }}
        run("vm.attempt");
        [got.status, got.body.contains("{{secret:api}}"), posted.body.contains("\"name\":\"a\""), kind]
        "#,
        reflector.origin()
    );
    let job = client.run(&rhai(&script));
    assert_eq!(job["state"], "completed", "{job}");
    let expected = json!([200, true, true, "http_not_granted"]);
    assert_eq!(job["result"], expected, "{job}");
    for start in ["GET /a ", "POST /b "] {
        let request = reflector.requests.recv_timeout(SOON).unwrap();
        assert!(request.starts_with(start), "{request}");
    }
    assert!(reflector.requests.try_recv().is_err(), "each is sent once");
}

/// The grants are those of the handlers that run, not of the interpreter.
#[test]
fn actions_reach_out_under_the_grants_of_their_handlers() {
    let (data, reflector) = (tempfile::TempDir::new().unwrap(), Reflector::start());
    let server = reflector.host(&data);
    let client = server.client();
    deploy(&client, "hero-heroscript");
    let actions = std::fs::read(guests::component("actions")).unwrap();
    let manifest = format!(
        "[[handlers.\"vm.reach\".http]]\nto = \"{}\"\n\
         headers = {{ authorization = \"Bearer {{secret:api}}\" }}\n\
         [[handlers.\"vm.reach\".jobs]]\nhandlers = [\"vm.attempt\"]\nqueues = [\"default\"]\n\
         [handlers.\"vm.reach\".state]\nquota_kib = 64\n",
        reflector.origin()
    );
    let deployed = client.deploy_accepted("actions", &actions, Some(&manifest));
    assert_eq!(deployed.unwrap().status, 201);
    let reach = format!("!!vm.reach url:'{}'\n", reflector.url("/a"));
    let children = || {
        let count = client.get("/api/v1/jobs/count?handler=vm.attempt");
        count.unwrap().body["jobs"].clone()
    };
    // Nothing of an attempt that fails stays.
    let job = client.run(&heroscript(&format!("{reach}!!vm.fail_first attempts:9\n")));
    assert_eq!(job["state"], "discarded", "{job}");
    assert_eq!(children(), 0);
    let job = client.run(&heroscript(&reach.repeat(2)));
    assert_eq!(job["state"], "completed", "{job}");
    let mut ids = Vec::new();
    for times in 0..2 {
        let got = &job["result"][times];
        assert_eq!(
            (&got["status"], &got["times"]),
            (&json!(200), &json!(times))
        );
        ids.push(got["job"].clone());
    }
    for id in &ids {
        assert_eq!(client.wait(id.as_str().unwrap())["state"], "completed");
    }
    assert_eq!(children(), 2);
    for _ in 0..3 {
        let request = reflector.requests.recv_timeout(SOON).unwrap();
        assert!(
            request.contains(&format!("Bearer {SECRET}\r\n")),
            "{request}"
        );
    }
    // Without its grants, the same action reaches nothing.
    assert_eq!(
        client.deploy("actions", &actions, None).unwrap().status,
        201
    );
    let job = client.run(&heroscript(&reach));
    assert_eq!(job["failure"]["user_kind"], "http_not_granted", "{job}");
    assert!(reflector.requests.try_recv().is_err());
}

/// A script is started again after each call; its requests are counted over all of them.
#[test]
fn a_rhai_script_makes_no_more_requests_than_an_attempt_may() {
    let (data, reflector) = (tempfile::TempDir::new().unwrap(), Reflector::start());
    let server = reflector.host(&data);
    let client = server.client();
    deploy_rhai(&client, &reflector, "max_requests = 2");
    let script = format!(
        r#"
        for n in 0..2 {{ http_get("{0}/a"); run("vm.attempt"); }}
        try {{ http_get("{0}/b"); }} catch (e) {{ return e.kind; }}
        "#,
        reflector.origin()
    );
    for _ in 0..2 {
        let job = client.run(&rhai(&script));
        assert_eq!(job["result"], "http_limit_reached", "{job}");
        let sent: Vec<String> = reflector.requests.try_iter().collect();
        assert_eq!(sent.len(), 2, "{sent:?}");
    }
}
