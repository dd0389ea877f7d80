//! Any bytes, said to the orchestrator side of RRQ.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| host_protocols::rrq::fuzz::to_orchestrator(bytes));
