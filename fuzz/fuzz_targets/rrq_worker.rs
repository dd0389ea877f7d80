//! Any bytes, said to the worker side of RRQ.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| host_protocols::rrq::fuzz::to_worker(bytes));
