//! The token of a client.

use std::fmt;
use std::net::IpAddr;

use ureq::http::header::AUTHORIZATION;
use ureq::http::{HeaderMap, HeaderValue};

use super::{Client, LOCAL_BASE, WrongServer};

/// A token as requests show it. `Debug` does not.
#[derive(Clone)]
pub(super) struct ClientToken(HeaderValue);

impl fmt::Debug for ClientToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientToken")
    }
}

impl ClientToken {
    /// Adds the token to the header of a request.
    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        headers.insert(AUTHORIZATION, self.0.clone());
    }
}

impl Client {
    /// Shows this token with each request. Refused for a host on another machine without TLS.
    pub fn with_token(self, token: &str) -> Result<Self, WrongServer> {
        let refused = |cause: &str, next: &str| {
            Err(WrongServer::new(
                &self.shown,
                cause.to_owned(),
                next.to_owned(),
            ))
        };
        let plain = self.base.strip_prefix("http://");
        let is_local = self.base == LOCAL_BASE;
        if !is_local && plain.is_some_and(|authority| !is_loopback(authority)) {
            let cause = "a token is not sent to another machine without TLS";
            return refused(
                cause,
                "use https://, or a tunnel to an address of this machine",
            );
        }
        let Ok(mut value) = HeaderValue::try_from(format!("Bearer {token}")) else {
            let cause = "the token contains an invalid character";
            return refused(cause, "check the file with the token");
        };
        value.set_sensitive(true);
        let token = Some(ClientToken(value));
        Ok(Self { token, ..self })
    }
}

/// Returns whether an address without a scheme names this machine.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority
            .rsplit_once(':')
            .map_or(authority, |(host, _)| host),
    };
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|host| host.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        for (authority, expected) in [
            ("localhost:7700", true),
            ("LOCALHOST", true),
            ("127.0.0.1:7700", true),
            ("127.9.9.9", true),
            ("[::1]:7700", true),
            ("[::1]", true),
            ("localhost.evil.example:7700", false),
            ("127.0.0.1.evil.example", false),
            ("10.0.0.1:7700", false),
            ("[2001:db8::1]:7700", false),
            ("0.0.0.0:7700", false),
            ("", false),
        ] {
            assert_eq!(is_loopback(authority), expected, "{authority}");
        }
    }

    #[test]
    fn a_token_is_shown_in_no_message() {
        let client = Client::new("https://host.example")
            .unwrap()
            .with_token("hst_x")
            .unwrap();
        assert!(!format!("{client:?}").contains("hst_x"));
        assert!(
            Client::new("unix:///x")
                .unwrap()
                .with_token("hst_x")
                .is_ok()
        );
        let far = Client::new("http://10.0.0.1:7700").unwrap();
        assert!(far.with_token("hst_x").is_err());
    }
}
