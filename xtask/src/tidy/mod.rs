//! The habits of the house, checked: what is wrong is listed with file and line.

mod order;
mod ratchet;
mod source;
mod words;

use std::path::Path;

use crate::run::{Result, cargo, must};
use source::Tree;

/// One thing that is not as it should be.
pub struct Finding {
    /// The file, from the root.
    pub file: String,
    /// The line, from 1; 0 where the whole file is meant.
    pub line: usize,
    /// What is wrong and what would be right.
    pub message: String,
}

/// Checks the whole tree.
pub fn tidy(root: &Path) -> Result<()> {
    let tree = Tree::read(root)?;
    let mut findings = Vec::new();
    order::check(root, &tree, &mut findings)?;
    words::check(&tree, &mut findings);
    ratchet::check(root, &tree, &mut findings)?;
    for finding in &findings {
        println!("{}:{}: {}", finding.file, finding.line, finding.message);
    }
    if findings.is_empty() {
        println!("tidy: {} files, nothing to say", tree.files.len());
        return Ok(());
    }
    Err(format!("{} findings", findings.len()))
}

/// Formats, and rewrites the size list; it may only get shorter or smaller.
pub fn bless(root: &Path) -> Result<()> {
    must(cargo(root, &["fmt", "--all"]))?;
    ratchet::bless(root, &Tree::read(root)?)
}
