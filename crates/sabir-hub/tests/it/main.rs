//! The hub from outside, over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod client;
mod damage;
mod fuzz;
mod limits;
mod lists;
mod local;
mod page;
mod restart;
mod script;
mod shells;
mod shells_http;
mod store;
mod timeline;
mod tls;
mod watching;
