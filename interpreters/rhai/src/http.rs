//! `http_get`, `http_post` and `http_request`: requests to HTTP servers, under the grants of this handler. A script that
//! runs again for its calls gets the answers of its first run.

use guest_sdk::{Ctx, Error, HttpRequest};
use rhai::{Blob, Dynamic, Engine, EvalAltResult, Map};
use serde::Deserialize;
use serde_json::{Map as JsonMap, Value, json};

use crate::calls::{Calls, FailedCall};
use crate::value::{self, thrown};

type Thrown = Box<EvalAltResult>;

/// The fields of `http_request`, besides the body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(default = "get")]
    method: String,
    url: String,
    #[serde(default)]
    headers: JsonMap<String, Value>,
    timeout_ms: Option<u32>,
}

fn get() -> String {
    "GET".to_owned()
}

/// Adds the functions to an engine.
pub(crate) fn register(engine: &mut Engine, ctx: &Ctx, calls: &Calls) {
    let send = {
        let (ctx, calls) = (ctx.clone(), calls.clone());
        move |request: &HttpRequest| send(&ctx, &calls, request)
    };
    let sender = send.clone();
    engine.register_fn("http_get", move |url: &str| {
        sender(&request("GET", url.to_owned()))
    });
    let sender = send.clone();
    engine.register_fn("http_post", move |url: &str, body: Dynamic| {
        let mut request = request("POST", url.to_owned());
        set_body(&mut request, body)?;
        sender(&request)
    });
    engine.register_fn("http_request", move |mut fields: Map| {
        let body = fields.remove("body");
        let argument = value::argument(&fields.into())?;
        let fields: Fields = serde_json::from_value(argument)
            .map_err(|error| thrown(format!("http_request: {error}")))?;
        let mut request = request(&fields.method, fields.url);
        request.timeout_ms = fields.timeout_ms;
        for (name, value) in fields.headers {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            request.headers.push((name, value));
        }
        if let Some(body) = body {
            set_body(&mut request, body)?;
        }
        send(&request)
    });
}

fn request(method: &str, url: String) -> HttpRequest {
    HttpRequest {
        method: method.to_owned(),
        url,
        ..HttpRequest::default()
    }
}

/// Sets the body: a text or a blob as it is, anything else as JSON with its header.
fn set_body(request: &mut HttpRequest, body: Dynamic) -> Result<(), Thrown> {
    if let Ok(text) = body.as_immutable_string_ref() {
        request.body = text.as_bytes().to_vec();
        return Ok(());
    }
    if body.is_blob() {
        request.body = body.cast::<Blob>();
        return Ok(());
    }
    let json = value::argument(&body)?;
    request.body = json.to_string().into_bytes();
    let mut headers = request.headers.iter();
    if !headers.any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        let header = ("content-type".to_owned(), "application/json".to_owned());
        request.headers.push(header);
    }
    Ok(())
}

/// Sends a request. Returns a map with `status`, `headers` and `body`, a text. Without a response, throws a map with
/// `kind` and `message`.
fn send(ctx: &Ctx, calls: &Calls, request: &HttpRequest) -> Result<Dynamic, Thrown> {
    let HttpRequest {
        method,
        url,
        headers,
        body,
        timeout_ms,
    } = request;
    calls.once((method, url, headers, body), || {
        let mut sent = ctx.http().request(method, url.clone()).body(body.clone());
        for (name, value) in headers {
            sent = sent.header(name, value);
        }
        if let Some(ms) = timeout_ms {
            sent = sent.timeout_ms(*ms);
        }
        let response = sent.send().map_err(|error| failed(error.into()))?;
        let mut headers = JsonMap::new();
        for (name, value) in &response.headers {
            match headers.get_mut(name) {
                Some(Value::String(all)) => *all = format!("{all}, {value}"),
                _ => drop(headers.insert(name.clone(), json!(value))),
            }
        }
        Ok(json!({"status": response.status, "headers": headers, "body": response.text()}))
    })
}

fn failed(error: Error) -> FailedCall {
    let (kind, message) = match error {
        Error::Failed(failed) => (failed.kind.clone(), failed.message.clone()),
        other => ("http".to_owned(), format!("{other:?}")),
    };
    FailedCall { kind, message }
}
