//! recovery (being built).
