//! `wasi:http/outgoing-handler`: the same requests through the same broker as those of `host:jobs/http`, for
//! libraries that know only WASI. A guest reads why a request failed as one of WASI's codes; the sentence is in
//! the log of its job.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use host_core::egress::{BODY_BYTES_MAX, HttpError, HttpErrorKind, HttpRequest};
use host_core::http_grant::may_be_added;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use wasmtime_wasi_http::{
    DEFAULT_FORBIDDEN_HEADERS, Error, ForbiddenHeaderFilter, RequestOptions, WasiBody,
    WasiHttpCtxView, WasiHttpHooks, WasiHttpView,
};

use crate::context::Guest;
use crate::egress::{BufferedResponse, Egress};
use crate::limits::{GuestMemory, MemoryCharge};

/// How much of a request's body a guest may pass in one call, in bytes.
const CHUNK_BYTES_MAX: usize = 16 << 10;

/// What the crate runs after the head of a response: nothing, because the whole response is there.
type Rest = Box<dyn Future<Output = Result<(), Error>> + Send>;

impl WasiHttpView for Guest {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let (hooks, ctx, table) = self.http_parts();
        WasiHttpCtxView { hooks, table, ctx }
    }
}

impl WasiHttpHooks for Egress {
    /// Refuses what the broker would refuse, but for the length, which many libraries set.
    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        Arc::new(|name| {
            let is_ours = !may_be_added(name.as_str()) && name != CONTENT_LENGTH;
            is_ours || DEFAULT_FORBIDDEN_HEADERS.contains(name)
        })
    }

    /// The broker sets it.
    fn set_host_header(&mut self) -> bool {
        false
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK_BYTES_MAX
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _processed: Rest,
    ) -> Box<dyn Future<Output = Result<(Response<WasiBody>, Rest), Error>> + Send> {
        let link = self.link();
        let memory = self.memory();
        let warnings = self.warnings();
        Box::new(async move {
            let answered = async {
                let link = link?;
                let (request, _kept) = whole(request, options.as_ref(), memory).await?;
                link.send(request).await
            };
            match answered.await {
                Ok(answered) => Ok((response(answered), Box::new(async { Ok(()) }) as Rest)),
                Err(error) => {
                    warnings.add(&error);
                    Err(code(error))
                }
            }
        })
    }
}

/// Waits for the whole body. Returns the request, and the memory that it takes.
async fn whole(
    request: Request<WasiBody>,
    options: Option<&RequestOptions>,
    memory: Arc<GuestMemory>,
) -> Result<(HttpRequest, MemoryCharge), HttpError> {
    let (head, mut rest) = request.into_parts();
    let headers = headers(&head.headers)?;
    let (mut body, mut kept) = (Vec::new(), MemoryCharge::nothing(memory));
    while let Some(frame) = rest.frame().await {
        let unfinished = |_| invalid("the handler did not finish the request's body");
        // Trailers are not sent.
        let Ok(chunk) = frame.map_err(unfinished)?.into_data() else {
            continue;
        };
        let too_large = |message| HttpError::new(HttpErrorKind::RequestTooLarge, message);
        if body.len() + chunk.len() > BODY_BYTES_MAX {
            let message = format!("the request's body has more than {BODY_BYTES_MAX} bytes");
            return Err(too_large(message));
        }
        let taken = kept.add(chunk.len());
        taken.map_err(|error| too_large(error.to_string()))?;
        body.extend_from_slice(&chunk);
    }
    let request = HttpRequest {
        call: 0,
        method: head.method.as_str().to_owned(),
        url: head.uri.to_string(),
        headers,
        body,
        timeout_ms: options.and_then(timeout_ms),
    };
    Ok((request, kept))
}

fn headers(given: &HeaderMap) -> Result<Vec<(String, String)>, HttpError> {
    let others = given.iter().filter(|(name, _)| *name != CONTENT_LENGTH);
    let text = others.map(|(name, value)| match value.to_str() {
        Ok(value) => Ok((name.as_str().to_owned(), value.to_owned())),
        Err(_) => Err(invalid(&format!("invalid value of the header {name}"))),
    });
    text.collect()
}

/// Returns the time limit of the whole exchange: how long the guest waits for the response to begin, and for
/// what is before and after that, if it says so.
fn timeout_ms(options: &RequestOptions) -> Option<u32> {
    let begin = options.first_byte_timeout?;
    let others = [options.connect_timeout, options.between_bytes_timeout]
        .into_iter()
        .flatten();
    let all = others.fold(begin, Duration::saturating_add);
    Some(u32::try_from(all.as_millis()).unwrap_or(u32::MAX))
}

/// Makes the response, which takes its memory until the guest has read it or given it up.
fn response(answered: BufferedResponse) -> Response<WasiBody> {
    let BufferedResponse { response, kept } = answered;
    let body = Full::new(Bytes::from(response.body)).map_err(move |never| {
        // The body owns the charge, so that its memory counts until the guest drops it.
        let _ = &kept;
        match never {}
    });
    let mut shown = Response::new(body.boxed_unsync());
    // The broker passes on only statuses of HTTP.
    *shown.status_mut() = StatusCode::from_u16(response.status).unwrap_or_default();
    for (name, value) in response.headers {
        // A name in which a secret was masked is no longer valid.
        if let (Ok(name), Ok(value)) = (
            HeaderName::try_from(name),
            HeaderValue::from_maybe_shared(Bytes::from(value)),
        ) {
            shown.headers_mut().append(name, value);
        }
    }
    shown
}

/// Returns WASI's code for an error.
fn code(error: HttpError) -> Error {
    match error.kind {
        HttpErrorKind::NotGranted => Error::HttpRequestDenied,
        HttpErrorKind::AddressNotAllowed => Error::DestinationIpProhibited,
        HttpErrorKind::RequestTooLarge => Error::HttpRequestBodySize(None),
        HttpErrorKind::NameNotFound => Error::DnsError {
            rcode: None,
            info_code: None,
        },
        HttpErrorKind::ConnectionRefused => Error::ConnectionRefused,
        HttpErrorKind::CertificateRefused => Error::TlsCertificateError,
        HttpErrorKind::ResponseIncomplete => Error::HttpResponseIncomplete,
        HttpErrorKind::ResponseEncoded => Error::HttpResponseContentCoding(None),
        HttpErrorKind::Unreachable
        | HttpErrorKind::LoginRefused
        | HttpErrorKind::StatementRefused => Error::DestinationUnavailable,
        HttpErrorKind::TimedOut => Error::HttpResponseTimeout,
        HttpErrorKind::TooLarge => Error::HttpResponseBodySize(None),
        HttpErrorKind::LimitReached => Error::ConnectionLimitReached,
        // No code fits; this one carries the sentence.
        HttpErrorKind::InvalidRequest | HttpErrorKind::Unavailable => {
            Error::InternalError(Some(error.message))
        }
    }
}

fn invalid(message: &str) -> HttpError {
    HttpError::new(HttpErrorKind::InvalidRequest, message)
}
