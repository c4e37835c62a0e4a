//! What a client sends first: encryption requests, a cancel request, or start-up.
//!
//! Invariants: nothing is waited for beyond [`STARTUP_BYTES_MAX`], as PostgreSQL has it; only
//! protocol 3 is started.

use super::reader::{Malformed, Reader};

/// Longest first message.
const STARTUP_BYTES_MAX: usize = 10_000;
const CODE_CANCEL: u32 = 80_877_102;
const CODE_SSL: u32 = 80_877_103;
const CODE_GSS: u32 = 80_877_104;

/// A protocol version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Protocol {
    /// 3.
    pub major: u16,
    /// 0 or 2; clients also send 9999 to see whether servers negotiate.
    pub minor: u16,
}

/// The newest version spoken here.
pub const PROTOCOL_LATEST: Protocol = Protocol { major: 3, minor: 2 };

/// A start-up message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Startup<'a> {
    /// What the client asks for.
    pub protocol: Protocol,
    pairs: &'a [u8],
}

impl<'a> Startup<'a> {
    /// Names and values of the parameters.
    pub fn parameters(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut reader = Reader::new(self.pairs);
        std::iter::from_fn(move || {
            let name = reader.c_string().ok().filter(|name| !name.is_empty())?;
            Some((name, reader.c_string().ok()?))
        })
    }
}

/// Asks to cancel another session's statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelRequest<'a> {
    /// The session's number, as BackendKeyData told it.
    pub process: u32,
    /// Its secret.
    pub secret: &'a [u8],
}

/// A first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstMessage<'a> {
    /// SSLRequest: answered by one byte, then comes another first message.
    Ssl,
    /// GSSENCRequest: likewise.
    Gss,
    /// CancelRequest: acted on, never answered.
    Cancel(CancelRequest<'a>),
    /// StartupMessage.
    Start(Startup<'a>),
}

/// What a new connection's buffer begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartupDecoded<'a> {
    /// A whole first message of this many bytes.
    Message(FirstMessage<'a>, usize),
    /// Not yet; at least this many bytes in all are needed.
    Incomplete(usize),
}

/// Decodes the first message that `buffer` begins with.
pub fn decode_startup(buffer: &[u8]) -> Result<StartupDecoded<'_>, Malformed> {
    let Some(length) = buffer.get(..4) else { return Ok(StartupDecoded::Incomplete(8)) };
    let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
    if !(8..=STARTUP_BYTES_MAX).contains(&length) {
        return Err(Malformed("invalid length of startup packet"));
    }
    let Some(body) = buffer.get(4..length) else { return Ok(StartupDecoded::Incomplete(length)) };
    let mut reader = Reader::new(body);
    let code = reader.i32()? as u32;
    let message = match code {
        CODE_SSL | CODE_GSS => {
            reader.end().map_err(|_| Malformed("invalid length of encryption request"))?;
            if code == CODE_SSL { FirstMessage::Ssl } else { FirstMessage::Gss }
        }
        CODE_CANCEL => {
            let process = reader.i32()? as u32;
            let secret = reader.rest();
            if !(1..=256).contains(&secret.len()) {
                return Err(Malformed("invalid length of cancel key"));
            }
            FirstMessage::Cancel(CancelRequest { process, secret })
        }
        _ => {
            let protocol = Protocol { major: (code >> 16) as u16, minor: code as u16 };
            let pairs = reader.rest();
            if protocol.major == PROTOCOL_LATEST.major {
                check_pairs(pairs)?;
            }
            FirstMessage::Start(Startup { protocol, pairs })
        }
    };
    Ok(StartupDecoded::Message(message, length))
}

/// Pairs of strings, then one zero byte at the very end.
fn check_pairs(pairs: &[u8]) -> Result<(), Malformed> {
    let layout = Malformed("invalid startup packet layout: expected terminator as last byte");
    let mut reader = Reader::new(pairs);
    loop {
        let name = reader.c_string().map_err(|_| layout)?;
        if name.is_empty() {
            return reader.end().map_err(|_| layout);
        }
        reader.c_string().map_err(|_| layout)?;
    }
}
