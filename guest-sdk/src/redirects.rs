//! Follows redirects: each hop is a request of its own, which the manifest must grant.

use crate::limits::check_request;
use crate::request::{HttpError, HttpErrorKind, HttpRequest, HttpResponse};
use crate::services::Services;

/// The most redirects of a request.
pub(crate) const HOPS_MAX: u32 = 20;

/// What a request to another origin keeps: no header that could be a credential.
const HARMLESS: [&str; 6] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "content-language",
    "content-type",
    "user-agent",
];

/// Sends a request, and follows at most so many redirects. Returns the last answer.
pub(crate) fn send_all(
    services: &dyn Services,
    mut request: HttpRequest,
    hops_max: u32,
) -> Result<HttpResponse, HttpError> {
    let mut hops = 0;
    loop {
        check_request(&request)?;
        let response = services.http(&request)?;
        let is_redirect = matches!(response.status, 301 | 302 | 303 | 307 | 308);
        let location = response.header("location").unwrap_or_default();
        if hops_max == 0 || !is_redirect || location.is_empty() {
            return Ok(response);
        }
        let url = resolve(&request.url, location);
        if hops == hops_max {
            return Err(HttpError {
                kind: HttpErrorKind::LimitReached,
                message: format!("more than {hops_max} redirects, the last to {url}"),
            });
        }
        redirect(&mut request, response.status, url);
        hops += 1;
    }
}

/// Makes a request the one that follows a redirect, by the rules of `fetch`.
fn redirect(request: &mut HttpRequest, status: u16, url: String) {
    let is = |method: &str| request.method.eq_ignore_ascii_case(method);
    let drops_body = match status {
        303 => !is("GET") && !is("HEAD"),
        _ => status < 303 && is("POST"),
    };
    let is_same = origin(&url).is_some_and(|it| Some(it) == origin(&request.url));
    request.headers.retain(|(name, _)| {
        let name = name.to_ascii_lowercase();
        let may_leave = is_same || HARMLESS.contains(&&*name);
        may_leave && !(drops_body && name.starts_with("content-"))
    });
    if drops_body {
        "GET".clone_into(&mut request.method);
        request.body.clear();
    }
    request.url = url;
}

/// Returns scheme and server of a URL. The host refuses what could be read in another way.
fn origin(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (scheme, usual) = match scheme.to_ascii_lowercase().as_str() {
        "http" => ("http", ":80"),
        "https" => ("https", ":443"),
        _ => return None,
    };
    let server = rest.split(['/', '?', '#', '\\']).next()?;
    let name = server.strip_suffix(usual).unwrap_or(server);
    (!name.is_empty()).then(|| format!("{scheme}://{}", name.to_ascii_lowercase()))
}

fn resolve(base: &str, location: &str) -> String {
    let to = location.trim().replace(' ', "%20");
    let has_scheme = to.split_once(':').is_some_and(|(scheme, _)| {
        let is_part = |it: u8| it.is_ascii_alphanumeric() || b"+.-".contains(&it);
        scheme.starts_with(|it: char| it.is_ascii_alphabetic()) && scheme.bytes().all(is_part)
    });
    if has_scheme {
        return to;
    }
    let server_at = base.find("://").map_or(base.len(), |at| at + 3);
    let path_at = base[server_at..].find(['/', '?', '#', '\\']);
    let (origin, rest) = base.split_at(path_at.map_or(base.len(), |at| server_at + at));
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    match to.as_bytes() {
        [b'/', b'/', ..] => format!("{}:{to}", base.split(':').next().unwrap_or_default()),
        [b'/', ..] => format!("{origin}{to}"),
        [b'?' | b'#', ..] => format!("{origin}{path}{to}"),
        _ => {
            let folder = path.rfind('/').map_or("/", |at| &path[..=at]);
            format!("{origin}{folder}{to}")
        }
    }
}

#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_resolved_against_its_url() {
        for (base, location, expected) in [
            ("https://a.com/x/y?q#f", "z", "https://a.com/x/z"),
            ("https://a.com/x/y", "../z", "https://a.com/x/../z"),
            ("https://a.com", "z", "https://a.com/z"),
            ("https://a.com?q", "/z", "https://a.com/z"),
            ("https://a.com/x?q", "?r", "https://a.com/x?r"),
            ("https://a.com/x", "//b.com/y", "https://b.com/y"),
            (
                "https://a.com/x",
                " http://b.com/a b ",
                "http://b.com/a%20b",
            ),
            ("https://a.com/x", "/\\b.com", "https://a.com/\\b.com"),
            ("https://a.com/x", "y:1", "y:1"),
        ] {
            assert_eq!(resolve(base, location), expected, "{base} {location}");
        }
    }

    #[test]
    fn only_the_same_scheme_and_server_are_the_same_origin() {
        let same = |one, other| origin(one).is_some_and(|it| Some(it) == origin(other));
        assert!(same("https://A.com/x", "HTTPS://a.com:443/y"));
        assert!(same("http://a.com:80?x", "http://a.com/y"));
        for other in [
            "http://a.com/",
            "https://a.com:8443/",
            "https://a.com@b.com/",
            "https://a.com.b.com/",
            "https:///a.com/",
            "https:a.com/",
        ] {
            assert!(!same("https://a.com/", other), "{other}");
        }
        // A path begins at the backslash, as in the URL that the host sends.
        assert!(same("https://a.com/", "https://a.com\\@b.com/"));
    }
}
