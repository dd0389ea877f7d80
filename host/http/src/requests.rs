//! The requests of one connection: refuses those whose length is unclear or whose client has its share, and keeps the
//! connection's place until each is answered.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::{CONNECTION, STRICT_TRANSPORT_SECURITY, TRANSFER_ENCODING};
use axum::http::{HeaderValue, Request};
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;

use crate::heads::Unclear;
use crate::peer::{ClientClosed, Peer, network};
use crate::places::{Admission, Place};
use crate::problem::Problem;
use crate::problem_stream::HSTS;
use crate::proxies::Proxies;
use crate::refusal::Refusal;
use crate::watch::Watch;

/// The requests of one connection.
pub(crate) struct Requests {
    pub(crate) router: TowerToHyperService<Router>,
    pub(crate) proxies: Proxies,
    pub(crate) peer: Peer,
    pub(crate) place: Arc<Place>,
    /// The paths that are always answered.
    pub(crate) always: &'static [&'static str],
    /// Whether no others are answered: there are too many connections.
    pub(crate) is_reserved: bool,
    pub(crate) unclear: Unclear,
    pub(crate) watch: Watch,
    pub(crate) count: AtomicU64,
}

impl Requests {
    /// Answers the next request. Refuses one whose length is unclear. Such a request, or one with chunks, is
    /// the last of its connection, because the heads after it are not followed.
    pub(crate) fn answer(
        &self,
        mut request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response, Infallible>> + use<> {
        let is_unclear = self
            .unclear
            .is_request(self.count.fetch_add(1, Ordering::Relaxed));
        let is_last =
            is_unclear || self.is_reserved || request.headers().contains_key(TRANSFER_ENCODING);
        let client = self.proxies.client(&self.peer, request.headers());
        let is_tls = client.is_tls;
        let unended = Unended::begin(Arc::clone(&self.place), self.watch.clone());
        let answered = if is_unclear {
            Err(Refusal::LengthUnclear)
        } else {
            self.admit(&client, request.uri().path()).map(|admission| {
                let extensions = request.extensions_mut();
                extensions.insert(client);
                extensions.insert(admission);
                extensions.insert(ClientClosed(self.watch.closed.clone()));
                self.router.call(request)
            })
        };
        async move {
            let mut response = match answered {
                Ok(answered) => answered.await?,
                Err(refusal) => Problem::from(refusal).into_response(),
            };
            if is_tls {
                let headers = response.headers_mut();
                headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(HSTS));
            }
            if is_last {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(CONNECTION, close);
            }
            Ok(response.map(|body| Body::new(UnendedBody { body, unended })))
        }
    }

    /// Takes the place for a request of `client`. Clients on a local socket, and trusted proxies that do not say for
    /// whom they ask, have no limit.
    fn admit(&self, client: &Peer, path: &str) -> Result<Admission, Refusal> {
        let is_always = self.always.contains(&path);
        if self.is_reserved && !is_always {
            return Err(Refusal::Busy);
        }
        let address = client
            .address
            .filter(|address| !self.proxies.has(*address))
            .map(network);
        let is_limited = address.is_some() && !is_always;
        let share = self
            .place
            .begin(client.address.map(network), is_limited)
            .ok_or(Refusal::ConnectionsUsed)?;
        Ok(Admission {
            place: Arc::clone(&self.place),
            share: address.map(|_| share),
        })
    }
}

/// A request, until it is answered or its connection is gone.
struct Unended {
    place: Arc<Place>,
    watch: Watch,
}

impl Unended {
    fn begin(place: Arc<Place>, watch: Watch) -> Self {
        watch.set_request(true);
        Self { place, watch }
    }
}

impl Drop for Unended {
    fn drop(&mut self) {
        self.watch.set_request(false);
        self.place.end();
    }
}

/// The body of an answer, with which its request ends.
struct UnendedBody {
    body: Body,
    #[expect(dead_code, reason = "it ends the request when it is dropped")]
    unended: Unended,
}

impl HttpBody for UnendedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
