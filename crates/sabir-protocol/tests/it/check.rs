//! What holds for any bytes from the network. The property tests and the fuzz targets `batch` and `frame` check the same.

use sabir_protocol::{FromHub, FromShell, batch};

/// Bytes are a batch that is within its limit and comes back, or an error.
pub(crate) fn batch(bytes: &[u8], limit: usize) {
    let Ok(decoded) = batch::decode(bytes, limit) else { return };
    let messages: Vec<&[u8]> = decoded.messages().collect();
    assert_eq!(messages.len(), decoded.count as usize);
    let all: Vec<u8> = messages.iter().flat_map(|message| [message, &b"\n"[..]].concat()).collect();
    assert!(all.len() <= limit, "{} bytes came out of a batch with a limit of {limit}", all.len());
    let again = batch::encode(decoded.first, decoded.count, &all).expect("what was decoded can be encoded");
    assert_eq!(batch::decode(&again, limit.saturating_add(again.len())), Ok(decoded));
}

/// Bytes are frames that come back, or errors.
pub(crate) fn frame(bytes: &[u8]) {
    if let Ok(frame) = serde_json::from_slice::<FromShell>(bytes) {
        let text = serde_json::to_string(&frame).expect("a frame is JSON");
        assert_eq!(serde_json::from_str::<FromShell>(&text).expect("it is read back"), frame);
    }
    if let Ok(frame) = serde_json::from_slice::<FromHub>(bytes) {
        let text = serde_json::to_string(&frame).expect("a frame is JSON");
        assert_eq!(serde_json::from_str::<FromHub>(&text).expect("it is read back"), frame);
    }
}
