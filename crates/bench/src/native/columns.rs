//! Tables, and columns of tables, by their names.
//!
//! Invariants: the order of columns is that of the SQL text that makes the table; a test of each workload
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

/// `Tables` with a field for each table, and how they are found in a catalog.
macro_rules! tables {
    ($($table:ident)*) => {
        /// The tables.
        #[derive(Clone)]
        #[allow(missing_docs, reason = "the tables of these names")]
        pub struct Tables {
            $(pub $table: std::sync::Arc<atoll_kernel::api::TableEntry>,)*
        }

        impl Tables {
            fn find(catalog: &atoll_kernel::api::Catalog) -> std::result::Result<Tables, String> {
                Ok(Tables { $($table: $crate::native::table(catalog, stringify!($table))?,)* })
            }
        }
    };
}

pub(crate) use {columns, tables};
