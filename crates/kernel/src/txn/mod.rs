//! txn (being built).
