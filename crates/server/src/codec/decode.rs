//! Frontend messages after start-up.
//!
//! Invariants: [`decode`] answers a whole message or how many bytes are needed at least, never
//! more than the message's limit; it takes exactly the message's bytes.

use super::reader::{Codes, Malformed, Oids, Reader};

/// How long messages may be, in bytes including their length word.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Query, Parse, Bind, CopyData, FunctionCall and passwords; PostgreSQL's is a gigabyte less two
    /// bytes.
    pub large_bytes_max: usize,
    /// Everything else.
    pub small_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { large_bytes_max: 0x3fff_fffe, small_bytes_max: 30_000 }
    }
}

/// What Describe and Close name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescribeTarget<'a> {
    /// `S`
    Statement(&'a [u8]),
    /// `P`
    Portal(&'a [u8]),
}

/// Text or binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueFormat {
    /// Code 0.
    Text,
    /// Code 1.
    Binary,
}

/// Parse: names and text as the client sent them, not yet checked for UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parse<'a> {
    /// The statement's name; empty is the unnamed one.
    pub name: &'a [u8],
    /// The statement's text.
    pub text: &'a [u8],
    /// Declared parameter types; 0 is not declared.
    pub types: Oids<'a>,
}

/// Bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind<'a> {
    /// The portal's name; empty is the unnamed one.
    pub portal: &'a [u8],
    /// The statement's name.
    pub statement: &'a [u8],
    /// The parameters' formats.
    pub formats: Codes<'a>,
    /// The parameters.
    pub parameters: Parameters<'a>,
    /// The results' formats.
    pub results: Codes<'a>,
}

/// Bind's parameters, in place; their lengths have been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Parameters<'a> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All of them; `None` is NULL.
    pub fn iter(&self) -> impl Iterator<Item = Option<&'a [u8]>> {
        let mut reader = Reader::new(self.bytes);
        (0..self.count).map_while(move |_| value(&mut reader).ok())
    }
}

/// A message of a client that has started up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frontend<'a> {
    /// `Q`
    Query(&'a [u8]),
    /// `P`
    Parse(Parse<'a>),
    /// `B`
    Bind(Bind<'a>),
    /// `D`
    Describe(DescribeTarget<'a>),
    /// `E`
    Execute {
        /// The portal's name.
        portal: &'a [u8],
        /// Rows at most; 0 or less is no limit.
        rows_max: i32,
    },
    /// `C`
    Close(DescribeTarget<'a>),
    /// `S`
    Sync,
    /// `H`
    Flush,
    /// `X`
    Terminate,
    /// `d`
    CopyData(&'a [u8]),
    /// `c`
    CopyDone,
    /// `f`
    CopyFail(&'a [u8]),
    /// `p`
    Password(&'a [u8]),
    /// `F`
    FunctionCall(&'a [u8]),
}

/// What a buffer begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A whole message of this many bytes.
    Message(Frontend<'a>, usize),
    /// A whole message of this many bytes, whose body is not as it should be.
    Bad {
        /// Which message it says it is.
        tag: u8,
        /// What is wrong.
        why: Malformed,
        /// Its bytes.
        taken: usize,
    },
    /// Not yet; at least this many bytes in all are needed.
    Incomplete(usize),
}

/// Whether [`decode`] would answer that the message is incomplete; cheaper.
pub fn is_incomplete(buffer: &[u8], limits: &Limits) -> bool {
    matches!(frame(buffer, limits), Ok(Frame::Incomplete(_)))
}

/// A message's tag and body, or how many bytes are needed at least.
enum Frame<'a> {
    Whole(u8, &'a [u8]),
    Incomplete(usize),
}

/// Decodes the message that `buffer` begins with. An error: where the next one begins is not known.
pub fn decode<'a>(buffer: &'a [u8], limits: &Limits) -> Result<Decoded<'a>, Malformed> {
    match frame(buffer, limits)? {
        Frame::Whole(tag, body) => {
            let taken = 5 + body.len();
            Ok(match message(tag, body) {
                Ok(message) => Decoded::Message(message, taken),
                Err(why) => Decoded::Bad { tag, why, taken },
            })
        }
        Frame::Incomplete(bytes) => Ok(Decoded::Incomplete(bytes)),
    }
}

fn frame<'a>(buffer: &'a [u8], limits: &Limits) -> Result<Frame<'a>, Malformed> {
    let Some(tag) = buffer.first().copied() else { return Ok(Frame::Incomplete(5)) };
    let bytes_max = match tag {
        b'Q' | b'P' | b'B' | b'd' | b'p' | b'F' => limits.large_bytes_max,
        b'D' | b'E' | b'C' | b'S' | b'H' | b'X' | b'c' | b'f' => limits.small_bytes_max,
        _ => return Err(Malformed("invalid frontend message type")),
    };
    let Some(length) = buffer.get(1..5) else { return Ok(Frame::Incomplete(5)) };
    let length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
    let length = match usize::try_from(length) {
        Ok(length) if (4..=bytes_max).contains(&length) => length,
        _ => return Err(Malformed("invalid message length")),
    };
    let total = 1 + length;
    let Some(body) = buffer.get(5..total) else { return Ok(Frame::Incomplete(total)) };
    Ok(Frame::Whole(tag, body))
}

fn message(tag: u8, body: &[u8]) -> Result<Frontend<'_>, Malformed> {
    let mut reader = Reader::new(body);
    let message = match tag {
        b'Q' => Frontend::Query(reader.c_string()?),
        b'P' => parse(&mut reader)?,
        b'B' => bind(&mut reader)?,
        b'D' => Frontend::Describe(target(&mut reader)?),
        b'C' => Frontend::Close(target(&mut reader)?),
        b'E' => Frontend::Execute { portal: reader.c_string()?, rows_max: reader.i32()? },
        b'S' => Frontend::Sync,
        b'H' => Frontend::Flush,
        b'X' => {
            // Clients are known to append bytes; the session ends anyway.
            reader.rest();
            Frontend::Terminate
        }
        b'd' => Frontend::CopyData(reader.rest()),
        b'c' => Frontend::CopyDone,
        b'f' => Frontend::CopyFail(reader.c_string()?),
        b'p' => Frontend::Password(reader.rest()),
        _ => Frontend::FunctionCall(reader.rest()),
    };
    reader.end()?;
    Ok(message)
}

fn target<'a>(reader: &mut Reader<'a>) -> Result<DescribeTarget<'a>, Malformed> {
    match reader.u8()? {
        b'S' => Ok(DescribeTarget::Statement(reader.c_string()?)),
        b'P' => Ok(DescribeTarget::Portal(reader.c_string()?)),
        _ => Err(Malformed("invalid DESCRIBE or CLOSE message subtype")),
    }
}

fn parse<'a>(reader: &mut Reader<'a>) -> Result<Frontend<'a>, Malformed> {
    let (name, text) = (reader.c_string()?, reader.c_string()?);
    let count = reader.count()?;
    let types = Oids(reader.bytes(count * 4)?);
    Ok(Frontend::Parse(Parse { name, text, types }))
}

fn bind<'a>(reader: &mut Reader<'a>) -> Result<Frontend<'a>, Malformed> {
    let (portal, statement) = (reader.c_string()?, reader.c_string()?);
    let formats = codes(reader)?;
    let count = reader.count()?;
    if formats.len() > 1 && formats.len() != count {
        return Err(Malformed("bind message has a different number of formats and parameters"));
    }
    let mut ahead = *reader;
    let before = ahead.rest();
    for _ in 0..count {
        value(reader)?;
    }
    let mut ahead = *reader;
    let bytes = &before[..before.len() - ahead.rest().len()];
    let results = codes(reader)?;
    let parameters = Parameters { count, bytes };
    Ok(Frontend::Bind(Bind { portal, statement, formats, parameters, results }))
}

fn codes<'a>(reader: &mut Reader<'a>) -> Result<Codes<'a>, Malformed> {
    let count = reader.count()?;
    let codes = Codes(reader.bytes(count * 2)?);
    if codes.iter().any(|code| code > 1) {
        return Err(Malformed("unsupported format code"));
    }
    Ok(codes)
}

fn value<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>, Malformed> {
    match reader.i32()? {
        -1 => Ok(None),
        length => match usize::try_from(length) {
            Ok(length) => Ok(Some(reader.bytes(length)?)),
            Err(_) => Err(Malformed("invalid argument size in bind message")),
        },
    }
}

impl ValueFormat {
    /// The format of value number `index` by the rule of Bind: none means text, one is for all.
    pub fn of(codes: Codes<'_>, index: usize) -> ValueFormat {
        let code = match codes.len() {
            0 => 0,
            1 => codes.iter().next().unwrap_or(0),
            _ => codes.iter().nth(index).unwrap_or(0),
        };
        if code == 1 { ValueFormat::Binary } else { ValueFormat::Text }
    }
}
