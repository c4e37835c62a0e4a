//! descent (being built).
