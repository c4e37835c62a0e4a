//! Text form of arrays, vectors and rows.

use super::{Array, Datum, Dimension, Record, Type, TypeOid, text};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::FunctionContext;

/// Appends `{..}`, or the blank-separated form of int2vector and oidvector.
pub(super) fn write(ty: TypeOid, array: &Array, context: &dyn FunctionContext, out: &mut Vec<u8>) {
    if matches!(ty, TypeOid::INT2VECTOR | TypeOid::OIDVECTOR) {
        for (index, element) in array.elements.iter().enumerate() {
            if index > 0 {
                out.push(b' ');
            }
            text::output(array.element, element, context, out);
        }
        return;
    }
    if array.dimensions.is_empty() {
        return out.extend_from_slice(b"{}");
    }
    if array.dimensions.iter().any(|dimension| dimension.lower != 1) {
        for dimension in &array.dimensions {
            let last = dimension.lower + dimension.length - 1;
            out.extend_from_slice(format!("[{}:{last}]", dimension.lower).as_bytes());
        }
        out.push(b'=');
    }
    let mut next = 0;
    write_level(array, 0, &mut next, context, out);
}

fn write_level(
    array: &Array,
    depth: usize,
    next: &mut usize,
    context: &dyn FunctionContext,
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    for index in 0..array.dimensions[depth].length {
        if index > 0 {
            out.push(b',');
        }
        if depth + 1 < array.dimensions.len() {
            write_level(array, depth + 1, next, context, out);
        } else {
            write_element(array.element, &array.elements[*next], context, out);
            *next += 1;
        }
    }
    out.push(b'}');
}

fn write_element(ty: TypeOid, value: &Datum, context: &dyn FunctionContext, out: &mut Vec<u8>) {
    if value.is_null() {
        return out.extend_from_slice(b"NULL");
    }
    let start = out.len();
    text::output(ty, value, context, out);
    let special = |byte: &u8| {
        matches!(byte, b'"' | b'\\' | b'{' | b'}' | b',')
            || byte.is_ascii_whitespace()
            || *byte == 0x0b
    };
    let printed = &out[start..];
    let quote =
        printed.is_empty() || printed.eq_ignore_ascii_case(b"null") || printed.iter().any(special);
    if quote {
        let printed = out.split_off(start);
        out.push(b'"');
        for byte in printed {
            if matches!(byte, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(byte);
        }
        out.push(b'"');
    }
}

/// Appends `(a,b,c)`.
pub(super) fn write_record(record: &Record, context: &dyn FunctionContext, out: &mut Vec<u8>) {
    out.push(b'(');
    for (index, (ty, value)) in record.types.iter().zip(&record.fields).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        if value.is_null() {
            continue;
        }
        let start = out.len();
        text::output(*ty, value, context, out);
        let special = |byte: &u8| {
            matches!(byte, b'"' | b'\\' | b'(' | b')' | b',')
                || byte.is_ascii_whitespace()
                || *byte == 0x0b
        };
        if out[start..].is_empty() || out[start..].iter().any(special) {
            let printed = out.split_off(start);
            out.push(b'"');
            for byte in printed {
                if matches!(byte, b'"' | b'\\') {
                    out.push(byte);
                }
                out.push(byte);
            }
            out.push(b'"');
        }
    }
    out.push(b')');
}

/// Reads int2vector and oidvector.
pub(super) fn read_vector(
    ty: TypeOid,
    input: &str,
    context: &dyn FunctionContext,
) -> SqlResult<Datum> {
    let element = if ty == TypeOid::INT2VECTOR { TypeOid::INT2 } else { TypeOid::OID };
    let elements: SqlResult<Vec<Datum>> = input
        .split_ascii_whitespace()
        .map(|word| text::input(Type::new(element), word, context))
        .collect();
    Ok(Array::vector(element, elements?).into())
}

struct Reader<'a> {
    input: &'a str,
    at: usize,
    element: Type,
    context: &'a dyn FunctionContext,
    lengths: Vec<Option<i32>>,
    leaf_depth: Option<usize>,
    elements: Vec<Datum>,
}

fn malformed(input: &str, detail: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("malformed array literal: \"{input}\""),
    )
    .detail(detail)
}

const DIFFERENT: &str = "Specified array dimensions do not match array contents.";

/// Reads an array literal of these elements (22P02, 2202E).
pub(super) fn read(element: Type, input: &str, context: &dyn FunctionContext) -> SqlResult<Datum> {
    let trimmed = input.trim_matches(|c: char| c.is_ascii_whitespace());
    let (bounds, body) = explicit_bounds(input, trimmed)?;
    if !body.starts_with('{') {
        return Err(malformed(
            input,
            "Array value must start with \"{\" or dimension information.",
        ));
    }
    let mut reader = Reader {
        input,
        at: 0,
        element,
        context,
        lengths: Vec::new(),
        leaf_depth: None,
        elements: Vec::new(),
    };
    reader.level(body, 0)?;
    if !body[reader.at..].trim_ascii().is_empty() {
        return Err(malformed(input, "Junk after closing right brace."));
    }
    if reader.elements.is_empty() {
        return Ok(Array::of(element.oid, Vec::new()).into());
    }
    let mut dimensions: Vec<Dimension> = reader
        .lengths
        .iter()
        .map(|length| Dimension { length: length.unwrap_or(0), lower: 1 })
        .collect();
    if let Some(bounds) = bounds {
        let same = bounds.len() == dimensions.len()
            && bounds.iter().zip(&dimensions).all(|(a, b)| a.length == b.length);
        if !same {
            return Err(malformed(input, DIFFERENT));
        }
        bounds.iter().try_for_each(Dimension::check)?;
        dimensions = bounds;
    }
    Ok(Array { element: element.oid, dimensions, elements: reader.elements }.into())
}

/// `[l:u][l:u]=` before the braces.
fn explicit_bounds<'a>(
    input: &str,
    trimmed: &'a str,
) -> SqlResult<(Option<Vec<Dimension>>, &'a str)> {
    if !trimmed.starts_with('[') {
        return Ok((None, trimmed));
    }
    let bad = || malformed(input, "Missing \"=\" after array dimensions.");
    let (head, body) = trimmed.split_once('=').ok_or_else(bad)?;
    let mut dimensions = Vec::new();
    for part in head.trim_end().split_inclusive(']') {
        let inner = part.strip_prefix('[').and_then(|p| p.strip_suffix(']')).ok_or_else(bad)?;
        let (lower, upper) = inner.split_once(':').unwrap_or(("1", inner));
        let (lower, upper): (i32, i32) = match (lower.parse(), upper.parse()) {
            (Ok(lower), Ok(upper)) => (lower, upper),
            _ => return Err(bad()),
        };
        if upper < lower {
            return Err(SqlError::new(
                SqlState::ARRAY_SUBSCRIPT_ERROR,
                "upper bound cannot be less than lower bound",
            ));
        }
        let too_long = || malformed(input, DIFFERENT);
        dimensions.push(Dimension::of_bounds(lower, upper).ok_or_else(too_long)?);
    }
    Ok((Some(dimensions), body.trim_start()))
}

impl Reader<'_> {
    fn blanks(&mut self, body: &str) {
        while body.as_bytes().get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    /// Reads `{..}` at `self.at`; dimensions must agree over all branches.
    fn level(&mut self, body: &str, depth: usize) -> SqlResult<()> {
        if depth >= 6 {
            return Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "number of array dimensions (7) exceeds the maximum allowed (6)",
            ));
        }
        let ragged = "Multidimensional arrays must have sub-arrays with matching dimensions.";
        self.at += 1;
        if self.lengths.len() == depth {
            self.lengths.push(None);
        }
        let mut count = 0;
        self.blanks(body);
        if depth == 0 && body.as_bytes().get(self.at) == Some(&b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.blanks(body);
            let leaf = match body.as_bytes().get(self.at) {
                None => return Err(malformed(self.input, "Unexpected end of input.")),
                Some(b'}') => return Err(malformed(self.input, "Unexpected \"}\" character.")),
                Some(byte) => *byte != b'{',
            };
            let known =
                self.leaf_depth.is_none_or(|at| if leaf { at == depth } else { at > depth });
            if !known {
                return Err(malformed(self.input, ragged));
            }
            if leaf {
                self.leaf_depth = Some(depth);
                let element = self.element(body)?;
                self.elements.push(element);
            } else {
                self.level(body, depth + 1)?;
            }
            count += 1;
            self.blanks(body);
            match body.as_bytes().get(self.at) {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    break;
                }
                Some(_) => return Err(malformed(self.input, "Unexpected array element.")),
                None => return Err(malformed(self.input, "Unexpected end of input.")),
            }
        }
        match self.lengths[depth] {
            Some(length) if length != count => Err(malformed(self.input, ragged)),
            _ => {
                self.lengths[depth] = Some(count);
                Ok(())
            }
        }
    }

    fn element(&mut self, body: &str) -> SqlResult<Datum> {
        let bytes = body.as_bytes();
        let mut value = Vec::new();
        if bytes[self.at] == b'"' {
            self.at += 1;
            loop {
                match bytes.get(self.at) {
                    None => return Err(malformed(self.input, "Unexpected end of input.")),
                    Some(b'"') => break,
                    Some(b'\\') => {
                        self.at += 1;
                        value.extend(bytes.get(self.at));
                    }
                    Some(byte) => value.push(*byte),
                }
                self.at += 1;
            }
            self.at += 1;
        } else {
            let mut keep = 0;
            while let Some(byte) = bytes.get(self.at) {
                match byte {
                    b',' | b'}' => break,
                    b'{' | b'"' => {
                        let found = char::from(*byte);
                        let detail = format!("Unexpected \"{found}\" character.");
                        return Err(malformed(self.input, &detail));
                    }
                    b'\\' => {
                        self.at += 1;
                        value.extend(bytes.get(self.at));
                        keep = value.len();
                    }
                    _ => {
                        value.push(*byte);
                        if !byte.is_ascii_whitespace() {
                            keep = value.len();
                        }
                    }
                }
                self.at += 1;
            }
            value.truncate(keep);
            if value.is_empty() {
                let found = bytes.get(self.at).map_or(' ', |byte| char::from(*byte));
                return Err(malformed(self.input, &format!("Unexpected \"{found}\" character.")));
            }
            if value.eq_ignore_ascii_case(b"null") {
                return Ok(Datum::Null);
            }
        }
        let value = String::from_utf8(value).map_err(|_| malformed(self.input, "Invalid text."))?;
        text::input(self.element, &value, self.context)
    }
}
