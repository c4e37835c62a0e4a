//! Checking and freeing a whole table tree.
#![expect(clippy::todo)]
use super::TableTree;
use crate::base::Result;

impl TableTree {
    /// What is wrong with the tree, one sentence each; empty if nothing is. Nobody writes.
    pub fn check(&self) -> Result<Vec<String>> {
        todo!()
    }

    /// Gives all pages back. Nobody uses the tree any more (it was dropped below the horizon).
    pub fn free_pages(&self) -> Result<()> {
        todo!()
    }
}
