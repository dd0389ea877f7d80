//! The tables of TCP sockets in `/proc/net`, for a kernel that does not answer `sock_diag`.

use std::io;
use std::net::{IpAddr, SocketAddr};

use super::Owner;

/// The state of a listening socket.
const LISTENS: &str = "0A";

/// Finds a socket like `super::find`.
pub(super) fn find(local: SocketAddr, remote: Option<SocketAddr>) -> io::Result<Option<Owner>> {
    let mut any = None;
    // A dual-stack socket is in the second table.
    for path in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let table = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            table => table?,
        };
        for line in table.lines().skip(1) {
            let Some(row) = Row::read(line) else { continue };
            let is_it = match remote {
                Some(remote) => row.local == local && row.remote == remote,
                None => row.listens && row.local == local,
            };
            if is_it {
                return Ok(Some(row.owner));
            }
            let accepts_all = row.listens && row.local.ip().is_unspecified();
            if remote.is_none() && accepts_all && row.local.port() == local.port() {
                any = Some(row.owner);
            }
        }
    }
    Ok(any)
}

struct Row {
    local: SocketAddr,
    remote: SocketAddr,
    listens: bool,
    owner: Owner,
}

impl Row {
    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some(Self {
            local: address(words.get(1)?)?,
            remote: address(words.get(2)?)?,
            listens: *words.get(3)? == LISTENS,
            owner: Owner {
                uid: words.get(7)?.parse().ok()?,
                inode: words.get(9)?.parse().ok()?,
            },
        })
    }
}

/// Reads `0100007F:1E61`: each group of eight digits is a number as this machine keeps it.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut octets = Vec::with_capacity(16);
    for at in (0..address.len()).step_by(8) {
        let number = u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?;
        octets.extend(number.to_ne_bytes());
    }
    let address = match octets.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(octets).ok()?),
        _ => IpAddr::from(<[u8; 16]>::try_from(octets).ok()?).to_canonical(),
    };
    Some(SocketAddr::new(address, port))
}
