//! Fencing: which runner may write a session. The decision table of the protocol as pure functions.

use sabir_protocol::{Code, Hello, Order, OrderKind, Refusal};

use super::MAX_PENDING_BYTES;

/// Runner that writes a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WriterState {
    pub(super) writer: String,
    pub(super) epoch: u32,
    /// Last message before the ones of this writer.
    pub(super) start: u64,
    /// Last message.
    pub(super) last: u64,
}

/// The writer after a hello. A hello with epoch 0 starts a new epoch.
pub(super) fn open(current: Option<&WriterState>, hello: &Hello) -> Result<WriterState, Refusal> {
    if hello.epoch > 0 {
        let state = admit(current, &hello.writer, hello.epoch)?;
        if state.last > state.start && hello.last < state.last {
            let message = format!("the hub has {} messages of this session, but the runner only has {}", state.last, hello.last);
            return Err(Refusal::new(Code::Conflict, message));
        }
        return Ok(state);
    }
    let (epoch, last) = current.map_or((0, 0), |state| (state.epoch, state.last));
    let epoch = epoch.checked_add(1).ok_or_else(|| Refusal::new(Code::Conflict, "the session has the highest possible epoch"))?;
    Ok(WriterState { writer: hello.writer.clone(), epoch, start: last, last })
}

/// The state in which `writer` may append in `epoch`.
pub(super) fn admit(current: Option<&WriterState>, writer: &str, epoch: u32) -> Result<WriterState, Refusal> {
    let Some(current) = current else {
        return Ok(WriterState { writer: writer.to_owned(), epoch, start: 0, last: 0 });
    };
    if epoch < current.epoch {
        return Err(Refusal::new(Code::Fenced, format!("epoch {epoch} was replaced by epoch {}", current.epoch)));
    }
    if writer == current.writer {
        return Ok(WriterState { epoch, ..current.clone() });
    }
    let code = if epoch > current.epoch { Code::Conflict } else { Code::Fenced };
    Err(Refusal::new(code, "another runner writes this session"))
}

/// Returns whether a command fits among the pending ones. Prompts leave space for cancels and answers, and a welcome with all of them
/// fits in a frame of two `MAX_MESSAGE`.
pub(super) fn fits_pending(pending: usize, command: &Order) -> bool {
    let limit = if command.kind == OrderKind::Prompt { MAX_PENDING_BYTES } else { MAX_PENDING_BYTES + MAX_PENDING_BYTES / 2 };
    pending.saturating_add(encoded_size(command)) <= limit
}

/// Bytes that a command takes in a frame.
pub(crate) fn encoded_size(command: &Order) -> usize {
    serde_json::to_vec(command).map_or(usize::MAX, |json| json.len() + 1)
}

/// Refusal of a message that was sent before with other content.
pub(super) fn changed_message(seq: u64) -> Refusal {
    Refusal::new(Code::Conflict, format!("message {seq} was sent before with different content"))
}

#[cfg(test)]
mod tests {
    use sabir_protocol::{Code, Hello};

    use super::{WriterState, open};

    fn hello(writer: &str, epoch: u32, last: u64) -> Hello {
        let session = "s".parse().expect("an id");
        Hello { session, writer: writer.to_owned(), epoch, last, orders: 0, agent: None, shell: None, takes: Vec::new() }
    }

    #[test]
    fn open_follows_the_decision_table_of_the_protocol() {
        let state = |writer: &str, epoch, start, last| WriterState { writer: writer.to_owned(), epoch, start, last };
        let current = state("a", 3, 0, 10);
        for (writer, epoch, last, expected) in [
            ("a", 3, 10, Ok(state("a", 3, 0, 10))),
            ("a", 3, 12, Ok(state("a", 3, 0, 10))),
            ("a", 5, 10, Ok(state("a", 5, 0, 10))),
            ("a", 2, 10, Err(Code::Fenced)),
            ("b", 2, 10, Err(Code::Fenced)),
            ("b", 3, 10, Err(Code::Fenced)),
            ("b", 4, 10, Err(Code::Conflict)),
            ("a", 3, 9, Err(Code::Conflict)),
            ("a", 4, 0, Err(Code::Conflict)),
            ("b", 0, 0, Ok(state("b", 4, 10, 10))),
            ("a", 0, 0, Ok(state("a", 4, 10, 10))),
        ] {
            let opened = open(Some(&current), &hello(writer, epoch, last)).map_err(|refusal| refusal.code);
            assert_eq!(opened, expected, "{writer} {epoch} {last}");
        }
        assert_eq!(open(None, &hello("a", 7, 4)), Ok(state("a", 7, 0, 0)));
        assert_eq!(open(None, &hello("a", 0, 0)), Ok(state("a", 1, 0, 0)));
        // A writer that has just opened the session has no messages of its own that could be missing.
        assert_eq!(open(Some(&state("b", 4, 10, 10)), &hello("b", 4, 0)), Ok(state("b", 4, 10, 10)));
        assert!(open(Some(&state("b", u32::MAX, 0, 0)), &hello("c", 0, 0)).is_err());
    }
}
