//! Free ports, for programs that cannot choose and report a port themselves.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// The range of ports to try. It is below the ports that systems use for outgoing connections.
const FIRST: u16 = 12_000;
const SPAN: u16 = 18_000;

/// Spreads the processes that run concurrently, whose ids are neighbors, over the range.
const STEP: u32 = 997;

/// Returns the first of `count` consecutive free ports on the loopback address. Each call returns other
/// ports, and each process starts at another port.
///
/// # Panics
///
/// If there are no such ports.
pub fn free(count: u16) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let offset = std::process::id().wrapping_mul(STEP) % u32::from(SPAN);
    let begin = u16::try_from(offset).expect("less than the span");
    for _ in 0..SPAN {
        let step = NEXT.fetch_add(count, Ordering::Relaxed) % SPAN;
        let first = FIRST + (begin + step) % SPAN;
        let are_free =
            (first..first + count).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok());
        if are_free {
            return first;
        }
    }
    panic!("no {count} consecutive ports are free")
}
