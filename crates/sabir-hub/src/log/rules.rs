//! Who may write a session: the table of the protocol, as functions of plain values.

use sabir_protocol::{Code, Hello, Order, OrderKind, Refusal};

use super::PENDING_BYTES;

/// What is known of the writer of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) writer: String,
    pub(super) epoch: u32,
    /// The last message before the writer's own.
    pub(super) start: u64,
    /// The last message.
    pub(super) last: u64,
}

/// The place after a hello.
pub(super) fn begin(known: Option<&Place>, hello: &Hello) -> Result<Place, Refusal> {
    if hello.epoch > 0 {
        let place = admit(known, &hello.writer, hello.epoch)?;
        if place.last > place.start && hello.last < place.last {
            let what = format!("the hub has {} messages of this log, and the shell has {}", place.last, hello.last);
            return Err(Refusal::new(Code::Conflict, what));
        }
        return Ok(place);
    }
    let (epoch, last) = known.map_or((0, 0), |place| (place.epoch, place.last));
    let epoch = epoch.checked_add(1).ok_or_else(|| Refusal::new(Code::Conflict, "there is no higher epoch"))?;
    Ok(Place { writer: hello.writer.clone(), epoch, start: last, last })
}

/// The place in which a writer writes in an epoch.
pub(super) fn admit(known: Option<&Place>, writer: &str, epoch: u32) -> Result<Place, Refusal> {
    let Some(known) = known else {
        return Ok(Place { writer: writer.to_owned(), epoch, start: 0, last: 0 });
    };
    if epoch < known.epoch {
        return Err(Refusal::new(Code::Fenced, format!("epoch {epoch} is over; this is epoch {}", known.epoch)));
    }
    if writer == known.writer {
        return Ok(Place { epoch, ..known.clone() });
    }
    let code = if epoch > known.epoch { Code::Conflict } else { Code::Fenced };
    Err(Refusal::new(code, "another shell writes this session"))
}

/// Whether an order may be added to those that are pending. Stopping a session and answering its agent are possible beside any
/// number of prompts; a welcome still fits in a frame of two `MAX_MESSAGE`.
pub(super) fn has_room(pending: usize, order: &Order) -> bool {
    let limit = if order.kind == OrderKind::Prompt { PENDING_BYTES } else { PENDING_BYTES + PENDING_BYTES / 2 };
    pending.saturating_add(size(order)) <= limit
}

/// Bytes of an order in a frame.
pub(crate) fn size(order: &Order) -> usize {
    serde_json::to_vec(order).map_or(usize::MAX, |json| json.len() + 1)
}

/// What a message that comes again must not be.
pub(super) fn differs(seq: u64) -> Refusal {
    Refusal::new(Code::Conflict, format!("message {seq} came before and was another one"))
}

#[cfg(test)]
mod tests {
    use sabir_protocol::{Code, Hello};

    use super::{Place, begin};

    fn hello(writer: &str, epoch: u32, last: u64) -> Hello {
        let session = "s".parse().expect("an id");
        Hello { session, writer: writer.to_owned(), epoch, last, orders: 0, agent: None, shell: None, takes: Vec::new() }
    }

    #[test]
    fn the_table_of_the_protocol() {
        let place = |writer: &str, epoch, start, last| Place { writer: writer.to_owned(), epoch, start, last };
        let known = place("a", 3, 0, 10);
        for (writer, epoch, last, expected) in [
            ("a", 3, 10, Ok(place("a", 3, 0, 10))),
            ("a", 3, 12, Ok(place("a", 3, 0, 10))),
            ("a", 5, 10, Ok(place("a", 5, 0, 10))),
            ("a", 2, 10, Err(Code::Fenced)),
            ("b", 2, 10, Err(Code::Fenced)),
            ("b", 3, 10, Err(Code::Fenced)),
            ("b", 4, 10, Err(Code::Conflict)),
            ("a", 3, 9, Err(Code::Conflict)),
            ("a", 4, 0, Err(Code::Conflict)),
            ("b", 0, 0, Ok(place("b", 4, 10, 10))),
            ("a", 0, 0, Ok(place("a", 4, 10, 10))),
        ] {
            let got = begin(Some(&known), &hello(writer, epoch, last)).map_err(|refusal| refusal.code);
            assert_eq!(got, expected, "{writer} {epoch} {last}");
        }
        assert_eq!(begin(None, &hello("a", 7, 4)), Ok(place("a", 7, 0, 0)));
        assert_eq!(begin(None, &hello("a", 0, 0)), Ok(place("a", 1, 0, 0)));
        // Who has its place has nothing in it yet, so no last number of its own is missing.
        assert_eq!(begin(Some(&place("b", 4, 10, 10)), &hello("b", 4, 0)), Ok(place("b", 4, 10, 10)));
        assert!(begin(Some(&place("b", u32::MAX, 0, 0)), &hello("c", 0, 0)).is_err());
    }
}
