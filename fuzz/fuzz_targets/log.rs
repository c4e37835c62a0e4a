//! A log record, wherever its checksum puts it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    atoll_kernel::log::fuzz::record(bytes);
    let _ = atoll_kernel::log::manifest::Manifest::decode(bytes, "fuzzed");
});
