//! The hub from outside, over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod client;
mod lists;
mod log;
mod restart;
mod shells;
mod shells_http;
mod tls;
mod watching;
