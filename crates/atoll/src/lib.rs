//! Atoll.
