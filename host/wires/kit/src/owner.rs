//! The owner of a TCP socket on this machine: of the other end of a connection, or of the listener at an
//! address. Asks the kernel (`sock_diag`), or reads `/proc/net` if that is not possible.

mod table;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

/// The owner of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    /// The inode of the socket, as in the links of `/proc/PID/fd`.
    pub inode: u64,
}

/// Returns the owner of the other end of a connection. `None` if there is no such socket.
pub fn of_peer(ours: SocketAddr, peer: SocketAddr) -> io::Result<Option<Owner>> {
    find(peer, Some(ours))
}

/// Returns the owner of the socket that accepts connections to `address`. `None` if there is none.
pub fn of_listener(address: SocketAddr) -> io::Result<Option<Owner>> {
    find(address, None)
}

/// Returns whether a process of this group has the socket.
pub fn has_socket(group: u32, inode: u64) -> io::Result<bool> {
    let link = format!("socket:[{inode}]");
    for entry in std::fs::read_dir("/proc")? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let is_process = name.is_some_and(|name| name.parse::<u32>().is_ok());
        if !is_process || group_of(&path) != Some(group) {
            continue;
        }
        // The process may have ended.
        let Ok(files) = std::fs::read_dir(path.join("fd")) else {
            continue;
        };
        let links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        if links
            .into_iter()
            .any(|found| found.as_os_str() == link.as_str())
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads the group of a process, which follows the name in parentheses, the state and the parent.
fn group_of(process: &Path) -> Option<u32> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(2)?.parse().ok()
}

fn find(local: SocketAddr, remote: Option<SocketAddr>) -> io::Result<Option<Owner>> {
    ask(local, remote).or_else(|_| table::find(local, remote))
}

/// `SOCK_DIAG_BY_FAMILY` of `linux/sock_diag.h`.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST` and `NLMSG_ERROR` of `linux/netlink.h`.
const REQUEST: u16 = 1;
const ERROR: u16 = 2;
const TCP: u8 = 6;
/// The length of `nlmsghdr` and of `nlmsghdr` with `inet_diag_req_v2`.
const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = HEADER_BYTES + 56;
/// The offsets of `idiag_uid` and `idiag_inode` in the answer.
const UID_AT: usize = HEADER_BYTES + 64;
const INODE_AT: usize = HEADER_BYTES + 68;

/// Asks for the one socket with these ends. Without a remote end, it is a listening one.
fn ask(local: SocketAddr, remote: Option<SocketAddr>) -> io::Result<Option<Owner>> {
    let request = request(local, remote);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let protocol = Some(netlink::SOCK_DIAG);
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, protocol)?;
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &request, SendFlags::empty(), &kernel)?;
    let mut answer = [0; 1_024];
    // The kernel has answered before the call above returned.
    let (_, bytes) = recv(&socket, &mut answer, RecvFlags::empty())?;
    read(answer.get(..bytes).unwrap_or_default())
}

fn request(local: SocketAddr, remote: Option<SocketAddr>) -> Vec<u8> {
    let any = SocketAddr::new(
        match local {
            SocketAddr::V4(_) => IpAddr::from([0; 4]),
            SocketAddr::V6(_) => IpAddr::from([0; 16]),
        },
        0,
    );
    let remote = remote.unwrap_or(any);
    let family = match local {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let mut bytes = Vec::with_capacity(REQUEST_BYTES);
    bytes.extend(
        u32::try_from(REQUEST_BYTES)
            .unwrap_or_default()
            .to_ne_bytes(),
    );
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    // The sequence and the port of the sender, which do not matter here.
    bytes.extend([0; 8]);
    bytes.extend([u8::try_from(family.as_raw()).unwrap_or_default(), TCP, 0, 0]);
    // All states.
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(local.port().to_be_bytes());
    bytes.extend(remote.port().to_be_bytes());
    for address in [local.ip(), remote.ip()] {
        match address {
            IpAddr::V4(address) => {
                bytes.extend(address.octets());
                bytes.extend([0; 12]);
            }
            IpAddr::V6(address) => bytes.extend(address.octets()),
        }
    }
    // Any interface, any cookie.
    bytes.extend([0; 4]);
    bytes.extend([0xff; 8]);
    bytes
}

fn read(answer: &[u8]) -> io::Result<Option<Owner>> {
    let number = |at: usize| {
        let bytes = answer.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(bytes))
    };
    let short = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the kernel's answer is too short",
        )
    };
    let kind = answer.get(4..6).ok_or_else(short)?;
    match u16::from_ne_bytes([kind[0], kind[1]]) {
        BY_FAMILY => Ok(Some(Owner {
            uid: number(UID_AT).ok_or_else(short)?,
            inode: number(INODE_AT).ok_or_else(short)?.into(),
        })),
        ERROR => {
            let code = number(HEADER_BYTES).ok_or_else(short)?.cast_signed();
            match io::Error::from_raw_os_error(-code) {
                error if error.kind() == io::ErrorKind::NotFound => Ok(None),
                error => Err(error),
            }
        }
        kind => Err(io::Error::other(format!(
            "unexpected answer of type {kind} from the kernel"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    fn inode(socket: impl AsFd) -> u64 {
        rustix::fs::fstat(socket).unwrap().st_ino
    }

    type Find = fn(SocketAddr, Option<SocketAddr>) -> io::Result<Option<Owner>>;

    #[test]
    fn both_ways_find_the_owners_of_both_ends() {
        let uid = rustix::process::geteuid().as_raw();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                eprintln!("{address} is not there");
                continue;
            };
            let here = listener.local_addr().unwrap();
            let client = TcpStream::connect(here).unwrap();
            let (accepted, there) = listener.accept().unwrap();
            let found = |inode| Some(Owner { uid, inode });
            let both: [(&str, Find); 2] = [("the kernel", ask), ("the table", table::find)];
            for (name, find) in both {
                let Ok(listens) = find(here, None) else {
                    assert_eq!(name, "the kernel", "the table is always there");
                    eprintln!("this kernel does not answer");
                    continue;
                };
                assert_eq!(listens, found(inode(&listener)), "{name}, {address}");
                let peer = find(there, Some(here)).unwrap();
                assert_eq!(peer, found(inode(&client)), "{name}, {address}");
                let peer = find(here, Some(there)).unwrap();
                assert_eq!(peer, found(inode(&accepted)), "{name}, {address}");
            }
            let gone = found(inode(&listener));
            drop(listener);
            // Another process may be listening there by now. A child that another test has just forked holds
            // this socket until it executes its program.
            let is_gone = (0..100_000).any(|_| {
                std::thread::yield_now();
                of_listener(here).unwrap() != gone
            });
            assert!(is_gone, "a closed socket is found");
        }
    }

    #[test]
    fn a_socket_is_found_in_its_group_only() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let group = rustix::process::getpgrp().as_raw_nonzero().get();
        let ours = u32::try_from(group).unwrap();
        assert!(has_socket(ours, inode(&listener)).unwrap());
        assert!(!has_socket(ours, u64::MAX).unwrap());
        assert!(!has_socket(1, inode(&listener)).unwrap());
    }

    #[test]
    fn a_short_answer_is_an_error() {
        let whole = [0; INODE_AT + 4];
        for bytes in 0..whole.len() {
            let mut answer = whole;
            answer[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
            assert!(read(&answer[..bytes]).is_err(), "{bytes}");
        }
    }
}
