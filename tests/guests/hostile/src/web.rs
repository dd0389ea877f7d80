//! Handlers that make requests to HTTP servers, by each of the two interfaces, and return all that they learn.

use std::collections::BTreeMap;

use guest_sdk::{Ctx, Error, handler};
use serde::Deserialize;
use serde_json::{Value, json};

/// A longer body is only counted.
const SHOWN_BYTES_MAX: usize = 32 << 10;

#[derive(Deserialize)]
pub(crate) struct Wanted {
    /// The requests, in order.
    requests: Vec<WantedRequest>,
    /// Whether an error ends the handler, as in most handlers.
    #[serde(default)]
    strict: bool,
    /// Whether all requests are made before the first answer is read, if the interface can.
    #[serde(default)]
    at_once: bool,
    /// Texts to look for in the guest's own memory, each byte increased by one, so that it does not find these.
    #[serde(default)]
    hunted: Vec<String>,
}

#[derive(Deserialize)]
struct WantedRequest {
    #[serde(default = "get")]
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default)]
    body_bytes: usize,
    /// The request is made as often as this. If more than once, its answers are counted.
    #[serde(default = "once")]
    times: usize,
}

fn get() -> String {
    "GET".to_owned()
}

fn once() -> usize {
    1
}

/// Why a request has no answer.
struct RequestFailure {
    kind: String,
    message: String,
}

/// Makes requests by `host:jobs/http`.
#[handler]
pub(crate) fn request(ctx: &Ctx, params: Wanted) -> Result<Vec<Value>, Error> {
    let (strict, hunted) = (params.strict, params.hunted);
    let mut learned = Vec::new();
    for wanted in params.requests {
        let send = || {
            let mut request = ctx.http().request(&wanted.method, &wanted.url);
            for (name, value) in &wanted.headers {
                request = request.header(name, value);
            }
            request.body(vec![b'a'; wanted.body_bytes]).send()
        };
        let mut failed = None;
        let answers = (0..wanted.times).map(|_| match send() {
            Ok(response) => Ok(describe_response(
                response.status,
                &response.headers,
                &response.body,
            )),
            Err(error) => {
                failed = Some(error.clone());
                Err(RequestFailure {
                    kind: format!("{:?}", error.kind),
                    message: error.message,
                })
            }
        });
        learned.push(report(answers));
        if let Some(error) = failed.filter(|_| strict) {
            return Err(error.into());
        }
    }
    learned.push(rest(&hunted));
    Ok(learned)
}

/// Makes requests by `wasi:http`.
#[handler]
pub(crate) fn wasi_request(_ctx: &Ctx, params: Wanted) -> Result<Vec<Value>, Error> {
    let mut learned = Vec::new();
    if params.at_once {
        let begun: Vec<_> = params.requests.iter().map(wasi::begin).collect();
        learned.extend(
            begun
                .into_iter()
                .map(|begun| report([begun.and_then(wasi::end)])),
        );
    } else {
        for wanted in &params.requests {
            let answers = (0..wanted.times).map(|_| wasi::begin(wanted).and_then(wasi::end));
            learned.push(report(answers));
        }
    }
    let failed = learned
        .iter()
        .find(|it| params.strict && it["kind"].is_string());
    if let Some(failed) = failed {
        return Err(Error::retry(failed.to_string()));
    }
    learned.push(rest(&params.hunted));
    Ok(learned)
}

#[derive(Deserialize)]
pub(crate) struct Flood {
    /// What to make too many of: `fields`, `bodies` or `abandoned` requests.
    what: String,
    url: String,
}

/// Makes as many of one thing of `wasi:http` as it can.
#[handler]
pub(crate) fn wasi_flood(_ctx: &Ctx, params: Flood) -> Result<(), Error> {
    wasi::flood(&params.what, &params.url);
    Ok(())
}

fn describe_response(status: u16, headers: &[(String, String)], body: &[u8]) -> Value {
    let body = if body.len() > SHOWN_BYTES_MAX {
        json!(body.len())
    } else {
        json!(String::from_utf8_lossy(body))
    };
    json!({"status": status, "headers": headers, "body": body})
}

/// Returns the only answer, or how many there are of each kind.
fn report(answers: impl IntoIterator<Item = Result<Value, RequestFailure>>) -> Value {
    let (mut only, mut counts) = (Value::Null, BTreeMap::new());
    for answer in answers {
        let kind;
        (kind, only) = match answer {
            Ok(answer) => (answer["status"].to_string(), answer),
            Err(RequestFailure { kind, message }) => {
                let shown = json!({"kind": kind, "message": message});
                (kind, shown)
            }
        };
        *counts.entry(kind).or_insert(0_usize) += 1;
    }
    if counts.values().sum::<usize>() > 1 {
        only = json!({"counts": counts});
    }
    only
}

/// Returns what else a guest can read: a secret must be in no variable and nowhere in its memory either.
fn rest(hunted: &[String]) -> Value {
    let found: Vec<usize> = hunted
        .iter()
        .map(|text| count_text(text.as_bytes()))
        .collect();
    json!({"env": std::env::vars().collect::<Vec<_>>(), "found": found})
}

/// Returns how often the text whose bytes are one less is in the guest's memory.
#[cfg(target_family = "wasm")]
fn count_text(text: &[u8]) -> usize {
    let bytes = core::arch::wasm32::memory_size(0) << 16;
    // SAFETY: this is the whole linear memory; nothing writes to it during the search.
    let memory = unsafe { std::slice::from_raw_parts(std::ptr::without_provenance(1), bytes - 1) };
    let is_here = |window: &&[u8]| {
        let mut pairs = window.iter().zip(text);
        pairs.all(|(here, wanted)| here.wrapping_add(1) == *wanted)
    };
    memory.windows(text.len()).filter(is_here).count()
}

#[cfg(not(target_family = "wasm"))]
fn count_text(_text: &[u8]) -> usize {
    0
}

#[cfg(target_family = "wasm")]
mod wasi {
    //! The calls of `wasi:http`.

    use wasip2::http::outgoing_handler::handle;
    use wasip2::http::types::{
        ErrorCode, Fields, FutureIncomingResponse, IncomingBody, Method, OutgoingBody,
        OutgoingRequest, Scheme,
    };

    use super::{RequestFailure, Value, WantedRequest, describe_response};

    /// More than a guest may have.
    const MANY: usize = 100_000;

    fn refusal(what: &str) -> RequestFailure {
        RequestFailure {
            kind: "Refused".to_owned(),
            message: what.to_owned(),
        }
    }

    fn failed(code: ErrorCode) -> RequestFailure {
        RequestFailure {
            kind: format!("{code:?}"),
            message: code.to_string(),
        }
    }

    pub(super) fn begin(wanted: &WantedRequest) -> Result<FutureIncomingResponse, RequestFailure> {
        let headers = Fields::new();
        for (name, value) in &wanted.headers {
            let added = headers.append(name, value.as_bytes());
            added.map_err(|error| refusal(&format!("{name}: {error:?}")))?;
        }
        let request = OutgoingRequest::new(headers);
        let (scheme, rest) = wanted.url.split_once("://").unwrap_or(("", &wanted.url));
        let scheme = match scheme {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            other => Scheme::Other(other.to_owned()),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let set = request.set_method(&Method::Other(wanted.method.clone()));
        set.map_err(|()| refusal("the method"))?;
        let set = request.set_scheme(Some(&scheme));
        set.map_err(|()| refusal("the scheme"))?;
        let set = request.set_authority(Some(authority));
        set.map_err(|()| refusal("the authority"))?;
        let set = request.set_path_with_query(Some(path));
        set.map_err(|()| refusal("the path"))?;
        let body = request.body().map_err(|()| refusal("the length"))?;
        let response = handle(request, None).map_err(failed)?;
        // If the request has failed, the body is not read.
        if let Ok(stream) = body.write() {
            let chunks = vec![b'a'; wanted.body_bytes];
            for chunk in chunks.chunks(4_096) {
                if stream.blocking_write_and_flush(chunk).is_err() {
                    break;
                }
            }
        }
        let _ = OutgoingBody::finish(body, None);
        Ok(response)
    }

    pub(super) fn end(response: FutureIncomingResponse) -> Result<Value, RequestFailure> {
        response.subscribe().block();
        let response = response
            .get()
            .and_then(Result::ok)
            .ok_or_else(|| refusal("no response"))?
            .map_err(failed)?;
        let headers: Vec<_> = response
            .headers()
            .entries()
            .into_iter()
            .map(|(name, value)| (name, String::from_utf8_lossy(&value).into()))
            .collect();
        let body: IncomingBody = response.consume().map_err(|()| refusal("the body"))?;
        let stream = body.stream().map_err(|()| refusal("the stream"))?;
        let mut whole = Vec::new();
        while let Ok(chunk) = stream.blocking_read(64 << 10) {
            whole.extend(chunk);
        }
        Ok(describe_response(response.status(), &headers, &whole))
    }

    pub(super) fn flood(what: &str, url: &str) {
        let request = || WantedRequest {
            method: "GET".to_owned(),
            url: url.to_owned(),
            headers: Vec::new(),
            body_bytes: 0,
            times: 1,
        };
        for _ in 0..MANY {
            match what {
                "fields" => {
                    let fields = Fields::new();
                    while fields.append("x", &[b'y'; 1 << 10]).is_ok() {}
                    std::mem::forget(fields);
                }
                "bodies" => {
                    let outgoing = OutgoingRequest::new(Fields::new());
                    let Ok(body) = outgoing.body() else { return };
                    if let Ok(stream) = body.write() {
                        let _ = stream.check_write().and_then(|room| {
                            let room = usize::try_from(room).unwrap_or(0);
                            stream.write(&vec![b'z'; room])
                        });
                        std::mem::forget(stream);
                    }
                    std::mem::forget((outgoing, body));
                }
                _ => drop(begin(&request())),
            }
        }
    }
}

#[cfg(not(target_family = "wasm"))]
mod wasi {
    //! There is no `wasi:http` in a native build.

    use super::{RequestFailure, Value, WantedRequest};

    #[derive(Clone, Copy)]
    pub(super) enum Never {}

    pub(super) fn begin(wanted: &WantedRequest) -> Result<Never, RequestFailure> {
        Err(RequestFailure {
            kind: "Refused".to_owned(),
            message: wanted.url.clone(),
        })
    }

    pub(super) fn end(response: Never) -> Result<Value, RequestFailure> {
        match response {}
    }

    pub(super) fn flood(_what: &str, _url: &str) {}
}
