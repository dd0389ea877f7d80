//! `host serve` with a Redis behind TLS: which certificates are accepted, and the errors for others.

use std::fs;

use host_tests::{Redis, eventually};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::hero_serve::{Fixture, WAIT_MAX, doctor, log};

/// The PEM files of a certificate authority, a server and a client.
struct Certificates(TempDir);

impl Certificates {
    /// Creates the files for a server with these names.
    fn new(names: &[&str]) -> Self {
        let made = Self(TempDir::new().unwrap());
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "an authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&key).unwrap();
        made.write("ca.pem", &ca.pem());
        let issuer = Issuer::new(params, key);
        for (who, names) in [("server", names), ("client", &["host"])] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let mut params = CertificateParams::new(names).unwrap();
            params.distinguished_name.push(DnType::CommonName, who);
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap();
            made.write(&format!("{who}.pem"), &certificate.pem());
            made.write(&format!("{who}.key"), &key.serialize_pem());
        }
        made
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).unwrap();
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn redis(&self, mutual: bool) -> Redis {
        Redis::with_tls(self.0.path(), mutual)
    }
}

fn tls(redis: &Redis) -> String {
    format!("rediss://127.0.0.1:{}/0", redis.port() + 1)
}

#[test]
fn jobs_run_over_tls() {
    let files = Certificates::new(&["127.0.0.1"]);
    let fixture = Fixture::new(files.redis(false));
    let url = tls(&fixture.redis);
    let ca = files.path("ca.pem");
    let host = fixture.host_with("data", &url, &format!("ca_file = \"{ca}\""));
    let mut client = fixture.client();
    client.submit(1, &[("script", "40 + 2")]);
    assert_eq!(client.reply(1), "42");
    let (status, output) = doctor(&[("HOST_HERO_URL", &url), ("HOST_HERO_CA_FILE", &ca)]);
    assert_eq!(status, "warn", "{output}");
    assert!(
        output.contains("rediss://") && output.contains("append-only"),
        "{output}"
    );
    assert_eq!(host.stop(), Some(0));
}

#[test]
fn servers_with_a_wrong_certificate_are_refused() {
    let files = Certificates::new(&["localhost"]);
    let other = Certificates::new(&["localhost"]);
    let fixture = Fixture::new(files.redis(false));
    let port = fixture.redis.port();
    let (ca, others) = (files.path("ca.pem"), other.path("ca.pem"));
    let good = format!("rediss://:hush@localhost:{}", port + 1);
    let named = format!("rediss://:hush@127.0.0.1:{}", port + 1);
    let plain_port = format!("rediss://:hush@localhost:{port}");
    let tls_port = format!("redis://:hush@localhost:{}", port + 1);
    let table = [
        (&good, "", "has an untrusted issuer"),
        (&good, others.as_str(), "has an untrusted issuer"),
        (&named, &ca, "for another name"),
        (&plain_port, &ca, "does not answer in TLS"),
        (&tls_port, "", "write rediss://"),
    ];
    for (url, ca, words) in table {
        let (status, output) = doctor(&[("HOST_HERO_URL", url), ("HOST_HERO_CA_FILE", ca)]);
        assert_eq!(status, "warn", "{output}");
        assert!(output.contains(words), "{url} {words}: {output}");
        assert!(
            output.contains("localhost:") || output.contains("127.0.0.1:"),
            "{output}"
        );
        assert!(!output.contains("hush"), "{output}");
    }
    // A host logs the same error and continues to run.
    let host = fixture.host_with("data", &good, &format!("ca_file = \"{others}\""));
    eventually("the refusal", WAIT_MAX, || {
        let log = log(&fixture.path("data"));
        log.contains("has an untrusted issuer").then_some(())
    });
    assert_eq!(host.client().get("/readyz").unwrap().status, 200);
    assert_eq!(host.stop(), Some(0));
    assert!(!log(&fixture.path("data")).contains("hush"));
}

#[test]
fn a_server_may_require_a_client_certificate() {
    let files = Certificates::new(&["127.0.0.1"]);
    let fixture = Fixture::new(files.redis(true));
    let (url, ca) = (tls(&fixture.redis), files.path("ca.pem"));
    let base = [("HOST_HERO_URL", url.as_str()), ("HOST_HERO_CA_FILE", &ca)];
    let (_, output) = doctor(&base);
    assert!(output.contains("cert_file and key_file"), "{output}");
    let (certificate, key) = (files.path("client.pem"), files.path("client.key"));
    let lines = format!("ca_file = \"{ca}\"\ncert_file = \"{certificate}\"\nkey_file = \"{key}\"");
    let _host = fixture.host_with("data", &url, &lines);
    let mut client = fixture.client();
    client.submit(1, &[("script", "1")]);
    assert_eq!(client.reply(1), "1");
}
