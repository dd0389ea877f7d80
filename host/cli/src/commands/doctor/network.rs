//! Checks whether a host can listen on its configured addresses, which commands use by default, and whether
//! clients will accept its certificate.

use std::io::ErrorKind;
use std::net::TcpListener;

use host_api::client::{Client, SERVER_DEFAULT};
use host_http::tls::{DAYS_MIN, Tls, TlsFiles};
use host_runtime::clock::Clock;
use host_server::config::Config;

use super::Check;

/// Checks the addresses of the configuration, or the default one if there is none. Nothing if the host would
/// not listen.
pub(super) fn checks(config: Option<&Config>) -> Vec<Check> {
    let Some(config) = config else {
        return vec![port(SERVER_DEFAULT.trim_start_matches("http://"), false)];
    };
    let listeners = config.http.listeners();
    let mut checks: Vec<_> = listeners
        .map(|listener| port(&listener.address.to_string(), listener.is_tls))
        .collect();
    checks.extend(config.http.tls.clone().map(certificate));
    checks
}

fn port(address: &str, is_tls: bool) -> Check {
    match TcpListener::bind(address) {
        Ok(_) => Check::ok("address", format!("{address} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse && is_tls => {
            let found = format!("a program listens at {address}; TLS hides whether it is a host");
            Check::ok("address", found)
        }
        Err(error) if error.kind() == ErrorKind::AddrInUse && answers(address) => {
            Check::ok("address", format!("a host answers at {address}"))
        }
        Err(error) => Check::warn(
            "address",
            format!("cannot listen on {address}: {error}"),
            "stop the program that uses it, or choose another port with `host serve --listen` and HOST_SERVER",
        ),
    }
}

fn answers(address: &str) -> bool {
    let client = Client::new(&format!("http://{address}"));
    client.is_ok_and(|client| client.health().is_ok())
}

/// Checks the files of the certificate. A host that runs keeps the last ones that it could use.
fn certificate(files: TlsFiles) -> Check {
    const NAME: &str = "certificate";
    let next = "docs/network.md says how to make and renew one";
    let path = files.certificate.display().to_string();
    let tls = match Tls::load(files) {
        Ok(tls) => tls,
        Err(error) => return Check::fail(NAME, error.to_string(), next),
    };
    let now = Clock::start().now();
    if let Err(error) = tls.check(now) {
        return Check::fail(NAME, format!("{error}; clients refuse it"), next);
    }
    let days = tls.days_left(now);
    let found = format!(
        "{path} is for {} and valid for {days:.0} days",
        tls.names().join(", ")
    );
    if tls.names().is_empty() {
        let found = format!("{path} has no alternative name, so clients refuse it");
        return Check::fail(NAME, found, next);
    }
    if days < DAYS_MIN {
        return Check::warn(NAME, found, next);
    }
    Check::ok(NAME, found)
}
