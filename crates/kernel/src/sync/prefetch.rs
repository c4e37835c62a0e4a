//! Asking for memory before it is needed: several lines at once cost one wait, not one each.
//!
//! Invariants: nothing that the program can see happens, whatever the address.

/// Bytes that come from memory at once.
pub const LINE_BYTES: usize = 64;
/// Lines that are asked for of one value at most.
const VALUE_LINES_MAX: usize = 16;

/// Asks for the cache line of `address`, which may be any: whoever reads it later need not wait
/// then.
#[inline(always)]
pub fn prefetch_line<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch touches nothing that the program can see, at any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for the cache lines of `value`, the first kilobyte of it: for what is touched soon, together
/// with others.
#[inline]
pub fn prefetch_value<T: ?Sized>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    let lines = (size_of_val(value) + start.addr() % LINE_BYTES).div_ceil(LINE_BYTES);
    for line in 0..lines.min(VALUE_LINES_MAX) {
        prefetch_line(start.wrapping_add(line * LINE_BYTES));
    }
}
