//! Checks whether a host can listen on its configured address, which commands use by default.

use std::io::ErrorKind;
use std::net::TcpListener;

use host_api::client::{Client, SERVER_DEFAULT};
use host_server::config::Config;

use super::Check;

/// Checks the address of the configuration, or the default one if there is none. Nothing if the host would
/// not listen.
pub(super) fn port(config: Option<&Config>) -> Option<Check> {
    let address = match config {
        Some(config) => config.listen?.to_string(),
        None => SERVER_DEFAULT.trim_start_matches("http://").to_owned(),
    };
    Some(match TcpListener::bind(&address) {
        Ok(_) => Check::ok("address", format!("{address} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse && answers(&address) => {
            Check::ok("address", format!("a host answers at {address}"))
        }
        Err(error) => Check::warn(
            "address",
            format!("cannot listen on {address}: {error}"),
            "stop the program that uses it, or choose another port with `host serve --listen` and HOST_SERVER",
        ),
    })
}

fn answers(address: &str) -> bool {
    let client = Client::new(&format!("http://{address}"));
    client.is_ok_and(|client| client.health().is_ok())
}
