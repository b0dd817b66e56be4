//! Runs that a hub keeps.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _};
use std::time::Duration;

use sabir_core::fold::Overview;
use sabir_core::readable;
use sabir_core::time::Timestamp;
use sabir_protocol::SessionId;
use serde::Deserialize;

use super::{Feed, Listing, Row, Source, Tell, Wake};

/// The hub says something at least every 15 seconds; one that is silent for longer is gone.
const SILENCE: Duration = Duration::from_secs(40);
/// How long it takes before a hub that is away is asked again.
const AGAIN: Duration = Duration::from_secs(2);
/// How much of a refusal is looked at.
const REFUSAL: u64 = 64 << 10;
/// A line of a stream that is longer than this is none.
const LONGEST: u64 = 64 << 20;

/// A hub.
pub struct Hub {
    agent: ureq::Agent,
    address: String,
    token: Option<String>,
}

/// A session as the hub tells it.
#[derive(Deserialize)]
struct Shape {
    session: SessionId,
    overview: Overview,
    #[serde(default)]
    created: Option<Timestamp>,
    #[serde(default)]
    updated: Option<Timestamp>,
}

impl From<Shape> for Row {
    fn from(shape: Shape) -> Self {
        let Shape { session, overview, created, updated } = shape;
        let millis = |first: Option<Timestamp>, second: Option<Timestamp>| first.or(second).map(Timestamp::as_millis);
        Self {
            id: session.into(),
            agent: overview.agent.unwrap_or_else(|| "—".to_owned()),
            cwd: overview.workspace.or(overview.cwd),
            title: overview.title,
            model: overview.model,
            phase: overview.phase,
            tool: overview.tool,
            started: millis(overview.started, created),
            last: millis(overview.last, updated),
            tokens: overview.tokens,
            cost: overview.cost_usd,
        }
    }
}

/// Why a hub does not tell.
enum Away {
    /// It says no, and will say so again.
    Refused(String),
    /// It can't be reached, or broke off.
    Broken(String),
}

impl Hub {
    /// A hub at this address, `http://…` or `https://…`, and a token where it wants one.
    pub fn new(address: &str, token: Option<String>) -> Self {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // A token is not carried to wherever an answer points.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("sabir/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(Duration::from_secs(10)))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .build()
            .new_agent();
        let address = match address.trim_end_matches('/').split_once("://") {
            Some(("ws", rest)) => format!("http://{rest}"),
            Some(("wss", rest)) => format!("https://{rest}"),
            Some(_) => address.trim_end_matches('/').to_owned(),
            None => format!("http://{}", address.trim_end_matches('/')),
        };
        Self { agent, address, token }
    }

    /// Reads a stream of events until it breaks off, or the taker has had enough, which is `Ok`.
    fn stream(&self, path: &str, after: Option<u64>, take: &mut dyn FnMut(&Told) -> bool) -> Result<(), Away> {
        let mut request = self.agent.get(format!("{}{path}", self.address)).header("accept", "text/event-stream");
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(after) = after {
            request = request.header("last-event-id", after.to_string());
        }
        let response = request.call().map_err(|error| Away::Broken(format!("{}: {error}", self.address)))?;
        let (parts, body) = response.into_parts();
        if !parts.status.is_success() {
            let mut text = Vec::new();
            let _ = body.into_with_config().limit(REFUSAL).reader().read_to_end(&mut text);
            return Err(self.refused(parts.status.as_u16(), &text));
        }
        let body = BufReader::new(body.into_with_config().limit(u64::MAX).reader());
        match events(body, take) {
            Ok(true) => Err(Away::Broken("the hub ended the stream".to_owned())),
            Ok(false) => Ok(()),
            Err(error) => Err(Away::Broken(format!("the hub was cut off: {error}"))),
        }
    }

    fn refused(&self, status: u16, body: &[u8]) -> Away {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Said {
            message: String,
        }
        let said: Said = serde_json::from_slice(body).unwrap_or_default();
        let said = readable::line(&said.message);
        let what = match status {
            401 | 403 => format!("{}: {status} {said}; --token or SABIR_TOKEN gives a token that may watch", self.address),
            404 => format!("{}: {status} {said}; a hub of an older version has no timelines", self.address),
            _ => format!("{}: {status} {said}", self.address),
        };
        if status >= 500 || status == 429 { Away::Broken(what) } else { Away::Refused(what) }
    }
}

impl Source for Hub {
    fn name(&self) -> String {
        self.address.clone()
    }

    fn list(&self, wake: &Wake, tell: Tell<'_, Listing>) {
        loop {
            let mut rows: BTreeMap<String, Row> = BTreeMap::new();
            let read = self.stream("/v1/sessions/events", None, &mut |told| {
                match told.kind.as_str() {
                    "reset" => rows.clear(),
                    "session" => {
                        if let Ok(shape) = serde_json::from_str::<Shape>(&told.data) {
                            let row = Row::from(shape);
                            rows.insert(row.id.clone(), row);
                        }
                    }
                    _ => {}
                }
                // Many sessions come at once; they are shown at once.
                told.more || tell(Listing::Rows(rows.values().cloned().collect()))
            });
            let heard = match read {
                Ok(()) => false,
                Err(Away::Broken(why) | Away::Refused(why)) => tell(Listing::Trouble(why)),
            };
            if !heard {
                return;
            }
            wake.wait(AGAIN);
        }
    }

    fn watch(&self, id: &str, tell: Tell<'_, Feed>) {
        let Ok(session) = id.parse::<SessionId>() else {
            tell(Feed::Trouble("this is not the id of a session".to_owned()));
            return;
        };
        let path = format!("/v1/sessions/{}/timeline", session.in_address());
        let mut seen: Option<u64> = None;
        loop {
            let read = self.stream(&path, seen, &mut |told| {
                seen = told.id.or(seen);
                match told.kind.as_str() {
                    "live" => tell(Feed::Live),
                    "" | "message" => match serde_json::from_str(&told.data) {
                        Ok(changes) => tell(Feed::Changes(changes)),
                        Err(error) => tell(Feed::Trouble(format!("the hub tells what this version can't read: {error}"))),
                    },
                    _ => tell(Feed::Changes(Vec::new())),
                }
            });
            match read {
                Ok(()) => return,
                Err(Away::Refused(why)) => {
                    tell(Feed::Trouble(why));
                    return;
                }
                Err(Away::Broken(why)) => {
                    if !tell(Feed::Trouble(why)) {
                        return;
                    }
                    std::thread::sleep(AGAIN);
                }
            }
        }
    }
}

/// One event of a stream. A comment is one without data.
#[derive(Debug, Default, PartialEq)]
struct Told {
    kind: String,
    id: Option<u64>,
    data: String,
    /// Another one is at hand already.
    more: bool,
}

/// Hands out the events of a stream. True when the stream ended, false when the taker had enough.
fn events<R: io::Read>(mut from: BufReader<R>, take: &mut dyn FnMut(&Told) -> bool) -> io::Result<bool> {
    let mut line = Vec::new();
    let mut told = Told::default();
    loop {
        line.clear();
        match (&mut from).take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) => return Ok(true),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read?,
        };
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => value.clone_into(&mut told.kind),
            "id" => told.id = value.parse().ok(),
            "data" => {
                if !told.data.is_empty() {
                    told.data.push('\n');
                }
                told.data.push_str(value);
            }
            "" if text.is_empty() => {
                told.more = from.buffer().contains(&b'\n');
                let kind = if told.data.is_empty() { "comment".to_owned() } else { std::mem::take(&mut told.kind) };
                if !take(&Told { kind, ..std::mem::take(&mut told) }) {
                    return Ok(false);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::{Hub, Told, events};
    use crate::source::Source as _;

    #[test]
    fn events_have_a_kind_an_id_and_data() {
        let stream = ":\n\nevent: live\ndata: {\"last\":7}\n\nid: 7\ndata: [\ndata: ]\n\n";
        let mut seen = Vec::new();
        let ended = events(BufReader::new(stream.as_bytes()), &mut |told: &Told| {
            seen.push((told.kind.clone(), told.id, told.data.clone(), told.more));
            true
        });
        assert!(ended.expect("read"));
        let expected = [
            ("comment".to_owned(), None, String::new(), true),
            ("live".to_owned(), None, "{\"last\":7}".to_owned(), true),
            (String::new(), Some(7), "[\n]".to_owned(), false),
        ];
        assert_eq!(seen, expected);
        assert!(!events(BufReader::new(stream.as_bytes()), &mut |_| false).expect("read"));
    }

    #[test]
    fn addresses_of_shells_are_addresses_too() {
        for (given, used) in [
            ("ws://127.0.0.1:7421/", "http://127.0.0.1:7421"),
            ("wss://hub.example", "https://hub.example"),
            ("hub.example:7421", "http://hub.example:7421"),
            ("https://hub.example/", "https://hub.example"),
        ] {
            assert_eq!(Hub::new(given, None).name(), used);
        }
    }
}
