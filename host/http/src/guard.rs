//! Checks every request before its handler runs: it must be addressed to this host, must not come
//! from a web page of another origin, and its body must have a type that the route accepts. The
//! answer has a time limit, is charged to a budget and is counted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use host_core::access::{Access, Principal};
use host_runtime::tasks::Tasks;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::budget::{ByteBudget, RefusedBody};
use crate::gate::{self, AccessRecord, Caller, Gate, REQUEST_ID};
use crate::metrics::Metrics;
use crate::peer::Peer;
use crate::places::Admission;
use crate::refusal::{Refusal, Render};
use crate::serve::STOP_GRACE;
use crate::share::Share;
use crate::tls::Tls;

/// How long a handler may take to answer if its route is not long-running.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);

/// How much of the body of a refused request is read, in bytes, and for how long.
const DRAINED_BYTES_MAX: usize = 64 << 20;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of a refused name is shown, in characters.
const SHOWN_CHARS: usize = 64;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The names by which clients may address the host. Other names are refused, so that a web page
/// cannot reach the host through its own domain (DNS rebinding). Clones share them.
#[derive(Clone, Debug)]
pub struct AllowedHosts {
    own: Arc<[String]>,
    /// The names of proxies in front of the host, which may serve TLS.
    proxies: Arc<[String]>,
    /// The certificate of the host, whose names are its own.
    tls: Option<Tls>,
}

impl AllowedHosts {
    /// Allows the loopback names and the address that the host listens on.
    pub fn loopback_and(listen: SocketAddr) -> Self {
        let listen = match listen {
            SocketAddr::V4(address) => address.ip().to_string(),
            SocketAddr::V6(address) => format!("[{}]", address.ip()),
        };
        let loopback = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned);
        Self {
            own: loopback.into_iter().chain([listen]).collect(),
            proxies: Arc::default(),
            tls: None,
        }
    }

    /// Also allows the names, without ports, by which clients address proxies in front of the host.
    #[must_use]
    pub fn and_proxies(mut self, names: &[String]) -> Self {
        self.proxies = names.into();
        self
    }

    /// Also allows the names of a certificate.
    #[must_use]
    pub fn and_certificate(mut self, tls: Option<Tls>) -> Self {
        self.tls = tls;
        self
    }

    /// Returns whether a host, with or without a port, is allowed.
    fn has(&self, host: &str) -> bool {
        let is_certified = |tls: &Tls| tls.is_for(without_port(host));
        is_one_of(&self.own, host)
            || is_one_of(&self.proxies, host)
            || self.tls.as_ref().is_some_and(is_certified)
    }

    /// Returns whether this host's pages may have this scheme, if the request arrived with or without TLS.
    fn has_scheme(&self, host: &str, scheme: &str, is_tls: bool) -> bool {
        match scheme {
            "http" => !is_tls,
            "https" => is_tls || is_one_of(&self.proxies, host),
            _ => false,
        }
    }
}

/// The guard of one route.
pub(crate) struct Guard {
    pub(crate) hosts: AllowedHosts,
    pub(crate) answers: ByteBudget,
    pub(crate) gate: Arc<dyn Gate>,
    pub(crate) access: Access,
    pub(crate) metrics: Arc<dyn Metrics>,
    pub(crate) render: Render,
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) is_long_running: bool,
    /// Where the handler runs if it outlives its client.
    pub(crate) tasks: Option<Tasks>,
    pub(crate) media_types: &'static [&'static str],
    pub(crate) is_body_optional: bool,
    pub(crate) is_recorded: bool,
}

/// Passes a request to its handler or refuses it.
pub(crate) async fn guard(
    State(guard): State<Arc<Guard>>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let changes_nothing = request.method().is_safe();
    let tasks = guard.tasks.as_ref().filter(|_| !changes_nothing);
    let mut asked = AuditedRequest::capture(&guard, &request);
    let mut checked = guard.check(&mut request, &mut asked);
    if let Err(Refusal::Unauthenticated) = checked
        && let Some(learning) = guard.learn(&request)
    {
        learning.await;
        checked = guard.check(&mut request, &mut asked);
    }
    if let (true, Ok(_), Some(asked)) = (guard.is_recorded, &checked, &asked)
        && !guard.gate.record(&asked.record(&guard)).await
    {
        checked = Err(Refusal::NotRecorded);
    }
    let caller = checked.as_ref().ok().cloned().flatten();
    let over = caller.as_ref().and_then(|caller| caller.over.clone());
    let share = share(caller.as_ref(), &request);
    let waits = share.as_ref().filter(|_| guard.is_long_running);
    let waiting = waits.map(|share| share.wait().ok_or(Refusal::WaitsUsed));
    let checked = checked.and_then(|_| waiting.transpose());
    let handled = match checked {
        Err(refusal) => {
            drain(request).await;
            Err(refusal)
        }
        Ok(_) if guard.is_long_running && changes_nothing && over.is_some() => {
            until(over.unwrap_or_default(), run(next, request, tasks)).await
        }
        Ok(_) if guard.is_long_running => run(next, request, tasks).await,
        Ok(_) => tokio::time::timeout(ANSWER_TIMEOUT, run(next, request, tasks))
            .await
            .unwrap_or(Err(Refusal::TimedOut {
                limit: ANSWER_TIMEOUT,
            })),
    };
    let answered = match handled {
        // If the request changed something, it must be answered even if the budget is exhausted.
        Ok(response) if changes_nothing => {
            guard.answers.charge_answer(response, share.as_ref()).await
        }
        other => other,
    };
    let response = answered.unwrap_or_else(|refusal| (guard.render)(&refusal));
    let status = response.status().as_u16();
    if let Some(asked) = asked.filter(|asked| asked.is_denial(status)) {
        guard.gate.denied(&asked.record(&guard), status);
    }
    let took = began.elapsed();
    let metrics = &guard.metrics;
    metrics.count_response(guard.method, guard.path, status, took);
    response
}

/// Returns what a request may use together with others of its caller, or of its address if it has no caller.
fn share(caller: Option<&Caller>, request: &Request) -> Option<Share> {
    let admission = request.extensions().get::<Admission>();
    match caller {
        Some(caller) => caller.share.clone(),
        None => admission.and_then(|admission| admission.share.clone()),
    }
}

/// Reads a body that is not needed, so that its client sends it to the end and then reads why it was refused. A client
/// that asks first (`Expect`) has not begun. Others may have the place of its connection.
async fn drain(request: Request) {
    if let Some(admission) = request.extensions().get::<Admission>() {
        admission.place.yield_place();
    }
    if request.headers().contains_key(EXPECT) {
        return;
    }
    let reading = async {
        let (mut body, mut left) = (request.into_body(), DRAINED_BYTES_MAX);
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            let Some(rest) = left.checked_sub(bytes) else {
                break;
            };
            left = rest;
        }
    };
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, reading).await;
}

/// Runs a handler. As one of `tasks` it continues if this future is dropped.
async fn run(next: Next, request: Request, tasks: Option<&Tasks>) -> Result<Response, Refusal> {
    let Some(tasks) = tasks else {
        return Ok(next.run(request).await);
    };
    let stopping = tasks.stopping().clone();
    let (sender, answer) = oneshot::channel();
    tasks.spawn(async move {
        let over = async {
            stopping.cancelled().await;
            tokio::time::sleep(STOP_GRACE).await;
        };
        tokio::select! {
            // The client may be gone.
            response = next.run(request) => drop(sender.send(response)),
            () = over => {}
        }
    });
    answer.await.map_err(|_| Refusal::AnswerBroken)
}

/// What the audit shows of a request.
struct AuditedRequest {
    peer: Peer,
    principal: Option<Arc<Principal>>,
    method: Method,
    uri: Uri,
    request_id: Option<HeaderValue>,
}

impl AuditedRequest {
    /// Keeps what the audit shows of a request, if it is audited.
    fn capture(guard: &Guard, request: &Request) -> Option<Self> {
        (guard.is_recorded || guard.gate.records_denials()).then(|| Self {
            peer: request.extensions().get().cloned().unwrap_or_default(),
            principal: None,
            method: request.method().clone(),
            uri: request.uri().clone(),
            request_id: request.headers().get(REQUEST_ID).cloned(),
        })
    }

    /// Returns whether an answer denies something. What is outside a scope looks as if it did not exist.
    fn is_denial(&self, status: u16) -> bool {
        let has_scope = |principal: &Arc<Principal>| !principal.scope.is_all();
        let is_hidden = status == 404 && self.principal.as_ref().is_some_and(has_scope);
        is_hidden || [401, 403, 429].contains(&status)
    }

    fn record<'a>(&'a self, guard: &Guard) -> AccessRecord<'a> {
        AccessRecord {
            peer: &self.peer,
            principal: self.principal.as_deref(),
            verb: guard.access.verb(),
            method: self.method.as_str(),
            path: self.uri.path(),
            route: guard.path,
            request_id: self.request_id.as_ref(),
        }
    }
}

/// Ends an answer that waits or streams when its caller may do nothing more.
async fn until(
    over: CancellationToken,
    answering: impl Future<Output = Result<Response, Refusal>>,
) -> Result<Response, Refusal> {
    let answered = over.run_until_cancelled(answering).await;
    let (parts, body) = answered
        .unwrap_or(Err(Refusal::Unauthenticated))?
        .into_parts();
    let chunks = body.into_data_stream().take_until(over.cancelled_owned());
    Ok(Response::from_parts(parts, Body::from_stream(chunks)))
}

impl Guard {
    /// Asks the gate what it could learn that lets in a request that it has refused.
    fn learn(&self, request: &Request) -> Option<BoxFuture<'static, ()>> {
        let peer = request.extensions().get().cloned().unwrap_or_default();
        self.gate.learn(&peer, request.headers())
    }

    /// Checks a request and tells it its caller, whom it returns.
    fn check(
        &self,
        request: &mut Request,
        asked: &mut Option<AuditedRequest>,
    ) -> Result<Option<Caller>, Refusal> {
        let host = check_host(&self.hosts, request.uri(), request.headers())?;
        let is_tls = request
            .extensions()
            .get::<Peer>()
            .is_some_and(|peer| peer.is_tls);
        check_origin(&self.hosts, host, is_tls, request.headers())?;
        let passed = gate::pass(&*self.gate, self.access, request);
        let (caller, refusal) = match passed {
            Ok(caller) => (caller, None),
            Err((refusal, caller)) => (caller, Some(refusal)),
        };
        if let (Some(asked), Some(caller)) = (asked, &caller) {
            asked.principal = Some(Arc::clone(&caller.principal));
        }
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        if let Err(refusal) = self.check_body(request) {
            if self.access != Access::Proof {
                return Err(refusal);
            }
            // A caller without the proof learns nothing about its body.
            request.extensions_mut().insert(RefusedBody(refusal));
        }
        let Some(mut caller) = caller else {
            return Ok(None);
        };
        let extensions = request.extensions_mut();
        if caller.share.is_none() {
            // Without a token, its address has a share.
            let admission = extensions.get::<Admission>();
            caller.share = admission.and_then(|admission| admission.share.clone());
        }
        extensions.insert(caller.clone());
        extensions.insert(self.access);
        Ok(Some(caller))
    }

    fn check_body(&self, request: &Request) -> Result<(), Refusal> {
        let (method, headers) = (request.method(), request.headers());
        // A form always sends a content type, even without a body.
        let is_empty =
            !headers.contains_key(CONTENT_TYPE) && request.body().size_hint().exact() == Some(0);
        if self.is_body_optional && is_empty {
            return Ok(());
        }
        if method == Method::POST || method == Method::PUT {
            check_media_type(headers, self.media_types)?;
        }
        Ok(())
    }
}

/// Checks the Host header and the request target, and returns the Host header.
fn check_host<'a>(
    allowed: &AllowedHosts,
    uri: &Uri,
    headers: &'a HeaderMap,
) -> Result<&'a str, Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(Refusal::HostHeaderCount);
    };
    let host = host.to_str().map_err(|_| Refusal::HostHeaderNotAscii)?;
    let mut targets = [Some(host), uri.authority().map(Authority::as_str)]
        .into_iter()
        .flatten();
    match targets.find(|target| !allowed.has(target)) {
        Some(target) => Err(Refusal::HostNotAllowed {
            host: shortened(without_port(target)),
        }),
        None => Ok(host),
    }
}

/// Returns whether a host, with or without a port, has one of these names.
fn is_one_of(names: &[String], host: &str) -> bool {
    let name = without_port(host);
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Refuses requests from pages of other origins. Browsers send the origin of a request; other
/// programs do not.
fn check_origin(
    allowed: &AllowedHosts,
    host: &str,
    is_tls: bool,
    headers: &HeaderMap,
) -> Result<(), Refusal> {
    if headers.get_all(ORIGIN).iter().count() > 1 {
        return Err(Refusal::ForeignOrigin);
    }
    if let Some(origin) = headers.get(ORIGIN) {
        let own = origin.to_str().ok().and_then(|origin| {
            let (scheme, authority) = origin.split_once("://")?;
            Some(allowed.has_scheme(host, scheme, is_tls) && authority.eq_ignore_ascii_case(host))
        });
        if own != Some(true) {
            return Err(Refusal::ForeignOrigin);
        }
    }
    match headers.get(SEC_FETCH_SITE) {
        Some(site) if site != "same-origin" && site != "none" => Err(Refusal::ForeignSite),
        _ => Ok(()),
    }
}

fn check_media_type(headers: &HeaderMap, allowed: &'static [&'static str]) -> Result<(), Refusal> {
    if allowed.is_empty() {
        return Ok(());
    }
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    if !encodings.all(|it| it.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(Refusal::ContentEncoding);
    }
    // A reader of the other header would see another type.
    if headers.get_all(CONTENT_TYPE).iter().count() > 1 {
        return Err(Refusal::MediaTypeRepeated);
    }
    let found = media_type(headers).ok_or(Refusal::MediaTypeMissing { allowed })?;
    let is_known = allowed
        .iter()
        .any(|known| known.eq_ignore_ascii_case(found));
    let found = match other_charset(headers) {
        Some(whole) => whole,
        None if is_known => return Ok(()),
        None => found,
    };
    Err(Refusal::MediaType {
        found: shortened(found),
        allowed,
    })
}

/// Returns the whole type if its charset is another than UTF-8.
fn other_charset(headers: &HeaderMap) -> Option<&str> {
    let whole = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let mut parameters = whole.split(';').skip(1).filter_map(|it| it.split_once('='));
    let (_, charset) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    let charset = charset.trim().trim_matches('"');
    let is_utf8 = ["utf-8", "utf8", "us-ascii"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(charset));
    (!is_utf8).then_some(whole)
}

/// Returns the media type of a body without its parameters.
pub fn media_type(headers: &HeaderMap) -> Option<&str> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    Some(kind.split(';').next().unwrap_or(kind).trim())
}

fn shortened(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).collect()
}
