//! Host calls of WASI that the SDK does not offer.

#[cfg(target_family = "wasm")]
mod bindings {
    #![allow(
        missing_docs,
        unreachable_pub,
        clippy::all,
        clippy::pedantic,
        reason = "generated"
    )]
    wit_bindgen::generate!({
        inline: r"
            package hostile:imports;

            world reach {
                import wasi:random/random@0.2.6;
                import wasi:clocks/monotonic-clock@0.2.6;
            }

            package wasi:random@0.2.6 {
                interface random {
                    get-random-bytes: func(len: u64) -> list<u8>;
                    get-random-u64: func() -> u64;
                }
            }

            package wasi:io@0.2.6 {
                interface poll {
                    resource pollable {
                        ready: func() -> bool;
                        block: func();
                    }
                    poll: func(in: list<borrow<pollable>>) -> list<u32>;
                }
            }

            package wasi:clocks@0.2.6 {
                interface monotonic-clock {
                    use wasi:io/poll@0.2.6.{pollable};
                    type instant = u64;
                    type duration = u64;
                    now: func() -> instant;
                    resolution: func() -> duration;
                    subscribe-instant: func(when: instant) -> pollable;
                    subscribe-duration: func(when: duration) -> pollable;
                }
            }
        ",
        generate_all,
    });
}

/// Requests random bytes in one call.
#[cfg(target_family = "wasm")]
pub(crate) fn random_bytes(len: u64) -> Vec<u8> {
    bindings::wasi::random::random::get_random_bytes(len)
}

/// Creates a timer and leaks its handle.
#[cfg(target_family = "wasm")]
pub(crate) fn leak_timer() {
    std::mem::forget(bindings::wasi::clocks::monotonic_clock::subscribe_duration(
        u64::MAX,
    ));
}

#[cfg(not(target_family = "wasm"))]
pub(crate) fn random_bytes(_len: u64) -> Vec<u8> {
    Vec::new()
}

#[cfg(not(target_family = "wasm"))]
pub(crate) fn leak_timer() {}
