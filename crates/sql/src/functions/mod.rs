//! Functions, operators, casts and aggregates as tables of data, and PostgreSQL's rules for
//! choosing among them. See README.md.
//!
//! Invariants: tables are immutable statics; a resolved call holds `&'static` rows, so calling
//! needs no look-up. Functions reach sessions and catalogs through [`FunctionContext`] only.

pub mod aggregate;
mod coerce;
mod context;
pub mod fast;
mod resolve;
mod row;
mod tables;
mod library;
mod quote;
mod signature;

pub use coerce::{
    Coercion, apply_typmod, can_coerce, common_type, find_coercion, is_binary_coercible,
};
pub use context::{
    ConstantContext, CursorDescription, FunctionContext, ObjectClass, ObjectName, Qualified,
    SettingDescription, SettingScope, SizeOf,
};
pub use library::pattern::PatternCache;
pub use quote::{quote_identifier, quote_literal};
pub use resolve::{
    ResolvedCall, ResolvedFunction, ResolvedOperator, VariadicCall, default_order,
    resolve_function, resolve_operator,
};
pub use row::{
    AggregateFn, CastContext, CastMethod, CastRow, Comparison, Default, FunctionKind, FunctionRow,
    OperatorRow, ScalarFn, SetFn, SetValues, Strictness, Volatility,
};
pub use tables::{casts, function_by_oid, functions, operator_by_oid, operators};

#[cfg(test)]
mod tests;
