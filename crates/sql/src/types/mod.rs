//! Values and the type system: what a datum is, which types exist, how each is read, printed,
//! sent, stored and fitted to its modifier. See README.md.
//!
//! Invariants: a [`Datum`] does not know its SQL type (text, varchar, name and bpchar share one
//! form); whoever holds a datum knows its [`Type`]. Nothing here reads the catalog or a session
//! except through [`crate::functions::FunctionContext`].

mod array;
mod array_text;
mod catalog;
mod datum;
mod row_values;
mod float;
mod interval;
mod numeric;
mod oid;
pub(crate) mod reg;
pub mod binary;
pub mod datetime;
pub mod limits;
pub mod order;
pub mod storage;
pub mod text;
pub mod typmod;

pub use array::{Array, Dimension, Record};
pub use catalog::{
    Category, Preferred, TYPES, TypeInfo, TypeKind, format_type, type_by_name, type_by_oid,
};
pub use datum::{Datum, Text};
pub use interval::Interval;
pub(crate) use interval::interval_out_of_range;
pub(crate) use numeric::Among;
pub use numeric::{Numeric, NumericClass};
pub use oid::{Type, TypeOid};
pub use reg::parse_type_name;
pub use row_values::RowValues;
