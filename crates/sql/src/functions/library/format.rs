//! `format()`: %s, %I and %L with positions, `-` and widths.

use super::FunctionContext;
use super::quote::{quote_identifier, quote_literal};
use super::string::{characters, gathered};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::limits;
use crate::types::{Datum, Text, TypeOid, text as io};

type Context<'a> = &'a dyn FunctionContext;

/// `format(pattern, ..)`: %s, %I, %L, %% with positions, `-` and widths.
pub(in crate::functions) fn format(args: &[Datum], context: Context) -> SqlResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let values = args.get(1).map_or(Vec::new(), gathered);
    let mut out = String::new();
    let mut chars = args[0].as_str().chars().peekable();
    let mut next = 0usize;
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if chars.peek() == Some(&'%') {
            chars.next();
            out.push('%');
            continue;
        }
        let spec = FormatSpec::read(&mut chars)?;
        let width = spec.width(&values, &mut next, context)?;
        let index = match spec.position {
            Some(position) => position - 1,
            None => next,
        };
        next = index + 1;
        let (ty, value) = *values.get(index).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "too few arguments for format()")
        })?;
        let text = convert(spec.kind, ty, value, context)?;
        let missing = width.unsigned_abs() as usize;
        let missing = missing.saturating_sub(characters(&text));
        if missing > limits::VALUE_BYTES_MAX {
            return Err(limits::cannot_enlarge(out.len(), missing));
        }
        let blanks = " ".repeat(missing);
        let parts = if spec.left || width < 0 { [&*text, &blanks] } else { [&blanks, &*text] };
        parts.iter().try_for_each(|part| limits::append(&mut out, part))?;
    }
    Ok(out.into())
}

enum Width {
    Fixed(i64),
    FromArgument(Option<usize>),
}

struct FormatSpec {
    position: Option<usize>,
    left: bool,
    width: Width,
    kind: char,
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn format_error(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn read_number(chars: &mut Chars) -> SqlResult<Option<usize>> {
    let mut digits = String::new();
    while chars.peek().is_some_and(char::is_ascii_digit) {
        digits.extend(chars.next());
    }
    if digits.is_empty() {
        return Ok(None);
    }
    let value = digits.parse::<i32>().map_err(|_| super::fast::out_of_range("number is"))?;
    Ok(Some(value as usize))
}

impl FormatSpec {
    fn read(chars: &mut Chars) -> SqlResult<FormatSpec> {
        let mut spec =
            FormatSpec { position: None, left: false, width: Width::Fixed(0), kind: 's' };
        let number = read_number(chars)?;
        if let Some(number) = number {
            if chars.peek() == Some(&'$') {
                chars.next();
                if number == 0 {
                    return Err(format_error(
                        "format specifies argument 0, but arguments are numbered from 1",
                    ));
                }
                spec.position = Some(number);
            } else {
                spec.width = Width::Fixed(number as i64);
            }
        }
        while chars.peek() == Some(&'-') {
            chars.next();
            spec.left = true;
        }
        if chars.peek() == Some(&'*') {
            chars.next();
            let at = read_number(chars)?;
            if at.is_some() && chars.next() != Some('$') {
                return Err(format_error("width argument position must be ended by \"$\""));
            }
            spec.width = Width::FromArgument(at);
        } else if let Some(width) = read_number(chars)? {
            spec.width = Width::Fixed(width as i64);
        }
        match chars.next() {
            Some(kind @ ('s' | 'I' | 'L')) => spec.kind = kind,
            Some(other) => {
                return Err(format_error(format!(
                    "unrecognized format() type specifier \"{other}\""
                ))
                .hint("For a single \"%\" use \"%%\"."));
            }
            None => {
                return Err(format_error("unterminated format() type specifier")
                    .hint("For a single \"%\" use \"%%\"."));
            }
        }
        Ok(spec)
    }

    fn width(
        &self,
        values: &[(TypeOid, &Datum)],
        next: &mut usize,
        context: Context,
    ) -> SqlResult<i64> {
        let at = match self.width {
            Width::Fixed(width) => return Ok(width),
            Width::FromArgument(at) => at.map_or(*next, |at| at.saturating_sub(1)),
        };
        *next = at + 1;
        let (ty, value) =
            *values.get(at).ok_or_else(|| format_error("too few arguments for format()"))?;
        match value {
            Datum::Null => Ok(0),
            Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => Ok(value.as_i64()),
            other => io::integer_text(&io::output_string(ty, other, context)),
        }
    }
}

fn convert(kind: char, ty: TypeOid, value: &Datum, context: Context) -> SqlResult<Text> {
    if value.is_null() {
        return match kind {
            's' => Ok(Text::default()),
            'L' => Ok(Text::new_static("NULL")),
            _ => Err(SqlError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                "null values cannot be formatted as an SQL identifier",
            )),
        };
    }
    let text = io::output_string(ty, value, context);
    Ok(match kind {
        's' => text,
        'I' => Text::from(quote_identifier(&text)),
        _ => Text::from(quote_literal(&text)),
    })
}
