//! LIKE, POSIX regular expressions and SIMILAR TO.
//!
//! Regular expressions run on the `regex` crate, which needs linear time and has neither
//! back-references nor look-around: those are refused by name (0A000). The translation covers
//! what else differs: word escapes, brackets, embedded options, literal braces.

use super::FunctionContext;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::Datum;
use regex::{Regex, RegexBuilder};
use std::cell::RefCell;
use std::collections::HashMap;

type Context<'a> = &'a dyn FunctionContext;

/// Compiled patterns of a session or an instance; cleared when it has grown.
#[derive(Default)]
pub struct PatternCache {
    compiled: RefCell<HashMap<(String, String), Regex>>,
}

const CACHED_MAX: usize = 64;

impl PatternCache {
    /// The pattern compiled with these flags, from the cache or anew.
    fn get(&self, pattern: &str, flags: &str) -> SqlResult<Regex> {
        let key = (pattern.to_owned(), flags.to_owned());
        if let Some(found) = self.compiled.borrow().get(&key) {
            return Ok(found.clone());
        }
        let compiled = build(pattern, flags)?;
        let mut cache = self.compiled.borrow_mut();
        if cache.len() >= CACHED_MAX {
            cache.clear();
        }
        cache.insert(key, compiled.clone());
        Ok(compiled)
    }
}

/// Compiles a POSIX (ARE) pattern with PostgreSQL's flags (`i`, `n`, `x` ..). Errors 2201B, 0A000.
pub(in crate::functions) fn compile(
    pattern: &str,
    flags: &str,
    context: Context,
) -> SqlResult<Regex> {
    match context.patterns() {
        Some(cache) => cache.get(pattern, flags),
        None => build(pattern, flags),
    }
}

fn invalid(what: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_REGULAR_EXPRESSION,
        format!("invalid regular expression: {what}"),
    )
}

#[derive(Clone, Copy, Default)]
struct Options {
    insensitive: bool,
    /// `.` and brackets do not match newline.
    newline_stops: bool,
    /// `^` and `$` match at newlines.
    newline_anchors: bool,
    expanded: bool,
    literal: bool,
}

impl Options {
    fn set(&mut self, flag: char) -> bool {
        match flag {
            'i' => self.insensitive = true,
            'c' => self.insensitive = false,
            'n' | 'm' => (self.newline_stops, self.newline_anchors) = (true, true),
            'p' => (self.newline_stops, self.newline_anchors) = (true, false),
            'w' => (self.newline_stops, self.newline_anchors) = (false, true),
            's' => (self.newline_stops, self.newline_anchors) = (false, false),
            'x' => self.expanded = true,
            't' => self.expanded = false,
            'q' => self.literal = true,
            'e' | 'b' => {}
            _ => return false,
        }
        true
    }
}

fn build(pattern: &str, flags: &str) -> SqlResult<Regex> {
    let mut options = Options::default();
    for flag in flags.chars() {
        if !options.set(flag) {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid regular expression option: \"{flag}\""),
            ));
        }
    }
    let mut body = pattern;
    if let Some(rest) = body.strip_prefix("***=") {
        (options.literal, body) = (true, rest);
    } else if let Some(rest) = body.strip_prefix("***:") {
        body = rest;
    }
    if !options.literal
        && body.starts_with("(?")
        && body[2..].starts_with(|c: char| c.is_ascii_lowercase())
    {
        let end = body.find(')').ok_or_else(|| invalid("parentheses () not balanced"))?;
        if !body[2..end].chars().all(|flag| options.set(flag)) {
            return Err(invalid("invalid embedded option"));
        }
        body = &body[end + 1..];
    }
    let translated = if options.literal { regex::escape(body) } else { translate(body)? };
    RegexBuilder::new(&translated)
        .case_insensitive(options.insensitive)
        .dot_matches_new_line(!options.newline_stops)
        .multi_line(options.newline_anchors)
        .ignore_whitespace(options.expanded)
        .size_limit(32 << 20)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => invalid("regular expression is too complex"),
            other => {
                let text = other.to_string();
                let reason = text.lines().last().unwrap_or("").trim_start_matches("error: ");
                invalid(reason)
            }
        })
}

fn translate(pattern: &str) -> SqlResult<String> {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut chars = pattern.chars().peekable();
    // Does the text so far end in a quantifier? Another one may not follow.
    let mut quantified = false;
    while let Some(c) = chars.next() {
        let bound = c == '{' && chars.peek().is_some_and(char::is_ascii_digit);
        if quantified && (bound || matches!(c, '*' | '+' | '?')) {
            return Err(invalid("quantifier operand invalid"));
        }
        quantified = matches!(c, '*' | '+' | '?') || c == '}' && open_brace(&out);
        if quantified {
            out.push(c);
            out.extend(chars.next_if_eq(&'?'));
            continue;
        }
        match c {
            '\\' => escape(&mut chars, &mut out, Place::Outside)?,
            '[' => bracket(&mut chars, &mut out)?,
            '(' if chars.peek() == Some(&'?') => {
                chars.next();
                match chars.next() {
                    Some(':') => out.push_str("(?:"),
                    Some('=' | '!' | '<') => {
                        return Err(SqlError::not_supported("look-around in a regular expression"));
                    }
                    _ => return Err(invalid("quantifier operand invalid")),
                }
            }
            '{' if !bound => out.push_str("\\{"),
            '}' => out.push_str("\\}"),
            other => out.push(other),
        }
    }
    Ok(out)
}

/// Is a bound like `{2,` open at the end of the text?
fn open_brace(out: &str) -> bool {
    let start = out.trim_end_matches(|c: char| c.is_ascii_digit() || c == ',');
    start.ends_with('{') && !start.ends_with("\\{")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    Bracket,
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn escape(chars: &mut Chars, out: &mut String, place: Place) -> SqlResult<()> {
    let c = chars.next().ok_or_else(|| invalid("invalid escape \\ sequence"))?;
    let outside = place == Place::Outside;
    match c {
        'y' if outside => out.push_str("\\b"),
        'Y' if outside => out.push_str("\\B"),
        'm' if outside => out.push_str("\\b{start}"),
        'M' if outside => out.push_str("\\b{end}"),
        'A' if outside => out.push_str("\\A"),
        'Z' if outside => out.push_str("\\z"),
        'd' | 'D' | 's' | 'S' | 'w' | 'W' => {
            out.push('\\');
            out.push(c);
        }
        'a' => out.push_str("\\x07"),
        'b' => out.push_str("\\x08"),
        'B' => out.push_str("\\\\"),
        'e' => out.push_str("\\x1B"),
        'f' | 'n' | 'r' | 't' | 'v' => {
            out.push('\\');
            out.push(c);
        }
        '0' => out.push_str("\\x00"),
        'u' | 'U' | 'x' => {
            let limit = match c {
                'u' => 4,
                'U' => 8,
                _ => 8,
            };
            let mut digits = String::new();
            while digits.len() < limit && chars.peek().is_some_and(char::is_ascii_hexdigit) {
                digits.extend(chars.next());
            }
            out.push_str(&format!("\\x{{{digits}}}"));
        }
        '1'..='9' if outside => {
            return Err(SqlError::not_supported("a back-reference in a regular expression"));
        }
        other if other.is_ascii_alphanumeric() => {
            return Err(invalid("invalid escape \\ sequence"));
        }
        other => {
            out.push('\\');
            out.push(other);
        }
    }
    Ok(())
}

fn bracket(chars: &mut Chars, out: &mut String) -> SqlResult<()> {
    let unbalanced = || invalid("brackets [] not balanced");
    // Word boundaries written as brackets.
    let rest: String = chars.clone().take(6).collect();
    for (written, meant) in [("[:<:]]", "\\b{start}"), ("[:>:]]", "\\b{end}")] {
        if rest == written {
            chars.nth(5);
            out.push_str(meant);
            return Ok(());
        }
    }
    out.push('[');
    if chars.peek() == Some(&'^') {
        chars.next();
        out.push('^');
    }
    let mut first = true;
    loop {
        let c = chars.next().ok_or_else(unbalanced)?;
        match c {
            ']' if !first => break,
            ']' => out.push_str("\\]"),
            '\\' => escape(chars, out, Place::Bracket)?,
            '[' if matches!(chars.peek(), Some(':' | '.' | '=')) => {
                let kind = chars.next().ok_or_else(unbalanced)?;
                let mut name = String::new();
                loop {
                    let c = chars.next().ok_or_else(unbalanced)?;
                    if c == kind && chars.peek() == Some(&']') {
                        chars.next();
                        break;
                    }
                    name.push(c);
                }
                if kind == ':' {
                    out.push_str(character_class(&name)?);
                } else {
                    out.push_str(&regex::escape(&name));
                }
            }
            '[' | '&' | '~' => {
                out.push('\\');
                out.push(c);
            }
            '-' if first || chars.peek() == Some(&']') => out.push_str("\\-"),
            other => out.push(other),
        }
        first = false;
    }
    out.push(']');
    Ok(())
}

fn character_class(name: &str) -> SqlResult<&'static str> {
    Ok(match name {
        "alpha" => "\\p{Alphabetic}",
        "digit" => "0-9",
        "alnum" => "\\p{Alphabetic}\\p{Nd}",
        "upper" => "\\p{Uppercase}",
        "lower" => "\\p{Lowercase}",
        "space" => "\\s",
        "blank" => " \\t",
        "punct" => "[:punct:]",
        "cntrl" => "\\p{Cc}",
        "print" => "[:print:]",
        "graph" => "[:graph:]",
        "xdigit" => "0-9A-Fa-f",
        "word" => "\\w",
        _ => return Err(invalid("invalid character class")),
    })
}

fn matches(args: &[Datum], flags: &str, context: Context) -> SqlResult<bool> {
    Ok(compile(args[1].as_str(), flags, context)?.is_match(args[0].as_str()))
}

pub(in crate::functions) fn regex_match(args: &[Datum], context: Context) -> SqlResult<Datum> {
    matches(args, "", context).map(Datum::Bool)
}

pub(in crate::functions) fn regex_no_match(args: &[Datum], context: Context) -> SqlResult<Datum> {
    matches(args, "", context).map(|found| Datum::Bool(!found))
}

pub(in crate::functions) fn regex_match_insensitive(
    args: &[Datum],
    context: Context,
) -> SqlResult<Datum> {
    matches(args, "i", context).map(Datum::Bool)
}

pub(in crate::functions) fn regex_no_match_insensitive(
    args: &[Datum],
    context: Context,
) -> SqlResult<Datum> {
    matches(args, "i", context).map(|found| Datum::Bool(!found))
}

/// `text LIKE pattern` with backslash as the escape.
pub(crate) fn like_matches(text: &str, pattern: &str) -> SqlResult<bool> {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let (mut t, mut p) = (0, 0);
    // Where to go on after the last %: pattern and text position.
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() || p < pattern.len() {
        let step = match pattern.get(p) {
            Some(b'%') => {
                back = Some((p + 1, t));
                p += 1;
                continue;
            }
            Some(b'_') if t < text.len() => Some((1, char_bytes(text[t]))),
            Some(b'\\') => match pattern.get(p + 1) {
                None if t == text.len() => None,
                None => {
                    return Err(SqlError::new(
                        SqlState::INVALID_ESCAPE_SEQUENCE,
                        "LIKE pattern must not end with escape character",
                    ));
                }
                Some(byte) => (text.get(t) == Some(byte)).then_some((2, 1)),
            },
            Some(byte) => (text.get(t) == Some(byte)).then_some((1, 1)),
            None => None,
        };
        match (step, back) {
            (Some((pattern_bytes, text_bytes)), _) => {
                p += pattern_bytes;
                t += text_bytes;
            }
            (None, Some((after, from))) if from < text.len() => {
                let next = from + char_bytes(text[from]);
                back = Some((after, next));
                (p, t) = (after, next);
            }
            (None, _) => return Ok(false),
        }
    }
    Ok(true)
}

/// Bytes of the UTF-8 character that starts with this byte.
const fn char_bytes(first: u8) -> usize {
    match first {
        0..=0x7f => 1,
        0xe0..=0xef => 3,
        0xf0.. => 4,
        _ => 2,
    }
}

pub(in crate::functions) fn like(args: &[Datum], _: Context) -> SqlResult<Datum> {
    like_matches(args[0].as_str(), args[1].as_str()).map(Datum::Bool)
}

pub(in crate::functions) fn not_like(args: &[Datum], _: Context) -> SqlResult<Datum> {
    like_matches(args[0].as_str(), args[1].as_str()).map(|found| Datum::Bool(!found))
}

fn ilike_matches(args: &[Datum]) -> SqlResult<bool> {
    like_matches(&args[0].as_str().to_lowercase(), &args[1].as_str().to_lowercase())
}

pub(in crate::functions) fn ilike(args: &[Datum], _: Context) -> SqlResult<Datum> {
    ilike_matches(args).map(Datum::Bool)
}

pub(in crate::functions) fn not_ilike(args: &[Datum], _: Context) -> SqlResult<Datum> {
    ilike_matches(args).map(|found| Datum::Bool(!found))
}

/// `like_escape(pattern, escape)`: the pattern with backslash as its escape.
pub(in crate::functions) fn like_escape(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (pattern, escape) = (args[0].as_str(), args[1].as_str());
    let escape = single_escape(escape)?;
    let mut out = String::with_capacity(pattern.len() + 4);
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if Some(c) == escape {
            out.push('\\');
            out.extend(chars.next());
        } else if c == '\\' {
            out.push_str("\\\\");
        } else {
            out.push(c);
        }
    }
    Ok(out.into())
}

fn single_escape(escape: &str) -> SqlResult<Option<char>> {
    let mut chars = escape.chars();
    let first = chars.next();
    if chars.next().is_some() {
        return Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
            .hint("Escape string must be empty or one character."));
    }
    Ok(first)
}

/// `similar_to_escape(pattern [, escape])`: the pattern as a POSIX one.
pub(in crate::functions) fn similar_to_escape(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let escape = match args.get(1) {
        Some(escape) => single_escape(escape.as_str())?,
        None => Some('\\'),
    };
    let mut out = String::from("^(?:");
    let mut chars = args[0].as_str().chars();
    let mut bracket = false;
    while let Some(c) = chars.next() {
        if Some(c) == escape {
            if let Some(next) = chars.next() {
                out.push('\\');
                out.push(next);
            }
        } else if bracket {
            bracket = c != ']';
            if c == '\\' {
                out.push('\\');
            }
            out.push(c);
        } else {
            match c {
                '[' => {
                    bracket = true;
                    out.push('[');
                }
                '%' => out.push_str(".*"),
                '_' => out.push('.'),
                '(' => out.push_str("(?:"),
                '\\' | '.' | '^' | '$' => {
                    out.push('\\');
                    out.push(c);
                }
                other => out.push(other),
            }
        }
    }
    out.push_str(")$");
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::ConstantContext;

    #[track_caller]
    fn check_like(text: &str, pattern: &str, expect: bool) {
        assert_eq!(like_matches(text, pattern).ok(), Some(expect), "{text} LIKE {pattern}");
    }

    #[test]
    fn like_matches_as_in_postgresql() {
        check_like("abc", "abc", true);
        check_like("abc", "a%", true);
        check_like("abc", "%c", true);
        check_like("abc", "%b%", true);
        check_like("abc", "_b_", true);
        check_like("abc", "_b", false);
        check_like("abc", "", false);
        check_like("", "%", true);
        check_like("", "_", false);
        check_like("a%c", "a\\%c", true);
        check_like("abc", "a\\%c", false);
        check_like("äöü", "_ö_", true);
        check_like("aaab", "%a%ab", true);
        check_like("mississippi", "%iss%ippi", true);
        check_like("mississippi", "%iss%ippx", false);
        check_like("a", "a\\", false);
        let error = like_matches("ab", "a\\").expect_err("an escape of nothing");
        assert_eq!(error.sqlstate(), SqlState::INVALID_ESCAPE_SEQUENCE);
    }

    #[track_caller]
    fn check_regex(text: &str, pattern: &str, expect: &str) {
        let args = [Datum::from(text), Datum::from(pattern)];
        let got = match regex_match(&args, &ConstantContext) {
            Ok(value) => value.as_bool().to_string(),
            Err(error) => error.sqlstate().to_string(),
        };
        assert_eq!(got, expect, "{text} ~ {pattern}");
    }

    #[test]
    fn regular_expressions_match_as_in_postgresql() {
        check_regex("pgbench_accounts", "^(pgbench_accounts)$", "true");
        check_regex("foo bar", "\\ybar\\y", "true");
        check_regex("foobar", "\\mbar", "false");
        check_regex("abc", "[[:alpha:]]+", "true");
        check_regex("ab1", "^[[:alpha:]]+$", "false");
        check_regex("a\nb", "a.b", "true");
        check_regex("a\nb", "^b", "false");
        check_regex("a\nb", "(?n)^b", "true");
        check_regex("ABC", "(?i)abc", "true");
        check_regex("a.c", "***=a.c", "true");
        check_regex("abc", "***=a.c", "false");
        check_regex("a{b", "a{b", "true");
        check_regex("aa", "^a{2}$", "true");
        check_regex("a]", "[]a]+", "true");
        check_regex("a-b", "^[a-]+$", "false");
        check_regex("&&", "[&&]", "true");
        check_regex("x", "[[:<:]]x[[:>:]]", "true");
        check_regex("aa", "(a)\\1", "0A000");
        check_regex("ab", "a(?=b)", "0A000");
        check_regex("a", "(", "2201B");
        check_regex("a", "[a", "2201B");
        check_regex("a", "*", "2201B");
    }
}
