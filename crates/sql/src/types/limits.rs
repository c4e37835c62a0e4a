//! How large values and messages may be: PostgreSQL's limits, with its errors (54000).
//!
//! Invariants: no function's result and no message is larger; what could grow beyond it in one
//! step is checked before it is built, whatever else after. All sizes are bytes.

use super::Datum;
use crate::error::{SqlError, SqlResult, SqlState};

/// A text or bytea value at most: a gigabyte without PostgreSQL's header of four bytes.
pub const VALUE_BYTES_MAX: usize = 0x3fff_ffff - 4;

/// What is gathered in one buffer at most: a row to send, a line of COPY, a joined string.
pub const BUFFER_BYTES_MAX: usize = 0x3fff_ffff - 1;

/// The error for a length that was asked for (54000).
pub fn too_large() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
}

/// The error for a buffer of `bytes` that was to hold `more` (54000).
pub fn cannot_enlarge(bytes: usize, more: usize) -> SqlError {
    let detail =
        format!("Cannot enlarge string buffer containing {bytes} bytes by {more} more bytes.");
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "out of memory").detail(detail)
}

/// Appends to a text that is becoming a value (54000 if it would be too long).
pub fn append(out: &mut String, more: &str) -> SqlResult<()> {
    if more.len() > VALUE_BYTES_MAX - out.len().min(VALUE_BYTES_MAX) {
        return Err(cannot_enlarge(out.len(), more.len()));
    }
    out.push_str(more);
    Ok(())
}

/// Checks what a function made (54000 if it is too large).
#[inline]
pub fn check(value: Datum) -> SqlResult<Datum> {
    match &value {
        Datum::Text(text) if text.len() > VALUE_BYTES_MAX => Err(cannot_enlarge(0, text.len())),
        Datum::Bytea(bytes) if bytes.len() > VALUE_BYTES_MAX => Err(cannot_enlarge(0, bytes.len())),
        // Elements are shared, so an array's size says nothing of the memory it takes; what is made
        // of it does.
        Datum::Array(array) if elements_bytes(&array.elements) > VALUE_BYTES_MAX => {
            let message =
                format!("array size exceeds the maximum allowed ({})", VALUE_BYTES_MAX + 4);
            Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
        }
        _ => Ok(value),
    }
}

fn elements_bytes(elements: &[Datum]) -> usize {
    let bytes = |element: &Datum| match element {
        Datum::Text(text) => text.len(),
        Datum::Bytea(bytes) => bytes.len(),
        _ => 0,
    };
    elements.iter().map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Array, TypeOid};

    #[test]
    fn values_of_a_gigabyte_are_refused() {
        let largest = Datum::Text("x".repeat(VALUE_BYTES_MAX).into());
        let array = |count| Array::of(TypeOid::TEXT, vec![largest.clone(); count]).into();
        assert!(check(array(1)).is_ok());
        assert_eq!(check(array(2)).unwrap_err().sqlstate(), SqlState::PROGRAM_LIMIT_EXCEEDED);
        let mut text = largest.as_str().to_owned();
        assert!(check(largest).is_ok());
        let error = append(&mut text, "x").unwrap_err();
        assert_eq!(error.sqlstate(), SqlState::PROGRAM_LIMIT_EXCEEDED);
        assert_eq!(text.len(), VALUE_BYTES_MAX);
        assert!(append(&mut text, "").is_ok());
        text.push('x');
        let error = check(Datum::Text(text.into())).unwrap_err();
        assert_eq!(error.sqlstate(), SqlState::PROGRAM_LIMIT_EXCEEDED);
    }
}
