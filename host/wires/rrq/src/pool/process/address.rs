//! Chooses the addresses of the runners that we start.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// Chooses a loopback address for the runner with this number: a port counted from `first`, or a
/// free one that no other runner of the pool uses.
pub(super) fn choose(
    runner: usize,
    first: Option<u16>,
    is_taken: impl Fn(SocketAddr) -> bool,
) -> io::Result<SocketAddr> {
    let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    if let Some(first) = first {
        let runner = u16::try_from(runner).ok();
        let port = runner.and_then(|runner| first.checked_add(runner));
        return port.map(local).ok_or_else(|| {
            io::Error::other(format!(
                "no port is left for it above {first}: choose a lower tcp_port"
            ))
        });
    }
    // The system does not soon reuse a port that it has just assigned.
    loop {
        let address = TcpListener::bind(local(0))?.local_addr()?;
        if !is_taken(address) {
            return Ok(address);
        }
    }
}
