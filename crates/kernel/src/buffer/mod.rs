//! buffer (being built).
