//! A plain load balancer for HTTP: each request goes to the next backend that accepts connections, from
//! every client.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// The longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// A running balancer. It ends with its process.
pub struct Balancer {
    address: String,
    backends: Arc<Mutex<Backends>>,
}

#[derive(Default)]
struct Backends {
    addresses: Vec<String>,
    next: usize,
    swallows: bool,
}

impl Balancer {
    /// Starts one on a free port, without backends.
    ///
    /// # Panics
    ///
    /// If no port is free.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let backends = Arc::<Mutex<Backends>>::default();
        let shared = Arc::clone(&backends);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                // A client or backend that is gone ends its request.
                std::thread::spawn(move || pass_on(client, &shared).ok());
            }
        });
        Self {
            address: address.to_string(),
            backends,
        }
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends requests to these addresses from now on. Those that have begun are not affected.
    pub fn set(&self, addresses: Vec<String>) {
        let mut backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner);
        backends.addresses = addresses;
    }

    /// Swallows the answer to the next POST, which the backend has carried out then.
    pub fn swallow_next(&self) {
        let mut backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner);
        backends.swallows = true;
    }
}

/// Returns whether the answer to a request is to be swallowed.
fn is_swallowed(head: &str, backends: &Mutex<Backends>) -> bool {
    let mut backends = backends.lock().unwrap_or_else(PoisonError::into_inner);
    head.starts_with("POST ") && std::mem::take(&mut backends.swallows)
}

/// Connects to the next backend that accepts connections.
fn connect(backends: &Mutex<Backends>) -> Option<TcpStream> {
    let mut backends = backends.lock().unwrap_or_else(PoisonError::into_inner);
    let count = backends.addresses.len();
    (0..count).find_map(|_| {
        backends.next += 1;
        TcpStream::connect(&backends.addresses[backends.next % count]).ok()
    })
}

/// Passes one request and its response on. Both connections end with it, so the next request of the client
/// is another one.
fn pass_on(mut client: TcpStream, backends: &Mutex<Backends>) -> std::io::Result<()> {
    let mut head = Vec::new();
    let end = loop {
        let mut bytes = [0; 8 << 10];
        let count = client.read(&mut bytes)?;
        head.extend_from_slice(&bytes[..count]);
        if let Some(at) = head.windows(4).position(|it| it == b"\r\n\r\n") {
            break at;
        }
        if count == 0 || head.len() > HEAD_BYTES_MAX {
            return Ok(());
        }
    };
    let Some(mut backend) = connect(backends) else {
        return Ok(());
    };
    let text = String::from_utf8_lossy(&head[..end]);
    let is_kept = |line: &&str| !line.to_ascii_lowercase().starts_with("connection:");
    let kept: Vec<&str> = text.split("\r\n").filter(is_kept).collect();
    let request = format!("{}\r\nconnection: close\r\n\r\n", kept.join("\r\n"));
    backend.write_all(request.as_bytes())?;
    backend.write_all(&head[end + 4..])?;
    let (mut from, mut to) = (client.try_clone()?, backend.try_clone()?);
    // Ends when either side does.
    std::thread::spawn(move || std::io::copy(&mut from, &mut to).ok());
    let answered = if is_swallowed(&text, backends) {
        std::io::copy(&mut backend, &mut std::io::sink())
    } else {
        std::io::copy(&mut backend, &mut client)
    };
    // One side may have ended already.
    let _ = (
        client.shutdown(Shutdown::Both).ok(),
        backend.shutdown(Shutdown::Both).ok(),
    );
    answered.map(drop)
}
