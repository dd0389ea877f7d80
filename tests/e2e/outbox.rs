//! Jobs that an application enqueues in transactions of its own database.

use std::fs;
use std::process::Command;

use host_tests::postgres::Session;
use host_tests::reflector::SOON;
use host_tests::server::host;
use host_tests::{Client, Options, Server, eventually, postgres};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::deploy;
use crate::nodes::Node;

const PRODUCER: &str = "outbox_app";
const HOST: &str = "outbox_host";

/// An application's database with an outbox, and options for a host that takes its jobs.
struct Application {
    name: &'static str,
    url: String,
    data: TempDir,
}

impl Application {
    fn new(name: &'static str) -> Self {
        postgres::application(name, PRODUCER);
        let owner = postgres::application(name, "postgres");
        let url = postgres::application(name, HOST);
        // Twice: it can be run again.
        for _ in 0..2 {
            let roles = ["--producer", PRODUCER, "--host-role", HOST];
            outbox(&[&["install", "--database", &owner][..], &roles].concat());
        }
        let data = TempDir::new().unwrap();
        Self { name, url, data }
    }

    fn options(&self) -> Options {
        let file = self.data.path().join("host.toml");
        let settings = format!(
            "[outbox.shop]\ndatabase = \"{}\"\nhandlers = [\"echo\", \"no-*\", \"noop\"]\n",
            self.url
        );
        fs::write(&file, settings).unwrap();
        let mut options = Options::new(&self.data.path().join("data"));
        options.args = vec!["--config".to_owned(), file.display().to_string()];
        options
    }

    /// Runs statements of the application. Returns the lines of their output if all succeed.
    fn query(&self, sql: &str) -> Option<Vec<String>> {
        let output = postgres::query(self.name, PRODUCER, sql)?;
        Some(output.lines().map(str::to_owned).collect())
    }

    fn status(&self) -> Value {
        let status = outbox(&["status", "--database", &self.url, "-o", "json"]);
        let document: Value = serde_json::from_str(&status).unwrap();
        match document {
            Value::Array(mut list) => list.remove(0),
            one => one,
        }
    }

    fn wait_until_empty(&self) {
        eventually("nothing waits in the outbox", SOON, || {
            (self.status()["waiting"] == 0).then_some(())
        });
    }
}

/// Waits until a job has been accepted and has ended.
fn wait(client: &Client, id: &str) -> Value {
    let path = format!("/api/v1/jobs/{id}");
    eventually("the job is accepted", SOON, || {
        (client.get(&path).ok()?.status == 200).then_some(())
    });
    client.wait(id)
}

/// Runs `host outbox`. Returns its output.
fn outbox(args: &[&str]) -> String {
    let output = Command::new(host())
        .arg("outbox")
        .args(args)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_job_exists_exactly_if_the_transaction_of_the_application_commits() {
    let application = Application::new("outbox_commits");
    let server = Server::start(&application.options());
    let client = server.client();
    deploy(&client, "basics");
    let enqueue = "SELECT host.enqueue('echo', '{\"n\": 9007199254740993, \"m\": 1.10}', '{\"priority\": 2}');";
    let sql = format!("BEGIN; {enqueue} ROLLBACK; BEGIN; {enqueue} COMMIT;");
    let ids = application.query(&sql).unwrap();
    application.wait_until_empty();
    assert_eq!(
        application.status()["refused"],
        0,
        "{}",
        application.status()
    );
    let done = wait(&client, &ids[1]);
    assert_eq!(done["state"], "completed", "{done}");
    let result = done["result"].to_string();
    assert!(result.contains("9007199254740993"), "{result}");
    assert_eq!(
        (&done["priority"], &done["wire"]),
        (&json!(2), &json!("outbox"))
    );
    let rolled_back = client.get(&format!("/api/v1/jobs/{}", ids[0])).unwrap();
    assert_eq!(rolled_back.status, 404, "{rolled_back:?}");
    // The application may enqueue, and nothing else.
    for sql in [
        "SELECT * FROM host.outbox",
        "DELETE FROM host.outbox",
        "SELECT host.enqueue('')",
        "SELECT host.cancel(NULL)",
        "SELECT host.enqueue('echo', '1', '[]')",
        "SELECT host.enqueue('echo', '1', '{\"handler\": \"noop\"}')",
        "SELECT host.enqueue('echo', to_jsonb(repeat('a', 1048577)))",
    ] {
        assert_eq!(application.query(sql), None, "{sql}");
    }
}

#[test]
fn a_row_that_is_offered_again_is_the_same_job() {
    let application = Application::new("outbox_again");
    let server = Server::start(&application.options());
    let client = server.client();
    deploy(&client, "basics");
    let id = application
        .query("SELECT host.enqueue('echo', '1');")
        .unwrap()
        .remove(0);
    assert_eq!(wait(&client, &id)["state"], "completed");
    application.wait_until_empty();
    // As if the host had been killed after its commit and before the delete.
    let again = format!(
        "INSERT INTO host.outbox (id, job) VALUES ('{id}', '{{\"handler\": \"echo\", \"params\": 2}}')"
    );
    postgres::query(application.name, "postgres", &again).unwrap();
    application.wait_until_empty();
    let job = client.job(&id);
    assert_eq!(
        (&job["result"], &job["attempt"]),
        (&json!(1), &json!(1)),
        "{job}"
    );
}

#[test]
fn a_job_that_cannot_be_accepted_stays_with_the_reason_until_it_is_retried() {
    let application = Application::new("outbox_refused");
    let server = Server::start(&application.options());
    let client = server.client();
    deploy(&client, "basics");
    let sql = "SELECT host.enqueue('no-such'); SELECT host.enqueue('fail'); SELECT host.enqueue('echo', '1', '{\"priority\": 10}'); \
               SELECT host.enqueue('echo', '1');";
    let ids = application.query(sql).unwrap();
    assert_eq!(wait(&client, &ids[3])["state"], "completed");
    application.wait_until_empty();
    let status = application.status();
    assert_eq!(status["refused"], 3, "{status}");
    let problem = |id: &str| {
        let refusals = status["refusals"].as_array().unwrap();
        let refused = refusals.iter().find(|it| it["id"] == id).unwrap();
        refused["problem"].as_str().unwrap().to_owned()
    };
    assert!(problem(&ids[0]).contains("no-such"), "{status}");
    assert_eq!(
        problem(&ids[1]),
        "[outbox.shop] allows no jobs of the handler \"fail\""
    );
    assert!(problem(&ids[2]).contains("0–9"), "{status}");
    let mend = "UPDATE host.outbox SET job = job || '{\"priority\": 9, \"handler\": \"echo\"}'";
    postgres::query(application.name, "postgres", mend).unwrap();
    outbox(&["retry", "--database", &application.url]);
    for id in &ids {
        assert_eq!(wait(&client, id)["state"], "completed");
    }
}

#[test]
fn a_transaction_that_commits_late_is_not_missed() {
    let application = Application::new("outbox_late");
    let server = Server::start(&application.options());
    let client = server.client();
    deploy(&client, "basics");
    let mut session = Session::open(application.name, PRODUCER);
    let late = session.value("BEGIN; SELECT host.enqueue('echo', '1');");
    let next = application.query("SELECT host.enqueue('echo', '2');");
    assert_eq!(wait(&client, &next.unwrap()[0])["state"], "completed");
    application.wait_until_empty();
    let job = format!("/api/v1/jobs/{late}");
    assert_eq!(client.get(&job).unwrap().status, 404);
    session.value("COMMIT; SELECT 'committed';");
    assert_eq!(wait(&client, &late)["result"], 1);
}

#[test]
fn an_application_cancels_its_own_jobs_in_transactions() {
    let application = Application::new("outbox_cancels");
    let server = Server::start(&application.options());
    let client = server.client();
    deploy(&client, "basics");
    let later = "'1', '{\"delay_seconds\": 3600}'";
    let sql = format!(
        "SELECT host.enqueue('echo', {later}); SELECT host.enqueue('echo', {later}); \
         SELECT host.enqueue('echo'); SELECT host.enqueue('no-such');"
    );
    let ids = application.query(&sql).unwrap();
    let [cancelled, rolled_back, ended, refused] = ids.as_slice() else {
        panic!("{ids:?}");
    };
    assert_eq!(wait(&client, ended)["state"], "completed");
    application.wait_until_empty();
    assert_eq!(application.status()["refused"], 1);
    let body = json!({"handler": "noop", "delay_seconds": 3600});
    let foreign = client.enqueue(&body);
    let sql = format!(
        "BEGIN; SELECT host.cancel('{rolled_back}'); ROLLBACK; SELECT host.cancel('{ended}'); \
         SELECT host.cancel('{foreign}'); SELECT host.cancel('{refused}'); SELECT host.cancel('{cancelled}');"
    );
    application.query(&sql).unwrap();
    let state = |id: &str| client.job(id)["state"].as_str().unwrap().to_owned();
    eventually("the job is cancelled", SOON, || {
        (state(cancelled) == "cancelled").then_some(())
    });
    eventually("nothing is left to cancel", SOON, || {
        let left = postgres::query(
            application.name,
            "postgres",
            "SELECT count(*) FROM host.cancels",
        );
        (left? == "0").then_some(())
    });
    assert_eq!(state(rolled_back), "scheduled");
    assert_eq!(state(ended), "completed");
    assert_eq!(state(&foreign), "scheduled");
    assert_eq!(application.status()["refused"], 0);
    // A job that is cancelled before the host accepts it never is one.
    let mut session = Session::open(application.name, PRODUCER);
    let never = session.value("BEGIN; SELECT host.enqueue('echo');");
    session.value(&format!(
        "SELECT host.cancel('{never}'); COMMIT; SELECT 'committed';"
    ));
    application.wait_until_empty();
    assert_eq!(
        client.get(&format!("/api/v1/jobs/{never}")).unwrap().status,
        404
    );
    let metrics = client.get("/metrics").unwrap().body.to_string();
    for line in [
        "host_outbox_accepted_jobs_total{outbox=\"shop\"} 3",
        "host_outbox_refused_jobs_total{outbox=\"shop\"} 1",
        "host_outbox_lag_seconds{outbox=\"shop\"} 0",
        "host_outbox_reachable{outbox=\"shop\"} 1",
    ] {
        assert!(
            metrics.replace("\\\"", "\"").contains(line),
            "{line}: {metrics}"
        );
    }
}

#[test]
fn kills_of_hosts_and_of_connections_lose_no_job_and_accept_none_twice() {
    let application = Application::new("outbox_kills");
    let mut ids = Vec::new();
    let server = Server::start(&application.options());
    deploy(&server.client(), "basics");
    server.kill();
    for round in 0..4 {
        let sql = "SELECT host.enqueue('noop') FROM generate_series(1, 300);";
        ids.extend(application.query(sql).unwrap());
        let server = Server::start(&application.options());
        let left = 250 - 60 * round;
        eventually("a part is accepted", SOON, || {
            (application.status()["waiting"].as_i64()? < left).then_some(())
        });
        let end = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE usename = '{HOST}' AND datname = '{}'",
            application.name
        );
        postgres::query(application.name, "postgres", &end).unwrap();
        server.kill();
    }
    let server = Server::start(&application.options());
    let client = server.client();
    application.wait_until_empty();
    for id in &ids {
        assert_eq!(wait(&client, id)["state"], "completed", "{id}");
    }
    let jobs = client.items("/api/v1/jobs");
    let all: std::collections::BTreeSet<&str> =
        jobs.iter().filter_map(|job| job["id"].as_str()).collect();
    assert_eq!(jobs.len(), ids.len());
    assert_eq!(all.len(), ids.len());
    assert_eq!(application.status()["refused"], 0);
}

#[test]
fn hosts_of_one_store_share_an_outbox() {
    let application = Application::new("outbox_shared");
    application.options();
    let file = application.data.path().join("host.toml");
    let config = [("HOST_CONFIG", file.to_str().unwrap())];
    let first = Node::new("outbox_shared_store");
    let second = first.another();
    let (server, other) = (first.start_with(&config), second.start_with(&config));
    deploy(&server.client(), "basics");
    let sql = "SELECT host.enqueue('noop') FROM generate_series(1, 600);";
    let ids = application.query(sql).unwrap();
    let again = format!(
        "INSERT INTO host.outbox (id, job) SELECT id::uuid, '{{\"handler\": \"noop\"}}' \
         FROM unnest('{{{}}}'::text[]) AS id ON CONFLICT DO NOTHING",
        ids.join(",")
    );
    // Both hosts are offered the same jobs, some of which the other is accepting at this moment.
    for _ in 0..20 {
        postgres::query(application.name, "postgres", &again).unwrap();
    }
    server.kill();
    let client = other.client();
    application.wait_until_empty();
    for id in &ids {
        assert_eq!(wait(&client, id)["state"], "completed", "{id}");
    }
    assert_eq!(client.items("/api/v1/jobs").len(), ids.len());
    assert_eq!(application.status()["refused"], 0);
}
