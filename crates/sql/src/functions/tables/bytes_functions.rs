//! Functions and operators on bytea and uuid, as in pg_proc and pg_operator.
//!
//! Invariants: one row each; oids, strictness and volatility are PostgreSQL's.

use super::build::{operator, scalar};
use crate::functions::library::bytes;
use crate::functions::row::{FunctionRow, OperatorRow};
use crate::types::TypeOid;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[FunctionRow] = &[
    scalar(3432, "gen_random_uuid", &[], TypeOid::UUID, bytes::random_uuid).volatile(),
    scalar(721, "get_byte", &[TypeOid::BYTEA, TypeOid::INT4], TypeOid::INT4, bytes::get_byte),
    scalar(722, "set_byte", &[TypeOid::BYTEA, TypeOid::INT4, TypeOid::INT4], TypeOid::BYTEA, bytes::set_byte),
    scalar(723, "get_bit", &[TypeOid::BYTEA, TypeOid::INT8], TypeOid::INT4, bytes::get_bit),
    scalar(724, "set_bit", &[TypeOid::BYTEA, TypeOid::INT8, TypeOid::INT4], TypeOid::BYTEA, bytes::set_bit),
    scalar(6163, "bit_count", &[TypeOid::BYTEA], TypeOid::INT8, bytes::bit_count),
    scalar(749, "overlay", &[TypeOid::BYTEA, TypeOid::BYTEA, TypeOid::INT4, TypeOid::INT4], TypeOid::BYTEA, bytes::overlay),
    scalar(752, "overlay", &[TypeOid::BYTEA, TypeOid::BYTEA, TypeOid::INT4], TypeOid::BYTEA, bytes::overlay),
    scalar(2014, "position", &[TypeOid::BYTEA, TypeOid::BYTEA], TypeOid::INT4, bytes::position),
    scalar(2015, "btrim", &[TypeOid::BYTEA, TypeOid::BYTEA], TypeOid::BYTEA, bytes::trim_both),
    scalar(6195, "ltrim", &[TypeOid::BYTEA, TypeOid::BYTEA], TypeOid::BYTEA, bytes::trim_left),
    scalar(6196, "rtrim", &[TypeOid::BYTEA, TypeOid::BYTEA], TypeOid::BYTEA, bytes::trim_right),
    scalar(2007, "like", &[TypeOid::BYTEA, TypeOid::BYTEA], TypeOid::BOOL, bytes::like),
    scalar(2008, "notlike", &[TypeOid::BYTEA, TypeOid::BYTEA], TypeOid::BOOL, bytes::not_like),
    scalar(3419, "sha224", &[TypeOid::BYTEA], TypeOid::BYTEA, bytes::sha224),
    scalar(3421, "sha384", &[TypeOid::BYTEA], TypeOid::BYTEA, bytes::sha384),
    scalar(3422, "sha512", &[TypeOid::BYTEA], TypeOid::BYTEA, bytes::sha512),
];

#[rustfmt::skip]
pub(super) static OPERATORS: &[OperatorRow] = &[
    operator(2016, TypeOid::BYTEA, "~~", TypeOid::BYTEA, TypeOid::BOOL, "bytealike", bytes::like).links(0, 2017),
    operator(2017, TypeOid::BYTEA, "!~~", TypeOid::BYTEA, TypeOid::BOOL, "byteanlike", bytes::not_like).links(0, 2016),
];
