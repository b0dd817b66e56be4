//! Frames and batches of arbitrary bytes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod check;

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use proptest::sample::select;
use proptest::test_runner::Config;
use sabir_protocol::batch;

/// A batch of lines with some bytes changed.
fn nearly_batches() -> impl Strategy<Value = Vec<u8>> {
    let byte = || any::<u8>().prop_filter("one line", |byte| *byte != b'\n');
    // What repeats is compressed to less than the limit.
    let line = prop_oneof![vec(byte(), 0..300), (byte(), 0..4_000_usize).prop_map(|(byte, count)| vec![byte; count])];
    let lines = vec(line, 1..8);
    let changes = vec((any::<u16>(), any::<u8>()), 0..4);
    (1..u64::MAX, lines, changes, 0..4_usize).prop_map(|(first, lines, changes, cut)| {
        let all: Vec<u8> = lines.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect();
        let mut frame = batch::encode(first, u32::try_from(lines.len()).expect("few"), &all).expect("it fits");
        for (at, byte) in changes {
            let at = usize::from(at) % frame.len();
            frame[at] = byte;
        }
        frame.truncate(frame.len() - cut);
        frame
    })
}

/// JSON that looks like a frame.
fn nearly_frames() -> impl Strategy<Value = Vec<u8>> {
    let kinds = ["hello", "welcome", "taken", "order", "ack", "gap", "error", "heartbeat", "later", ""];
    let fields =
        ["session", "writer", "epoch", "last", "orders", "takes", "order", "accepted", "reason", "kind", "code", "message"];
    let values =
        ["0", "1", "-1", "1e400", "18446744073709551616", "null", "true", "\"\"", "\"a\"", "\"\\ud800\"", "[]", "[\"a\"]", "{}"];
    let fields = vec((select(fields.to_vec()), select(values.to_vec())), 0..10);
    (select(kinds.to_vec()), fields, any::<bool>()).prop_map(|(kind, fields, is_cut)| {
        let mut text = format!("{{\"type\":\"{kind}\"");
        for (name, value) in fields {
            text.extend([",\"", name, "\":", value]);
        }
        if !is_cut {
            text.push('}');
        }
        text.into_bytes()
    })
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_bytes_are_batch_or_error(bytes in vec(any::<u8>(), 0..400), limit in 0..1_000_usize) {
        check::batch(&bytes, limit);
    }

    #[test]
    fn any_changed_batch_is_batch_or_error(bytes in nearly_batches(), limit in 0..4_000_usize) {
        check::batch(&bytes, limit);
    }

    #[test]
    fn any_frame_reads_back(bytes in nearly_frames()) {
        check::frame(&bytes);
    }

    #[test]
    fn any_bytes_are_frame_or_error(bytes in vec(any::<u8>(), 0..200)) {
        check::frame(&bytes);
    }
}
