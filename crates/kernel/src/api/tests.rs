//! The kernel through its own front door.
