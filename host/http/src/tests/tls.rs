//! TLS: what is agreed, who is let in, and what half a handshake costs. With real certificates, over
//! loopback.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use host_core::time::Time;
use host_runtime::tasks::Tasks;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::certificates::{Authority, EXPIRED, NOT_YET, VALID, pair, replace};
use super::crowds::allow_many_files;
use super::fixture::{Counted, Recorded, SOON, served};
use crate::serve::{ConnectionLimits, Served, Transport, accept};
use crate::tls::{Tls, TlsFiles};

const NOW: Time = Time(1_767_225_600_000);
const ASK: &[u8] = b"GET /api/peer HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
const BOTH: &[&SupportedProtocolVersion] = &[&TLS12, &TLS13];

struct Listening {
    address: SocketAddr,
    tls: Tls,
    metrics: Arc<Counted>,
    gate: Arc<Recorded>,
    tasks: Tasks,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.tasks.stop();
    }
}

async fn listen(files: TlsFiles, handshakes_max: usize) -> Listening {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tasks, metrics) = (Tasks::default(), Arc::<Counted>::default());
    let (tls, gate) = (Tls::load(files).unwrap(), Arc::<Recorded>::default());
    let served = Served {
        gate: Arc::clone(&gate) as _,
        transport: Transport {
            tls: Some(tls.clone()),
            ..Transport::default()
        },
        ..served(&metrics)
    };
    let limits = ConnectionLimits {
        max: 100_000,
        handshakes_max,
    };
    let theirs = tasks.clone();
    tasks.spawn(async move { accept(&listener, &served, &theirs, limits).await });
    Listening {
        address,
        tls,
        metrics,
        gate,
        tasks,
    }
}

/// A client that trusts the authority and may present a certificate of `presented`.
fn client(
    trusted: &Authority,
    presented: Option<(&Authority, &str)>,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.der()).unwrap();
    let builder = ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    match presented {
        None => builder.with_no_client_auth(),
        Some((folder, file)) => {
            let (chain, key) = pair(folder, file);
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    }
}

async fn connect(
    address: SocketAddr,
    config: ClientConfig,
    name: &'static str,
) -> Result<TlsStream<TcpStream>, String> {
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from(name).unwrap();
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
    let connected = tokio::time::timeout(SOON, connecting).await.unwrap();
    connected.map_err(|error| error.to_string())
}

/// Sends a request and returns the answer. In TLS 1.3 a server refuses a client only after the handshake.
async fn ask(
    address: SocketAddr,
    config: ClientConfig,
    name: &'static str,
) -> Result<String, String> {
    let mut stream = connect(address, config, name).await?;
    let exchanged = async {
        stream.write_all(ASK).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    let answer: std::io::Result<String> = tokio::time::timeout(SOON, exchanged).await.unwrap();
    answer.map_err(|error| error.to_string())
}

#[tokio::test]
async fn both_versions_speak_http_1_1_and_say_that_browsers_must_stay() {
    let authority = Authority::new();
    let host = listen(authority.server(), 10).await;
    for (version, agreed) in [
        (&TLS13, ProtocolVersion::TLSv1_3),
        (&TLS12, ProtocolVersion::TLSv1_2),
    ] {
        let mut config = client(&authority, None, &[version]);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut stream = connect(host.address, config, "localhost").await.unwrap();
        let connection = stream.get_ref().1;
        assert_eq!(connection.protocol_version(), Some(agreed));
        assert_eq!(connection.alpn_protocol(), Some(&b"http/1.1"[..]));
        stream.write_all(ASK).await.unwrap();
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        tokio::time::timeout(SOON, read).await.unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(
            answer.contains("strict-transport-security: max-age=31536000\r\n"),
            "{answer}"
        );
        assert!(answer.contains("is_tls: true"), "{answer}");
    }
    // So do answers to what is no request, before any route is known.
    let mut stream = connect(host.address, client(&authority, None, BOTH), "localhost")
        .await
        .unwrap();
    stream.write_all(b"NO REQUEST\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    tokio::time::timeout(SOON, read).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(
        answer.contains("strict-transport-security: max-age=31536000\r\n"),
        "{answer}"
    );
    let mut config = client(&authority, None, BOTH);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let refused = connect(host.address, config, "localhost")
        .await
        .unwrap_err();
    assert!(refused.contains("NoApplicationProtocol"), "{refused}");
}

#[tokio::test]
async fn clients_refuse_a_certificate_that_is_not_good() {
    let (authority, other) = (Authority::new(), Authority::new());
    let files = authority.server();
    for (years, name, trusted, says) in [
        (VALID, "localhost", &authority, None),
        (
            VALID,
            "jobs.example.com",
            &authority,
            Some("not valid for name"),
        ),
        (
            EXPIRED,
            "localhost",
            &authority,
            Some("certificate expired"),
        ),
        (NOT_YET, "localhost", &authority, Some("not valid yet")),
        (VALID, "localhost", &other, Some("UnknownIssuer")),
    ] {
        authority.sign(("server", "localhost"), years);
        let host = listen(files.clone(), 10).await;
        let answer = ask(host.address, client(trusted, None, BOTH), name).await;
        match says {
            None => assert!(answer.unwrap().starts_with("HTTP/1.1 200")),
            Some(says) => {
                let error = answer.unwrap_err();
                assert!(error.contains(says), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn only_clients_with_an_allowed_name_of_a_known_authority_are_let_in() {
    let (authority, other) = (Authority::new(), Authority::new());
    let names = ["*.ci.example.com", "spiffe://example.com/**"];
    let host = listen(authority.mutual_server(&names), 10).await;
    authority.sign(("right", "deploy.ci.example.com"), VALID);
    authority.sign(("uri", "spiffe://example.com/ns/jobs"), VALID);
    authority.sign(("wrong", "deploy.example.com"), VALID);
    authority.sign(("old", "deploy.ci.example.com"), EXPIRED);
    authority.sign(("early", "deploy.ci.example.com"), NOT_YET);
    other.sign(("stranger", "deploy.ci.example.com"), VALID);
    for version in [&TLS12, &TLS13] {
        for (presented, says) in [
            (None, "CertificateRequired"),
            (Some((&authority, "wrong")), "AccessDenied"),
            (Some((&authority, "old")), "CertificateExpired"),
            (Some((&authority, "early")), "alert: CertificateExpired"),
            (Some((&other, "stranger")), "UnknownCA"),
        ] {
            let answer = ask(
                host.address,
                client(&authority, presented, &[version]),
                "localhost",
            );
            let error = answer.await.unwrap_err();
            // TLS 1.2 has no alert of its own for a certificate that is missing.
            let says = match (presented, version.version) {
                (None, ProtocolVersion::TLSv1_2) => "alert",
                _ => says,
            };
            assert!(
                error.contains(says),
                "{presented:?}: {error}",
                presented = presented.map(|it| it.1)
            );
        }
        for (file, name) in [
            ("right", "deploy.ci.example.com"),
            ("uri", "spiffe://example.com/ns/jobs"),
        ] {
            let config = client(&authority, Some((&authority, file)), &[version]);
            let answer = ask(host.address, config, "localhost").await.unwrap();
            let shown = format!("certificate_name: Some(\"{name}\")");
            assert!(answer.contains(&shown), "{answer}");
        }
    }
    assert_eq!(*host.metrics.failed_handshakes.lock().unwrap(), 10);
    let how = "connect with a client certificate".to_owned();
    let denial = |status| ("127.0.0.1".to_owned(), how.clone(), status);
    let of_version = [401, 403, 401, 401, 401].map(denial);
    let denied = host.gate.denials.lock().unwrap().clone();
    assert_eq!(denied, [of_version.clone(), of_version].concat());
}

/// How many connections say nothing: few by default, 10,000 with `HOST_LONG_TESTS`.
fn idle_count() -> usize {
    #[expect(clippy::disallowed_methods, reason = "this is no configuration")]
    let is_long = std::env::var_os("HOST_LONG_TESTS").is_some();
    if !is_long {
        return 500;
    }
    allow_many_files();
    10_000
}

#[tokio::test]
async fn those_who_say_nothing_do_not_keep_out_those_who_speak() {
    let count = idle_count();
    let authority = Authority::new();
    let host = listen(authority.server(), 64).await;
    let config = client(&authority, None, BOTH);
    let mut idle = Vec::new();
    for number in 0..count {
        let mut stream = TcpStream::connect(host.address).await.unwrap();
        if number % 2 == 0 {
            // The head of a record, and nothing that it announces.
            let _ = stream.write_all(b"\x16\x03\x01\x02\x00").await;
        }
        idle.push(stream);
        if number % (count / 5) == 0 {
            let answer = ask(host.address, config.clone(), "localhost")
                .await
                .unwrap();
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
    }
    // All but the last were closed to make room.
    let mut byte = [0];
    for stream in &mut idle[..count - 64 - 1] {
        let read = tokio::time::timeout(SOON, stream.read(&mut byte)).await;
        assert!(matches!(read.unwrap(), Ok(0) | Err(_)));
    }
    let answer = ask(host.address, config, "localhost").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn handshakes_of_one_address_give_way_to_those_of_others() {
    let authority = Authority::new();
    let host = listen(authority.server(), 8).await;
    let slow = TcpStream::connect(host.address).await.unwrap();
    let mut idle = Vec::new();
    for _ in 0..100 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        idle.push(socket.connect(host.address).await.unwrap());
    }
    // It began long before the last of them.
    let config = client(&authority, None, BOTH);
    let name = ServerName::try_from("localhost").unwrap();
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, slow);
    let mut stream = tokio::time::timeout(SOON, connecting)
        .await
        .unwrap()
        .unwrap();
    // With TLS, too, a client may close its side once its request is complete.
    stream.write_all(ASK).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    tokio::time::timeout(SOON, read).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_does_not_go_on_ends() {
    let authority = Authority::new();
    let host = listen(authority.server(), 10).await;
    for said in [
        &b""[..],
        b"\x16\x03\x01",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ] {
        let mut stream = TcpStream::connect(host.address).await.unwrap();
        stream.write_all(said).await.unwrap();
        let mut rest = Vec::new();
        let read = stream.read_to_end(&mut rest);
        let _ = tokio::time::timeout(SOON, read)
            .await
            .expect("it has a time limit");
    }
    assert_eq!(*host.metrics.failed_handshakes.lock().unwrap(), 3);
}

#[tokio::test]
async fn what_is_no_tls_is_told_so_by_an_alert() {
    let authority = Authority::new();
    let host = listen(authority.server(), 10).await;
    let mut stream = TcpStream::connect(host.address).await.unwrap();
    stream.write_all(ASK).await.unwrap();
    let mut alert = Vec::new();
    let read = stream.read_to_end(&mut alert);
    let _ = tokio::time::timeout(SOON, read).await.unwrap();
    assert_eq!(alert.first(), Some(&0x15), "{alert:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_connection_is_refused_while_certificates_change() {
    let authority = Authority::new();
    let host = listen(authority.server(), 100).await;
    for file in ["one", "two"] {
        authority.sign((file, "localhost"), VALID);
    }
    let (done, answered) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let config = client(&authority, None, BOTH);
            let (address, done, answered) =
                (host.address, Arc::clone(&done), Arc::clone(&answered));
            async move {
                while !done.load(Ordering::Relaxed) {
                    let answer = ask(address, config.clone(), "localhost").await.unwrap();
                    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            }
        })
        .collect();
    let changing = async {
        for number in 0..40 {
            let file = if number % 2 == 0 { "one" } else { "two" };
            replace(&authority, "server", &authority.path(file));
            assert!(host.tls.reload(NOW, false).unwrap());
            let seen = answered.load(Ordering::Relaxed);
            while answered.load(Ordering::Relaxed) == seen {
                tokio::task::yield_now().await;
            }
        }
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(futures_util::future::join_all(clients), changing);
    assert_eq!(*host.metrics.failed_handshakes.lock().unwrap(), 0);
}
