//! Array and set functions, as in pg_proc.
//!
//! Invariants: one row each; oids, strictness and volatility are PostgreSQL's.

use super::build::{scalar, set};
use crate::functions::library::{array, session, sets};
use crate::functions::row::FunctionRow;
use crate::types::TypeOid;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[FunctionRow] = &[
    scalar(2092, "array_upper", &[TypeOid::ANYARRAY, TypeOid::INT4], TypeOid::INT4, array::upper),
    scalar(2091, "array_lower", &[TypeOid::ANYARRAY, TypeOid::INT4], TypeOid::INT4, array::lower),
    scalar(2176, "array_length", &[TypeOid::ANYARRAY, TypeOid::INT4], TypeOid::INT4, array::length),
    scalar(748, "array_ndims", &[TypeOid::ANYARRAY], TypeOid::INT4, array::dimensions),
    scalar(747, "array_dims", &[TypeOid::ANYARRAY], TypeOid::TEXT, array::dimensions_text),
    scalar(3179, "cardinality", &[TypeOid::ANYARRAY], TypeOid::INT4, array::cardinality),
    scalar(378, "array_append", &[TypeOid::ANYCOMPATIBLEARRAY, TypeOid::ANYCOMPATIBLE], TypeOid::ANYCOMPATIBLEARRAY, array::append).called_on_null(),
    scalar(379, "array_prepend", &[TypeOid::ANYCOMPATIBLE, TypeOid::ANYCOMPATIBLEARRAY], TypeOid::ANYCOMPATIBLEARRAY, array::prepend).called_on_null(),
    scalar(383, "array_cat", &[TypeOid::ANYCOMPATIBLEARRAY, TypeOid::ANYCOMPATIBLEARRAY], TypeOid::ANYCOMPATIBLEARRAY, array::concatenate).called_on_null(),
    scalar(3277, "array_position", &[TypeOid::ANYCOMPATIBLEARRAY, TypeOid::ANYCOMPATIBLE], TypeOid::INT4, array::position).called_on_null(),
    scalar(3278, "array_position", &[TypeOid::ANYCOMPATIBLEARRAY, TypeOid::ANYCOMPATIBLE, TypeOid::INT4], TypeOid::INT4, array::position).called_on_null(),
    scalar(3279, "array_positions", &[TypeOid::ANYCOMPATIBLEARRAY, TypeOid::ANYCOMPATIBLE], TypeOid::INT4_ARRAY, array::positions).called_on_null(),
    scalar(3167, "array_remove", &[TypeOid::ANYCOMPATIBLEARRAY, TypeOid::ANYCOMPATIBLE], TypeOid::ANYCOMPATIBLEARRAY, array::remove).called_on_null(),
    scalar(3168, "array_replace", &[TypeOid::ANYCOMPATIBLEARRAY, TypeOid::ANYCOMPATIBLE, TypeOid::ANYCOMPATIBLE], TypeOid::ANYCOMPATIBLEARRAY, array::replace).called_on_null(),
    scalar(395, "array_to_string", &[TypeOid::ANYARRAY, TypeOid::TEXT], TypeOid::TEXT, array::to_string).stable(),
    scalar(384, "array_to_string", &[TypeOid::ANYARRAY, TypeOid::TEXT, TypeOid::TEXT], TypeOid::TEXT, array::to_string).called_on_null().stable(),
    scalar(1193, "array_fill", &[TypeOid::ANYELEMENT, TypeOid::INT4_ARRAY], TypeOid::ANYARRAY, array::fill).called_on_null(),
    scalar(1286, "array_fill", &[TypeOid::ANYELEMENT, TypeOid::INT4_ARRAY, TypeOid::INT4_ARRAY], TypeOid::ANYARRAY, array::fill).called_on_null(),
    scalar(6172, "trim_array", &[TypeOid::ANYARRAY, TypeOid::INT4], TypeOid::ANYARRAY, array::trim),
    set(2331, "unnest", &[TypeOid::ANYARRAY], TypeOid::ANYELEMENT, sets::unnest),
    set(1192, "generate_subscripts", &[TypeOid::ANYARRAY, TypeOid::INT4], TypeOid::INT4, sets::subscripts),
    set(1191, "generate_subscripts", &[TypeOid::ANYARRAY, TypeOid::INT4, TypeOid::BOOL], TypeOid::INT4, sets::subscripts),
    set(1067, "generate_series", &[TypeOid::INT4, TypeOid::INT4], TypeOid::INT4, sets::series_int4),
    set(1066, "generate_series", &[TypeOid::INT4, TypeOid::INT4, TypeOid::INT4], TypeOid::INT4, sets::series_int4),
    set(1069, "generate_series", &[TypeOid::INT8, TypeOid::INT8], TypeOid::INT8, sets::series_int8),
    set(1068, "generate_series", &[TypeOid::INT8, TypeOid::INT8, TypeOid::INT8], TypeOid::INT8, sets::series_int8),
    set(3260, "generate_series", &[TypeOid::NUMERIC, TypeOid::NUMERIC], TypeOid::NUMERIC, sets::series_numeric),
    set(3259, "generate_series", &[TypeOid::NUMERIC, TypeOid::NUMERIC, TypeOid::NUMERIC], TypeOid::NUMERIC, sets::series_numeric),
    set(2289, "pg_options_to_table", &[TypeOid::TEXT_ARRAY], TypeOid::RECORD, sets::options_to_table).stable().columns(&[("option_name", TypeOid::TEXT), ("option_value", TypeOid::TEXT)]),
    set(13208, "_pg_expandarray", &[TypeOid::ANYARRAY], TypeOid::RECORD, sets::expand_array).columns(&[("x", TypeOid::ANYELEMENT), ("n", TypeOid::INT4)]),
    scalar(438, "num_nulls", &[TypeOid::ANY], TypeOid::INT4, session::number_of_nulls).called_on_null().variadic(TypeOid::ANY),
    scalar(440, "num_nonnulls", &[TypeOid::ANY], TypeOid::INT4, session::number_of_non_nulls).called_on_null().variadic(TypeOid::ANY),
];
