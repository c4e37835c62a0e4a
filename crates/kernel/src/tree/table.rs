//! Table trees (being built).
