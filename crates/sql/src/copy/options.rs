//! COPY's options, checked as PostgreSQL checks them: each by itself first, then against the
//! format and the direction, in PostgreSQL's order, so that the same one is complained of.
//!
//! Invariants: a [`CopyFormat`] holds only combinations that PostgreSQL allows; whether columns
//! named in an option exist is checked by whoever knows the columns ([`CopyFormat::resolve`]).

use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::ast::At;
use crate::parse::statement::{CopyDirection, CopyOption};

/// Text, CSV or binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One line a row, backslash escapes.
    Text,
    /// Comma-separated values.
    Csv,
    /// Length-prefixed binary values.
    Binary,
}

/// Whether a header line is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// No.
    None,
    /// Yes: written, or passed over.
    Line,
    /// Yes, and it must name the columns.
    Match,
}

/// The columns an option is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Columns {
    /// None.
    #[default]
    None,
    /// `*`.
    All,
    /// Those named.
    Named(Vec<String>),
}

/// How COPY's data looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyFormat {
    /// Text, CSV or binary.
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
    /// FREEZE was asked for; without meaning for COPY TO.
    pub freeze: bool,
    /// CSV, out: columns whose values are always quoted.
    pub force_quote: Columns,
    /// CSV, in: columns in which the null string is a value.
    pub force_not_null: Columns,
    /// CSV, in: columns in which the quoted null string is NULL, too.
    pub force_null: Columns,
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
            force_quote: Columns::None,
            force_not_null: Columns::None,
            force_null: Columns::None,
        }
    }
}

/// The options as written, before they are checked against each other.
#[derive(Default)]
struct Written<'o> {
    delimiter: Option<&'o str>,
    null: Option<&'o str>,
    quote: Option<&'o str>,
    escape: Option<&'o str>,
}

impl CopyFormat {
    /// Reads the options. Errors: 22023, 42601, 0A000 by name and position.
    pub fn from_options(
        options: &[(String, CopyOption, At)],
        direction: CopyDirection,
    ) -> SqlResult<CopyFormat> {
        let mut format = CopyFormat::default();
        let mut written = Written::default();
        let mut seen: Vec<&str> = Vec::new();
        for (name, value, at) in options {
            if seen.contains(&name.as_str()) {
                return Err(syntax("conflicting or redundant options").at(at.position()));
            }
            seen.push(name);
            match name.as_str() {
                "format" => format.form = form(value, *at)?,
                "freeze" => format.freeze = boolean(name, value)?,
                "delimiter" => written.delimiter = Some(text(name, value)?),
                "null" => written.null = Some(text(name, value)?),
                "header" => format.header = header(value, direction)?,
                "quote" => written.quote = Some(text(name, value)?),
                "escape" => written.escape = Some(text(name, value)?),
                "force_quote" => format.force_quote = columns(name, value, *at)?,
                "force_not_null" | "force_null" if *value == CopyOption::Star => {
                    return Err(no_column_list(name, *at));
                }
                "force_not_null" => format.force_not_null = columns(name, value, *at)?,
                "force_null" => format.force_null = columns(name, value, *at)?,
                "encoding" => encoding(value, *at)?,
                other => {
                    let message = format!("option \"{other}\" not recognized");
                    return Err(syntax(message).at(at.position()));
                }
            }
        }
        format.take_characters(&written)?;
        format.check_columns(direction)?;
        format.check_null()?;
        Ok(format)
    }

    /// The delimiter, the null string, quote and escape, each against the format.
    fn take_characters(&mut self, written: &Written<'_>) -> SqlResult<()> {
        let (is_csv, is_binary) = (self.form == Form::Csv, self.form == Form::Binary);
        if is_binary && written.delimiter.is_some() {
            return Err(syntax("cannot specify DELIMITER in BINARY mode"));
        }
        if is_binary && written.null.is_some() {
            return Err(syntax("cannot specify NULL in BINARY mode"));
        }
        if is_csv {
            self.delimiter = b',';
            self.null = String::new();
        }
        if let Some(delimiter) = written.delimiter {
            self.delimiter = one_byte("delimiter", delimiter)?;
        }
        if let Some(null) = written.null {
            null.clone_into(&mut self.null);
        }
        if matches!(self.delimiter, b'\n' | b'\r') {
            return Err(invalid("COPY delimiter cannot be newline or carriage return"));
        }
        if self.null.contains(['\n', '\r']) {
            return Err(invalid("COPY null representation cannot use newline or carriage return"));
        }
        let letters = b"\\.abcdefghijklmnopqrstuvwxyz0123456789";
        if !is_csv && letters.contains(&self.delimiter) {
            let shown = char::from(self.delimiter);
            return Err(invalid(format!("COPY delimiter cannot be \"{shown}\"")));
        }
        if is_binary && self.header != Header::None {
            return Err(unsupported("cannot specify HEADER in BINARY mode"));
        }
        if !is_csv && written.quote.is_some() {
            return Err(unsupported("COPY quote available only in CSV mode"));
        }
        if let Some(quote) = written.quote {
            self.quote = one_byte("quote", quote)?;
        }
        if is_csv && self.delimiter == self.quote {
            return Err(invalid("COPY delimiter and quote must be different"));
        }
        if !is_csv && written.escape.is_some() {
            return Err(unsupported("COPY escape available only in CSV mode"));
        }
        self.escape = match written.escape {
            Some(escape) => one_byte("escape", escape)?,
            None => self.quote,
        };
        Ok(())
    }

    /// The options with columns, against the format and the direction.
    fn check_columns(&self, direction: CopyDirection) -> SqlResult<()> {
        for (columns, what, only, command) in [
            (&self.force_quote, "force quote", CopyDirection::Out, "TO"),
            (&self.force_not_null, "force not null", CopyDirection::In, "FROM"),
            (&self.force_null, "force null", CopyDirection::In, "FROM"),
        ] {
            if *columns == Columns::None {
                continue;
            }
            if self.form != Form::Csv {
                return Err(unsupported(format!("COPY {what} available only in CSV mode")));
            }
            if direction != only {
                return Err(unsupported(format!(
                    "COPY {what} only available using COPY {command}"
                )));
            }
        }
        Ok(())
    }

    fn check_null(&self) -> SqlResult<()> {
        if self.null.bytes().any(|byte| byte == self.delimiter) {
            return Err(unsupported("COPY delimiter must not appear in the NULL specification"));
        }
        if self.form == Form::Csv && self.null.bytes().any(|byte| byte == self.quote) {
            return Err(unsupported(
                "CSV quote character must not appear in the NULL specification",
            ));
        }
        Ok(())
    }

    /// Checks that the columns named in options are among the `names` that are copied; `missing`
    /// is the error for a name that is no column at all. Errors: 42P10, and what `missing` says.
    pub fn resolve(
        &self,
        names: &[String],
        missing: impl Fn(&str) -> Option<SqlError>,
    ) -> SqlResult<()> {
        for (columns, option) in [
            (&self.force_quote, "FORCE_QUOTE"),
            (&self.force_not_null, "FORCE_NOT_NULL"),
            (&self.force_null, "FORCE_NULL"),
        ] {
            let Columns::Named(list) = columns else { continue };
            if let Some(column) = list.iter().find(|column| !names.contains(column)) {
                return Err(missing(column).unwrap_or_else(|| {
                    SqlError::new(
                        SqlState::INVALID_COLUMN_REFERENCE,
                        format!("{option} column \"{column}\" not referenced by COPY"),
                    )
                }));
            }
        }
        Ok(())
    }
}

impl Columns {
    /// One answer a column: is the option for it?
    pub(super) fn mask(&self, names: &[String]) -> Vec<bool> {
        names
            .iter()
            .map(|name| match self {
                Columns::None => false,
                Columns::All => true,
                Columns::Named(list) => list.contains(name),
            })
            .collect()
    }
}

fn form(value: &CopyOption, at: At) -> SqlResult<Form> {
    match text("format", value)? {
        "text" => Ok(Form::Text),
        "csv" => Ok(Form::Csv),
        "binary" => Ok(Form::Binary),
        other => Err(invalid(format!("COPY format \"{other}\" not recognized")).at(at.position())),
    }
}

fn header(value: &CopyOption, direction: CopyDirection) -> SqlResult<Header> {
    if let CopyOption::Text(text) = value
        && text.eq_ignore_ascii_case("match")
    {
        if direction == CopyDirection::Out {
            return Err(unsupported("cannot use \"match\" with HEADER in COPY TO"));
        }
        return Ok(Header::Match);
    }
    match boolean("header", value) {
        Ok(true) => Ok(Header::Line),
        Ok(false) => Ok(Header::None),
        Err(_) => Err(syntax("header requires a Boolean value or \"match\"")),
    }
}

fn columns(name: &str, value: &CopyOption, at: At) -> SqlResult<Columns> {
    match value {
        CopyOption::Star => Ok(Columns::All),
        CopyOption::List(list) => Ok(Columns::Named(list.clone())),
        _ => Err(no_column_list(name, at)),
    }
}

fn no_column_list(name: &str, at: At) -> SqlError {
    invalid(format!("argument to option \"{name}\" must be a list of column names"))
        .at(at.position())
}

fn text<'v>(name: &str, value: &'v CopyOption) -> SqlResult<&'v str> {
    match value {
        CopyOption::Text(text) => Ok(text),
        _ => Err(syntax(format!("{name} requires a parameter"))),
    }
}

fn one_byte(name: &str, value: &str) -> SqlResult<u8> {
    match value.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(unsupported(format!("COPY {name} must be a single one-byte character"))),
    }
}

fn boolean(name: &str, value: &CopyOption) -> SqlResult<bool> {
    let wrong = || syntax(format!("{name} requires a Boolean value"));
    match value {
        CopyOption::None => Ok(true),
        CopyOption::Text(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "on" | "1" => Ok(true),
            "false" | "off" | "0" => Ok(false),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

/// Encodings that PostgreSQL knows, without punctuation; of them only UTF8 is here.
const ENCODINGS: &[&str] = &[
    "sqlascii",
    "latin1",
    "latin2",
    "latin3",
    "latin4",
    "latin5",
    "latin6",
    "latin7",
    "latin8",
    "latin9",
    "latin10",
    "iso88591",
    "iso885915",
    "iso88595",
    "iso88596",
    "iso88597",
    "iso88598",
    "win1250",
    "win1251",
    "win1252",
    "win1253",
    "win1254",
    "win1255",
    "win1256",
    "win1257",
    "win1258",
    "win866",
    "win874",
    "koi8r",
    "koi8u",
    "eucjp",
    "euccn",
    "euckr",
    "euctw",
    "big5",
    "gbk",
    "gb18030",
    "sjis",
    "johab",
    "uhc",
    "shiftjis2004",
    "eucjis2004",
    "muleinternal",
];

fn encoding(value: &CopyOption, at: At) -> SqlResult<()> {
    let CopyOption::Text(name) = value else { return Err(syntax("encoding requires a parameter")) };
    let plain = name.to_ascii_lowercase().replace(['-', '_', ' '], "");
    match plain.as_str() {
        "utf8" | "unicode" => Ok(()),
        known if ENCODINGS.contains(&known) => {
            Err(SqlError::not_supported(format_args!("COPY encoding \"{name}\"")).at(at.position()))
        }
        _ => Err(invalid("argument to option \"encoding\" must be a valid encoding name")
            .at(at.position())),
    }
}

fn syntax(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn unsupported(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}
