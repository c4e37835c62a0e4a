//! Order-preserving keys from column values (rule 5.4).
//!
//! Keys of the same parts compare as byte strings exactly as their values compare column by
//! column; no key is a prefix of another one of the same parts, and the encoding of the first n
//! columns is a prefix of the whole, so it can bound a scan.
//!
//! Each part is a marker byte, then the value unless it is null:
//! ```text
//! marker   1 = null, nulls first; 2 = a value; 3 = null, nulls last
//! Bool     1 byte, 0 or 1
//! IntN     N bytes, big-endian, sign bit flipped
//! Float8   8 bytes, big-endian; negative: all bits flipped, else the sign bit; -0.0 as 0.0,
//!          every NaN as 0xfff8_0000_0000_0000 (greater than infinity, as in PostgreSQL)
//! Bytes    each 0x00 as 0x00 0xff, then 0x00 0x01 as the end
//! Ordered  as Bytes, without its trailer
//! ```
//! Descending values have all their bytes flipped, but not the marker: where nulls sort is chosen
//! apart from the direction. A string that ends sorts before one that goes on, because 0x00 0x01
//! is below 0x00 0xff and below every other byte; and the end cannot occur inside.
//!
//! Invariants: pure functions, no state; equal values give equal keys, so `Float8` -0.0 equals
//! 0.0 and numerics equal but for their trailer are equal. So only parts of the other types can be
//! decoded ([`KeyPart::is_reversible`]), to exactly the bytes that were encoded.

use crate::page::ColumnType;

const NULL_FIRST: u8 = 1;
const VALUE: u8 = 2;
const NULL_LAST: u8 = 3;
const ESCAPED_ZERO: [u8; 2] = [0, 0xff];
const END: [u8; 2] = [0, 1];
const NAN: u64 = 0xfff8 << 48;

/// Ascending or descending.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Direction {
    /// Smallest first.
    Ascending,
    /// Largest first.
    Descending,
}

/// Where nulls sort, whatever the direction of the values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Nulls {
    /// Before all values.
    First,
    /// After all values.
    Last,
}

/// How one column goes into a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct KeyPart {
    /// The column's physical type.
    pub column: ColumnType,
    /// The direction of its values.
    pub direction: Direction,
    /// Where its nulls go.
    pub nulls: Nulls,
}

impl KeyPart {
    /// Ascending with nulls last: PostgreSQL's default.
    pub const fn ascending(column: ColumnType) -> KeyPart {
        KeyPart { column, direction: Direction::Ascending, nulls: Nulls::Last }
    }

    /// Whether a value's bytes can be told from its key: not where different values are equal.
    pub const fn is_reversible(&self) -> bool {
        !matches!(self.column, ColumnType::Float8 | ColumnType::Ordered { .. })
    }

    /// How many bytes at the start of `key`, which begins with this part, are the part's; none if
    /// that is no key.
    pub fn encoded_bytes(&self, key: &[u8]) -> Option<usize> {
        let (marker, rest) = key.split_first()?;
        if *marker != VALUE {
            return Some(1);
        }
        let bytes = match self.column {
            ColumnType::Bool => 1,
            ColumnType::Int2 => 2,
            ColumnType::Int4 => 4,
            ColumnType::Int8 | ColumnType::Float8 => 8,
            ColumnType::Bytes | ColumnType::Ordered { .. } => {
                let flip = self.flip();
                let mut at = 0;
                loop {
                    at += rest[at..].iter().position(|byte| byte ^ flip == 0)?;
                    let next = *rest.get(at + 1)? ^ flip;
                    at += 2;
                    if next == END[1] {
                        break at;
                    }
                }
            }
        };
        (bytes <= rest.len()).then_some(1 + bytes)
    }

    /// Takes an integer's part from the front of `key`: its bits as a page has them, zeros above. None if the
    /// part is no integer, or a null.
    #[inline]
    pub fn take_integer(&self, key: &mut &[u8]) -> Option<u64> {
        let bits = match self.column {
            ColumnType::Int4 => {
                let (&[marker, a, b, c, d], rest) = key.split_first_chunk()?;
                *key = rest;
                (marker == VALUE)
                    .then_some(u64::from(u32::from_be_bytes([a, b, c, d]) ^ 1 << 31))?
            }
            ColumnType::Int8 => {
                let (&[marker, a, b, c, d, e, f, g, h], rest) = key.split_first_chunk()?;
                *key = rest;
                let number = u64::from_be_bytes([a, b, c, d, e, f, g, h]) ^ 1 << 63;
                (marker == VALUE).then_some(number)?
            }
            ColumnType::Int2 => {
                let (&[marker, a, b], rest) = key.split_first_chunk()?;
                *key = rest;
                (marker == VALUE).then_some(u64::from(u16::from_be_bytes([a, b]) ^ 1 << 15))?
            }
            _ => return None,
        };
        Some(match (self.direction, self.column) {
            (Direction::Ascending, _) => bits,
            (Direction::Descending, ColumnType::Int4) => bits ^ u64::from(u32::MAX),
            (Direction::Descending, ColumnType::Int2) => bits ^ u64::from(u16::MAX),
            (Direction::Descending, _) => !bits,
        })
    }

    fn flip(&self) -> u8 {
        if self.direction == Direction::Descending { 0xff } else { 0 }
    }
}

/// Appends the key of `values` (one for each of the first `values.len()` parts; `None` is null) to
/// `out`. A fixed-width value has its type's width; bytes beyond it are ignored and missing ones
/// read as zero.
///
/// Panics if there are more values than parts.
pub fn encode_key(parts: &[KeyPart], values: &[Option<&[u8]>], out: &mut Vec<u8>) {
    assert!(values.len() <= parts.len(), "a value belongs to a part of the key");
    for (part, value) in parts.iter().zip(values) {
        encode_part(part, *value, out);
    }
}

/// Appends one part of a key: the encoding of a key is that of its parts, one behind the other.
#[inline]
pub fn encode_part(part: &KeyPart, value: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(value) = value else {
        out.push(match part.nulls {
            Nulls::First => NULL_FIRST,
            Nulls::Last => NULL_LAST,
        });
        return;
    };
    if part.column == ColumnType::Int4 {
        // What keys are made of most often, marker and value at once.
        let number = u32::from_le_bytes(fixed(value)) ^ 1 << 31;
        let number = if part.direction == Direction::Descending { !number } else { number };
        let [a, b, c, d] = number.to_be_bytes();
        out.extend_from_slice(&[VALUE, a, b, c, d]);
        return;
    }
    out.push(VALUE);
    let start = out.len();
    match part.column {
        ColumnType::Bool => out.push((value.first().is_some_and(|byte| *byte != 0)) as u8),
        ColumnType::Int2 => {
            out.extend_from_slice(&(u16::from_le_bytes(fixed(value)) ^ 1 << 15).to_be_bytes());
        }
        ColumnType::Int4 => unreachable!("done above"),
        ColumnType::Int8 => {
            out.extend_from_slice(&(u64::from_le_bytes(fixed(value)) ^ 1 << 63).to_be_bytes());
        }
        ColumnType::Float8 => out.extend_from_slice(&float(value).to_be_bytes()),
        ColumnType::Bytes => escape(value, out),
        ColumnType::Ordered { trailer } => {
            escape(&value[..value.len().saturating_sub(trailer as usize)], out);
        }
    }
    if part.direction == Direction::Descending {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Appends the value of an encoded part, exactly its bytes; none if it is null. The part is
/// reversible and `encoded` is [`KeyPart::encoded_bytes`] long.
pub fn decode_part(part: &KeyPart, encoded: &[u8], out: &mut Vec<u8>) -> Option<()> {
    debug_assert!(part.is_reversible(), "the value cannot be told from the key");
    let (marker, value) = encoded.split_first()?;
    if *marker != VALUE {
        return None;
    }
    let flip = part.flip();
    let start = out.len();
    match part.column {
        ColumnType::Bytes => {
            let value = &value[..value.len() - END.len()];
            let mut rest = value.iter().map(|byte| byte ^ flip);
            while let Some(byte) = rest.next() {
                out.push(byte);
                if byte == 0 {
                    rest.next();
                }
            }
        }
        _ => {
            out.extend(value.iter().rev().map(|byte| byte ^ flip));
            // The most significant byte is the last now; the sign bit of a number was flipped.
            if part.column != ColumnType::Bool
                && let Some(last) = out[start..].last_mut()
            {
                *last ^= 0x80;
            }
        }
    }
    Some(())
}

/// The first N bytes of a value, filled with zeros.
#[inline]
fn fixed<const N: usize>(value: &[u8]) -> [u8; N] {
    value.first_chunk().copied().unwrap_or_else(|| {
        let mut bytes = [0; N];
        bytes[..value.len()].copy_from_slice(value);
        bytes
    })
}

fn float(value: &[u8]) -> u64 {
    let number = f64::from_le_bytes(fixed(value));
    if number.is_nan() {
        return NAN;
    }
    // Adding zero turns -0.0 into 0.0.
    let bits = (number + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn escape(value: &[u8], out: &mut Vec<u8>) {
    let mut pieces = value.split(|byte| *byte == 0);
    out.extend_from_slice(pieces.next().unwrap_or(&[]));
    for piece in pieces {
        out.extend_from_slice(&ESCAPED_ZERO);
        out.extend_from_slice(piece);
    }
    out.extend_from_slice(&END);
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "clippy sees helpers here as no tests under cfg(all)")]

    use std::cmp::Ordering;

    use super::*;

    fn seed() -> u64 {
        let seed = std::env::var("ATOLL_SEED").ok().and_then(|text| text.parse().ok());
        let seed = seed.unwrap_or_else(|| fastrand::u64(..));
        eprintln!("ATOLL_SEED={seed}");
        seed
    }

    type Value = Option<Vec<u8>>;

    fn random_value(random: &mut fastrand::Rng, column: ColumnType) -> Value {
        if random.u8(0..6) == 0 {
            return None;
        }
        let near = random.i64(-3..4);
        let float = [
            -0.0,
            0.0,
            f64::NAN,
            -f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            near as f64 * 0.5,
            f64::MIN_POSITIVE,
            f64::from_bits(random.u64(..)),
        ];
        let any = if random.bool() { near } else { random.i64(..) };
        Some(match column {
            ColumnType::Bool => vec![random.bool() as u8],
            ColumnType::Int2 => (any as i16).to_le_bytes().to_vec(),
            ColumnType::Int4 => (any as i32).to_le_bytes().to_vec(),
            ColumnType::Int8 => any.to_le_bytes().to_vec(),
            ColumnType::Float8 => random.choice(float).unwrap().to_le_bytes().to_vec(),
            ColumnType::Bytes | ColumnType::Ordered { .. } => {
                let trailer =
                    if let ColumnType::Ordered { trailer } = column { trailer } else { 0 };
                let len = random.usize(0..5) + trailer as usize;
                (0..len).map(|_| *random.choice(&[0, 1, 2, 0xfe, 0xff]).unwrap()).collect()
            }
        })
    }

    /// As PostgreSQL compares: NaN equals NaN and is greatest, -0.0 equals 0.0.
    fn compare_values(column: ColumnType, a: &[u8], b: &[u8]) -> Ordering {
        let int = |value: &[u8]| match column {
            ColumnType::Bool => value[0] as i64,
            ColumnType::Int2 => i16::from_le_bytes(value.try_into().unwrap()) as i64,
            ColumnType::Int4 => i32::from_le_bytes(value.try_into().unwrap()) as i64,
            _ => i64::from_le_bytes(value.try_into().unwrap()),
        };
        match column {
            ColumnType::Float8 => {
                let (a, b) = (
                    f64::from_le_bytes(a.try_into().unwrap()),
                    f64::from_le_bytes(b.try_into().unwrap()),
                );
                a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
            }
            ColumnType::Bytes => a.cmp(b),
            ColumnType::Ordered { trailer } => {
                a[..a.len() - trailer as usize].cmp(&b[..b.len() - trailer as usize])
            }
            _ => int(a).cmp(&int(b)),
        }
    }

    fn compare_part(part: &KeyPart, a: &Value, b: &Value) -> Ordering {
        match (a, b) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) if part.nulls == Nulls::First => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => compare_part(part, b, a).reverse(),
            (Some(a), Some(b)) => {
                let ordering = compare_values(part.column, a, b);
                if part.direction == Direction::Descending { ordering.reverse() } else { ordering }
            }
        }
    }

    /// The parts of a key are where their lengths say, and those that can be are decoded.
    fn check_decoding(parts: &[KeyPart], values: &[Value], key: &[u8]) {
        let mut rest = key;
        for (part, value) in parts.iter().zip(values) {
            let (own, behind) = rest.split_at(part.encoded_bytes(rest).unwrap());
            rest = behind;
            if part.is_reversible() {
                let mut out = b"before".to_vec();
                let found = decode_part(part, own, &mut out).map(|()| out[6..].to_vec());
                assert_eq!(found, *value, "{part:?} {own:?}");
            }
        }
        assert!(rest.is_empty(), "{parts:?} {key:?}");
    }

    #[test]
    fn cut_keys_have_no_parts() {
        for column in [ColumnType::Int8, ColumnType::Bytes, ColumnType::Float8, ColumnType::Bool] {
            for direction in [Direction::Ascending, Direction::Descending] {
                let part = KeyPart { column, direction, nulls: Nulls::Last };
                let mut key = Vec::new();
                encode_part(&part, Some(&[0; 8]), &mut key);
                for cut in 0..key.len() {
                    assert_eq!(part.encoded_bytes(&key[..cut]), None, "{part:?} {cut}");
                }
                assert_eq!(part.encoded_bytes(&key), Some(key.len()));
            }
        }
    }

    #[test]
    fn keys_compare_as_their_values_do() {
        let mut random = fastrand::Rng::with_seed(seed());
        let columns = [
            ColumnType::Bool,
            ColumnType::Int2,
            ColumnType::Int4,
            ColumnType::Int8,
            ColumnType::Float8,
            ColumnType::Bytes,
            ColumnType::Ordered { trailer: 2 },
        ];
        let mut equal = 0;
        for _ in 0..60_000 {
            let parts: Vec<_> = (0..random.usize(1..4))
                .map(|_| KeyPart {
                    column: *random.choice(&columns).unwrap(),
                    direction: *random
                        .choice(&[Direction::Ascending, Direction::Descending])
                        .unwrap(),
                    nulls: *random.choice(&[Nulls::First, Nulls::Last]).unwrap(),
                })
                .collect();
            let mut row = || -> Vec<Value> {
                parts.iter().map(|part| random_value(&mut random, part.column)).collect()
            };
            let (a, mut b) = (row(), row());
            if random.bool() {
                b[0].clone_from(&a[0]);
            }
            let key = |values: &[Value]| {
                let values: Vec<_> = values.iter().map(Option::as_deref).collect();
                let mut key = Vec::new();
                encode_key(&parts, &values, &mut key);
                key
            };
            let expected = parts
                .iter()
                .zip(a.iter().zip(&b))
                .map(|(part, (a, b))| compare_part(part, a, b))
                .find(|ordering| ordering.is_ne())
                .unwrap_or(Ordering::Equal);
            let (x, y) = (key(&a), key(&b));
            assert_eq!(x.cmp(&y), expected, "{parts:?} {a:?} {b:?}");
            assert!(x == y || !x.starts_with(&y) && !y.starts_with(&x), "prefix-free");
            assert!(x.starts_with(&key(&a[..1])), "the first columns bound a scan");
            check_decoding(&parts, &a, &x);
            equal += expected.is_eq() as u32;
        }
        assert!(equal > 1000, "equal keys were compared, too: {equal}");
    }

    #[test]
    fn encodings_are_what_the_header_says() {
        let check = |column, direction, value: &[u8], expected: &[u8]| {
            let part = KeyPart { column, direction, nulls: Nulls::Last };
            let mut key = Vec::new();
            encode_key(&[part], &[Some(value)], &mut key);
            assert_eq!(key, expected, "{column:?} {value:?}");
        };
        let (up, down) = (Direction::Ascending, Direction::Descending);
        check(ColumnType::Bool, up, &[1], &[2, 1]);
        check(ColumnType::Int2, up, &(-2_i16).to_le_bytes(), &[2, 0x7f, 0xfe]);
        check(ColumnType::Int4, up, &258_i32.to_le_bytes(), &[2, 0x80, 0, 1, 2]);
        check(ColumnType::Int4, down, &258_i32.to_le_bytes(), &[2, 0x7f, 0xff, 0xfe, 0xfd]);
        check(ColumnType::Bytes, up, b"a\0b", &[2, b'a', 0, 0xff, b'b', 0, 1]);
        check(ColumnType::Bytes, down, b"", &[2, 0xff, 0xfe]);
        check(ColumnType::Ordered { trailer: 2 }, up, b"a\x07\x09", &[2, b'a', 0, 1]);
        check(ColumnType::Float8, up, &(-0.0_f64).to_le_bytes(), &[2, 0x80, 0, 0, 0, 0, 0, 0, 0]);
        check(
            ColumnType::Float8,
            up,
            &(-f64::NAN).to_le_bytes(),
            &[2, 0xff, 0xf8, 0, 0, 0, 0, 0, 0],
        );
        for (nulls, marker) in [(Nulls::First, 1), (Nulls::Last, 3)] {
            let part = KeyPart { column: ColumnType::Int4, direction: down, nulls };
            let mut key = Vec::new();
            encode_key(&[part], &[None], &mut key);
            assert_eq!(key, [marker]);
        }
    }

    #[test]
    fn integers_are_taken_from_keys_as_they_are_in_pages() {
        let mut random = fastrand::Rng::with_seed(seed());
        let widths = [(ColumnType::Int2, 2), (ColumnType::Int4, 4), (ColumnType::Int8, 8)];
        for _ in 0..20_000 {
            let (column, width) = *random.choice(&widths).unwrap();
            let direction = *random.choice(&[Direction::Ascending, Direction::Descending]).unwrap();
            let nulls = *random.choice(&[Nulls::First, Nulls::Last]).unwrap();
            let (part, value) =
                (KeyPart { column, direction, nulls }, random_value(&mut random, column));
            let mut key = Vec::new();
            encode_part(&part, value.as_deref(), &mut key);
            let mut rest = &key[..];
            let bits = value.map(|value| {
                let mut bits = [0; 8];
                bits[..width].copy_from_slice(&value);
                u64::from_le_bytes(bits)
            });
            assert_eq!(part.take_integer(&mut rest), bits, "{part:?}, {key:02x?}");
            assert!(bits.is_none() || rest.is_empty());
            assert_eq!(part.take_integer(&mut &key[..key.len().min(1)]), None, "it is cut short");
        }
        let text = KeyPart::ascending(ColumnType::Bytes);
        assert_eq!(text.take_integer(&mut &[VALUE, 0, 0, 0, 0, 0, 0, 0, 1][..]), None);
    }
}
