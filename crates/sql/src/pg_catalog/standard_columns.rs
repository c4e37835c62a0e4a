//! The columns of information_schema's views, domains replaced by their base types.
//!
//! Invariants: names, types, order and NOT NULL are those of PostgreSQL 15's pg_attribute; inet
//! and pg_lsn, which do not exist here, are text.

use crate::relations::{VirtualColumn, nullable as n};
use crate::types::TypeOid as T;

/// The columns of columns.
#[rustfmt::skip]
pub(super) static COLUMNS: &[VirtualColumn] = &[
    n("table_catalog", T::NAME), n("table_schema", T::NAME), n("table_name", T::NAME),
    n("column_name", T::NAME), n("ordinal_position", T::INT4), n("column_default", T::VARCHAR),
    n("is_nullable", T::VARCHAR), n("data_type", T::VARCHAR),
    n("character_maximum_length", T::INT4), n("character_octet_length", T::INT4),
    n("numeric_precision", T::INT4), n("numeric_precision_radix", T::INT4),
    n("numeric_scale", T::INT4), n("datetime_precision", T::INT4), n("interval_type", T::VARCHAR),
    n("interval_precision", T::INT4), n("character_set_catalog", T::NAME),
    n("character_set_schema", T::NAME), n("character_set_name", T::NAME),
    n("collation_catalog", T::NAME), n("collation_schema", T::NAME), n("collation_name", T::NAME),
    n("domain_catalog", T::NAME), n("domain_schema", T::NAME), n("domain_name", T::NAME),
    n("udt_catalog", T::NAME), n("udt_schema", T::NAME), n("udt_name", T::NAME),
    n("scope_catalog", T::NAME), n("scope_schema", T::NAME), n("scope_name", T::NAME),
    n("maximum_cardinality", T::INT4), n("dtd_identifier", T::NAME),
    n("is_self_referencing", T::VARCHAR), n("is_identity", T::VARCHAR),
    n("identity_generation", T::VARCHAR), n("identity_start", T::VARCHAR),
    n("identity_increment", T::VARCHAR), n("identity_maximum", T::VARCHAR),
    n("identity_minimum", T::VARCHAR), n("identity_cycle", T::VARCHAR),
    n("is_generated", T::VARCHAR), n("generation_expression", T::VARCHAR),
    n("is_updatable", T::VARCHAR),
];

/// The columns of key_column_usage.
#[rustfmt::skip]
pub(super) static KEY_COLUMN_USAGE: &[VirtualColumn] = &[
    n("constraint_catalog", T::NAME), n("constraint_schema", T::NAME),
    n("constraint_name", T::NAME), n("table_catalog", T::NAME), n("table_schema", T::NAME),
    n("table_name", T::NAME), n("column_name", T::NAME), n("ordinal_position", T::INT4),
    n("position_in_unique_constraint", T::INT4),
];

/// The columns of referential_constraints.
#[rustfmt::skip]
pub(super) static REFERENTIAL_CONSTRAINTS: &[VirtualColumn] = &[
    n("constraint_catalog", T::NAME), n("constraint_schema", T::NAME),
    n("constraint_name", T::NAME), n("unique_constraint_catalog", T::NAME),
    n("unique_constraint_schema", T::NAME), n("unique_constraint_name", T::NAME),
    n("match_option", T::VARCHAR), n("update_rule", T::VARCHAR), n("delete_rule", T::VARCHAR),
];

/// The columns of schemata.
#[rustfmt::skip]
pub(super) static SCHEMATA: &[VirtualColumn] = &[
    n("catalog_name", T::NAME), n("schema_name", T::NAME), n("schema_owner", T::NAME),
    n("default_character_set_catalog", T::NAME), n("default_character_set_schema", T::NAME),
    n("default_character_set_name", T::NAME), n("sql_path", T::VARCHAR),
];

/// The columns of sequences.
#[rustfmt::skip]
pub(super) static SEQUENCES: &[VirtualColumn] = &[
    n("sequence_catalog", T::NAME), n("sequence_schema", T::NAME), n("sequence_name", T::NAME),
    n("data_type", T::VARCHAR), n("numeric_precision", T::INT4),
    n("numeric_precision_radix", T::INT4), n("numeric_scale", T::INT4),
    n("start_value", T::VARCHAR), n("minimum_value", T::VARCHAR), n("maximum_value", T::VARCHAR),
    n("increment", T::VARCHAR), n("cycle_option", T::VARCHAR),
];

/// The columns of table_constraints.
#[rustfmt::skip]
pub(super) static TABLE_CONSTRAINTS: &[VirtualColumn] = &[
    n("constraint_catalog", T::NAME), n("constraint_schema", T::NAME),
    n("constraint_name", T::NAME), n("table_catalog", T::NAME), n("table_schema", T::NAME),
    n("table_name", T::NAME), n("constraint_type", T::VARCHAR), n("is_deferrable", T::VARCHAR),
    n("initially_deferred", T::VARCHAR), n("enforced", T::VARCHAR), n("nulls_distinct", T::VARCHAR),
];

/// The columns of tables.
#[rustfmt::skip]
pub(super) static TABLES: &[VirtualColumn] = &[
    n("table_catalog", T::NAME), n("table_schema", T::NAME), n("table_name", T::NAME),
    n("table_type", T::VARCHAR), n("self_referencing_column_name", T::NAME),
    n("reference_generation", T::VARCHAR), n("user_defined_type_catalog", T::NAME),
    n("user_defined_type_schema", T::NAME), n("user_defined_type_name", T::NAME),
    n("is_insertable_into", T::VARCHAR), n("is_typed", T::VARCHAR), n("commit_action", T::VARCHAR),
];

/// The columns of views.
#[rustfmt::skip]
pub(super) static VIEWS: &[VirtualColumn] = &[
    n("table_catalog", T::NAME), n("table_schema", T::NAME), n("table_name", T::NAME),
    n("view_definition", T::VARCHAR), n("check_option", T::VARCHAR), n("is_updatable", T::VARCHAR),
    n("is_insertable_into", T::VARCHAR), n("is_trigger_updatable", T::VARCHAR),
    n("is_trigger_deletable", T::VARCHAR), n("is_trigger_insertable_into", T::VARCHAR),
];
