//! Backfill: fetches messages of another machine that are missing in the sink from the hub.

use reqwest::Response;
use serde::Deserialize;

use super::{MAX_SEGMENT_BYTES, MAX_SEGMENT_MESSAGES, SinkError, StorageSink};
use crate::delivery::Disconnect;
use crate::outbox::{Outbox, Page};
use crate::transport::http;

/// The sequence number of a message.
#[derive(Deserialize)]
struct SequenceOnly {
    seq: u64,
}

impl StorageSink {
    /// Returns whether the hub has the message after `after`.
    pub(super) async fn can_backfill(&self, after: u64) -> Result<bool, SinkError> {
        let Some(mut log) = self.request_log(after).await? else { return Ok(false) };
        let mut lines = Vec::new();
        while !lines.contains(&b'\n') {
            let Some(bytes) = log.chunk().await.map_err(retry)? else { break };
            lines.extend_from_slice(&bytes);
        }
        Ok(lines.split(|byte| *byte == b'\n').next().and_then(sequence) == Some(after + 1))
    }

    /// Stores the messages between `after` and the start of the outbox. Returns the last sequence number.
    pub(super) async fn backfill(&self, outbox: &Outbox, after: u64) -> Result<u64, SinkError> {
        let unavailable = || SinkError::Retry;
        let mut log = self.request_log(after).await?.ok_or_else(unavailable)?;
        let (mut page, mut torn) = (Page { first: after + 1, count: 0, lines: Vec::new() }, Vec::new());
        let mut next = after + 1;
        while next <= outbox.after() {
            let Some(bytes) = log.chunk().await.map_err(retry)? else { return Err(unavailable()) };
            torn.extend_from_slice(&bytes);
            let complete = torn.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            for line in torn[..complete].split_inclusive(|byte| *byte == b'\n') {
                if next > outbox.after() {
                    // The outbox has the rest.
                    break;
                }
                if sequence(line) != Some(next) {
                    return Err(unavailable());
                }
                page.lines.extend_from_slice(line);
                page.count += 1;
                next += 1;
                if page.count == MAX_SEGMENT_MESSAGES || page.lines.len() >= MAX_SEGMENT_BYTES || next > outbox.after() {
                    self.put_segment(outbox, &page).await?;
                    self.check_fence(outbox).await?;
                    page = Page { first: next, count: 0, lines: Vec::new() };
                }
            }
            torn.drain(..complete);
        }
        Ok(outbox.after())
    }

    /// Requests messages after `after`; `None` without a hub, or if it does not serve the log.
    async fn request_log(&self, after: u64) -> Result<Option<Response>, SinkError> {
        let Some(hub) = &self.hub else { return Ok(None) };
        let mut url = hub.url_for("log");
        url.query_pairs_mut().append_pair("after", &after.to_string());
        let client = http::client(hub).map_err(|reason| match reason {
            Disconnect::Broken(_) | Disconnect::NoUpgrade(_) => SinkError::Retry,
            Disconnect::Refused(refusal) => SinkError::Refused(refusal),
        })?;
        let response = client.get(url).send().await.map_err(retry)?;
        match response.status() {
            status if status.is_success() => Ok(Some(response)),
            status if status.is_server_error() || status.as_u16() == 429 => Err(SinkError::Retry),
            _ => Ok(None),
        }
    }
}

fn sequence(line: &[u8]) -> Option<u64> {
    serde_json::from_slice::<SequenceOnly>(line).ok().map(|message| message.seq)
}

fn retry(_: reqwest::Error) -> SinkError {
    SinkError::Retry
}
