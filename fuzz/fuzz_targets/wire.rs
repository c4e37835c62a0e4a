//! A client's bytes, before and after start-up.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| atoll_server::fuzz::wire(bytes));
