//! Feeds arbitrary bytes to the orchestrator role of RRQ.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| host_wire_rrq::fuzz::to_orchestrator(bytes));
