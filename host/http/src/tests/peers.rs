//! What requests know of their peer.

use std::io::Read as _;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream as BlockingStream;
use std::sync::Arc;
use std::{fs, io};

use host_runtime::socket::LocalListener;
use host_runtime::tasks::Tasks;
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::fixture::{Counted, Recorded, SOON, app};
use crate::gate::Gate;
use crate::peer::Peer;
use crate::proxies::Proxies;
use crate::serve::{Accept, Transport, serve};

const ASK: &[u8] = b"GET /api/peer HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

/// A user that owns nothing.
const NOBODY_UID: u32 = 65_534;

/// A listener whose peers all seem to be at one address.
struct From(TcpListener, IpAddr);

impl Accept for From {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, _) = self.0.accept().await?;
        Ok((stream, Peer::remote(self.1)))
    }
}

/// Returns what hears of connections that are refused.
fn start(tasks: &Tasks, listener: impl Accept + Send + Sync + 'static) -> Arc<Recorded> {
    start_behind(tasks, listener, Proxies::default())
}

fn start_behind(
    tasks: &Tasks,
    listener: impl Accept + Send + Sync + 'static,
    proxies: Proxies,
) -> Arc<Recorded> {
    let (metrics, theirs) = (Arc::<Counted>::default(), tasks.clone());
    let gate = Arc::<Recorded>::default();
    let hears: Arc<dyn Gate> = Arc::clone(&gate) as _;
    let transport = Transport {
        proxies,
        ..Transport::default()
    };
    let router = app(&metrics);
    tasks.spawn(async move {
        serve(listener, transport, router, hears, metrics, &theirs, &[]).await;
    });
    gate
}

/// Returns the body of the answer.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> String {
    stream.write_all(ASK).await.unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    tokio::time::timeout(SOON, read).await.unwrap().unwrap();
    answer.split("\r\n\r\n").nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn a_request_knows_its_address_or_the_user_of_its_socket() {
    let tasks = Tasks::default();
    let tcp = TcpListener::bind("[::]:0").await.unwrap();
    let port = tcp.local_addr().unwrap().port();
    start(&tasks, tcp);
    for address in ["127.0.0.1", "::1"] {
        let answer = ask(TcpStream::connect((address, port)).await.unwrap()).await;
        let peer = Peer::remote(address.parse().unwrap());
        assert_eq!(answer, format!("{peer:?}"));
    }
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("api.sock");
    start(&tasks, LocalListener::bind(&path).unwrap());
    let answer = ask(UnixStream::connect(&path).await.unwrap()).await;
    assert_eq!(answer, format!("{:?}", Peer::local(geteuid().as_raw())));
    tasks.stop();
}

#[tokio::test]
async fn who_must_use_tls_and_does_not_is_told_so() {
    let tasks = Tasks::default();
    for (peer, is_let_in) in [
        ("192.0.2.1", false),
        ("10.1.2.3", true),
        ("127.0.0.1", true),
    ] {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let proxies = Proxies::from_iter(["10.0.0.0/8".parse().unwrap()]);
        let gate = start_behind(&tasks, From(tcp, peer.parse().unwrap()), proxies);
        let mut stream = TcpStream::connect(address).await.unwrap();
        if is_let_in {
            assert!(ask(stream).await.contains(peer), "{peer}");
            assert_eq!(*gate.denials.lock().unwrap(), []);
            continue;
        }
        // The refusal comes before any request.
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        tokio::time::timeout(SOON, read).await.unwrap().unwrap();
        assert!(answer.contains("403") && answer.contains("without TLS; use https://"));
        let denial = (peer.to_owned(), "connect without TLS".to_owned(), 403);
        assert_eq!(*gate.denials.lock().unwrap(), [denial]);
    }
    tasks.stop();
}

/// Needs root, because only root can switch users.
#[tokio::test]
async fn a_process_of_another_user_is_not_accepted() {
    if !geteuid().is_root() {
        return;
    }
    let folder = tempfile::TempDir::new().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().join("api.sock");
    let (tasks, listener) = (Tasks::default(), LocalListener::bind(&path).unwrap());
    // Its mode alone would keep others out.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let gate = start(&tasks, listener);
    let to = path.clone();
    let other = tokio::task::spawn_blocking(move || {
        let others = std::thread::spawn(move || {
            let user = Uid::from_raw(NOBODY_UID);
            // Only for this thread, which then ends.
            set_thread_res_uid(user, user, user).unwrap();
            let mut stream = BlockingStream::connect(to).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            answer
        });
        others.join().unwrap()
    });
    let answer = tokio::time::timeout(SOON, other).await.unwrap().unwrap();
    assert_eq!(answer, b"");
    let denial = (
        format!("uid:{NOBODY_UID}"),
        "connect to the local socket".to_owned(),
        403,
    );
    assert_eq!(*gate.denials.lock().unwrap(), [denial]);
    let own = ask(UnixStream::connect(&path).await.unwrap()).await;
    assert_eq!(own, format!("{:?}", Peer::local(geteuid().as_raw())));
    tasks.stop();
}
