//! index (being built).
