//! Messages that another machine wrote and did not bring: the hub has them.

use reqwest::Response;
use serde::Deserialize;

use super::{BYTES, MESSAGES, Sink, Stop};
use crate::deliver::Lost;
use crate::http;
use crate::outbox::{Outbox, Page};

/// What is looked at in a message.
#[derive(Deserialize)]
struct Numbered {
    seq: u64,
}

impl Sink {
    /// Whether somebody can tell the message after that number.
    pub(super) async fn has_earlier(&self, after: u64) -> Result<bool, Stop> {
        let Some(mut log) = self.log(after).await? else { return Ok(false) };
        let mut lines = Vec::new();
        while !lines.contains(&b'\n') {
            let Some(bytes) = log.chunk().await.map_err(|error| later(&error))? else { break };
            lines.extend_from_slice(&bytes);
        }
        Ok(lines.split(|byte| *byte == b'\n').next().and_then(number) == Some(after + 1))
    }

    /// Brings what is after that number and before the beginning of our own; the number of the last.
    pub(super) async fn bring_earlier(&self, outbox: &Outbox, after: u64) -> Result<u64, Stop> {
        let gone = || Stop::Later("the hub does not tell any more what is missing".to_owned());
        let mut log = self.log(after).await?.ok_or_else(gone)?;
        let (mut page, mut torn) = (Page { first: after + 1, count: 0, lines: Vec::new() }, Vec::new());
        let mut next = after + 1;
        while next <= outbox.after() {
            let Some(bytes) = log.chunk().await.map_err(|error| later(&error))? else { return Err(gone()) };
            torn.extend_from_slice(&bytes);
            let whole = torn.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            for line in torn[..whole].split_inclusive(|byte| *byte == b'\n') {
                if next > outbox.after() {
                    // From here on it is our own.
                    break;
                }
                if number(line) != Some(next) {
                    return Err(gone());
                }
                page.lines.extend_from_slice(line);
                page.count += 1;
                next += 1;
                if page.count == MESSAGES || page.lines.len() >= BYTES || next > outbox.after() {
                    self.put(outbox, &page).await?;
                    self.still_ours(outbox).await?;
                    page = Page { first: next, count: 0, lines: Vec::new() };
                }
            }
            torn.drain(..whole);
        }
        Ok(outbox.after())
    }

    /// The log at the hub from there on; `None` where there is no hub, or one that does not tell it.
    async fn log(&self, after: u64) -> Result<Option<Response>, Stop> {
        let Some(hub) = &self.hub else { return Ok(None) };
        let mut url = hub.below("log");
        url.query_pairs_mut().append_pair("after", &after.to_string());
        let client = http::client(hub).map_err(|lost| match lost {
            Lost::Broken(why) | Lost::NoUpgrade(why) => Stop::Later(why),
            Lost::Refused(refusal) => Stop::Never(refusal),
        })?;
        let answer = client.get(url).send().await.map_err(|error| later(&error))?;
        match answer.status() {
            status if status.is_success() => Ok(Some(answer)),
            status if status.is_server_error() || status.as_u16() == 429 => {
                Err(Stop::Later(format!("the hub answered {status}")))
            }
            _ => Ok(None),
        }
    }
}

fn number(line: &[u8]) -> Option<u64> {
    serde_json::from_slice::<Numbered>(line).ok().map(|message| message.seq)
}

fn later(error: &reqwest::Error) -> Stop {
    Stop::Later(format!("the hub can't tell what is missing: {}", http::cause(error)))
}
