//! key (being built).
