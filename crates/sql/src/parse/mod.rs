//! From text to our own syntax tree, with PostgreSQL 18's own grammar.
//!
//! Invariants: this is the only module that knows the C parser; its tree never leaves. Call
//! [`parse`] on the thread's own stack (`TaskContext::on_thread_stack`): C code recurses, and so
//! does the conversion, bounded by `DEPTH_MAX` levels (54001). Syntax errors are 42601 with the
//! position in characters. What our tree cannot express is refused by name (0A000), for the
//! statement that has it only: the others of the same text still run.

pub mod ast;
mod cursor;
mod defined;
mod definition;
mod expression;
mod names;
mod query;
pub mod print;
mod raw;
mod sequence;
pub mod statement;
mod utility;

use crate::error::{SqlError, SqlResult, SqlState};
use pg_raw_parse::Node;
use statement::{Statement, Utility};
use std::cell::Cell;

/// Nesting of the tree: a frame of the deepest recursion is well below 1 KiB a level.
const DEPTH_MAX: u32 = 600;

/// One statement of a text.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The statement, or why it was refused.
    pub statement: SqlResult<Statement>,
    /// Where its text begins, in bytes.
    pub start: usize,
    /// Where its text ends, in bytes.
    pub end: usize,
    /// COMMIT, ROLLBACK and their kin: what a failed transaction still takes.
    pub is_transaction_exit: bool,
}

/// Parses a text of any number of statements. An error means that nothing of it may run.
pub fn parse(text: &str) -> SqlResult<Vec<Parsed>> {
    raw::with_statements(text, |statements| {
        let mut parsed = Vec::with_capacity(statements.len());
        for raw in statements {
            let node = raw.stmt();
            let start = usize::try_from(raw.stmt_location).unwrap_or(0);
            let length = usize::try_from(raw.stmt_len).unwrap_or(0);
            let end = if length == 0 { text.len() } else { start + length };
            let converter = Converter { depth: Cell::new(0) };
            let mut statement =
                converter.statement(node).map_err(|error| in_characters(error, text));
            if let Ok(Statement::Utility(utility)) = &mut statement
                && let Utility::DeclareCursor(declare) = &mut **utility
            {
                declare.text = text.into();
            }
            let is_transaction_exit = is_exit(&node);
            parsed.push(Parsed { statement, start, end, is_transaction_exit });
        }
        parsed
    })
}

/// Turns an error's byte position into a character position of `text`.
pub fn in_characters(mut error: SqlError, text: &str) -> SqlError {
    if let Some(byte) = error.fields().position
        && !text.is_ascii()
    {
        let offset = (byte as usize - 1).min(text.len());
        let characters = text.bytes().take(offset).filter(|byte| byte & 0xc0 != 0x80).count();
        error.fields_mut().position = u32::try_from(characters + 1).ok();
    }
    error
}

/// COMMIT, ROLLBACK and their kin are what a failed transaction still takes.
fn is_exit(node: &Node<'_>) -> bool {
    use pg_raw_parse::raw::TransactionStmtKind as Kind;
    match node {
        Node::TransactionStmt(transaction) => matches!(
            transaction.kind,
            Kind::TRANS_STMT_COMMIT
                | Kind::TRANS_STMT_ROLLBACK
                | Kind::TRANS_STMT_PREPARE
                | Kind::TRANS_STMT_ROLLBACK_TO
        ),
        _ => false,
    }
}

/// Converts one statement; counts how deep it is.
struct Converter {
    depth: Cell<u32>,
}

/// One level of nesting, until dropped.
struct Deeper<'c>(&'c Cell<u32>);

impl Drop for Deeper<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Converter {
    fn deeper(&self) -> SqlResult<Deeper<'_>> {
        if self.depth.get() >= DEPTH_MAX {
            return Err(SqlError::new(
                SqlState::STATEMENT_TOO_COMPLEX,
                "stack depth limit exceeded",
            )
            .hint(format!("The statement is nested more than {DEPTH_MAX} levels deep.")));
        }
        self.depth.set(self.depth.get() + 1);
        Ok(Deeper(&self.depth))
    }
}

#[cfg(test)]
mod tests;
