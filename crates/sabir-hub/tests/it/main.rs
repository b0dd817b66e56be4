//! The hub from outside, over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod client;
mod damage;
mod lists;
mod local;
mod log;
mod page;
mod restart;
mod shells;
mod shells_http;
mod timeline;
mod tls;
mod watching;
