//! A broker in this process, and scripted servers.

mod name_server;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use host_confine::Lifeline;
use host_core::egress::{
    FromCell, HttpError, HttpRequest, HttpResponse, Pass, ReportAs, ToBroker, ToCell,
};
use host_core::http_grant::HttpGrant;
use host_core::requests::REPORT_BYTES_MAX;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType, recv, sendmsg, socketpair,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use rustls::{RootCertStore, ServerConfig};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, Interest};
use tokio::net::{TcpListener, UnixStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use self::name_server::name_server;
use crate::broker::{self, Broker};
use crate::child;
use crate::client::Clients;
use crate::dial::Dial;
use crate::trust;

/// More time than a run of these tests needs, in milliseconds.
const MINUTES: u64 = 600_000;

type Names = Rc<RefCell<BTreeMap<String, Vec<Ipv4Addr>>>>;

/// The component whose bodies are cut.
pub(super) const CUTTING: &str = "cutting";

/// A broker, and what its runs see.
pub(super) struct World {
    control: std::os::fd::OwnedFd,
    names: Names,
    attempts: Cell<u64>,
    /// The timer until which runs of a node may send.
    lifeline: std::os::fd::OwnedFd,
    authority: CertifiedIssuer<'static, KeyPair>,
}

/// Runs a test with a broker that may reach `networks`.
pub(super) fn run_with<F: Future<Output = ()>>(networks: &[&str], test: impl FnOnce(World) -> F) {
    // Both ends of all connections are in this process.
    let most = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .unwrap();
    runtime.block_on(async {
        let networks = networks.iter().map(|it| it.parse().unwrap()).collect();
        let authority = authority();
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let tls = trust::tls(&roots, None).unwrap();
        let names = Names::default();
        let resolver = child::resolver(&[name_server(Rc::clone(&names)).await])
            .map(|builder| builder.build().unwrap());
        let (control, theirs) = pair();
        spawn_local(read_reports(control.try_clone().unwrap()));
        let clients = Clients::new(Dial::new(resolver, networks), tls);
        let lifeline = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC).unwrap();
        set_timer(&lifeline, MINUTES);
        let watched = Lifeline::new(lifeline.try_clone().unwrap());
        let broker = Broker::new(clients, RootCertStore::empty(), theirs, Some(watched)).unwrap();
        spawn_local(async move { broker::serve(broker).await.unwrap() });
        let world = World {
            control,
            names,
            attempts: Cell::new(0),
            lifeline,
            authority,
        };
        world.secret("key", "s3cr3t-value");
        test(world).await;
    });
}

/// Has a timer run out after this time.
fn set_timer(timer: &std::os::fd::OwnedFd, ms: u64) {
    let at = Itimerspec {
        it_interval: Timespec::default(),
        it_value: std::time::Duration::from_millis(ms).try_into().unwrap(),
    };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &at).unwrap();
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Returns the certificate of an authority that is unknown, in PEM.
pub(super) fn other_authority() -> String {
    authority().pem()
}

fn pair() -> (std::os::fd::OwnedFd, std::os::fd::OwnedFd) {
    let flags = SocketFlags::CLOEXEC;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

/// Reads what the broker reports, as the host does.
async fn read_reports(control: std::os::fd::OwnedFd) {
    // SAFETY: the descriptor is owned, and stays open and the same until it is dropped.
    let control = unsafe { AsyncFd::register_with_interest(control, Interest::READABLE) }.unwrap();
    let mut report = [0; REPORT_BYTES_MAX];
    while let Ok(mut readable) = control.readable().await {
        let read = readable.try_io(|it| Ok(recv(it.get_ref(), &mut report, RecvFlags::DONTWAIT)?));
        if let Ok(Ok((0, _))) = read {
            return;
        }
    }
}

pub(super) fn grant(to: &str) -> HttpGrant {
    HttpGrant {
        to: to.parse().unwrap(),
        methods: Vec::new(),
        paths: Vec::new(),
        headers: BTreeMap::new(),
        sign: None,
        oauth: None,
        max_requests: None,
        max_response_kib: None,
        max_total_mib: None,
        timeout_seconds: None,
    }
}

/// Makes an answer with this body.
pub(super) fn reply(status: u16, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

impl World {
    fn send(&self, message: &ToBroker, fd: Option<BorrowedFd<'_>>) {
        let message = postcard::to_stdvec(message).unwrap();
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if fd.is_some() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(fd.as_slice())));
        }
        let bytes = [std::io::IoSlice::new(&message)];
        sendmsg(&self.control, &bytes, &mut ancillary, SendFlags::NOSIGNAL).unwrap();
    }

    /// Sets the value of a secret.
    pub(super) fn secret(&self, name: &str, value: &str) {
        let (name, value) = (name.to_owned(), value.to_owned());
        self.send(&ToBroker::Secret { name, value }, None);
    }

    /// Tells the broker of authorities and of a run without their descriptors, as if it had no room for them.
    pub(super) fn without_descriptors(&self) {
        self.send(&ToBroker::Authorities, None);
        let (pass, over) = (Pass::default(), Vec::new());
        self.send(&ToBroker::Run { pass, over }, None);
    }

    /// Passes a file of certificates.
    pub(super) fn authorities(&self, pem: &str) {
        let (file, mut writing) = std::io::pipe().unwrap();
        writing.write_all(pem.as_bytes()).unwrap();
        drop(writing);
        self.send(&ToBroker::Authorities, Some(file.as_fd()));
    }

    /// Returns the certificate of the authority of this world, in PEM.
    pub(super) fn own_authority(&self) -> String {
        self.authority.pem()
    }

    /// Sets the addresses of names.
    pub(super) fn names(&self, names: &[(&str, &[&str])]) {
        for (name, addresses) in names {
            let addresses = addresses.iter().map(|it| it.parse().unwrap()).collect();
            self.names
                .borrow_mut()
                .insert((*name).to_owned(), addresses);
        }
    }

    /// Begins a run of this revision.
    pub(super) fn run(&self, revision: u32, grants: Vec<HttpGrant>) -> Run {
        self.run_of("c", revision, grants)
    }

    /// Begins a run of this revision of a component.
    pub(super) fn run_of(&self, component: &str, revision: u32, grants: Vec<HttpGrant>) -> Run {
        self.attempts.set(self.attempts.get() + 1);
        self.begin_run((component, "h"), revision, grants, Vec::new(), MINUTES)
    }

    /// Begins a run of a handler of the component `c`.
    pub(super) fn run_of_handler(&self, handler: &str, grants: Vec<HttpGrant>) -> Run {
        self.attempts.set(self.attempts.get() + 1);
        self.begin_run(("c", handler), 1, grants, Vec::new(), MINUTES)
    }

    /// Begins a run that has only so much time.
    pub(super) fn run_for(&self, time_left_ms: u64, grants: Vec<HttpGrant>) -> Run {
        self.attempts.set(self.attempts.get() + 1);
        self.begin_run(("c", "h"), 1, grants, Vec::new(), time_left_ms)
    }

    /// Begins another run of the attempt whose run began last.
    pub(super) fn run_again(&self, grants: Vec<HttpGrant>) -> Run {
        self.begin_run(("c", "h"), 1, grants, Vec::new(), MINUTES)
    }

    /// Begins a run of that attempt after the host has said that it is over.
    pub(super) fn run_after_the_end(&self, grants: Vec<HttpGrant>) -> Run {
        let over = vec![self.attempts.get()];
        self.begin_run(("c", "h"), 1, grants, over, MINUTES)
    }

    /// Begins a run of a node, which may send until the lifeline ends.
    pub(super) fn run_of_node(&self, grants: Vec<HttpGrant>) -> Run {
        self.attempts.set(self.attempts.get() + 1);
        self.begin_run_with(("c", "h"), 1, grants, (Vec::new(), MINUTES, true))
    }

    /// Ends the lifeline, as when a node was suspended for too long.
    pub(super) fn end_lifeline(&self) {
        set_timer(&self.lifeline, 1);
        let mut fds = [PollFd::new(&self.lifeline, PollFlags::IN)];
        poll(&mut fds, None).unwrap();
    }

    fn begin_run(
        &self,
        named: (&str, &str),
        revision: u32,
        grants: Vec<HttpGrant>,
        over: Vec<u64>,
        time_left_ms: u64,
    ) -> Run {
        self.begin_run_with(named, revision, grants, (over, time_left_ms, false))
    }

    fn begin_run_with(
        &self,
        (component, handler): (&str, &str),
        revision: u32,
        grants: Vec<HttpGrant>,
        (over, time_left_ms, has_lifeline): (Vec<u64>, u64, bool),
    ) -> Run {
        let (ours, theirs) = StdStream::pair().unwrap();
        let pass = Pass {
            component: component.to_owned(),
            revision,
            handler: handler.to_owned(),
            grants,
            time_left_ms,
            trace: None,
            report_as: Some(ReportAs {
                run: self.attempts.get(),
                began_ms: 1_000_000,
                first_span: None,
            }),
            has_lifeline,
            cuts_bodies: component == CUTTING,
            ..Pass::default()
        };
        self.send(&ToBroker::Run { pass, over }, Some(theirs.as_fd()));
        ours.set_nonblocking(true).unwrap();
        let stream = UnixStream::from_std(ours).unwrap();
        let frames = Framed::new(
            stream,
            LengthDelimitedCodec::builder()
                .max_frame_length(32 << 20)
                .new_codec(),
        );
        Run(RefCell::new(frames))
    }

    /// Starts a server that answers each request with what `answer` makes of its head, and closes the connection
    /// unless the answer says how long it is.
    pub(super) async fn server(&self, answer: impl Fn(&str) -> Vec<u8> + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server::new(&listener);
        let (requests, connections) = (Rc::clone(&server.requests), Rc::clone(&server.connections));
        let open = Rc::clone(&server.open);
        let answer = Rc::new(answer);
        spawn_local(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.set(connections.get() + 1);
                let (requests, answer) = (Rc::clone(&requests), Rc::clone(&answer));
                let open = Rc::clone(&open);
                spawn_local(async move {
                    open.set(open.get() + 1);
                    converse(stream, &requests, &*answer).await;
                    open.set(open.get() - 1);
                });
            }
        });
        server
    }

    fn acceptor(&self, name: &str) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.into())
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }

    /// Listens at a port. The future accepts one connection, waits until it is told, and returns the head of
    /// the request that comes after the handshake for `name`, if one does.
    pub(super) async fn slow_tls_server(
        &self,
        name: &str,
        connected: oneshot::Sender<()>,
        continuing: oneshot::Receiver<()>,
    ) -> (u16, impl Future<Output = Vec<u8>> + use<>) {
        let acceptor = self.acceptor(name);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = async move {
            let (stream, _) = listener.accept().await.unwrap();
            connected.send(()).unwrap();
            continuing.await.unwrap();
            let mut text = Vec::new();
            if let Ok(mut stream) = acceptor.accept(stream).await {
                while !text.ends_with(b"\r\n\r\n")
                    && let Ok(1..) = stream.read_buf(&mut text).await
                {}
            }
            text
        };
        (port, serving)
    }

    /// Starts a server with a certificate for `name`.
    pub(super) async fn tls_server(&self, name: &str) -> Server {
        let acceptor = self.acceptor(name);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server::new(&listener);
        let requests = Rc::clone(&server.requests);
        spawn_local(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (requests, acceptor) = (Rc::clone(&requests), acceptor.clone());
                spawn_local(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let asked_for = stream.get_ref().1.server_name().unwrap_or_default();
                        requests.borrow_mut().push(format!("to {asked_for}"));
                        converse(stream, &requests, &|_| reply(200, "over TLS")).await;
                    }
                });
            }
        });
        server
    }

    /// Starts a server that accepts connections and answers nothing.
    pub(super) async fn silent_server(&self) -> SilentServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (events, happened) = mpsc::channel(512);
        spawn_local(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let events = events.clone();
                spawn_local(async move {
                    events.send(true).await.unwrap();
                    let mut rest = Vec::new();
                    let _ = stream.read_to_end(&mut rest).await;
                    let _ = events.send(false).await;
                });
            }
        });
        SilentServer { port, happened }
    }
}

async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    requests: &RefCell<Vec<String>>,
    answer: &dyn Fn(&str) -> Vec<u8>,
) {
    let (mut text, mut buffer) = (Vec::new(), [0; 4_096]);
    loop {
        let Ok(read @ 1..) = stream.read(&mut buffer).await else {
            return;
        };
        text.extend_from_slice(&buffer[..read]);
        if !is_whole(&text) {
            continue;
        }
        let request = String::from_utf8(std::mem::take(&mut text)).unwrap();
        let answer = answer(&request);
        requests.borrow_mut().push(request);
        let is_kept = answer.starts_with(b"HTTP/1.1 200 X\r\ncontent-length");
        if stream.write_all(&answer).await.is_err() || !is_kept {
            let _ = stream.shutdown().await;
            return;
        }
    }
}

/// Returns whether a request has its whole head and body.
fn is_whole(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.split_once("content-length: ").map_or(0, |(_, rest)| {
        let digits = rest.split('\r').next().unwrap_or_default();
        digits.parse().unwrap()
    });
    body.len() == length
}

/// A scripted server.
pub(super) struct Server {
    pub(super) port: u16,
    requests: Rc<RefCell<Vec<String>>>,
    connections: Rc<Cell<usize>>,
    open: Rc<Cell<usize>>,
}

impl Server {
    fn new(listener: &TcpListener) -> Self {
        Self {
            port: listener.local_addr().unwrap().port(),
            requests: Rc::default(),
            connections: Rc::default(),
            open: Rc::default(),
        }
    }

    pub(super) fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin())
    }

    /// Returns the heads of all requests.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.borrow().clone()
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.get()
    }

    /// Returns how many connections are open now.
    pub(super) fn open(&self) -> usize {
        self.open.get()
    }
}

pub(super) struct SilentServer {
    port: u16,
    /// Whether a connection was accepted, or else closed by the other side.
    happened: mpsc::Receiver<bool>,
}

impl SilentServer {
    pub(super) fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin())
    }

    pub(super) async fn accepted(&mut self) {
        assert!(self.happened.recv().await.unwrap());
    }

    /// Returns whether nothing has happened since.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.happened.try_recv().is_err()
    }

    /// Waits for the next connection, whatever is closed in the meantime.
    pub(super) async fn accepted_meanwhile(&mut self) {
        while !self.happened.recv().await.unwrap() {}
    }

    pub(super) async fn closed(&mut self) {
        assert!(!self.happened.recv().await.unwrap());
    }
}

/// The socket of a run.
pub(super) struct Run(RefCell<Framed<UnixStream, LengthDelimitedCodec>>);

impl Run {
    /// Sends a request without waiting for the answer.
    pub(super) async fn begin(&self, url: &str) {
        self.begin_with(url, Vec::new()).await;
    }

    #[expect(
        clippy::await_holding_refcell_ref,
        reason = "a test does one thing at a time"
    )]
    async fn begin_with(&self, url: &str, headers: Vec<(String, String)>) {
        let request = FromCell::Http(HttpRequest {
            call: 7,
            method: "GET".to_owned(),
            url: url.to_owned(),
            headers,
            body: Vec::new(),
            timeout_ms: None,
        });
        let frame = postcard::to_stdvec(&request).unwrap();
        self.0.borrow_mut().send(Bytes::from(frame)).await.unwrap();
    }

    pub(super) async fn get(&self, url: &str) -> Result<HttpResponse, HttpError> {
        self.get_with(url, Vec::new()).await
    }

    pub(super) async fn get_with(
        &self,
        url: &str,
        headers: Vec<(String, String)>,
    ) -> Result<HttpResponse, HttpError> {
        self.begin_with(url, headers).await;
        self.answer().await
    }

    /// Returns the next answer.
    #[expect(
        clippy::await_holding_refcell_ref,
        reason = "a test does one thing at a time"
    )]
    pub(super) async fn answer(&self) -> Result<HttpResponse, HttpError> {
        let frame = self.0.borrow_mut().next().await.unwrap().unwrap();
        let ToCell::Http(answer) = postcard::from_bytes(&frame).unwrap() else {
            panic!("it is no answer to a request")
        };
        assert_eq!(answer.call, 7);
        answer.result
    }
}
