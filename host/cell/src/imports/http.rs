//! `host:jobs/http`: requests to HTTP servers.

use host_core::egress::{HttpError, HttpErrorKind, HttpRequest};

use crate::bindings::host::jobs::http::{Error, ErrorKind, Host, Request, Response};
use crate::context::Guest;

impl Host for Guest {
    async fn send(&mut self, request: Request) -> Result<Response, Error> {
        let request = HttpRequest {
            call: 0,
            method: request.method,
            url: request.url,
            headers: request.headers,
            body: request.body,
            timeout_ms: request.timeout_ms,
        };
        let answer = self
            .egress
            .send(request)
            .await
            .map_err(|HttpError { kind, message }| Error {
                kind: guest_kind(kind),
                message,
            })?;
        let response = answer.response;
        Ok(Response {
            status: response.status,
            headers: response.headers,
            body: response.body,
        })
    }
}

const fn guest_kind(kind: HttpErrorKind) -> ErrorKind {
    match kind {
        HttpErrorKind::NotGranted | HttpErrorKind::AddressNotAllowed => ErrorKind::NotGranted,
        HttpErrorKind::InvalidRequest | HttpErrorKind::RequestTooLarge => ErrorKind::InvalidRequest,
        HttpErrorKind::NameNotFound
        | HttpErrorKind::ConnectionRefused
        | HttpErrorKind::CertificateRefused
        | HttpErrorKind::ResponseIncomplete
        | HttpErrorKind::ResponseEncoded
        | HttpErrorKind::LoginRefused
        | HttpErrorKind::StatementRefused
        | HttpErrorKind::Unreachable => ErrorKind::Unreachable,
        HttpErrorKind::TimedOut => ErrorKind::TimedOut,
        HttpErrorKind::TooLarge => ErrorKind::TooLarge,
        HttpErrorKind::LimitReached => ErrorKind::LimitReached,
        HttpErrorKind::Unavailable => ErrorKind::Unavailable,
    }
}
