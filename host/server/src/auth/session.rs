//! The cookie of a session: with it, a browser acts on behalf of the token that it has presented once. Scripts do
//! not see it, and pages of other sites do not send it. Pure.

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};

/// The name of the cookie. Over TLS, browsers take a name with this prefix only from the host itself.
const fn name(is_tls: bool) -> &'static str {
    if is_tls {
        "__Host-host_session"
    } else {
        "host_session"
    }
}

/// Returns the session that a request shows.
pub(crate) fn read_cookie(headers: &HeaderMap, is_tls: bool) -> Option<&str> {
    let values = headers.get_all(COOKIE).iter();
    let cookies = values.filter_map(|values| values.to_str().ok());
    cookies
        .flat_map(|cookies| cookies.split("; "))
        .find_map(|cookie| cookie.strip_prefix(name(is_tls))?.strip_prefix('='))
}

/// Returns the header that gives a session to a browser for some seconds, or with 0 takes it away.
pub(crate) fn write_cookie(session: &str, is_tls: bool, seconds: u64) -> HeaderValue {
    let (name, secure) = (name(is_tls), if is_tls { "; Secure" } else { "" });
    let text =
        format!("{name}={session}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    // A session is made of letters, digits and underscores.
    let mut given = HeaderValue::from_str(&text).unwrap_or(const { HeaderValue::from_static("") });
    given.set_sensitive(true);
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_shown_as_it_was_given() {
        for is_tls in [false, true] {
            let header = write_cookie("hst_a_b", is_tls, 9);
            let given = header.to_str().unwrap();
            for attribute in ["; HttpOnly", "; SameSite=Strict", "; Path=/", "; Max-Age=9"] {
                assert!(given.contains(attribute), "{given}");
            }
            assert_eq!(given.contains("; Secure"), is_tls);
            assert_eq!(given.starts_with("__Host-"), is_tls);
            let pair = given.split(';').next().unwrap();
            let mut headers = HeaderMap::new();
            headers.append(COOKIE, "theme=dark".parse().unwrap());
            headers.append(COOKIE, format!("x_{pair}; {pair}").parse().unwrap());
            assert_eq!(read_cookie(&headers, is_tls), Some("hst_a_b"));
            assert_eq!(read_cookie(&headers, !is_tls), None);
        }
    }
}
