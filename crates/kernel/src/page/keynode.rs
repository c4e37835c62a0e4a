//! Key nodes (being built).
