//! A catalog object as bytes: the second column of a catalog row.
//!
//! Invariants: little-endian; the first byte is the format version, the second the kind; strings
//! and lists carry their length; decoding checks every length and refuses trailing bytes. The
//! byte-by-byte description is docs/format/catalog.md.

use super::{
    ColumnDef, ColumnId, Identity, IndexColumn, IndexDef, IndexKind, NamespaceDef, Object, Oid,
    SequenceDef, TableDef,
};
use crate::base::{Error, Result, TreeId};
use crate::page::ColumnType;
use crate::tree::key::{Direction, Nulls};
use crate::txn::{Counting, Cycle, SequenceState};

/// Rows of earlier versions lie in directories that are refused as a whole.
const FORMAT_VERSION: u8 = 3;
const NAMESPACE: u8 = 1;
const TABLE: u8 = 2;
const INDEX: u8 = 3;
const SEQUENCE: u8 = 4;

/// The bytes of `object`.
pub fn encode_object(object: &Object) -> Vec<u8> {
    let mut out = Writer(vec![FORMAT_VERSION]);
    match object {
        Object::Namespace(it) => {
            out.u8(NAMESPACE);
            out.u32(it.oid.0);
            out.text(&it.name);
        }
        Object::Table(it) => encode_table(it, &mut out),
        Object::Index(it) => encode_index(it, &mut out),
        Object::Sequence(it) => encode_sequence(it, &mut out),
    }
    out.0
}

fn encode_table(it: &TableDef, out: &mut Writer) {
    out.u8(TABLE);
    out.u32(it.oid.0);
    out.u32(it.namespace.0);
    out.u32(it.tree.0);
    out.text(&it.name);
    out.u16(it.columns.len() as u16);
    for column in &it.columns {
        let (code, trailer) = physical_code(column.physical);
        out.text(&column.name);
        out.u8(code);
        out.u8(trailer);
        out.u32(column.type_oid);
        out.u32(column.type_modifier as u32);
        out.u8(u8::from(column.not_null));
        out.u8(u8::from(column.default.is_some()));
        out.text(column.default.as_deref().unwrap_or(""));
        out.u8(match column.identity {
            None => 0,
            Some(Identity::Always) => 1,
            Some(Identity::ByDefault) => 2,
        });
    }
    out.u16(it.options.len() as u16);
    for option in &it.options {
        out.text(option);
    }
}

fn encode_index(it: &IndexDef, out: &mut Writer) {
    out.u8(INDEX);
    out.u32(it.oid.0);
    out.u32(it.table.0);
    out.u32(it.tree.0);
    out.text(&it.name);
    out.u8(match it.kind {
        IndexKind::Plain => 0,
        IndexKind::Unique => 1,
        IndexKind::UniqueConstraint => 2,
        IndexKind::Primary => 3,
    });
    out.u16(it.columns.len() as u16);
    for column in &it.columns {
        out.u16(column.column.0);
        out.u8(u8::from(column.direction == Direction::Descending));
        out.u8(u8::from(column.nulls == Nulls::First));
    }
}

/// The object whose bytes these are; anything unexpected is [`Error::Corrupt`].
pub fn decode_object(bytes: &[u8]) -> Result<Object> {
    let mut input = Reader(bytes);
    let version = input.u8()?;
    if version != FORMAT_VERSION {
        return Err(damaged(format!("catalog row of format {version}, expected {FORMAT_VERSION}")));
    }
    let object = match input.u8()? {
        NAMESPACE => {
            Object::Namespace(NamespaceDef { oid: Oid(input.u32()?), name: input.text()? })
        }
        TABLE => Object::Table(decode_table(&mut input)?),
        INDEX => Object::Index(decode_index(&mut input)?),
        SEQUENCE => Object::Sequence(decode_sequence(&mut input)?),
        kind => return Err(damaged(format!("catalog row of unknown kind {kind}"))),
    };
    if !input.0.is_empty() {
        return Err(damaged(format!("{} bytes after a catalog row's end", input.0.len())));
    }
    Ok(object)
}

fn decode_table(input: &mut Reader<'_>) -> Result<TableDef> {
    let (oid, namespace, tree) = (Oid(input.u32()?), Oid(input.u32()?), TreeId(input.u32()?));
    let name = input.text()?;
    let mut columns = Vec::new();
    for _ in 0..input.u16()? {
        let name = input.text()?;
        let physical = physical_from(input.u8()?, input.u8()?)?;
        let type_oid = input.u32()?;
        let type_modifier = input.u32()? as i32;
        let not_null = input.u8()? != 0;
        let has_default = input.u8()? != 0;
        let text = input.text()?;
        let default = has_default.then_some(text);
        let identity = match input.u8()? {
            0 => None,
            1 => Some(Identity::Always),
            2 => Some(Identity::ByDefault),
            kind => return Err(damaged(format!("unknown kind {kind} of identity column"))),
        };
        columns.push(ColumnDef {
            name,
            physical,
            type_oid,
            type_modifier,
            not_null,
            default,
            identity,
        });
    }
    let mut options = Vec::new();
    for _ in 0..input.u16()? {
        options.push(input.text()?);
    }
    Ok(TableDef { oid, namespace, name, tree, columns, options })
}

fn decode_index(input: &mut Reader<'_>) -> Result<IndexDef> {
    let (oid, table, tree) = (Oid(input.u32()?), Oid(input.u32()?), TreeId(input.u32()?));
    let name = input.text()?;
    let kind = match input.u8()? {
        0 => IndexKind::Plain,
        1 => IndexKind::Unique,
        2 => IndexKind::UniqueConstraint,
        3 => IndexKind::Primary,
        kind => return Err(damaged(format!("unknown index kind {kind}"))),
    };
    let mut columns = Vec::new();
    for _ in 0..input.u16()? {
        let column = ColumnId(input.u16()?);
        let direction = if input.u8()? != 0 { Direction::Descending } else { Direction::Ascending };
        let nulls = if input.u8()? != 0 { Nulls::First } else { Nulls::Last };
        columns.push(IndexColumn { column, direction, nulls });
    }
    Ok(IndexDef { oid, table, name, tree, columns, kind })
}

fn encode_sequence(it: &SequenceDef, out: &mut Writer) {
    out.u8(SEQUENCE);
    out.u32(it.oid.0);
    out.u32(it.namespace.0);
    out.u32(it.values.0);
    out.text(&it.name);
    out.u32(it.type_oid);
    let Counting { increment, min, max, cycle } = it.counting;
    for number in [it.start, increment, min, max, it.first.last] {
        out.u64(number as u64);
    }
    out.u64(it.cache);
    out.u8(u8::from(cycle == Cycle::Yes));
    out.u8(u8::from(it.first.called));
    let (table, column) = it.owner.unwrap_or_default();
    out.u8(u8::from(it.owner.is_some()));
    out.u32(table.0);
    out.u16(column.0);
}

fn decode_sequence(input: &mut Reader<'_>) -> Result<SequenceDef> {
    let (oid, namespace, values) = (Oid(input.u32()?), Oid(input.u32()?), TreeId(input.u32()?));
    let (name, type_oid) = (input.text()?, input.u32()?);
    let mut numbers = [0; 5];
    for number in &mut numbers {
        *number = input.u64()? as i64;
    }
    let [start, increment, min, max, last] = numbers;
    let cache = input.u64()?;
    let cycle = if input.u8()? != 0 { Cycle::Yes } else { Cycle::No };
    let first = SequenceState { last, called: input.u8()? != 0 };
    let is_owned = input.u8()? != 0;
    let owner = (Oid(input.u32()?), ColumnId(input.u16()?));
    if increment == 0 || cache == 0 || min > max {
        return Err(damaged(format!(
            "sequence \"{name}\" counts from {min} to {max} by {increment}"
        )));
    }
    let counting = Counting { increment, min, max, cycle };
    let owner = is_owned.then_some(owner);
    Ok(SequenceDef { oid, namespace, name, values, type_oid, start, counting, cache, first, owner })
}

fn physical_code(ty: ColumnType) -> (u8, u8) {
    match ty {
        ColumnType::Bool => (1, 0),
        ColumnType::Int2 => (2, 0),
        ColumnType::Int4 => (3, 0),
        ColumnType::Int8 => (4, 0),
        ColumnType::Float8 => (5, 0),
        ColumnType::Bytes => (6, 0),
        ColumnType::Ordered { trailer } => (7, trailer),
    }
}

fn physical_from(code: u8, trailer: u8) -> Result<ColumnType> {
    Ok(match code {
        1 => ColumnType::Bool,
        2 => ColumnType::Int2,
        3 => ColumnType::Int4,
        4 => ColumnType::Int8,
        5 => ColumnType::Float8,
        6 => ColumnType::Bytes,
        7 => ColumnType::Ordered { trailer },
        _ => return Err(damaged(format!("unknown physical type {code}"))),
    })
}

fn damaged(detail: String) -> Error {
    Error::Corrupt { page: None, detail }
}

struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }
    fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    fn text(&mut self, value: &str) {
        self.u32(value.len() as u32);
        self.0.extend_from_slice(value.as_bytes());
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let Some((head, rest)) = self.0.split_at_checked(bytes) else {
            return Err(damaged("a catalog row ends early".to_owned()));
        };
        self.0 = rest;
        Ok(head)
    }
    fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }
    fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.take(2)?.try_into().expect("two bytes were taken")))
    }
    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes were taken")))
    }
    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes were taken")))
    }
    fn text(&mut self) -> Result<String> {
        let bytes = self.u32()? as usize;
        String::from_utf8(self.take(bytes)?.to_vec())
            .map_err(|_| damaged("a name in a catalog row is not UTF-8".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TableDef {
        let column = |name: &str, physical, default: Option<&str>| ColumnDef {
            name: name.to_owned(),
            physical,
            type_oid: 23,
            type_modifier: -1,
            not_null: default.is_none(),
            default: default.map(str::to_owned),
            identity: default.is_none().then_some(Identity::ByDefault),
        };
        TableDef {
            oid: Oid(16_384),
            namespace: PUBLIC,
            name: "accounts".to_owned(),
            tree: TreeId(9),
            columns: vec![
                column("aid", ColumnType::Int4, None),
                column("bal", ColumnType::Ordered { trailer: 2 }, Some("0")),
            ],
            options: vec!["fillfactor=90".to_owned()],
        }
    }

    #[test]
    fn rows_of_other_formats_are_refused() {
        let mut bytes = encode_object(&Object::Table(table()));
        for version in [0, FORMAT_VERSION - 1, FORMAT_VERSION + 1] {
            bytes[0] = version;
            let Err(Error::Corrupt { detail, .. }) = decode_object(&bytes) else {
                panic!("format {version} is read");
            };
            assert_eq!(detail, format!("catalog row of format {version}, expected 3"));
        }
    }

    const PUBLIC: Oid = super::super::PUBLIC_NAMESPACE;

    #[test]
    fn objects_survive_encoding_and_every_truncation_is_refused() {
        let index = IndexDef {
            oid: Oid(16_385),
            table: Oid(16_384),
            name: "accounts_pkey".to_owned(),
            tree: TreeId(10),
            columns: vec![IndexColumn {
                column: ColumnId(0),
                direction: Direction::Descending,
                nulls: Nulls::First,
            }],
            kind: IndexKind::Primary,
        };
        let namespace = NamespaceDef { oid: PUBLIC, name: "public".to_owned() };
        let sequence = Object::Sequence(SequenceDef {
            oid: Oid(16_400),
            namespace: PUBLIC,
            name: "accounts_aid_seq".to_owned(),
            values: TreeId(77),
            type_oid: 23,
            start: 5,
            counting: Counting { increment: -2, min: i64::MIN, max: 5, cycle: Cycle::Yes },
            cache: 20,
            first: SequenceState { last: -3, called: true },
            owner: Some((Oid(16_384), ColumnId(0))),
        });
        let others = [Object::Index(index), Object::Namespace(namespace), sequence];
        for object in others.into_iter().chain([Object::Table(table())]) {
            let bytes = encode_object(&object);
            assert_eq!(decode_object(&bytes), Ok(object));
            for cut in 0..bytes.len() {
                assert!(decode_object(&bytes[..cut]).is_err(), "cut at {cut}");
            }
            let mut longer = bytes;
            longer.push(0);
            assert!(decode_object(&longer).is_err());
        }
    }
}
