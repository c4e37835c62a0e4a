//! io (being built).
