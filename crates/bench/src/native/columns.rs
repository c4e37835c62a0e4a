//! Columns of tables by their names.
//!
//! Invariants: their order is that of the SQL text that makes the table; a test of each workload
//! compares them.

/// A module of constants for each table: `COLUMN` is its place.
macro_rules! columns {
    ($($(#[$doc:meta])* $table:ident { $($name:ident)* })*) => {$(
        $(#[$doc])*
        pub mod $table {
            use atoll_kernel::api::ColumnId;
            $crate::native::columns!(@ 0; $($name)*);
            /// All, in order.
            #[cfg(test)]
            pub const ALL: &[(&str, ColumnId)] = &[$((stringify!($name), $name)),*];
        }
    )*};
    (@ $at:expr; $name:ident $($rest:ident)*) => {
        #[allow(missing_docs, dead_code, reason = "the column of that name, used or not")]
        pub const $name: ColumnId = ColumnId($at);
        $crate::native::columns!(@ $at + 1; $($rest)*);
    };
    (@ $at:expr;) => {};
}

pub(crate) use columns;
