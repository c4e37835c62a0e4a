//! version (being built).
