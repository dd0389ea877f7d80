//! What every request passes before it is read: it must not come from a web page of another
//! origin, must carry a body of a known type, and is answered in time and counted.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Shared;
use super::problem::{Code, Problem};
use super::routes::Route;

/// How long the disk may take for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The types of bodies that some path takes.
const MEDIA_TYPES: [&str; 3] = [
    "application/json",
    "application/wasm",
    "multipart/form-data",
];

/// One route and what it shares with the others.
#[derive(Clone)]
pub(super) struct Gate {
    shared: Shared,
    method: &'static str,
    path: &'static str,
    takes_its_time: bool,
}

impl Gate {
    /// Makes the gate of a route.
    pub(super) fn new(shared: &Shared, route: &Route) -> Self {
        Self {
            shared: shared.clone(),
            method: route.method,
            path: route.path,
            takes_its_time: route.takes_its_time,
        }
    }
}

/// Lets a request through, or answers it here.
pub(super) async fn guard(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let clock = gate.shared.api.clock;
    let began = clock.uptime();
    let changes_nothing = request.method().is_safe();
    let checked = check(
        &gate.shared.hosts,
        request.method(),
        request.uri(),
        request.headers(),
    );
    let response = match checked {
        Err(problem) => problem.into_response(),
        Ok(()) if gate.takes_its_time => next.run(request).await,
        Ok(()) => tokio::time::timeout(ANSWER_TIMEOUT, next.run(request))
            .await
            .unwrap_or_else(|_| {
                let seconds = ANSWER_TIMEOUT.as_secs();
                let detail = format!("the host did not answer within {seconds} seconds");
                Problem::new(Code::TimedOut, detail).into_response()
            }),
    };
    // What was done must be told whether there is room or not.
    let response = if changes_nothing {
        let given = gate.shared.answers.give_out(response).await;
        given.unwrap_or_else(IntoResponse::into_response)
    } else {
        response
    };
    let took = clock.uptime().saturating_sub(began);
    let metrics = &gate.shared.api.metrics;
    metrics.answered(gate.method, gate.path, response.status().as_u16(), took);
    response
}

/// Checks what does not depend on the path.
pub(super) fn check(
    allowed: &[String],
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    let host = check_host(allowed, uri, headers)?;
    check_origin(host, headers)?;
    if method == Method::POST || method == Method::PUT {
        check_body(headers)?;
    }
    Ok(())
}

fn check_host<'a>(
    allowed: &[String],
    uri: &Uri,
    headers: &'a HeaderMap,
) -> Result<&'a str, Problem> {
    let refused = |detail: &str| Err(Problem::new(Code::HostRefused, detail));
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return refused("a request has exactly one Host header");
    };
    let Ok(host) = host.to_str() else {
        return refused("the Host header is not ASCII");
    };
    let targets = [Some(host), uri.authority().map(Authority::as_str)];
    for target in targets.into_iter().flatten() {
        let name = without_port(target);
        if !allowed
            .iter()
            .any(|allowed| allowed.eq_ignore_ascii_case(name))
        {
            let shown: String = name.chars().take(64).collect();
            return refused(&format!("{shown:?} is not an address of this host"));
        }
    }
    Ok(host)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Browsers say where a request comes from; programs do not.
fn check_origin(host: &str, headers: &HeaderMap) -> Result<(), Problem> {
    if let Some(origin) = headers.get(ORIGIN) {
        let own = origin.to_str().ok().and_then(|origin| {
            let (scheme, authority) = origin.split_once("://")?;
            Some(scheme == "http" && authority.eq_ignore_ascii_case(host))
        });
        if own != Some(true) {
            let detail = "the Origin header names another origin than the host's own";
            return Err(Problem::new(Code::OriginRefused, detail));
        }
    }
    match headers.get(SEC_FETCH_SITE) {
        Some(site) if site != "same-origin" && site != "none" => {
            let detail = "the Sec-Fetch-Site header says that another site asks";
            Err(Problem::new(Code::OriginRefused, detail))
        }
        _ => Ok(()),
    }
}

fn check_body(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(CONTENT_ENCODING) {
        let detail = "bodies are taken without a content encoding only";
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    let Some(kind) = media_type(headers) else {
        let detail = "the Content-Type header is missing";
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    };
    if MEDIA_TYPES
        .iter()
        .any(|known| known.eq_ignore_ascii_case(kind))
    {
        return Ok(());
    }
    Err(unsupported(kind, "no path"))
}

/// Checks that a path which takes one type of body has got it.
pub(super) fn check_json(headers: &HeaderMap) -> Result<(), Problem> {
    match media_type(headers) {
        Some(kind) if kind.eq_ignore_ascii_case("application/json") => Ok(()),
        kind => Err(unsupported(
            kind.unwrap_or_default(),
            "another path or none",
        )),
    }
}

/// Returns the media type without its parameters.
pub(super) fn media_type(headers: &HeaderMap) -> Option<&str> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    Some(kind.split(';').next().unwrap_or(kind).trim())
}

fn unsupported(kind: &str, who: &str) -> Problem {
    let shown: String = kind.chars().take(64).collect();
    let detail = format!("a body of type {shown:?}: {who} takes it");
    Problem::new(Code::UnsupportedMediaType, detail)
}
