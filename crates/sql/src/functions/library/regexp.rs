//! Functions that search with regular expressions: substring, regexp_replace and the like.

use super::pattern::compile;
use super::{FunctionContext, SetValues};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::limits::append;
use crate::types::{Array, Datum, TypeOid};
use regex::{Captures, Regex};

type Context<'a> = &'a dyn FunctionContext;

/// `g` asks for all matches and is no option of the pattern itself.
fn split_flags(flags: &str) -> (bool, String) {
    (flags.contains('g'), flags.chars().filter(|flag| *flag != 'g').collect())
}

fn flags_of(args: &[Datum], index: usize) -> &str {
    args.get(index).map_or("", Datum::as_str)
}

/// `substring(text from pattern)`: the first group, or the match.
pub(in crate::functions) fn substring(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let pattern = compile(args[1].as_str(), "", context)?;
    let found = pattern.captures(args[0].as_str());
    let group = usize::from(pattern.captures_len() > 1);
    Ok(found.and_then(|found| found.get(group).map(|part| part.as_str().to_owned())).into())
}

/// `regexp_replace(text, pattern, new [, flags])`.
pub(in crate::functions) fn replace(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let (all, flags) = split_flags(flags_of(args, 3));
    let pattern = compile(args[1].as_str(), &flags, context)?;
    let (text, new) = (args[0].as_str(), args[2].as_str());
    let mut out = String::new();
    let mut last = 0;
    for found in each(&pattern, text) {
        let whole = found.get(0).expect("group 0 is the match");
        append(&mut out, &text[last..whole.start()])?;
        expand(new, &found, &mut out)?;
        last = whole.end();
        if !all {
            break;
        }
    }
    append(&mut out, &text[last..])?;
    Ok(out.into())
}

/// The matches one after the other: each search goes on where the last match ended, behind the next
/// character if that was empty. So an empty match may follow right after another one, which
/// `captures_iter` leaves out.
fn each<'t>(pattern: &Regex, text: &'t str) -> impl Iterator<Item = Captures<'t>> {
    let mut from = Some(0);
    std::iter::from_fn(move || {
        let found = pattern.captures_at(text, from?)?;
        let whole = found.get(0).expect("group 0 is the match");
        let next = text[whole.end()..].chars().next().map(|c| whole.end() + c.len_utf8());
        from = if whole.is_empty() { next } else { Some(whole.end()) };
        Some(found)
    })
}

/// `\1` to `\9` and `\&` in a replacement.
fn expand(new: &str, found: &Captures, out: &mut String) -> SqlResult<()> {
    let mut chars = new.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('&') => append(out, &found[0])?,
            Some(digit @ '1'..='9') => {
                let group = digit as usize - '0' as usize;
                append(out, found.get(group).map_or("", |part| part.as_str()))?;
            }
            Some(other) => {
                if other != '\\' {
                    out.push('\\');
                }
                out.push(other);
            }
            None => out.push('\\'),
        }
    }
    Ok(())
}

fn groups(pattern: &Regex, found: &Captures) -> Datum {
    let part = |index: usize| found.get(index).map(|part| part.as_str()).into();
    let range = if pattern.captures_len() > 1 { 1..pattern.captures_len() } else { 0..1 };
    Array::of(TypeOid::TEXT, range.map(part).collect()).into()
}

/// `regexp_match(text, pattern [, flags])`.
pub(in crate::functions) fn first_match(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let (all, flags) = split_flags(flags_of(args, 2));
    if all {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "regexp_match() does not support the \"global\" option",
        )
        .hint("Use the regexp_matches function instead."));
    }
    let pattern = compile(args[1].as_str(), &flags, context)?;
    Ok(pattern.captures(args[0].as_str()).map_or(Datum::Null, |found| groups(&pattern, &found)))
}

/// `regexp_matches(text, pattern [, flags])`.
pub(in crate::functions) fn matches(args: &[Datum], context: Context) -> SqlResult<SetValues> {
    let (all, flags) = split_flags(flags_of(args, 2));
    let pattern = compile(args[1].as_str(), &flags, context)?;
    let limit = if all { usize::MAX } else { 1 };
    let found: Vec<Datum> = each(&pattern, args[0].as_str())
        .take(limit)
        .map(|found| groups(&pattern, &found))
        .collect();
    Ok(Box::new(found.into_iter().map(Ok)))
}

fn split(name: &str, args: &[Datum], context: Context) -> SqlResult<Vec<Datum>> {
    let (all, flags) = split_flags(flags_of(args, 2));
    if all {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("{name}() does not support the \"global\" option"),
        ));
    }
    let pattern = compile(args[1].as_str(), &flags, context)?;
    let text = args[0].as_str();
    let mut parts = Vec::new();
    let mut last = 0;
    for found in each(&pattern, text) {
        let found = found.get(0).expect("group 0 is the match");
        // Empty matches at the start, the end, or right after another match do not split.
        if found.start() < text.len() && found.end() > last {
            parts.push(Datum::from(&text[last..found.start()]));
            last = found.end();
        }
    }
    parts.push(Datum::from(&text[last..]));
    Ok(parts)
}

/// `regexp_split_to_array(text, pattern [, flags])`.
pub(in crate::functions) fn split_to_array(args: &[Datum], context: Context) -> SqlResult<Datum> {
    Ok(Array::of(TypeOid::TEXT, split("regexp_split_to_array", args, context)?).into())
}

/// `regexp_split_to_table(text, pattern [, flags])`.
pub(in crate::functions) fn split_to_table(
    args: &[Datum],
    context: Context,
) -> SqlResult<SetValues> {
    Ok(Box::new(split("regexp_split_to_table", args, context)?.into_iter().map(Ok)))
}
