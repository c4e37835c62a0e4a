//! Date and time functions, as in pg_proc.
//!
//! Invariants: one row each; oids, strictness and volatility are PostgreSQL's.

use super::build::{scalar, set};
use crate::functions::library::{datetime, extract, overlap, sets};
use crate::functions::row::{Default, FunctionRow};
use crate::types::TypeOid;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[FunctionRow] = &[
    scalar(1299, "now", &[], TypeOid::TIMESTAMPTZ, datetime::now).stable(),
    scalar(2647, "transaction_timestamp", &[], TypeOid::TIMESTAMPTZ, datetime::now).stable(),
    scalar(2648, "statement_timestamp", &[], TypeOid::TIMESTAMPTZ, datetime::statement_timestamp).stable(),
    scalar(2649, "clock_timestamp", &[], TypeOid::TIMESTAMPTZ, datetime::clock_timestamp).volatile(),
    scalar(274, "timeofday", &[], TypeOid::TEXT, datetime::time_of_day).volatile(),
    scalar(6199, "extract", &[TypeOid::TEXT, TypeOid::DATE], TypeOid::NUMERIC, extract::extract),
    scalar(6200, "extract", &[TypeOid::TEXT, TypeOid::TIME], TypeOid::NUMERIC, extract::extract),
    scalar(6202, "extract", &[TypeOid::TEXT, TypeOid::TIMESTAMP], TypeOid::NUMERIC, extract::extract),
    scalar(6203, "extract", &[TypeOid::TEXT, TypeOid::TIMESTAMPTZ], TypeOid::NUMERIC, extract::extract).stable(),
    scalar(6204, "extract", &[TypeOid::TEXT, TypeOid::INTERVAL], TypeOid::NUMERIC, extract::extract),
    scalar(1384, "date_part", &[TypeOid::TEXT, TypeOid::DATE], TypeOid::FLOAT8, extract::date_part),
    scalar(1385, "date_part", &[TypeOid::TEXT, TypeOid::TIME], TypeOid::FLOAT8, extract::date_part),
    scalar(2021, "date_part", &[TypeOid::TEXT, TypeOid::TIMESTAMP], TypeOid::FLOAT8, extract::date_part),
    scalar(1171, "date_part", &[TypeOid::TEXT, TypeOid::TIMESTAMPTZ], TypeOid::FLOAT8, extract::date_part).stable(),
    scalar(1172, "date_part", &[TypeOid::TEXT, TypeOid::INTERVAL], TypeOid::FLOAT8, extract::date_part),
    scalar(2020, "date_trunc", &[TypeOid::TEXT, TypeOid::TIMESTAMP], TypeOid::TIMESTAMP, extract::date_trunc),
    scalar(1217, "date_trunc", &[TypeOid::TEXT, TypeOid::TIMESTAMPTZ], TypeOid::TIMESTAMPTZ, extract::date_trunc).stable(),
    scalar(1284, "date_trunc", &[TypeOid::TEXT, TypeOid::TIMESTAMPTZ, TypeOid::TEXT], TypeOid::TIMESTAMPTZ, extract::date_trunc).stable(),
    scalar(1218, "date_trunc", &[TypeOid::TEXT, TypeOid::INTERVAL], TypeOid::INTERVAL, extract::date_trunc),
    scalar(2058, "age", &[TypeOid::TIMESTAMP, TypeOid::TIMESTAMP], TypeOid::INTERVAL, datetime::age),
    scalar(1199, "age", &[TypeOid::TIMESTAMPTZ, TypeOid::TIMESTAMPTZ], TypeOid::INTERVAL, datetime::age),
    scalar(2059, "age", &[TypeOid::TIMESTAMP], TypeOid::INTERVAL, datetime::age_from_today).stable(),
    scalar(1386, "age", &[TypeOid::TIMESTAMPTZ], TypeOid::INTERVAL, datetime::age_from_today).stable(),
    scalar(1373, "isfinite", &[TypeOid::DATE], TypeOid::BOOL, datetime::is_finite_value),
    scalar(2048, "isfinite", &[TypeOid::TIMESTAMP], TypeOid::BOOL, datetime::is_finite_value),
    scalar(1389, "isfinite", &[TypeOid::TIMESTAMPTZ], TypeOid::BOOL, datetime::is_finite_value),
    scalar(1390, "isfinite", &[TypeOid::INTERVAL], TypeOid::BOOL, datetime::is_finite_value),
    scalar(2069, "timezone", &[TypeOid::TEXT, TypeOid::TIMESTAMP], TypeOid::TIMESTAMPTZ, datetime::at_zone),
    scalar(1159, "timezone", &[TypeOid::TEXT, TypeOid::TIMESTAMPTZ], TypeOid::TIMESTAMP, datetime::at_zone),
    scalar(2070, "timezone", &[TypeOid::INTERVAL, TypeOid::TIMESTAMP], TypeOid::TIMESTAMPTZ, datetime::at_offset),
    scalar(1026, "timezone", &[TypeOid::INTERVAL, TypeOid::TIMESTAMPTZ], TypeOid::TIMESTAMP, datetime::at_offset),
    scalar(1158, "to_timestamp", &[TypeOid::FLOAT8], TypeOid::TIMESTAMPTZ, datetime::from_epoch),
    scalar(3846, "make_date", &[TypeOid::INT4, TypeOid::INT4, TypeOid::INT4], TypeOid::DATE, datetime::make_date),
    scalar(3847, "make_time", &[TypeOid::INT4, TypeOid::INT4, TypeOid::FLOAT8], TypeOid::TIME, datetime::make_time),
    scalar(3461, "make_timestamp", &[TypeOid::INT4, TypeOid::INT4, TypeOid::INT4, TypeOid::INT4, TypeOid::INT4, TypeOid::FLOAT8], TypeOid::TIMESTAMP, datetime::make_timestamp),
    scalar(3462, "make_timestamptz", &[TypeOid::INT4, TypeOid::INT4, TypeOid::INT4, TypeOid::INT4, TypeOid::INT4, TypeOid::FLOAT8], TypeOid::TIMESTAMPTZ, datetime::make_timestamptz).stable(),
    scalar(3463, "make_timestamptz", &[TypeOid::INT4, TypeOid::INT4, TypeOid::INT4, TypeOid::INT4, TypeOid::INT4, TypeOid::FLOAT8, TypeOid::TEXT], TypeOid::TIMESTAMPTZ, datetime::make_timestamptz).stable(),
    scalar(3464, "make_interval", &[TypeOid::INT4, TypeOid::INT4, TypeOid::INT4, TypeOid::INT4, TypeOid::INT4, TypeOid::INT4, TypeOid::FLOAT8], TypeOid::INTERVAL, datetime::make_interval).defaults(&[Default::Int4(0), Default::Int4(0), Default::Int4(0), Default::Int4(0), Default::Int4(0), Default::Int4(0), Default::Float8(0.0)]),
    scalar(1175, "justify_hours", &[TypeOid::INTERVAL], TypeOid::INTERVAL, datetime::justify_hours),
    scalar(1295, "justify_days", &[TypeOid::INTERVAL], TypeOid::INTERVAL, datetime::justify_days),
    scalar(2711, "justify_interval", &[TypeOid::INTERVAL], TypeOid::INTERVAL, datetime::justify_interval),
    scalar(1304, "overlaps", &[TypeOid::TIMESTAMPTZ, TypeOid::TIMESTAMPTZ, TypeOid::TIMESTAMPTZ, TypeOid::TIMESTAMPTZ], TypeOid::BOOL, overlap::overlaps).called_on_null(),
    scalar(1305, "overlaps", &[TypeOid::TIMESTAMPTZ, TypeOid::INTERVAL, TypeOid::TIMESTAMPTZ, TypeOid::INTERVAL], TypeOid::BOOL, overlap::overlaps).called_on_null().stable(),
    scalar(1306, "overlaps", &[TypeOid::TIMESTAMPTZ, TypeOid::TIMESTAMPTZ, TypeOid::TIMESTAMPTZ, TypeOid::INTERVAL], TypeOid::BOOL, overlap::overlaps).called_on_null().stable(),
    scalar(1307, "overlaps", &[TypeOid::TIMESTAMPTZ, TypeOid::INTERVAL, TypeOid::TIMESTAMPTZ, TypeOid::TIMESTAMPTZ], TypeOid::BOOL, overlap::overlaps).called_on_null().stable(),
    scalar(1308, "overlaps", &[TypeOid::TIME, TypeOid::TIME, TypeOid::TIME, TypeOid::TIME], TypeOid::BOOL, overlap::overlaps).called_on_null(),
    scalar(2041, "overlaps", &[TypeOid::TIMESTAMP, TypeOid::TIMESTAMP, TypeOid::TIMESTAMP, TypeOid::TIMESTAMP], TypeOid::BOOL, overlap::overlaps).called_on_null(),
    scalar(2042, "overlaps", &[TypeOid::TIMESTAMP, TypeOid::INTERVAL, TypeOid::TIMESTAMP, TypeOid::INTERVAL], TypeOid::BOOL, overlap::overlaps).called_on_null(),
    scalar(2043, "overlaps", &[TypeOid::TIMESTAMP, TypeOid::TIMESTAMP, TypeOid::TIMESTAMP, TypeOid::INTERVAL], TypeOid::BOOL, overlap::overlaps).called_on_null(),
    scalar(2044, "overlaps", &[TypeOid::TIMESTAMP, TypeOid::INTERVAL, TypeOid::TIMESTAMP, TypeOid::TIMESTAMP], TypeOid::BOOL, overlap::overlaps).called_on_null(),
    set(938, "generate_series", &[TypeOid::TIMESTAMP, TypeOid::TIMESTAMP, TypeOid::INTERVAL], TypeOid::TIMESTAMP, sets::series_timestamp),
    set(939, "generate_series", &[TypeOid::TIMESTAMPTZ, TypeOid::TIMESTAMPTZ, TypeOid::INTERVAL], TypeOid::TIMESTAMPTZ, sets::series_timestamptz).stable(),
];
