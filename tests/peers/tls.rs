//! TLS of the host with openssl and curl: certificates as the documentation makes them, and both programs as
//! clients.

use std::process::{Command, Output, Stdio};

use host_tests::server::host;
use host_tests::{Options, Server};
use tempfile::TempDir;

const NAME: &str = "jobs.example.com";

fn sh(folder: &TempDir, script: &str) -> Output {
    let output = Command::new("sh")
        .args(["-ec", script])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output();
    output.unwrap()
}

fn done(folder: &TempDir, script: &str) {
    let output = sh(folder, script);
    assert!(output.status.success(), "{script}\n{output:?}");
}

fn stderr_of(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    format!("{out}{err}")
}

/// Makes an authority and the certificate of a host, by the commands of the documentation.
fn certificates() -> TempDir {
    let folder = TempDir::new().unwrap();
    let page = include_str!("../../docs/network.md");
    let block = page.split("```sh\n").nth(1).unwrap();
    let commands = block.split("\n```").next().unwrap();
    assert!(commands.matches("openssl").count() == 3, "{commands}");
    done(&folder, commands);
    folder
}

fn start(folder: &TempDir, more: &str) -> Server {
    let config = folder.path().join("host.toml");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (path("server.pem"), path("server.key"));
    let text = format!("[http]\ntls_cert_file = '{certificate}'\ntls_key_file = '{key}'\n{more}");
    std::fs::write(&config, text).unwrap();
    let mut options = Options::new(&folder.path().join("data"));
    options.args = vec!["--config".to_owned(), config.display().to_string()];
    Server::start(&options)
}

fn port(server: &Server) -> String {
    server.address().rsplit(':').next().unwrap().to_owned()
}

#[test]
fn curl_and_openssl_agree_with_the_host() {
    let folder = certificates();
    let server = start(&folder, "");
    let port = port(&server);
    let curl =
        format!("curl -sS --resolve {NAME}:{port}:127.0.0.1 -i https://{NAME}:{port}/healthz");
    for version in ["--tlsv1.3", "--tls-max 1.2", "--http2"] {
        let answer = sh(&folder, &format!("{curl} --cacert ca.pem {version}"));
        let stderr = stderr_of(&answer);
        assert!(stderr.starts_with("HTTP/1.1 200"), "{version}: {stderr}");
        assert!(
            stderr.contains("strict-transport-security: max-age=31536000"),
            "{stderr}"
        );
    }
    // The codes of curl for a certificate that it does not trust, and for no common version.
    for (flags, code) in [
        ("", 60),
        (
            "--cacert ca.pem --tls-max 1.1 --ciphers DEFAULT@SECLEVEL=0",
            35,
        ),
    ] {
        let refused = sh(&folder, &format!("{curl} {flags}"));
        assert_eq!(
            refused.status.code(),
            Some(code),
            "{flags}: {}",
            stderr_of(&refused)
        );
    }
    let openssl = format!(
        "openssl s_client -connect 127.0.0.1:{port} -servername {NAME} -verify_hostname {NAME} \
         -CAfile ca.pem -verify_return_error"
    );
    for (flags, protocol) in [("-tls1_3", "TLSv1.3"), ("-tls1_2", "TLSv1.2")] {
        let agreed = sh(&folder, &format!("{openssl} -alpn h2,http/1.1 {flags}"));
        let stderr = stderr_of(&agreed);
        assert!(
            agreed.status.success() && stderr.contains(protocol),
            "{stderr}"
        );
        assert!(stderr.contains("ALPN protocol: http/1.1"), "{stderr}");
        assert!(stderr.contains("Verify return code: 0 (ok)"), "{stderr}");
        assert!(!stderr.contains("Compression: zlib"), "{stderr}");
    }
    let old = sh(
        &folder,
        &format!("{openssl} -tls1_1 -cipher DEFAULT@SECLEVEL=0"),
    );
    assert!(!old.status.success(), "{}", stderr_of(&old));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn clients_of_openssl_need_an_allowed_name() {
    let folder = certificates();
    for (file, name, bits) in [
        ("right", "a.ci.example.com", 2_048),
        ("wrong", "a.example.com", 2_048),
        ("weak", "b.ci.example.com", 1_024),
    ] {
        done(
            &folder,
            &format!(
                "openssl req -newkey rsa:{bits} -nodes -subj /CN={file} -addext subjectAltName=DNS:{name} \
                 -addext extendedKeyUsage=clientAuth -keyout {file}.key -out {file}.csr\n\
                 openssl x509 -req -in {file}.csr -CA ca.pem -CAkey ca.key -copy_extensions copy -days 2 \
                 -out {file}.pem"
            ),
        );
    }
    let ca = folder.path().join("ca.pem");
    let more = format!(
        "client_ca_file = '{}'\nclient_names = ['*.ci.example.com']",
        ca.display()
    );
    let server = start(&folder, &more);
    let port = port(&server);
    let curl = format!(
        "curl -sS --resolve {NAME}:{port}:127.0.0.1 --cacert ca.pem -i https://{NAME}:{port}/healthz"
    );
    let answer = stderr_of(&sh(
        &folder,
        &format!("{curl} --cert right.pem --key right.key"),
    ));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // openssl itself would not show a weak certificate.
    let lax = "openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nCipherString = DEFAULT@SECLEVEL=0\n";
    std::fs::write(folder.path().join("lax.cnf"), lax).unwrap();
    for flags in [
        "",
        "--cert wrong.pem --key wrong.key",
        "--cert weak.pem --key weak.key",
    ] {
        let refused = sh(&folder, &format!("OPENSSL_CONF=lax.cnf {curl} {flags}"));
        let stderr = stderr_of(&refused);
        assert!(
            !refused.status.success() && stderr.contains("alert"),
            "{stderr}"
        );
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_weak_key_of_openssl_is_refused() {
    let folder = certificates();
    done(
        &folder,
        "openssl req -newkey rsa:1024 -nodes -subj /CN=weak -addext subjectAltName=DNS:localhost \
         -keyout weak.key -out weak.csr\n\
         openssl x509 -req -in weak.csr -CA ca.pem -CAkey ca.key -copy_extensions copy -days 2 -out weak.pem",
    );
    let config = folder.path().join("weak.toml");
    let text =
        "[http]\nlisten = '127.0.0.1:0'\ntls_cert_file = 'weak.pem'\ntls_key_file = 'weak.key'\n";
    std::fs::write(&config, text).unwrap();
    let refused = Command::new(host())
        .args(["serve", "--config", "weak.toml", "--data", "data"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = stderr_of(&refused);
    assert!(
        text.contains("weak.key is weak: RSA with 1024 bits"),
        "{text}"
    );
}
