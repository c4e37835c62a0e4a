//! Names that PostgreSQL makes up for constraints and indexes.
//!
//! Invariants: at most 63 bytes; unique in their schema.

use crate::relations::CatalogView;
use atoll_kernel::api::Oid;

const NAME_BYTES_MAX: usize = 63;

/// `first_second_label`, shortened where too long: the longer part first, as PostgreSQL does.
pub(super) fn object_name(first: &str, second: &str, label: &str) -> String {
    let mut parts = [first.len(), second.len()];
    let overhead = label.len() + usize::from(!label.is_empty()) + usize::from(!second.is_empty());
    while parts[0] + parts[1] + overhead > NAME_BYTES_MAX {
        let longer = if parts[0] > parts[1] { 0 } else { 1 };
        parts[longer] -= 1;
    }
    let cut = |text: &str, mut length: usize| {
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        text[..length].to_owned()
    };
    let mut name = cut(first, parts[0]);
    for part in [cut(second, parts[1]).as_str(), label] {
        if !part.is_empty() {
            name.push('_');
            name.push_str(part);
        }
    }
    name
}

/// A name as [`object_name`] that no relation of the schema has, nor any of `taken`.
pub(super) fn free_name(
    view: &CatalogView,
    schema: Oid,
    taken: &[String],
    (first, second, label): (&str, &str, &str),
) -> String {
    let mut attempt = 0;
    loop {
        let label = if attempt == 0 { label.to_owned() } else { format!("{label}{attempt}") };
        let name = object_name(first, second, &label);
        if view.catalog.relation(schema, &name).is_none() && !taken.contains(&name) {
            return name;
        }
        attempt += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::object_name;

    #[test]
    fn names_are_shortened_like_postgresqls() {
        assert_eq!(object_name("t", "", "pkey"), "t_pkey");
        assert_eq!(object_name("t", "a_b", "key"), "t_a_b_key");
        let long = object_name(&"x".repeat(70), "column", "idx");
        assert_eq!(long.len(), 63);
        assert!(long.ends_with("_column_idx"));
    }
}
