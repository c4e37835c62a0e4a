//! page (being built).
