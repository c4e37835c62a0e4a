//! COPY's options, checked as PostgreSQL checks them.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::ast::At;
use crate::parse::statement::{CopyDirection, CopyOption};

/// Text or CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One line a row, backslash escapes.
    Text,
    /// Comma-separated values.
    Csv,
}

/// Whether a header line is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// No.
    None,
    /// Yes: written, or passed over.
    Line,
}

/// How COPY's data looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyFormat {
    /// Text or CSV.
    pub form: Form,
    /// Between fields.
    pub delimiter: u8,
    /// What stands for NULL.
    pub null: String,
    /// The header line.
    pub header: Header,
    /// CSV's quote.
    pub quote: u8,
    /// CSV's escape.
    pub escape: u8,
    /// FREEZE was asked for.
    pub freeze: bool,
}

impl Default for CopyFormat {
    fn default() -> CopyFormat {
        CopyFormat {
            form: Form::Text,
            delimiter: b'\t',
            null: "\\N".to_owned(),
            header: Header::None,
            quote: b'"',
            escape: b'"',
            freeze: false,
        }
    }
}

impl CopyFormat {
    /// Reads the options. Errors: 22023, 42601, 0A000 by name and position.
    pub fn from_options(
        options: &[(String, CopyOption, At)],
        direction: CopyDirection,
    ) -> SqlResult<CopyFormat> {
        let mut format = CopyFormat::default();
        let mut seen: Vec<&str> = Vec::new();
        if let Some((_, value, at)) = options.iter().find(|(name, ..)| name == "format") {
            format.form = form(value, *at)?;
        }
        if format.form == Form::Csv {
            format.delimiter = b',';
            format.null = String::new();
        }
        let mut escape = None;
        for (name, value, at) in options {
            if seen.contains(&name.as_str()) {
                return Err(syntax("conflicting or redundant options", *at));
            }
            seen.push(name);
            match name.as_str() {
                "format" => {}
                "delimiter" => format.delimiter = one_byte(name, value, *at)?,
                "null" => format.null = text(name, value, *at)?.to_owned(),
                "header" => {
                    format.header =
                        if boolean(name, value, *at)? { Header::Line } else { Header::None };
                }
                "freeze" => format.freeze = boolean(name, value, *at)?,
                "quote" if format.form == Form::Csv => format.quote = one_byte(name, value, *at)?,
                "escape" if format.form == Form::Csv => escape = Some(one_byte(name, value, *at)?),
                "quote" | "escape" => {
                    return Err(SqlError::not_supported(format_args!(
                        "COPY {name} outside CSV mode"
                    ))
                    .at(at.position()));
                }
                "encoding" => utf8(text(name, value, *at)?, *at)?,
                "force_quote" | "force_not_null" | "force_null" | "on_error" | "log_verbosity"
                | "reject_limit" | "default" | "oids" => {
                    return Err(SqlError::not_supported(format_args!("COPY option \"{name}\""))
                        .at(at.position()));
                }
                other => {
                    return Err(syntax(&format!("option \"{other}\" not recognized"), *at));
                }
            }
        }
        format.escape = escape.unwrap_or(format.quote);
        format.check(direction)?;
        Ok(format)
    }

    fn check(&self, direction: CopyDirection) -> SqlResult<()> {
        let wrong = |message: &str| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        if matches!(self.delimiter, b'\n' | b'\r') {
            return wrong("COPY delimiter cannot be newline or carriage return");
        }
        if self.null.contains(['\n', '\r']) {
            return wrong("COPY null representation cannot use newline or carriage return");
        }
        let letters = b"\\.abcdefghijklmnopqrstuvwxyz0123456789";
        if self.form == Form::Text && letters.contains(&self.delimiter) {
            return wrong(&format!("COPY delimiter cannot be \"{}\"", char::from(self.delimiter)));
        }
        if self.null.bytes().any(|byte| byte == self.delimiter) {
            return wrong("COPY delimiter character must not appear in the NULL specification");
        }
        if self.form == Form::Csv && self.delimiter == self.quote {
            return wrong("COPY delimiter and quote must be different");
        }
        if self.freeze && direction == CopyDirection::Out {
            return wrong("cannot use FREEZE with COPY TO");
        }
        Ok(())
    }
}

fn form(value: &CopyOption, at: At) -> SqlResult<Form> {
    match text("format", value, at)? {
        "text" => Ok(Form::Text),
        "csv" => Ok(Form::Csv),
        "binary" => Err(SqlError::not_supported("COPY in binary format").at(at.position())),
        other => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("COPY format \"{other}\" not recognized"),
        )
        .at(at.position())),
    }
}

fn text<'v>(name: &str, value: &'v CopyOption, at: At) -> SqlResult<&'v str> {
    match value {
        CopyOption::Text(text) => Ok(text),
        _ => Err(syntax(&format!("{name} requires a parameter"), at)),
    }
}

fn one_byte(name: &str, value: &CopyOption, at: At) -> SqlResult<u8> {
    match text(name, value, at)?.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("COPY {name} must be a single one-byte character"),
        )
        .at(at.position())),
    }
}

fn boolean(name: &str, value: &CopyOption, at: At) -> SqlResult<bool> {
    match value {
        CopyOption::None => Ok(true),
        CopyOption::Text(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "on" | "1" => Ok(true),
            "false" | "off" | "0" => Ok(false),
            _ => Err(syntax(&format!("{name} requires a Boolean value"), at)),
        },
        _ => Err(syntax(&format!("{name} requires a Boolean value"), at)),
    }
}

fn utf8(name: &str, at: At) -> SqlResult<()> {
    match name.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
        "utf8" | "unicode" => Ok(()),
        _ => {
            Err(SqlError::not_supported(format_args!("COPY encoding \"{name}\"")).at(at.position()))
        }
    }
}

fn syntax(message: &str, at: At) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message).at(at.position())
}
