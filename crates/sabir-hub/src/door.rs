//! Which names the hub is called by, and which pages may call it.
//!
//! A page from elsewhere can make a browser send requests to a hub on this machine: by a name that it lets point here
//! (the `Host` is that name), or openly (the `Origin` is that page). A name that was not agreed on and an origin that
//! is not the hub itself are turned away. Addresses in numbers can't be made to point elsewhere, and are taken.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use sabir_protocol::{Code, Refusal};

use crate::hub::{Client, Peer, Refused, Shared};

#[derive(Debug, Clone)]
pub(crate) struct Door {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Door {
    pub(crate) fn new(hosts: Vec<String>, origins: Vec<String>) -> Self {
        let lower = |all: Vec<String>| all.into_iter().map(|one| one.trim_end_matches('/').to_ascii_lowercase()).collect();
        Self { hosts: lower(hosts), origins: lower(origins) }
    }

    fn lets_in(&self, headers: &HeaderMap, authority: Option<&str>) -> Result<(), Refusal> {
        let forbidden = |what: &str| Refusal::new(Code::Forbidden, what);
        let text = |name| headers.get(name).map(|value| value.to_str().map_err(|_| forbidden("a header is not text")));
        if headers.get_all(header::HOST).iter().count() > 1 {
            return Err(forbidden("there is more than one Host"));
        }
        let host = text(header::HOST).transpose()?.or(authority).ok_or_else(|| forbidden("there is no Host"))?;
        let host = host.to_ascii_lowercase();
        if !self.is_called(name(&host)) {
            return Err(forbidden("the hub is not called by this name; --host NAME says that it is"));
        }
        let Some(origin) = text(header::ORIGIN).transpose()? else { return Ok(()) };
        let origin = origin.to_ascii_lowercase();
        if is_own(&origin, &host) || self.origins.contains(&origin) {
            return Ok(());
        }
        Err(forbidden("pages of this origin may not use the hub; --origin says that they may"))
    }

    fn is_called(&self, name: &str) -> bool {
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        name == "localhost" || bare.parse::<IpAddr>().is_ok() || self.hosts.iter().any(|host| host == name)
    }
}

/// Whether an origin is that of the hub itself, which is called by `host`.
pub(crate) fn is_own(origin: &str, host: &str) -> bool {
    let same = |(scheme, rest): (&str, &str)| matches!(scheme, "http" | "https") && rest.eq_ignore_ascii_case(host);
    origin.split_once("://").is_some_and(same)
}

/// A host without its port.
fn name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) => {
            name
        }
        _ => host,
    }
}

/// Turns away who does not come by the right door.
pub(crate) async fn check(State(hub): State<Shared>, mut request: Request, next: Next) -> Response {
    hub.counts.requests.add(1);
    let client = Client::default();
    request.extensions_mut().insert(client.clone());
    let address = request.extensions().get::<Peer>().map(|peer| peer.address.to_string()).unwrap_or_default();
    let authority = request.uri().authority().map(ToString::to_string);
    let response = match hub.door.lets_in(request.headers(), authority.as_deref()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            hub.counts.turned_away.add(1);
            Refused(refusal).into_response()
        }
    };
    hub.audit.answered(client.0.get().unwrap_or(&address), response.status().as_u16());
    response
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, header};

    use super::Door;

    fn lets_in(host: Option<&str>, origin: Option<&str>) -> bool {
        let door = Door::new(vec!["Hub.example.org".to_owned()], vec!["https://page.example.org/".to_owned()]);
        let mut headers = HeaderMap::new();
        for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
            if let Some(value) = value {
                headers.insert(name, value.parse().expect("a header"));
            }
        }
        door.lets_in(&headers, None).is_ok()
    }

    #[test]
    fn only_known_names_and_pages_come_in() {
        for host in
            ["localhost", "localhost:7421", "127.0.0.1:7421", "[::1]:7421", "::1", "hub.example.org", "HUB.example.org:443"]
        {
            assert!(lets_in(Some(host), None), "{host}");
        }
        for host in
            ["evil.example.org", "localhost.evil.org:7421", "127.0.0.1.evil.org", "", "127.0.0.1:x", "hub.example.org.evil"]
        {
            assert!(!lets_in(Some(host), None), "{host}");
        }
        assert!(!lets_in(None, None));
        let own = Some("localhost:7421");
        assert!(lets_in(own, Some("http://localhost:7421")) && lets_in(own, Some("https://page.example.org")));
        for origin in ["http://evil.org", "null", "http://localhost:1", "ftp://localhost:7421", "http://localhost:7421.evil.org"]
        {
            assert!(!lets_in(own, Some(origin)), "{origin}");
        }
    }
}
