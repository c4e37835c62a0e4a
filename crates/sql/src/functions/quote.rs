//! Quoting of identifiers and literals, as quote_ident and quote_literal do it.
//!
//! Invariants: what is quoted reads back as the same name or value.

/// Words that cannot be names without quotes (reserved, or usable as types and functions only).
#[rustfmt::skip]
const RESERVED: &[&str] = &[
    "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric",
    "authorization", "between", "bigint", "binary", "bit", "boolean", "both", "case", "cast",
    "char", "character", "check", "coalesce", "collate", "collation", "column", "concurrently",
    "constraint", "create", "cross", "current_catalog", "current_date", "current_role",
    "current_schema", "current_time", "current_timestamp", "current_user", "dec", "decimal",
    "default", "deferrable", "desc", "distinct", "do", "else", "end", "except", "exists",
    "extract", "false", "fetch", "float", "for", "foreign", "freeze", "from", "full", "grant",
    "greatest", "group", "grouping", "having", "ilike", "in", "initially", "inner", "inout",
    "int", "integer", "intersect", "interval", "into", "is", "isnull", "join", "lateral",
    "leading", "least", "left", "like", "limit", "localtime", "localtimestamp", "national",
    "natural", "nchar", "none", "normalize", "not", "notnull", "null", "nullif", "numeric",
    "offset", "on", "only", "or", "order", "out", "outer", "overlaps", "overlay", "placing",
    "position", "precision", "primary", "real", "references", "returning", "right", "row",
    "select", "session_user", "setof", "similar", "smallint", "some", "substring", "symmetric",
    "table", "tablesample", "then", "time", "timestamp", "to", "trailing", "treat", "trim",
    "true", "union", "unique", "user", "using", "values", "varchar", "variadic", "verbose",
    "when", "where", "window", "with", "xmlattributes", "xmlconcat", "xmlelement", "xmlexists",
    "xmlforest", "xmlnamespaces", "xmlparse", "xmlpi", "xmlroot", "xmlserialize", "xmltable",
];

/// The identifier, in double quotes if it needs them.
pub fn quote_identifier(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if first && name.bytes().all(plain) && RESERVED.binary_search(&name).is_err() {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The literal, in single quotes; with an E prefix if it holds a backslash.
pub fn quote_literal(value: &str) -> String {
    let escape = if value.contains('\\') { "E" } else { "" };
    format!("{escape}'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expect: &str) {
        assert_eq!(quote_identifier(name), expect);
    }

    #[test]
    fn identifiers_are_quoted_where_needed() {
        check("abc_1", "abc_1");
        check("Abc", "\"Abc\"");
        check("1a", "\"1a\"");
        check("a\"b", "\"a\"\"b\"");
        check("select", "\"select\"");
        check("integer", "\"integer\"");
        check("name", "name");
        check("", "\"\"");
        assert!(RESERVED.is_sorted());
    }

    #[test]
    fn literals_are_quoted() {
        assert_eq!(quote_literal("it's"), "'it''s'");
        assert_eq!(quote_literal("a\\b"), "E'a\\\\b'");
    }
}
