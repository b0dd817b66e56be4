//! The body of a reply on its way: paced, held, cut.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{State, Ticket};
use crate::script::Pace;
use crate::sse::{Delta, Frame};

type Piece = io::Result<Bytes>;

/// A body that sends the frames at their pace.
pub(super) fn paced(frames: Vec<Frame>, pace: Pace, ticket: Ticket, state: Arc<State>) -> Body {
    // One piece in flight: what the client has not taken was not served.
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        if send(frames, pace, ticket, &state, &sender).await.is_none() {
            state.gone();
        }
    });
    Body::from_stream(ReceiverStream::new(receiver))
}

/// Sends the frames; nothing when the client goes away first.
async fn send(frames: Vec<Frame>, pace: Pace, ticket: Ticket, state: &State, sender: &mpsc::Sender<Piece>) -> Option<()> {
    let stop = stop(&frames, pace);
    let last = frames.len().saturating_sub(1);
    for (index, frame) in frames.into_iter().enumerate() {
        if stop == Some(index) {
            return end_early(pace, sender).await;
        }
        if pace == Pace::Gated && frame.delta != Delta::None {
            state.gate.acquire().await.ok()?.forget();
        }
        // It is noted before the client can have it: who has read the end of a reply finds it in the truth.
        let permit = sender.reserve().await.ok()?;
        match &frame.delta {
            Delta::None => {}
            Delta::Text(text) => state.delta(ticket, Some(text)),
            Delta::Other => state.delta(ticket, None),
        }
        if index == last {
            state.complete(ticket);
        }
        permit.send(Ok(Bytes::from(frame.bytes)));
    }
    Some(())
}

/// The frame before which the body stops. The last frame never comes through a body that stops.
fn stop(frames: &[Frame], pace: Pace) -> Option<usize> {
    let (Pace::Hold { after } | Pace::Cut { after }) = pace else { return None };
    let deltas = frames.iter().enumerate().filter(|(_, frame)| frame.delta != Delta::None).map(|(index, _)| index + 1);
    let position = if after == 0 { Some(0) } else { deltas.take(after).last() };
    position.map(|position| position.min(frames.len().saturating_sub(1)))
}

async fn end_early(pace: Pace, sender: &mpsc::Sender<Piece>) -> Option<()> {
    if matches!(pace, Pace::Hold { .. }) {
        sender.closed().await;
        return None;
    }
    // An error in the body makes the server drop the connection without the end of the body.
    sender.send(Err(io::Error::from(io::ErrorKind::ConnectionReset))).await.ok()
}
