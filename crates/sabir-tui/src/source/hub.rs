//! Runs that a hub keeps.

mod stream;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufReader, Read as _};
use std::time::Duration;

use sabir_core::fold::Overview;
use sabir_core::readable;
use sabir_core::time::Timestamp;
use sabir_protocol::{SessionId, Taken, is_loopback};
use serde::Deserialize;
use serde_json::json;

use super::{Feed, Listing, Order, Row, Source, Tell, Wake};
use stream::{Told, events};

/// The hub says something at least every 15 seconds; one that is silent for longer is gone.
const SILENCE: Duration = Duration::from_secs(40);
/// How long it takes before a hub that is away is asked again.
const AGAIN: Duration = Duration::from_secs(2);
/// How much of a refusal is looked at.
const REFUSAL: u64 = 64 << 10;
/// How much of an answer.
const ANSWER: u64 = 16 << 20;
/// So many runs are found at most.
const FOUND: usize = 200;
/// What became of an order is asked after these milliseconds; then nobody waits for it any more.
const TAKEN: [u64; 8] = [100, 200, 500, 1_000, 2_000, 3_000, 5_000, 10_000];

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
    #[serde(default)]
    takes: Vec<String>,
}

impl From<Shape> for Row {
    fn from(shape: Shape) -> Self {
        let Shape { session, overview, created, updated, takes } = shape;
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
            cost_source: overview.cost_source,
            takes,
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

    /// The host and the port in the address.
    pub fn host(&self) -> String {
        let uri = self.address.parse::<ureq::http::Uri>().ok();
        uri.and_then(|uri| uri.authority().map(ToString::to_string)).unwrap_or_else(|| self.address.clone())
    }

    /// Whether a token is sent, without encryption, to another machine.
    pub fn exposes_token(&self) -> bool {
        let is_local = |uri: ureq::http::Uri| uri.host().is_some_and(is_loopback);
        let is_encrypted = self.address.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"));
        self.token.is_some() && !is_encrypted && !self.address.parse().is_ok_and(is_local)
    }

    /// Reads a stream of events until it breaks off, or the taker has had enough, which is `Ok`.
    fn stream(&self, path: &str, after: Option<u64>, take: &mut dyn FnMut(&Told) -> bool) -> Result<(), Away> {
        let mut request =
            self.with_token(self.agent.get(format!("{}{path}", self.address))).header("accept", "text/event-stream");
        if let Some(after) = after {
            request = request.header("last-event-id", after.to_string());
        }
        let body = self.body(request.call())?;
        let body = BufReader::new(body.into_with_config().limit(u64::MAX).reader());
        match events(body, take) {
            Ok(true) => Err(Away::Broken("the hub ended the stream".to_owned())),
            Ok(false) => Ok(()),
            Err(error) => Err(Away::Broken(format!("the hub was cut off: {error}"))),
        }
    }

    fn with_token<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    /// What an answer says, if it is none that says no.
    fn body(&self, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<ureq::Body, Away> {
        let response = answer.map_err(|error| Away::Broken(format!("{}: {error}", self.address)))?;
        let (parts, body) = response.into_parts();
        if parts.status.is_success() {
            return Ok(body);
        }
        let mut text = Vec::new();
        let _ = body.into_with_config().limit(REFUSAL).reader().read_to_end(&mut text);
        Err(self.refused(parts.status.as_u16(), &text))
    }

    /// A JSON value, for a JSON value or for nothing.
    fn ask<T: serde::de::DeserializeOwned>(&self, path: &str, given: Option<&serde_json::Value>) -> Result<T, Away> {
        let address = format!("{}{path}", self.address);
        let answer = match given {
            None => self.with_token(self.agent.get(address)).call(),
            Some(given) => {
                let request = self.with_token(self.agent.post(address)).header("content-type", "application/json");
                request.send(given.to_string())
            }
        };
        let body = self.body(answer)?;
        let read = serde_json::from_reader(BufReader::new(body.into_with_config().limit(ANSWER).reader()));
        read.map_err(|error| Away::Broken(format!("{}: an answer that can't be read: {error}", self.address)))
    }

    /// Whether the token may give orders. A hub that does not say so says no when one is given.
    fn may_order(&self) -> bool {
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct Me {
            read_only: bool,
        }
        let me: Me = self.ask("/v1/me", None).unwrap_or_default();
        !me.read_only
    }

    /// Puts an order, and waits for what the shell says to it.
    fn put(&self, id: &str, order: &Order) -> Result<String, Away> {
        #[derive(Deserialize)]
        struct Numbered {
            order: u64,
        }
        #[derive(Deserialize)]
        struct Orders {
            orders: Vec<Placed>,
        }
        #[derive(Deserialize)]
        struct Placed {
            taken: Option<Taken>,
        }
        let session: SessionId = id.parse().map_err(|_| Away::Refused("this is not the id of a session".to_owned()))?;
        let path = format!("/v1/sessions/{}/orders", session.in_address());
        let given = match order {
            Order::Cancel => json!({ "kind": order.kind() }),
            Order::Prompt(text) => json!({ "kind": order.kind(), "text": text }),
            Order::Answer { request, allow } => {
                json!({ "kind": order.kind(), "requestId": request, "decision": if *allow { "allow" } else { "deny" } })
            }
        };
        let Numbered { order: number } = self.ask(&path, Some(&given))?;
        for wait in TAKEN {
            let Orders { orders } = self.ask(&format!("{path}?after={}", number.saturating_sub(1)), None)?;
            if let Some(taken) = orders.into_iter().next().and_then(|placed| placed.taken) {
                let why = taken.reason.map(|why| format!(": {}", readable::line(&why))).unwrap_or_default();
                return Ok(if taken.accepted { "taken".to_owned() } else { format!("refused{why}") });
            }
            std::thread::sleep(Duration::from_millis(wait));
        }
        Ok("sent; its shell has not answered yet".to_owned())
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
        let may_order = self.may_order();
        loop {
            let mut rows: BTreeMap<String, Row> = BTreeMap::new();
            let read = self.stream("/v1/sessions/events", None, &mut |told| {
                match told.kind.as_str() {
                    "reset" => rows.clear(),
                    "session" => {
                        if let Ok(shape) = serde_json::from_str::<Shape>(&told.data) {
                            let mut row = Row::from(shape);
                            if !may_order {
                                row.takes.clear();
                            }
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

    fn search(&self, words: &str) -> Option<Result<Vec<Row>, String>> {
        #[derive(Deserialize)]
        struct Page {
            sessions: Vec<Shape>,
        }
        let page = self.ask::<Page>(&format!("/v1/sessions?limit={FOUND}&text={}", escaped(words)), None);
        // Orders are given to what is in the list, which knows who may.
        let row = |shape| Row { takes: Vec::new(), ..Row::from(shape) };
        let why = |(Away::Refused(why) | Away::Broken(why))| why;
        Some(page.map(|page| page.sessions.into_iter().map(row).collect()).map_err(why))
    }

    fn order(&self, id: &str, order: &Order) -> String {
        let word = order.kind();
        match self.put(id, order) {
            Ok(became) => format!("{word}: {became}"),
            Err(Away::Refused(why) | Away::Broken(why)) => format!("{word}: {why}"),
        }
    }
}

/// A text in an address.
fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => escaped.push(byte.into()),
            byte => {
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
        escaped
    })
}

#[cfg(test)]
mod tests {
    use super::Hub;
    use crate::source::Source as _;

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

    #[test]
    fn token_is_exposed_by_plain_address_of_other_machine() {
        let exposes = |address: &str| Hub::new(address, Some("t".to_owned())).exposes_token();
        assert!(["http://hub.example", "ws://hub.example:80", "hub.example:7421", "http://10.0.0.1"].into_iter().all(exposes));
        let safe = [
            "https://hub.example",
            "wss://hub.example",
            "HTTPS://hub.example",
            "127.0.0.1:7421",
            "http://[::1]:7421/",
            "http://localhost",
        ];
        assert!(!safe.into_iter().any(exposes));
        assert!(!Hub::new("http://hub.example", None).exposes_token());
        assert_eq!(Hub::new("ws://hub.example:80/", None).host(), "hub.example:80");
    }
}
