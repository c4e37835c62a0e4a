//! A page's bytes, to the checks of all layouts.
#![no_main]

use atoll_kernel::base::PAGE_BYTES;
use atoll_kernel::page::{ColumnType, Layout, keynode, rowleaf};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut page = Box::new([0u8; PAGE_BYTES]);
    let count = bytes.len().min(PAGE_BYTES);
    page[..count].copy_from_slice(&bytes[..count]);
    keynode::check(&page);
    let columns = vec![ColumnType::Int8, ColumnType::Bytes, ColumnType::Bool];
    if let Ok(layout) = Layout::new(0, columns) {
        rowleaf::check(&page, &layout);
    }
});
