//! The hub from outside.

mod log;
