//! The session's settings: SET, SHOW, RESET, set_config.
//!
//! Invariants: a value is checked before it is kept, so readers parse without failing. Changes
//! made in a transaction are undone when it rolls back; LOCAL ones when it ends. A parameter that
//! would change what statements mean, in a way that is not built, is refused, not ignored.

mod parameters;
mod read_from;

use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::SettingDescription;
use crate::plan::Choices;
use crate::types::datetime::TimeZone;
pub use parameters::SERVER_VERSION;
use parameters::{Kind, PARAMETERS, Parameter};
pub(super) use read_from::{READ_FROM, ReadFrom};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

/// The parameters by their exact names: every statement asks for some.
static BY_NAME: LazyLock<HashMap<&'static str, &'static Parameter>> =
    LazyLock::new(|| PARAMETERS.iter().map(|parameter| (parameter.name, parameter)).collect());

fn find(name: &str) -> Option<&'static Parameter> {
    if let Some(parameter) = BY_NAME.get(name) {
        return Some(parameter);
    }
    let name = match name.to_ascii_lowercase().as_str() {
        "timezone" | "time zone" => "TimeZone",
        "transaction isolation level" => "transaction_isolation",
        "session characteristics" => return None,
        _ => name,
    };
    PARAMETERS.iter().find(|parameter| parameter.name.eq_ignore_ascii_case(name))
}

/// 42704.
pub fn unrecognized(name: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_OBJECT,
        format!("unrecognized configuration parameter \"{name}\""),
    )
}

/// The settings of one session.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    values: BTreeMap<String, String>,
    /// What RESET goes back to, where it is not the parameter's own default.
    defaults: BTreeMap<String, String>,
    /// The values before the transaction's first change.
    before: Option<BTreeMap<String, String>>,
    /// Changes by SET LOCAL, with what they replaced.
    local: Vec<(String, Option<String>)>,
    /// Reported parameters that changed since last asked.
    changed: Vec<&'static str>,
    /// Grows when the search path changes.
    pub path_version: u64,
    /// Grows when any value changes.
    pub version: u64,
}

impl Settings {
    /// The value of a parameter, by any case of its name.
    pub fn get(&self, name: &str) -> Option<String> {
        let parameter = find(name);
        let key = parameter
            .map_or_else(|| Cow::Owned(name.to_ascii_lowercase()), |p| Cow::Borrowed(p.name));
        if let Some(value) = self.values.get(&*key).or_else(|| self.defaults.get(&*key)) {
            return Some(value.clone());
        }
        parameter.map(|parameter| parameter.default.to_owned())
    }

    /// The value of a parameter that exists.
    pub fn known(&self, name: &str) -> String {
        self.get(name).unwrap_or_default()
    }

    /// An integer parameter's value.
    pub fn integer(&self, name: &str) -> i64 {
        self.known(name).parse().unwrap_or(0)
    }

    /// A boolean parameter's value.
    pub fn boolean(&self, name: &str) -> bool {
        self.known(name) == "on"
    }

    /// What the planner is told.
    pub fn choices(&self) -> Choices {
        Choices {
            work_bytes: u64::try_from(self.integer("work_mem")).unwrap_or(0) * 1024,
            hash_join: self.boolean("enable_hashjoin"),
            merge_join: self.boolean("enable_mergejoin"),
            loop_join: self.boolean("enable_nestloop"),
            index_scan: self.boolean("enable_indexscan"),
            hash_groups: self.boolean("enable_hashagg"),
            indexes_before: None,
        }
    }

    /// As SHOW prints it.
    pub fn show(&self, name: &str) -> SqlResult<(String, String)> {
        let shown = find(name).map_or_else(|| name.to_owned(), |p| p.name.to_owned());
        let value = self.get(name).ok_or_else(|| unrecognized(name))?;
        let value = match find(name).map(|p| p.kind) {
            Some(Kind::Int(_, _, unit) | Kind::AtStart(_, _, unit)) => with_unit(&value, unit),
            _ => value,
        };
        Ok((shown, value))
    }

    /// All parameters, for SHOW ALL.
    pub fn all(&self) -> Vec<(String, String)> {
        PARAMETERS.iter().filter_map(|p| self.show(p.name).ok()).collect()
    }

    /// All parameters, for pg_settings.
    pub fn describe(&self) -> Vec<SettingDescription> {
        PARAMETERS.iter().map(|parameter| self.description(parameter)).collect()
    }

    fn description(&self, parameter: &Parameter) -> SettingDescription {
        let name = parameter.name;
        let (mut least, mut most, mut unit, mut choices) = (None, None, None, Vec::new());
        let kind = match parameter.kind {
            Kind::Bool => "bool",
            Kind::Real => "real",
            Kind::Int(from, to, letter) | Kind::AtStart(from, to, letter) => {
                (least, most) = (Some(from.to_string()), Some(to.to_string()));
                unit = match letter {
                    'k' => Some("kB"),
                    'm' => Some("ms"),
                    _ => None,
                };
                "integer"
            }
            Kind::OneOf(allowed) => {
                choices = allowed.iter().map(|&choice| choice.to_owned()).collect();
                "enum"
            }
            Kind::Text
            | Kind::Only(_)
            | Kind::Encoding
            | Kind::Path
            | Kind::Zone
            | Kind::ReadFrom
            | Kind::Fixed
            | Kind::TextAtStart => "string",
        };
        let source = match (self.values.contains_key(name), self.defaults.contains_key(name)) {
            (true, _) => "session",
            (false, true) if parameter.kind.is_at_start() => "override",
            (false, true) => "client",
            (false, false) => "default",
        };
        SettingDescription {
            name,
            value: self.known(name),
            unit,
            context: match parameter.kind {
                Kind::Fixed => "internal",
                kind if kind.is_at_start() => "postmaster",
                _ => "user",
            },
            kind,
            source,
            least,
            most,
            choices,
            boot: parameter.default,
            reset: self.defaults.get(name).map_or(parameter.default, String::as_str).to_owned(),
        }
    }

    /// Reported parameters and their values.
    pub fn reported(&self) -> Vec<(&'static str, String)> {
        let reported = PARAMETERS.iter().filter(|parameter| parameter.reported);
        reported.map(|parameter| (parameter.name, self.known(parameter.name))).collect()
    }

    /// Sets a parameter. `local`: until the transaction ends. 42704, 22023, 55P02, 0A000.
    pub fn set(&mut self, name: &str, values: &[String], local: bool) -> SqlResult<()> {
        let (key, value) = match find(name) {
            Some(parameter) => (parameter.name.to_owned(), check(parameter, values)?),
            // Parameters of extensions that are not there keep any value, as in PostgreSQL.
            None if name.contains('.') => (name.to_ascii_lowercase(), values.join(", ")),
            None => return Err(unrecognized(name)),
        };
        self.put(key, Some(value), local);
        Ok(())
    }

    /// Back to the default.
    pub fn reset(&mut self, name: &str, local: bool) -> SqlResult<()> {
        match find(name) {
            Some(parameter) if matches!(parameter.kind, Kind::Fixed) => Err(fixed(parameter.name)),
            Some(parameter) if parameter.kind.is_at_start() => Err(at_start(parameter.name)),
            Some(parameter) => {
                self.put(parameter.name.to_owned(), None, local);
                Ok(())
            }
            None if name.contains('.') => {
                self.put(name.to_ascii_lowercase(), None, local);
                Ok(())
            }
            None => Err(unrecognized(name)),
        }
    }

    /// RESET ALL.
    pub fn reset_all(&mut self) {
        let names: Vec<String> = self.values.keys().cloned().collect();
        for name in names {
            self.put(name, None, false);
        }
    }

    /// A default of this session, from the startup packet.
    pub fn set_default(&mut self, name: &str, value: &str) -> SqlResult<()> {
        let Some(parameter) = find(name) else {
            if !name.contains('.') {
                return Err(unrecognized(name));
            }
            // An extension's, or a program's own.
            self.defaults.insert(name.to_ascii_lowercase(), value.to_owned());
            self.version += 1;
            return Ok(());
        };
        let value = match parameter.kind {
            Kind::Path => check(parameter, &value.split(',').map(unquote).collect::<Vec<_>>())?,
            _ => check(parameter, &[value.to_owned()])?,
        };
        self.defaults.insert(parameter.name.to_owned(), value);
        self.path_version += 1;
        self.version += 1;
        Ok(())
    }

    /// A fixed parameter's value in this session.
    pub fn set_fixed(&mut self, name: &str, value: &str) {
        self.defaults.insert(name.to_owned(), value.to_owned());
    }

    /// The value that the server was started with, in the parameter's unit.
    pub fn set_at_start(&mut self, name: &str, value: impl ToString) {
        let value = value.to_string();
        if find(name).is_some_and(|parameter| parameter.default != value) {
            self.defaults.insert(name.to_owned(), value);
        }
    }

    fn put(&mut self, key: String, value: Option<String>, local: bool) {
        let old = self.known(&key);
        if local {
            self.local.push((key.clone(), self.values.get(&key).cloned()));
        } else if self.before.is_none() {
            self.before = Some(self.values.clone());
        }
        match value {
            Some(value) => self.values.insert(key.clone(), value),
            None => self.values.remove(&key),
        };
        self.note(&key, &old);
    }

    fn note(&mut self, key: &str, old: &str) {
        if self.known(key) == old {
            return;
        }
        self.version += 1;
        if key == "search_path" {
            self.path_version += 1;
        }
        if let Some(parameter) = find(key).filter(|parameter| parameter.reported) {
            self.changed.push(parameter.name);
        }
    }

    /// The transaction ended: LOCAL changes go; all of its changes go if it rolled back.
    pub fn end_transaction(&mut self, committed: bool) {
        if self.before.is_none() && self.local.is_empty() {
            return;
        }
        let old = self.clone();
        let locals = std::mem::take(&mut self.local);
        for (key, value) in locals.into_iter().rev() {
            match value {
                Some(value) => self.values.insert(key, value),
                None => self.values.remove(&key),
            };
        }
        if let Some(before) = self.before.take()
            && !committed
        {
            self.values = before;
        }
        for parameter in PARAMETERS {
            self.note(parameter.name, &old.known(parameter.name));
        }
    }

    /// A savepoint was rolled back to: everything is as it was there.
    pub fn go_back(&mut self, to: &Settings) {
        let old = self.clone();
        self.values.clone_from(&to.values);
        self.local.clone_from(&to.local);
        self.before.clone_from(&to.before);
        for parameter in PARAMETERS {
            self.note(parameter.name, &old.known(parameter.name));
        }
    }

    /// Takes the reported parameters that changed, with their values.
    pub fn take_changed(&mut self) -> Vec<(&'static str, String)> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|name| (name, self.known(name))).collect()
    }

    /// The schemas of search_path.
    pub fn search_path(&self) -> Vec<String> {
        split_path(&self.known("search_path"))
    }
}

fn fixed(name: &str) -> SqlError {
    SqlError::new(
        SqlState::CANT_CHANGE_RUNTIME_PARAM,
        format!("parameter \"{name}\" cannot be changed"),
    )
}

fn at_start(name: &str) -> SqlError {
    SqlError::new(
        SqlState::CANT_CHANGE_RUNTIME_PARAM,
        format!("parameter \"{name}\" cannot be changed without restarting the server"),
    )
}

fn unquote(part: &str) -> String {
    part.trim().trim_matches('"').to_owned()
}

/// Splits a search path at its commas, quotes taken off.
fn split_path(path: &str) -> Vec<String> {
    path.split(',').map(unquote).filter(|part| !part.is_empty()).collect()
}

fn invalid(name: &str, value: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("invalid value for parameter \"{name}\": \"{value}\""),
    )
}

fn check(parameter: &Parameter, values: &[String]) -> SqlResult<String> {
    let value = values.join(", ");
    let name = parameter.name;
    let lower = value.to_ascii_lowercase();
    match parameter.kind {
        Kind::Fixed => Err(fixed(name)),
        Kind::AtStart(..) | Kind::TextAtStart => Err(at_start(name)),
        Kind::Text => Ok(value),
        Kind::Bool => {
            boolean(&lower).map(|on| if on { "on" } else { "off" }.to_owned()).ok_or_else(|| {
                SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("parameter \"{name}\" requires a Boolean value"),
                )
            })
        }
        Kind::Real => match value.trim().parse::<f64>() {
            Ok(number) if number >= 0.0 => Ok(value),
            _ => Err(invalid(name, &value)),
        },
        Kind::Int(least, most, unit) => {
            let number = integer(&lower, unit).ok_or_else(|| invalid(name, &value))?;
            if number < least || number > most {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!(
                        "{number} is outside the valid range for parameter \"{name}\" ({least} .. {most})"
                    ),
                ));
            }
            Ok(number.to_string())
        }
        Kind::OneOf(allowed) => {
            // synchronous_commit takes booleans, too.
            let word = match (allowed.contains(&"off"), boolean(&lower)) {
                (true, Some(on)) => if on { "on" } else { "off" }.to_owned(),
                _ => lower,
            };
            if allowed.contains(&word.as_str()) { Ok(word) } else { Err(invalid(name, &value)) }
        }
        Kind::Only(allowed) => {
            if allowed.contains(&lower.as_str()) {
                return Ok(if matches!(name, "idle_session_timeout") {
                    "0"
                } else {
                    parameter.default
                }
                .to_owned());
            }
            Err(SqlError::not_supported(format!(
                "the value \"{value}\" of the parameter \"{name}\""
            )))
        }
        Kind::Encoding => encoding(&lower).map(str::to_owned).ok_or_else(|| {
            SqlError::not_supported(format!("the value \"{value}\" of the parameter \"{name}\""))
        }),
        Kind::Path => Ok(values.iter().map(|part| quoted(part)).collect::<Vec<_>>().join(", ")),
        Kind::ReadFrom => match ReadFrom::parse(&value) {
            Some(_) => Ok(lower),
            None => Err(invalid(name, &value)
                .hint("Use 'current', 'checkpoint', or the number of a checkpoint that is kept.")),
        },
        Kind::Zone => match TimeZone::named(&value) {
            Some(zone) => Ok(zone.name().to_owned()),
            None if matches!(lower.as_str(), "default" | "local") => Ok("UTC".to_owned()),
            None => Err(invalid(name, &value)),
        },
    }
}

/// An encoding's name, of which PostgreSQL looks at letters and digits only: "'utf-8'" is one, too.
fn encoding(lower: &str) -> Option<&'static str> {
    let word: String = lower.chars().filter(char::is_ascii_alphanumeric).collect();
    match word.as_str() {
        "utf8" | "unicode" => Some("UTF8"),
        // No conversion; what comes is checked all the same.
        "sqlascii" => Some("SQL_ASCII"),
        _ => None,
    }
}

fn quoted(part: &str) -> String {
    let plain = part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !part.starts_with(|c: char| c.is_ascii_digit())
        && !part.is_empty();
    if plain { part.to_owned() } else { format!("\"{part}\"") }
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "on" | "true" | "yes" | "1" | "t" | "y" => Some(true),
        "off" | "false" | "no" | "0" | "f" | "n" => Some(false),
        _ => None,
    }
}

/// An integer with an optional unit, in kilobytes (`k`) or milliseconds (`m`).
fn integer(text: &str, unit: char) -> Option<i64> {
    let text = text.trim();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '-')).unwrap_or(text.len());
    let number: i64 = text[..digits].parse().ok()?;
    let factor = match (unit, text[digits..].trim()) {
        (_, "") => 1,
        ('k', "kb") | ('m', "ms") => 1,
        ('k', "mb") => 1024,
        ('k', "gb") => 1024 * 1024,
        ('m', "s") => 1000,
        ('m', "min") => 60_000,
        ('m', "h") => 3_600_000,
        ('m', "d") => 86_400_000,
        _ => return None,
    };
    number.checked_mul(factor)
}

fn with_unit(value: &str, unit: char) -> String {
    let Ok(number) = value.parse::<i64>() else { return value.to_owned() };
    let (name, steps): (&str, &[(i64, &str)]) = match unit {
        'k' => ("kB", &[(1024 * 1024, "GB"), (1024, "MB")]),
        'm' => ("ms", &[(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")]),
        _ => return value.to_owned(),
    };
    // 0 and -1 have meanings of their own.
    if number <= 0 {
        return number.to_string();
    }
    for (size, step) in steps {
        if number % size == 0 {
            return format!("{}{step}", number / size);
        }
    }
    format!("{number}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, value: &str, expect: Result<&str, &str>) {
        let mut settings = Settings::default();
        let result = settings.set(name, &[value.to_owned()], false);
        match expect {
            Ok(shown) => {
                result.unwrap();
                assert_eq!(settings.show(name).unwrap().1, shown);
            }
            Err(state) => assert_eq!(result.unwrap_err().sqlstate().as_str(), state, "{name}"),
        }
    }

    #[test]
    fn values_are_checked_and_shown() {
        check("client_encoding", "utf-8", Ok("UTF8"));
        check("client_encoding", "'utf-8'", Ok("UTF8"));
        check("client_encoding", "SQL_ASCII", Ok("SQL_ASCII"));
        check("client_encoding", "latin1", Err("0A000"));
        check("extra_float_digits", "3", Ok("3"));
        check("extra_float_digits", "4", Err("22023"));
        check("statement_timeout", "2s", Ok("2s"));
        check("statement_timeout", "1500", Ok("1500ms"));
        check("work_mem", "64MB", Ok("64MB"));
        check("synchronous_commit", "false", Ok("off"));
        check("default_transaction_isolation", "Repeatable Read", Ok("repeatable read"));
        check("standard_conforming_strings", "off", Err("0A000"));
        check("nonsense", "1", Err("42704"));
        check("my.own", "1", Ok("1"));
        check("server_version", "1", Err("55P02"));
        check("jit", "maybe", Err("22023"));
    }

    #[test]
    fn changes_follow_their_transaction() {
        let mut settings = Settings::default();
        let set = |settings: &mut Settings, value: &str, local| {
            settings.set("application_name", &[value.to_owned()], local).unwrap();
        };
        set(&mut settings, "a", false);
        settings.end_transaction(true);
        set(&mut settings, "b", true);
        assert_eq!(settings.known("application_name"), "b");
        settings.end_transaction(true);
        assert_eq!(settings.known("application_name"), "a");
        set(&mut settings, "c", false);
        settings.end_transaction(false);
        assert_eq!(settings.known("application_name"), "a");
        let changed = settings.take_changed();
        assert!(changed.iter().all(|(name, value)| *name == "application_name" && value == "a"));
    }
}
