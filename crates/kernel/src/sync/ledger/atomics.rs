//! Atomics that count: `std`'s, each write entered in the ledger by its caller's site.
//!
//! Invariants: same size, same alignment, same orderings as `std`'s; a load tells the line table
//! only (others' loads are what makes a store costly), a write is entered before it is made.

use std::sync::atomic::{self, Ordering};

use super::What;
use super::lines;
use super::tally::enter;

macro_rules! common {
    ($value:ty) => {
        /// As `std`'s.
        #[inline]
        pub fn load(&self, order: Ordering) -> $value {
            lines::read(std::ptr::from_ref(self).addr());
            self.0.load(order)
        }

        /// As `std`'s.
        #[inline]
        #[track_caller]
        pub fn store(&self, value: $value, order: Ordering) {
            self.enter(What::Store);
            self.0.store(value, order);
        }

        /// As `std`'s.
        #[inline]
        #[track_caller]
        pub fn swap(&self, value: $value, order: Ordering) -> $value {
            self.enter(What::Change);
            self.0.swap(value, order)
        }

        /// As `std`'s.
        #[inline]
        #[track_caller]
        pub fn compare_exchange(
            &self,
            current: $value,
            new: $value,
            success: Ordering,
            failure: Ordering,
        ) -> Result<$value, $value> {
            self.enter(What::Change);
            self.0.compare_exchange(current, new, success, failure)
        }

        /// As `std`'s.
        #[inline]
        #[track_caller]
        pub fn compare_exchange_weak(
            &self,
            current: $value,
            new: $value,
            success: Ordering,
            failure: Ordering,
        ) -> Result<$value, $value> {
            self.enter(What::Change);
            self.0.compare_exchange_weak(current, new, success, failure)
        }

        /// As `std`'s.
        pub fn get_mut(&mut self) -> &mut $value {
            self.0.get_mut()
        }

        #[inline]
        #[track_caller]
        fn enter(&self, what: What) {
            enter(what, std::ptr::from_ref(self).addr());
        }
    };
}

macro_rules! number {
    ($name:ident, $value:ty) => {
        /// `std`'s, counted.
        #[derive(Default, Debug)]
        #[repr(transparent)]
        pub struct $name(atomic::$name);

        impl $name {
            /// As `std`'s.
            pub const fn new(value: $value) -> $name {
                $name(atomic::$name::new(value))
            }

            common!($value);
            number!(change $value: fetch_add fetch_sub fetch_max fetch_min fetch_or fetch_and);
        }
    };
    (change $value:ty: $($method:ident)*) => {$(
        /// As `std`'s.
        #[inline]
        #[track_caller]
        pub fn $method(&self, value: $value, order: Ordering) -> $value {
            self.enter(What::Change);
            self.0.$method(value, order)
        }
    )*};
}

number!(AtomicU16, u16);
number!(AtomicU32, u32);
number!(AtomicU64, u64);
number!(AtomicUsize, usize);

/// `std`'s, counted.
#[derive(Default, Debug)]
#[repr(transparent)]
pub struct AtomicBool(atomic::AtomicBool);

impl AtomicBool {
    /// As `std`'s.
    pub const fn new(value: bool) -> AtomicBool {
        AtomicBool(atomic::AtomicBool::new(value))
    }

    common!(bool);
}

/// `std`'s, counted.
#[derive(Default, Debug)]
#[repr(transparent)]
pub struct AtomicPtr<T>(atomic::AtomicPtr<T>);

impl<T> AtomicPtr<T> {
    /// As `std`'s.
    pub const fn new(value: *mut T) -> AtomicPtr<T> {
        AtomicPtr(atomic::AtomicPtr::new(value))
    }

    common!(*mut T);
}
