//! Tests of the hub over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod auth;
mod client;
mod damage;
mod fuzz;
mod limits;
mod local;
mod restart;
mod runner_http;
mod runner_websocket;
mod script;
mod sessions;
mod store;
mod subscribe;
mod timeline;
mod tls;
mod web_ui;
