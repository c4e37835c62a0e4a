//! The one tool of the tree.
fn main() {}
