//! latch (being built).
