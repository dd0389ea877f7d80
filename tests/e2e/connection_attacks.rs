//! Hostile servers and hostile handlers, at both ends of the connections that the broker makes.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use host_tests::eventually;
use host_tests::processes::{broker, kill};
use host_tests::reflector::{SECRET, SOON};
use serde_json::{Value, json};

use crate::connections::{Fixture, NAME, authority, port, shop};

/// A server that plays a part, and keeps what it was sent.
struct Scripted {
    port: u16,
    received: Arc<Mutex<Vec<u8>>>,
}

/// What a server does with a connection. It reads with [`hear`].
type Part = fn(&mut Peer);

/// The side of the server.
struct Peer {
    stream: TcpStream,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Peer {
    fn say(&mut self, bytes: &[u8]) {
        // The broker may have hung up.
        let _ = self.stream.write_all(bytes);
    }

    /// Reads what comes next. Empty at the end.
    fn hear(&mut self) -> Vec<u8> {
        let mut room = vec![0; 64 << 10];
        let count = self.stream.read(&mut room).unwrap_or_default();
        room.truncate(count);
        self.received.lock().unwrap().extend(&room);
        room
    }

    /// Sends a message of `PostgreSQL`.
    fn message(&mut self, kind: u8, body: &[u8]) {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        self.say(&[&[kind][..], &length, body].concat());
    }

    /// Offers SCRAM, and returns the nonce of the client.
    fn offer_scram(&mut self) -> String {
        self.hear();
        self.message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0");
        let first = String::from_utf8_lossy(&self.hear()).into_owned();
        first.rsplit("r=").next().unwrap().to_owned()
    }

    /// Continues SCRAM.
    fn continue_scram(&mut self, text: &str) {
        self.message(b'R', &[b"\0\0\0\x0b", text.as_bytes()].concat());
        self.hear();
    }
}

impl Scripted {
    fn start(play: Part) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let received = Arc::clone(&kept);
                std::thread::spawn(move || {
                    let mut peer = Peer { stream, received };
                    play(&mut peer);
                    while !peer.hear().is_empty() {}
                });
            }
        });
        Self { port, received }
    }

    fn to(&self) -> String {
        format!("{NAME}:{}", self.port)
    }

    /// Checks that the server has seen nothing that is made of the password, and nothing of the guest.
    fn assert_knows_nothing(&self, what: &str) {
        let received = self.received.lock().unwrap();
        let text = String::from_utf8_lossy(&received);
        let plain = BASE64_STANDARD.encode(format!("\0report\0{SECRET}"));
        for secret in [SECRET, &plain, "OF-THE-GUEST"] {
            assert!(!text.contains(secret), "{what}: {text}");
        }
    }
}

fn login(protocol: &str, tls: &str, to: &str) -> String {
    format!(
        "[[handlers.talk.tcp]]\nto = \"{to}\"\ntls = \"{tls}\"\n\
         login = {{ protocol = \"{protocol}\", user = \"report\", password = \"{{secret:db}}\" }}\n"
    )
}

/// Lets a handler speak to each server, which it must not reach. Returns what the logs of the jobs say.
fn refuse_each(parts: &[(&str, &str, &str, Part)]) -> Vec<String> {
    let servers: Vec<Scripted> = parts
        .iter()
        .map(|(.., part)| Scripted::start(*part))
        .collect();
    let all: Vec<String> = servers.iter().map(Scripted::to).collect();
    let authority = authority();
    let host = Fixture::start(&authority, &all);
    let mut logs = Vec::new();
    for ((what, protocol, tls, _), server) in parts.iter().zip(&servers) {
        host.deploy(&login(protocol, tls, &server.to()));
        let params = json!({"to": server.to(), "send": ["OF-THE-GUEST\r\n"]});
        let job = host
            .client
            .run(&json!({"handler": "talk", "params": params, "max_attempts": 1}));
        let is_refused = job["result"]["refused"].is_string();
        let is_empty = job["result"]["answers"] == json!([""]);
        assert!(
            is_refused || is_empty || job["state"] == "discarded",
            "{what}: {job}"
        );
        server.assert_knows_nothing(what);
        let path = format!("/api/v1/jobs/{}/logs", job["id"].as_str().unwrap());
        logs.push(json!(host.client.items(&path)).to_string());
    }
    logs
}

#[test]
fn no_server_talks_the_broker_out_of_tls() {
    const GREETING: &[u8] = b"220 mail\r\n";
    let parts: &[(&str, &str, &str, Part)] = &[
        ("no TLS", "postgres", "postgres", |peer| {
            peer.hear();
            peer.say(b"N");
        }),
        ("an error", "postgres", "postgres", |peer| {
            peer.hear();
            peer.message(b'E', b"SFATAL\0C0A000\0Mno\0\0");
        }),
        ("a welcome behind the S", "postgres", "postgres", |peer| {
            peer.hear();
            peer.say(b"SR\0\0\0\x08\0\0\0\0Z\0\0\0\x05I");
        }),
        ("a welcome without TLS", "postgres", "direct", |peer| {
            peer.say(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I");
        }),
        ("no STARTTLS", "smtp", "smtp", |peer| {
            peer.say(GREETING);
            peer.hear();
            peer.say(b"250 AUTH PLAIN\r\n");
            peer.hear();
            peer.say(b"502 no\r\n");
        }),
        ("answers behind STARTTLS", "smtp", "smtp", |peer| {
            peer.say(GREETING);
            peer.hear();
            peer.say(b"250-AUTH PLAIN\r\n250 STARTTLS\r\n");
            peer.hear();
            peer.say(b"220 go\r\n250 AUTH PLAIN\r\n235 welcome\r\n");
        }),
        ("answers before STARTTLS", "smtp", "smtp", |peer| {
            peer.say(b"220 mail\r\n250 AUTH PLAIN\r\n220 go\r\n250 AUTH PLAIN\r\n235 welcome\r\n");
        }),
        ("an endless answer", "smtp", "smtp", |peer| {
            peer.say(b"220-mail\r\n".repeat(10_000).as_slice());
        }),
        ("an endless line", "smtp", "smtp", |peer| {
            peer.say(&vec![b'2'; 100_000]);
        }),
    ];
    let logs = refuse_each(parts);
    for ((what, ..), log) in parts.iter().zip(logs) {
        assert!(
            log.contains("TLS with ") || log.contains("does not begin TLS"),
            "{what}: {log}"
        );
    }
}

#[test]
fn no_server_gets_a_password_or_a_guest_by_lying_at_login() {
    let parts: &[(&str, &str, &str, Part)] = &[
        ("asks for the password", "postgres", "none", |peer| {
            peer.hear();
            peer.message(b'R', &[0, 0, 0, 3]);
        }),
        ("asks for its hash", "postgres", "none", |peer| {
            peer.hear();
            peer.message(b'R', &[0, 0, 0, 5, 1, 2, 3, 4]);
        }),
        ("offers what is unknown", "postgres", "none", |peer| {
            peer.hear();
            peer.message(b'R', b"\0\0\0\x0aPLAIN\0\0");
        }),
        ("asks for many rounds", "postgres", "none", |peer| {
            let nonce = peer.offer_scram();
            peer.continue_scram(&format!("r={nonce}x,s=c2FsdA==,i=2000000000"));
        }),
        ("takes another nonce", "postgres", "none", |peer| {
            peer.offer_scram();
            peer.continue_scram("r=other,s=c2FsdA==,i=4096");
        }),
        ("does not know the password", "postgres", "none", |peer| {
            let nonce = peer.offer_scram();
            peer.continue_scram(&format!("r={nonce}x,s=c2FsdA==,i=4096"));
            let proof = BASE64_STANDARD.encode([7; 32]);
            peer.message(b'R', &[b"\0\0\0\x0cv=", proof.as_bytes()].concat());
            peer.message(b'R', &[0; 4]);
            peer.message(b'Z', b"I");
        }),
        ("sends a huge message", "postgres", "none", |peer| {
            peer.hear();
            peer.say(b"R\x7f\xff\xff\xff\0\0\0\0");
        }),
        ("never ends its welcome", "postgres", "none", |peer| {
            peer.hear();
            peer.message(b'R', &[0; 4]);
            for _ in 0..2_000 {
                peer.message(b'S', b"a\0b\0");
            }
        }),
        ("hangs up", "postgres", "none", |peer| {
            peer.hear();
            let _ = peer.stream.shutdown(std::net::Shutdown::Both);
        }),
    ];
    let logs = refuse_each(parts);
    let words = [
        "the password itself",
        "an MD5 hash",
        "a login that is unknown",
        "rounds of SCRAM",
        "nonce",
        "verif",
        "a message of more than",
        "breaks the protocol",
        "cannot sign in",
    ];
    for (((what, ..), log), words) in parts.iter().zip(logs).zip(words) {
        assert!(log.contains(words), "{what}: {log}");
        assert!(!log.contains(SECRET), "{what}: {log}");
    }
}

/// What a guest sends while the broker signs in reaches the server behind the login, or never.
#[test]
fn what_a_guest_sends_early_waits_for_the_login() {
    let server = Scripted::start(|peer| {
        let mut said = Vec::new();
        while !said.ends_with(b"\r\nreport\r\n$")
            && !String::from_utf8_lossy(&said).contains(SECRET)
        {
            let more = peer.hear();
            if more.is_empty() {
                return;
            }
            said.extend(more);
        }
        assert!(!String::from_utf8_lossy(&said).contains("EARLY"));
        peer.say(b"-WRONGPASS no\r\n");
    });
    let authority = authority();
    let host = Fixture::start(&authority, &[server.to()]);
    host.deploy(&login("redis", "none", &server.to()));
    let params = json!({"to": server.to(), "send": ["EARLY\r\n"]});
    let job = host
        .client
        .run(&json!({"handler": "talk", "params": params, "max_attempts": 1}));
    let is_refused = job["result"]["refused"].is_string();
    let is_empty = job["result"]["answers"] == json!([""]);
    assert!(
        is_refused || is_empty || job["state"] == "discarded",
        "{job}"
    );
    let received = server.received.lock().unwrap();
    let text = String::from_utf8_lossy(&received);
    assert!(text.contains(SECRET) && !text.contains("EARLY"), "{text}");
}

/// A server that sends back what it gets, and says when it has a connection.
fn echo(address: &str) -> (u16, Receiver<()>) {
    let listener = TcpListener::bind(address).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (reached, seen): (Sender<()>, _) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = reached.send(());
            std::thread::spawn(move || {
                let mut room = vec![0; 64 << 10];
                while let Ok(count @ 1..) = stream.read(&mut room) {
                    let _ = stream.write_all(&room[..count]);
                }
            });
        }
    });
    (port, seen)
}

fn talk(host: &Fixture, to: &str) -> Value {
    host.run("talk", &json!({"to": to, "send": ["a"]}))
}

#[test]
fn a_name_that_changes_its_address_is_checked_for_each_connection() {
    let (port, _) = echo("127.0.0.1:0");
    let (_, forbidden) = echo(&format!("127.0.0.2:{port}"));
    let to = format!("{NAME}:{port}");
    let authority = authority();
    let host = Fixture::start(&authority, std::slice::from_ref(&to));
    host.deploy(&format!("[[handlers.talk.tcp]]\nto = \"{to}\"\n"));
    assert_eq!(talk(&host, &to)["answers"][0], "a");
    for answers in [
        &["127.0.0.2"][..],
        &["127.0.0.1", "127.0.0.2"],
        &["::1"],
        &["::ffff:127.0.0.2"],
        &["169.254.169.254"],
        &["0.0.0.0"],
    ] {
        host.names.set(NAME, &[answers]);
        let talked = host.client.run(&json!({
            "handler": "talk", "params": {"to": to, "send": ["a"]}, "max_attempts": 1,
        }));
        let answers = json!(answers);
        assert!(talked["result"]["answers"][0] != "a", "{answers}: {talked}");
    }
    host.names.set(NAME, &[&["127.0.0.1"]]);
    assert_eq!(talk(&host, &to)["answers"][0], "a");
    assert!(
        forbidden.try_recv().is_err(),
        "the forbidden address was reached"
    );
}

#[test]
fn an_address_that_a_run_was_given_is_nothing_in_another() {
    let (port, reached) = echo("127.0.0.1:0");
    let (other_port, _) = echo("127.0.0.1:0");
    let [to, other] = [port, other_port].map(|port| format!("{NAME}:{port}"));
    let authority = authority();
    let host = Fixture::start(&authority, &[to.clone(), other.clone()]);
    let granted = |to: &str| format!("[[handlers.talk.tcp]]\nto = \"{to}\"\n");
    host.deploy(&granted(&to));
    let mine = talk(&host, &to);
    assert_eq!(mine["peer"], format!("100.64.0.1:{port}"));
    reached.recv_timeout(SOON).unwrap();
    let given = format!("100.64.0.1:{port}");
    host.deploy("");
    assert!(talk(&host, &given)["refused"].is_string(), "no grant");
    host.deploy(&granted(&other));
    for address in [
        given.as_str(),
        &format!("100.64.0.2:{port}"),
        &format!("100.64.0.0:{port}"),
    ] {
        assert!(talk(&host, address)["refused"].is_string(), "{address}");
    }
    assert!(reached.try_recv().is_err());
}

#[test]
fn servers_that_say_nothing_hold_up_no_other_connection() {
    let (port, _) = echo("127.0.0.1:0");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    let [to, never] = [port, silent_port].map(|port| format!("{NAME}:{port}"));
    let authority = authority();
    let host = Fixture::start(&authority, &[to.clone(), never.clone()]);
    host.deploy(&format!(
        "[defaults]\ntimeout_seconds = 120\n[[handlers.stream.tcp]]\nto = \"{never}\"\nidle_seconds = 60\n[[handlers.talk.tcp]]\nto = \"{to}\"\n"
    ));
    let waits = json!({"handler": "stream", "params": {"to": never, "mib": 1}, "max_attempts": 1});
    let waiting: Vec<String> = (0..4).map(|_| host.client.enqueue(&waits)).collect();
    let open: Vec<TcpStream> = (0..4).map(|_| silent.accept().unwrap().0).collect();
    assert_eq!(talk(&host, &to)["answers"][0], "a");
    for id in &waiting {
        assert_eq!(host.client.job(id)["state"], "running");
    }
    drop((open, silent));
    for id in &waiting {
        assert_eq!(host.client.wait(id)["result"], 0);
    }
}

/// A broker that is killed takes its connections with it, and the next one begins without what the first knew.
#[test]
fn a_broker_that_is_killed_leaves_no_connection_and_no_query() {
    let authority = authority();
    let database = shop(&authority);
    let to = format!("{NAME}:{}", port(&database.endpoint()));
    let host = Fixture::start(&authority, std::slice::from_ref(&to));
    host.deploy(&format!(
        "[defaults]\ntimeout_seconds = 60\n[[handlers.queries.tcp]]\nto = \"{to}\"\ntls = \"postgres\"\npool = 1\n\
         login = {{ protocol = \"postgres\", user = \"report\", password = \"{{secret:db}}\", database = \"postgres\" }}\n"
    ));
    let queries = |queries: &[&str], end: &str| json!({"handler": "queries", "max_attempts": 1, "params": {"to": to, "queries": queries, "end": end}});
    let kept = ["SELECT pg_backend_pid()", "SELECT pg_advisory_lock(7)"];
    assert_eq!(
        host.client.run(&queries(&kept, "bye"))["state"],
        "completed"
    );
    let open = [
        "BEGIN",
        "INSERT INTO prices VALUES ('x', 1)",
        "SELECT pg_sleep(2)",
    ];
    let cut = host.client.enqueue(&queries(&open, "hang"));
    let count = |filter: &str| {
        let count =
            format!("SELECT count(*) FROM pg_stat_activity WHERE usename = 'report'{filter}");
        database.run(&count).unwrap()
    };
    eventually("the transaction is open", SOON, || {
        (count(" AND query LIKE 'SELECT pg_sleep%'") == "1").then_some(())
    });
    kill(broker(host.server.pid()).unwrap());
    eventually("its connections end", Duration::from_mins(1), || {
        (count("") == "0").then_some(())
    });
    host.client
        .post(&format!("/api/v1/jobs/{cut}/cancel"), &json!({}))
        .unwrap();
    host.client.wait(&cut);
    let found = host.client.run(&queries(
        &[
            "SELECT count(*) FROM prices",
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'",
        ],
        "bye",
    ));
    assert_eq!(found["result"], json!([["0"], ["0"]]), "{found}");
}
