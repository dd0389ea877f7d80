//! Webhooks: jobs and batches tell a receiver of their end, also if it fails at first, and if the host is killed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use host_tests::reflector::SOON;
use host_tests::{Client, Options, Server, eventually, processes};
use serde_json::{Value, json};

use crate::fixture::{Own, deploy, own_with};
use crate::nodes::Node;

/// The key, and the value of the secret.
const KEY: &str = "0123456789abcdef0123456789abcdef";

fn secret() -> String {
    format!("whsec_{}", STANDARD.encode(KEY))
}

/// A request that the receiver got.
struct Got {
    head: String,
    body: String,
}

impl Got {
    fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines();
        let value = lines.find_map(|line| line.strip_prefix(&format!("{name}: ")));
        value.unwrap_or_else(|| panic!("no {name} in {}", self.head))
    }

    fn message(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Checks the signature with another program than the host.
    fn check(&self) {
        let (id, at) = (self.header("webhook-id"), self.header("webhook-timestamp"));
        let mut openssl = Command::new("openssl")
            .args(["dgst", "-sha256", "-mac", "HMAC", "-binary", "-macopt"])
            .arg(format!("key:{KEY}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let signed = format!("{id}.{at}.{}", self.body);
        let mut input = openssl.stdin.take().unwrap();
        input.write_all(signed.as_bytes()).unwrap();
        drop(input);
        let mac = openssl.wait_with_output().unwrap().stdout;
        let expected = format!("v1,{}", STANDARD.encode(mac));
        assert_eq!(self.header("webhook-signature"), expected);
    }
}

/// A receiver that answers all requests with a status, which the test changes.
struct Webhook {
    port: u16,
    status: Arc<AtomicU16>,
    got: Receiver<Got>,
}

impl Webhook {
    fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, got) = channel();
        let status = Arc::new(AtomicU16::new(status));
        let answered = Arc::clone(&status);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (sender, answered) = (sender.clone(), Arc::clone(&answered));
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(&stream);
                    let mut head = String::new();
                    while !head.ends_with("\r\n\r\n") {
                        if reader.read_line(&mut head).unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    let got = Got {
                        head,
                        body: String::new(),
                    };
                    let mut body = vec![0; got.header("content-length").parse().unwrap()];
                    reader.read_exact(&mut body).unwrap();
                    let body = String::from_utf8(body).unwrap();
                    let status = answered.load(Ordering::Relaxed);
                    let _ = sender.send(Got { body, ..got });
                    let answer = format!(
                        "HTTP/1.1 {status} Status\r\nconnection: close\r\n\
                         location: http://127.0.0.1:{port}/elsewhere\r\ncontent-length: 2\r\n\r\nok"
                    );
                    let _ = (&stream).write_all(answer.as_bytes());
                });
            }
        });
        Self { port, status, got }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hooks/1", self.port)
    }

    fn answer(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    fn next(&self) -> Got {
        let got = self.got.recv_timeout(SOON).unwrap();
        got.check();
        got
    }

    fn config(&self, may_be_local: bool) -> String {
        let networks = if may_be_local {
            "[\"127.0.0.0/8\"]"
        } else {
            "[]"
        };
        let port = self.port;
        format!(
            "[grants]\nhttp_networks = {networks}\n[secrets.hooks]\nenv = \"HOOKS\"\n\
             [webhooks.test]\nto = \"http://127.0.0.1:{port}\"\npaths = [\"/hooks/*\"]\nsecrets = [\"hooks\"]\n\
             [queues.notified]\nnotify = {{ url = \"http://127.0.0.1:{port}/hooks/queue\", secret = \"hooks\" }}\n"
        )
    }

    /// Starts a host that may tell it.
    fn host(&self, may_be_local: bool) -> Own {
        own_with(|options| configure(options, &self.config(may_be_local)))
    }

    fn notify(&self) -> Value {
        json!({"url": self.url(), "secret": "hooks"})
    }
}

fn configure(options: &mut Options, config: &str) {
    let path = options.data.join("host.toml");
    std::fs::write(&path, config).unwrap();
    options.args = vec!["--config".to_owned(), path.display().to_string()];
    options.env.push(("HOOKS".to_owned(), secret()));
}

fn echo(notify: &Value) -> Value {
    json!({"handler": "echo", "params": [1], "notify": notify})
}

/// Waits for the end of a delivery.
fn delivered(client: &Client, got: &Got) -> Value {
    client.wait(got.header("webhook-id"))
}

#[test]
fn a_receiver_that_fails_at_first_gets_the_same_message_again() {
    let webhook = Webhook::start(500);
    let own = webhook.host(true);
    let client = own.server.client();
    let id = client.enqueue(&echo(&webhook.notify()));
    let first = webhook.next();
    assert_eq!(client.job(&id)["notify"][0]["url"], webhook.url());
    webhook.answer(204);
    let second = webhook.next();
    assert_eq!(first.body, second.body);
    assert_eq!(first.header("webhook-id"), second.header("webhook-id"));
    assert_eq!(first.message()["type"], "job.completed");
    let data = &first.message()["data"];
    assert_eq!((&data["id"], &data["result"]), (&json!(id), &json!([1])));
    let delivery = delivered(&client, &second);
    assert_eq!(delivery["state"], "completed", "{delivery}");
    assert_eq!(delivery["handler"], "webhooks#deliver");
    assert_eq!(delivery["queue"], "webhooks");
    assert_eq!(delivery["attempt"], 2, "{delivery}");
    assert!(
        !delivery.to_string().contains(&STANDARD.encode(KEY)),
        "{delivery}"
    );
    assert!(
        processes::broker(own.server.pid()).is_some(),
        "the broker has sent it"
    );
    // A queue notifies too, and a batch.
    webhook.answer(200);
    client.enqueue(&json!({"handler": "echo", "queue": "notified"}));
    let delivery = webhook.next();
    assert!(
        delivery.head.starts_with("POST /hooks/queue "),
        "{}",
        delivery.head
    );
    assert_eq!(delivery.message()["data"]["queue"], "notified");
    let batch = json!({"jobs": [{"handler": "echo"}], "notify": {
        "url": webhook.url(), "secret": "hooks", "events": ["batch.end"],
    }});
    let made = client.post("/api/v1/batches", &batch).unwrap();
    assert_eq!(made.status, 201, "{made:?}");
    let delivery = webhook.next().message();
    assert_eq!(delivery["type"], "batch.end");
    assert_eq!(delivery["data"]["id"], made.body["batch"]["id"]);
    // So does what a schedule enqueues.
    let schedule = json!({"when": {"every": "1d"}, "job": echo(&webhook.notify())});
    let made = client
        .call("PUT", "/api/v1/schedules/daily", Some(&schedule))
        .unwrap();
    assert!(made.status < 300, "{made:?}");
    let fired = client.post("/api/v1/schedules/daily/trigger", &json!({}));
    assert_eq!(fired.as_ref().unwrap().status, 200, "{fired:?}");
    let delivery = webhook.next().message();
    assert_eq!(delivery["data"]["attributes"]["schedule.name"], "daily");
}

#[test]
fn a_receiver_that_is_gone_is_not_called_again_and_a_redirect_is_not_followed() {
    let webhook = Webhook::start(410);
    let own = webhook.host(true);
    let client = own.server.client();
    client.enqueue(&echo(&webhook.notify()));
    let delivery = delivered(&client, &webhook.next());
    assert_eq!(delivery["state"], "discarded", "{delivery}");
    assert_eq!(delivery["attempt"], 1, "{delivery}");
    webhook.answer(302);
    client.enqueue(&echo(&webhook.notify()));
    let first = webhook.next();
    webhook.answer(200);
    let again = webhook.next();
    for got in [&first, &again] {
        assert!(got.head.starts_with("POST /hooks/1 "), "{}", got.head);
    }
    // `host webhook test` does the same.
    let test = json!({"url": webhook.url(), "secret": "hooks"});
    let tested = client.post("/api/v1/webhooks/test", &test).unwrap();
    assert_eq!(tested.status, 201, "{tested:?}");
    assert_eq!(webhook.next().message()["type"], "webhook.test");
    let ended = client.wait(tested.body["id"].as_str().unwrap());
    assert_eq!(ended["result"], json!({"status": 200, "body": "ok"}));
    let audit = client.get("/api/v1/audit").unwrap().body;
    let object = format!("webhook {}", webhook.url());
    assert!(audit.to_string().contains(&object), "{audit}");
}

#[test]
fn the_host_calls_only_what_its_configuration_allows() {
    let webhook = Webhook::start(200);
    let own = webhook.host(false);
    let client = own.server.client();
    for (url, secret) in [
        ("http://169.254.169.254/hooks/1".to_owned(), "hooks"),
        (format!("http://127.0.0.1:{}/admin", webhook.port), "hooks"),
        (webhook.url(), "unknown"),
    ] {
        let notify = json!({"url": url, "secret": secret});
        for (path, body) in [
            ("/api/v1/jobs", echo(&notify)),
            ("/api/v1/batches", json!({"notify": notify})),
            ("/api/v1/webhooks/test", notify.clone()),
        ] {
            let refused = client.post(path, &body).unwrap();
            assert_eq!(refused.status, 422, "{path} {url}: {refused:?}");
        }
    }
    // Deliveries cannot be enqueued by hand.
    let params =
        json!({"url": webhook.url(), "secret": "hooks", "message": {"type": "job.completed"}});
    let forged = json!({"handler": "webhooks#deliver", "queue": "webhooks", "params": params});
    let refused = client.post("/api/v1/jobs", &forged).unwrap();
    assert_eq!(refused.status, 422, "{refused:?}");
    // The address is private, and no network allows it.
    client.enqueue(&echo(&webhook.notify()));
    let delivery = eventually("the delivery", SOON, || {
        let found = client.get("/api/v1/jobs?queue=webhooks&state=discarded");
        found.unwrap().body["items"].get(0).cloned()
    });
    let shown = client.job(delivery["id"].as_str().unwrap());
    assert!(
        shown["failure"].to_string().contains("127.0.0.1"),
        "{shown}"
    );
    assert!(webhook.got.try_recv().is_err(), "nothing was sent");
}

/// Waits until the only delivery of a job is in a state, and returns it.
fn delivery_of(client: &Client, job: &str, state: &str) -> Value {
    eventually("the delivery", SOON, || {
        let path = format!("/api/v1/jobs?queue=webhooks&attribute=job%3D{job}&state={state}");
        client.get(&path).unwrap().body["items"].get(0).cloned()
    })
}

#[test]
fn deliveries_are_paused_limited_and_retried_like_all_jobs() {
    let webhook = Webhook::start(410);
    let config = webhook.config(true) + "[queues.webhooks]\nretention_seconds = 3600\n";
    let own = own_with(|options| configure(options, &config));
    let client = own.server.client();
    let create = json!({"create": true});
    let paused = client.post("/api/v1/queues/webhooks/pause", &create);
    assert_eq!(paused.unwrap().status, 200);
    let first = client.enqueue(&echo(&webhook.notify()));
    let waits = delivery_of(&client, &first, "available");
    let shown = client.job(waits["id"].as_str().unwrap());
    assert_eq!(shown["retention_seconds"], 3_600.0, "{shown}");
    assert!(
        shown["waits_because"].to_string().contains("paused"),
        "{shown}"
    );
    assert!(webhook.got.try_recv().is_err(), "nothing was sent");
    let resumed = client.post("/api/v1/queues/webhooks/resume", &json!({}));
    assert_eq!(resumed.unwrap().status, 200);
    let got = webhook.next();
    let dead = delivery_of(&client, &first, "discarded");
    // A dead letter is delivered when it is retried.
    webhook.answer(200);
    let retry = format!("/api/v1/jobs/{}/retry", dead["id"].as_str().unwrap());
    assert_eq!(client.post(&retry, &json!({})).unwrap().status, 200);
    let again = webhook.next();
    assert_eq!(again.body, got.body);
    assert_eq!(again.header("webhook-id"), got.header("webhook-id"));
    delivery_of(&client, &first, "completed");
    // One an hour.
    let limit = json!({"match": {"queue": "webhooks"}, "rate": {"count": 1, "per_seconds": 3600, "burst": 1}});
    let set = client
        .call("PUT", "/api/v1/limits/receivers", Some(&limit))
        .unwrap();
    assert!(set.status < 300, "{set:?}");
    let second = client.enqueue(&echo(&webhook.notify()));
    assert_eq!(webhook.next().message()["data"]["id"], second.as_str());
    let third = client.enqueue(&echo(&webhook.notify()));
    let waits = delivery_of(&client, &third, "pending");
    let shown = client.job(waits["id"].as_str().unwrap());
    assert!(
        shown["waits_because"].to_string().contains("receivers"),
        "{shown}"
    );
    assert!(webhook.got.try_recv().is_err(), "it waits");
}

fn start(data: &Path, config: &str) -> Server {
    let mut options = Options::new(data);
    configure(&mut options, config);
    Server::start(&options)
}

#[test]
fn a_host_that_is_killed_between_the_end_and_the_delivery_loses_none() {
    let webhook = Webhook::start(503);
    let Own { server, data } = webhook.host(true);
    let id = server.client().enqueue(&echo(&webhook.notify()));
    let first = webhook.next();
    assert_eq!(server.client().wait(&id)["state"], "completed");
    server.kill();
    webhook.answer(200);
    let server = start(data.path(), &webhook.config(true));
    let second = webhook.next();
    assert_eq!(second.body, first.body);
    let delivery = delivered(&server.client(), &second);
    assert_eq!(delivery["state"], "completed", "{delivery}");
}

#[test]
fn another_node_delivers_what_a_killed_one_had_to() {
    let webhook = Webhook::start(503);
    let (one, two) = (Node::new("webhooks"), Node::new("webhooks"));
    let config = webhook.config(true);
    let variables = [("HOOKS", secret())];
    let env = [(variables[0].0, variables[0].1.as_str())];
    let first = one.start_configured_with(&config, &env);
    deploy(&first.client(), "basics");
    first.client().enqueue(&echo(&webhook.notify()));
    let got = webhook.next();
    first.kill();
    webhook.answer(200);
    let second = two.start_configured_with(&config, &env);
    let again = eventually("the delivery", Duration::from_mins(3), || {
        webhook.got.recv_timeout(Duration::from_millis(200)).ok()
    });
    again.check();
    assert_eq!(again.header("webhook-id"), got.header("webhook-id"));
    let delivery = delivered(&second.client(), &again);
    assert_eq!(delivery["state"], "completed", "{delivery}");
}
