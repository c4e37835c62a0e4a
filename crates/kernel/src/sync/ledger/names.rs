//! Names of sites that stay when lines move: `file function: expression`.
//!
//! Invariants: a location in this crate is named from the source that the build was made of; one
//! elsewhere by file and line. Two places of a function with the same expression have one name,
//! and are one site.

#[cfg(feature = "ledger")]
use std::panic::Location;

#[cfg(feature = "ledger")]
include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// Bytes of an expression that are shown.
const EXPRESSION_MAX: usize = 60;

/// The name of a place.
#[cfg(feature = "ledger")]
pub(super) fn site_name(site: &Location<'_>) -> String {
    let file = site.file().replace('\\', "/");
    let source = SOURCES.iter().find(|(name, _)| file.ends_with(&format!("kernel/{name}")));
    let short = |name: &str| name.strip_prefix("src/").unwrap_or(name).to_owned();
    match source {
        Some((name, text)) => match place(text, site.line() as usize, site.column() as usize) {
            Some(place) => format!("{} {place}", short(name)),
            None => format!("{}:{}", short(name), site.line()),
        },
        None => format!("{file}:{}", site.line()),
    }
}

/// `function: expression` at a line and column, which count from 1.
fn place(text: &str, line: usize, column: usize) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let here = lines.get(line - 1)?;
    let (before, after) = here.split_at_checked(column - 1)?;
    let function = lines[..line].iter().rev().find_map(|line| function_name(line))?;
    let mut expression = called(after);
    if let Some(receiver) = before.trim_end().strip_suffix('.') {
        expression.truncate(expression.find('(').unwrap_or(expression.len()));
        // A chain that began on lines above.
        let mut receiver = receiver.trim_start().to_owned();
        let mut above = line - 1;
        while above > 0 && (receiver.is_empty() || receiver.starts_with('.')) {
            above -= 1;
            receiver.insert_str(0, lines[above].trim());
        }
        expression = format!("{}.{expression}", last_operand(&receiver));
    }
    Some(format!("{function}: {}", shortened(&expression)))
}

fn shortened(expression: &str) -> String {
    if expression.len() <= EXPRESSION_MAX {
        return expression.to_owned();
    }
    let from = (expression.len() - EXPRESSION_MAX..)
        .find(|at| expression.is_char_boundary(*at))
        .unwrap_or(expression.len());
    format!("..{}", &expression[from..])
}

/// The name in a line that begins a function.
fn function_name(line: &str) -> Option<&str> {
    let mut words = line.trim_start();
    if words.starts_with("//") {
        return None;
    }
    if let Some(rest) = words.strip_prefix("pub") {
        words = match rest.strip_prefix('(') {
            Some(scope) => scope.split_once(')')?.1,
            None => rest,
        }
        .trim_start();
    }
    for word in ["const ", "unsafe ", "extern \"C\" "] {
        words = words.strip_prefix(word).unwrap_or(words);
    }
    let name = words.strip_prefix("fn ")?;
    Some(&name[..name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len())])
}

/// `name(first argument)` of a call.
fn called(text: &str) -> String {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    let name = name.rsplit("::").next().unwrap_or(name);
    let Some(arguments) = rest.strip_prefix('(') else { return name.to_owned() };
    format!("{name}({})", arguments.split([',', ')']).next().unwrap_or("").trim())
}

/// What the last operator of `text` applies to: the end that is one chain of calls and fields.
fn last_operand(text: &str) -> &str {
    let mut depth = 0;
    let mut begin = text.len();
    for (at, c) in text.char_indices().rev() {
        match c {
            ')' | ']' | '}' => depth += 1,
            '(' | '[' | '{' if depth == 0 => break,
            '(' | '[' | '{' => depth -= 1,
            _ if depth > 0 => {}
            c if c.is_alphanumeric() || "_.:?".contains(c) => {}
            _ => break,
        }
        begin = at;
    }
    text[begin..].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
impl Slot {
    /// fn not this one
    pub(in crate::txn) fn begin(&self, now: Cts) {
        // A comment.
        if !self.lines[at(3)].word.store(now.0, Ordering::Release) {}
        self.table
            .heads
            .swap(1, Ordering::Relaxed);
        let tree = ledger::share(&index.tree, 1);
        let own = share(&self.cell);
    }
}
";

    fn named(line: usize, at: &str) -> String {
        let column = TEXT.lines().nth(line - 1).unwrap().find(at).unwrap() + 1;
        place(TEXT, line, column).unwrap()
    }

    #[test]
    fn a_place_is_named_by_function_and_expression() {
        assert_eq!(named(6, "store"), "begin: self.lines[at(3)].word.store");
        assert_eq!(named(9, "swap"), "begin: self.table.heads.swap");
        assert_eq!(named(10, "ledger"), "begin: share(&index.tree)");
        assert_eq!(named(11, "share"), "begin: share(&self.cell)");
    }

    #[test]
    fn lines_may_move() {
        let moved = format!("\n\n\n{TEXT}");
        let column = TEXT.lines().nth(8).unwrap().find("swap").unwrap() + 1;
        assert_eq!(place(&moved, 12, column), place(TEXT, 9, column));
    }
}
