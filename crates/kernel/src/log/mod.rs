//! log (being built).
