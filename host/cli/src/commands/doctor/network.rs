//! Checks whether a host can listen where commands look for one.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::time::Duration;

use host_console::client::{Client, SERVER_DEFAULT};

use super::Check;

/// Checks the default address.
pub(super) fn port() -> Check {
    let address = SERVER_DEFAULT.trim_start_matches("http://");
    match TcpListener::bind(address) {
        Ok(_) => Check::ok("address", format!("{address} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse && answers() => {
            Check::ok("address", format!("a host answers at {address}"))
        }
        Err(error) => Check::warn(
            "address",
            format!("cannot listen on {address}: {error}"),
            "stop the program that uses it, or choose another port with `host serve --listen` and HOST_SERVER",
        ),
    }
}

fn answers() -> bool {
    Client::new(SERVER_DEFAULT)
        .and_then(|client| client.get("ask for its health", "/healthz", Duration::ZERO))
        .is_ok()
}
