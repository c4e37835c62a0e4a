//! tree (being built).
