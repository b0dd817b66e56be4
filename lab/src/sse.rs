//! Server-sent events, and text cut into deltas.

use serde_json::Value;

/// A piece of a response's body.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// What goes over the wire.
    pub(crate) bytes: String,
    /// What it adds to the message.
    pub(crate) delta: Delta,
}

/// What a frame adds to the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delta {
    /// Nothing.
    None,
    /// Words for the user.
    Text(String),
    /// Reasoning or arguments.
    Other,
}

/// An event, with its name where the vendor sends one.
pub(crate) fn event(name: Option<&str>, data: &Value, delta: Delta) -> Frame {
    let bytes = match name {
        Some(name) => format!("event: {name}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    };
    Frame { bytes, delta }
}

/// The deltas of a text: short ones, but never more than some hundreds, so that a megabyte does not take all day.
pub(crate) fn pieces(text: &str) -> Vec<&str> {
    let size = (text.len() / 400).max(24);
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = size.min(rest.len());
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let (piece, remainder) = rest.split_at(end);
        pieces.push(piece);
        rest = remainder;
    }
    pieces
}
