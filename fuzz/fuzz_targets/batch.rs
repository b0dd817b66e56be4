//! Any bytes as a batch of a runner: a batch within its limit, or an error. The first two bytes are the limit.
#![no_main]

#[path = "../../crates/sabir-protocol/tests/it/check.rs"]
mod check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [low, high, frame @ ..] = bytes else { return };
    check::batch(frame, usize::from(u16::from_le_bytes([*low, *high])));
    check::frame(frame);
});
