//! Reads the fields of one message; every access is bounded by the message's own slice.

/// What is wrong with a message: the text of the 08P01 that ends the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// What is left of one message's body.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(body: &'a [u8]) -> Reader<'a> {
        Reader { left: body }
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let Some((taken, left)) = self.left.split_at_checked(count) else {
            return Err(Malformed("insufficient data left in message"));
        };
        self.left = left;
        Ok(taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.bytes(1)?[0])
    }

    pub(super) fn i16(&mut self) -> Result<i16, Malformed> {
        let bytes = self.bytes(2)?;
        Ok(i16::from_be_bytes([bytes[0], bytes[1]]))
    }

    pub(super) fn i32(&mut self) -> Result<i32, Malformed> {
        let bytes = self.bytes(4)?;
        Ok(i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A count; 65,535 at most, as in PostgreSQL.
    pub(super) fn count(&mut self) -> Result<usize, Malformed> {
        Ok(usize::from(self.i16()?.cast_unsigned()))
    }

    /// Bytes up to a zero byte, which is taken too.
    pub(super) fn c_string(&mut self) -> Result<&'a [u8], Malformed> {
        let Some(end) = self.left.iter().position(|byte| *byte == 0) else {
            return Err(Malformed("invalid string in message"));
        };
        let text = &self.left[..end];
        self.left = &self.left[end + 1..];
        Ok(text)
    }

    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.left)
    }

    /// The message must end here.
    pub(super) fn end(&self) -> Result<(), Malformed> {
        if self.left.is_empty() { Ok(()) } else { Err(Malformed("invalid message format")) }
    }
}

/// Type oids, in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oids<'a>(pub(super) &'a [u8]);

impl Oids<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len() / 4
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.chunks_exact(4).map(|oid| u32::from_be_bytes([oid[0], oid[1], oid[2], oid[3]]))
    }
}

/// Format codes, in place: 0 is text, 1 is binary; others were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codes<'a>(pub(super) &'a [u8]);

impl Codes<'_> {
    /// How many there are: none (all text), one (for all), or one for each value.
    pub fn len(&self) -> usize {
        self.0.len() / 2
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        self.0.chunks_exact(2).map(|code| u16::from_be_bytes([code[0], code[1]]))
    }
}
