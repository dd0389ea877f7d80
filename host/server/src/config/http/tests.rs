//! Which listeners are refused, and what they need.

use super::*;
use crate::config::tests::resolve;

const TLS: &str = "[http]\ntls_cert_file = '/c.pem'\ntls_key_file = '/c.key'\n";
const MUTUAL: &str = "client_ca_file = '/ca.pem'\nclient_names = ['*.example']\n";

fn refused_as(file: &str) -> String {
    resolve(&[], &[], file).unwrap_err().to_string()
}

#[test]
fn a_listener_beyond_loopback_needs_tls_and_must_know_its_clients() {
    let listen = "listen = '0.0.0.0:7700'\n";
    let both = "http.tls_cert_file and http.tls_key_file (or http.trusted_proxies), and auth.mode = \"tokens\" (or http.client_ca_file and http.client_names)";
    let clients = "auth.mode = \"tokens\" (or http.client_ca_file and http.client_names)";
    let proxies = "trusted_proxies = ['10.0.0.0/8']\n";
    for (file, missing) in [
        (format!("[http]\n{listen}"), both),
        ("[http]\nlisten = '[::]:7700'\n".to_owned(), both),
        ("[http]\nlisten = '192.0.2.1:80'\n".to_owned(), both),
        (format!("{TLS}{listen}"), clients),
        // Proxies end TLS, but identify no client.
        (format!("[http]\n{listen}{proxies}"), clients),
        (
            format!("{TLS}{MUTUAL}[[listeners]]\naddress = '0.0.0.0:1'\ntls = false"),
            both,
        ),
        (
            format!("{TLS}[[listeners]]\naddress = '0.0.0.0:1'\nserves = ['metrics']"),
            clients,
        ),
        (
            "[[listeners]]\naddress = '0.0.0.0:1'\nserves = ['callbacks']".to_owned(),
            "http.tls_cert_file and http.tls_key_file (or http.trusted_proxies)",
        ),
    ] {
        let message = refused_as(&file);
        assert!(message.contains("is not a loopback address"), "{message}");
        assert!(
            message.ends_with(&format!("missing: {missing}")),
            "{message}"
        );
    }
    for file in [
        format!("{TLS}{MUTUAL}{listen}"),
        format!("{TLS}{listen}[auth]\nmode = 'tokens'\n"),
        format!("[http]\n{listen}{proxies}[auth]\nmode = 'tokens'\n"),
        format!("{TLS}[[listeners]]\naddress = '0.0.0.0:1'\nserves = ['callbacks']"),
        format!("[http]\n{proxies}[[listeners]]\naddress = '0.0.0.0:1'\nserves = ['callbacks']"),
        format!("{TLS}{MUTUAL}[[listeners]]\naddress = '[::]:1'\nserves = ['metrics', 'api']"),
    ] {
        resolve(&[], &[], &file).unwrap();
    }
}

/// What `packaging/` publishes is the port on which the host listens there, and the host accepts the variables.
#[test]
fn the_image_and_the_manifest_publish_the_port_of_the_api() {
    let manifest = include_str!("../../../../../packaging/kubernetes.yaml");
    let image = include_str!("../../../../../xtask/src/dist/image.rs");
    let variable = |line: &'static str| {
        let (name, value) = line
            .trim()
            .strip_prefix("- { name: HOST_")?
            .split_once(", value: ")?;
        let value = value.split(" }").next().unwrap().trim_matches('"');
        Some((format!("HOST_{name}"), value))
    };
    let variables: Vec<_> = manifest.lines().filter_map(variable).collect();
    let env: Vec<(&str, &str)> = variables
        .iter()
        .map(|(name, value)| (&**name, *value))
        .collect();
    let http = resolve(&[], &env, "").unwrap().http;
    let address = http.main.expect("it listens").address;
    assert!(
        address.ip().is_unspecified() && http.tls.is_some(),
        "{address}"
    );
    let port = address.port();
    for (file, line) in [
        (
            manifest,
            format!("- {{ name: api, port: {port}, targetPort: api }}"),
        ),
        (
            manifest,
            format!("- {{ name: api, containerPort: {port} }}"),
        ),
        (
            image,
            format!("\"ExposedPorts\": {{\"{port}/tcp\": {{}}}},"),
        ),
    ] {
        assert!(file.lines().any(|it| it.trim() == line), "{line}");
    }
}

#[test]
fn listeners_serve_what_they_name_and_everything_without_a_word() {
    let file = format!(
        "{TLS}listen = 'off'\n\
         [[listeners]]\naddress = '127.0.0.1:1'\n\
         [[listeners]]\naddress = '127.0.0.1:2'\ntls = false\nserves = ['metrics', 'pages']"
    );
    let http = resolve(&[], &[], &file).unwrap().http;
    assert_eq!(http.main, None);
    let listeners: Vec<_> = http.listeners().cloned().collect();
    let listener = |address: &str, is_tls, serves: &[Door]| Listener {
        address: address.parse().unwrap(),
        is_tls,
        serves: serves.into(),
    };
    let expected = [
        listener("127.0.0.1:1", true, &DOORS),
        listener("127.0.0.1:2", false, &[Door::Metrics, Door::Pages]),
    ];
    assert_eq!(listeners, expected);
    let http = resolve(&[], &[], "").unwrap().http;
    assert_eq!(http.main, Some(listener("127.0.0.1:7700", false, &DOORS)));
    assert!(http.others.is_empty() && http.tls.is_none());
}

#[test]
fn keys_that_belong_together_must_be_together() {
    for (file, says) in [
        (
            "[http]\ntls_cert_file = '/c'",
            "http.tls_cert_file: needs http.tls_key_file too",
        ),
        (
            "[http]\ntls_key_file = '/c'",
            "http.tls_key_file: needs http.tls_cert_file too",
        ),
        (
            "[http]\nclient_ca_file = '/c'",
            "http.client_ca_file: needs http.client_names too",
        ),
        (
            "[http]\nclient_names = ['a']",
            "http.client_names: needs http.client_ca_file too",
        ),
        (
            "[http]\nclient_ca_file = '/c'\nclient_names = ['a']",
            "http.client_ca_file: needs http.tls_cert_file too",
        ),
        (
            "[http]\nclient_names = ['!a']",
            "client_names: invalid value `!a`: expected names",
        ),
        (
            "[http]\ntrusted_proxies = ['10.0.0.1']",
            "expected networks like 10.1.0.0/16",
        ),
        (
            "[[listeners]]\n",
            "listeners[1].address: expected an address",
        ),
        (
            "[[listeners]]\naddress = 'x'",
            "listeners[1].address: invalid value `x`: expected",
        ),
        (
            "[[listeners]]\naddress = '127.0.0.1:1'\ntls = true",
            "listeners[1].tls: needs http.tls_cert_file and http.tls_key_file",
        ),
        (
            "[[listeners]]\naddress = '127.0.0.1:1'\ntls = 'yes'",
            "listeners[1].tls: expected true or false, got a string",
        ),
        (
            "[[listeners]]\naddress = '127.0.0.1:1'\nserves = ['apis']",
            "listeners[1].serves[1]: invalid value `apis`: expected an array of some of api, callbacks, metrics, pages",
        ),
        (
            "[[listeners]]\naddress = '127.0.0.1:1'\nserves = []",
            "listeners[1].serves: expected an array",
        ),
        (
            "[[listeners]]\naddress = '127.0.0.1:1'\nserve = []",
            "unknown key `listeners[1].serve`; did you mean `listeners[].serves`?",
        ),
        (
            "listeners = [1]",
            "listeners[1]: expected a table, got an integer",
        ),
    ] {
        let message = refused_as(file);
        assert!(message.contains(says), "{file}: {message}");
    }
    let many = "[[listeners]]\naddress = '127.0.0.1:1'\n".repeat(LISTENERS_MAX + 1);
    assert!(refused_as(&many).contains("at most 16 listeners"));
}
