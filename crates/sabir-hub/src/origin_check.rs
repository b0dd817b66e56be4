//! Host and origin checks against DNS rebinding and cross-site requests.
//!
//! A foreign web page can make a browser send requests to a hub on this machine: through a DNS name that it points here (then
//! `Host` is that name), or directly (then `Origin` is that page). Unknown host names and foreign origins are refused. IP
//! addresses are accepted, because they cannot be rebound.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use sabir_protocol::{Code, Refusal};

use crate::error::ApiError;
use crate::extract::{ClientName, Peer};
use crate::state::SharedState;

/// Host names of the hub, and origins that may use it.
#[derive(Debug, Clone)]
pub(crate) struct HostPolicy {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl HostPolicy {
    pub(crate) fn new(hosts: Vec<String>, origins: Vec<String>) -> Self {
        let normalize = |all: Vec<String>| all.into_iter().map(|one| one.trim_end_matches('/').to_ascii_lowercase()).collect();
        Self { hosts: normalize(hosts), origins: normalize(origins) }
    }

    /// Checks `Host` and `Origin`. `authority` is that of an absolute request target.
    fn check(&self, headers: &HeaderMap, authority: Option<&str>) -> Result<(), Refusal> {
        let forbidden = |message: &str| Refusal::new(Code::Forbidden, message);
        let text = |name| headers.get(name).map(|value| value.to_str().map_err(|_| forbidden("a header is not text")));
        if headers.get_all(header::HOST).iter().count() > 1 {
            return Err(forbidden("more than one Host header"));
        }
        let host = text(header::HOST).transpose()?.or(authority).ok_or_else(|| forbidden("missing Host header"))?;
        let host = host.to_ascii_lowercase();
        if !self.is_allowed_host(strip_port(&host)) {
            return Err(forbidden("unknown host name; hint: start the hub with --host NAME"));
        }
        let Some(origin) = text(header::ORIGIN).transpose()? else { return Ok(()) };
        let origin = origin.to_ascii_lowercase();
        if is_own_origin(&origin, &host) || self.origins.contains(&origin) {
            return Ok(());
        }
        Err(forbidden("pages of this origin may not use the hub; hint: start the hub with --origin ORIGIN"))
    }

    fn is_allowed_host(&self, name: &str) -> bool {
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        name == "localhost" || bare.parse::<IpAddr>().is_ok() || self.hosts.iter().any(|host| host == name)
    }
}

/// Returns whether an origin is that of the hub itself, whose name is `host`.
pub(crate) fn is_own_origin(origin: &str, host: &str) -> bool {
    let matches = |(scheme, rest): (&str, &str)| matches!(scheme, "http" | "https") && rest.eq_ignore_ascii_case(host);
    origin.split_once("://").is_some_and(matches)
}

fn strip_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) => {
            name
        }
        _ => host,
    }
}

/// Middleware: applies the policy, and counts requests and refusals.
pub(crate) async fn enforce(State(state): State<SharedState>, mut request: Request, next: Next) -> Response {
    state.metrics.requests.add(1);
    let client = ClientName::default();
    request.extensions_mut().insert(client.clone());
    let address = Peer::of(request.extensions()).address;
    let authority = request.uri().authority().map(ToString::to_string);
    let response = match state.host_policy.check(request.headers(), authority.as_deref()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            state.metrics.rejected.add(1);
            ApiError(refusal).into_response()
        }
    };
    state.audit.count_response(client.0.get().unwrap_or(&address.to_string()), response.status().as_u16());
    response
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, header};

    use super::HostPolicy;

    fn is_allowed(host: Option<&str>, origin: Option<&str>) -> bool {
        let policy = HostPolicy::new(vec!["Hub.example.org".to_owned()], vec!["https://page.example.org/".to_owned()]);
        let mut headers = HeaderMap::new();
        for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
            if let Some(value) = value {
                headers.insert(name, value.parse().expect("a header"));
            }
        }
        policy.check(&headers, None).is_ok()
    }

    #[test]
    fn host_policy_allows_only_known_hosts_and_origins() {
        for host in
            ["localhost", "localhost:7421", "127.0.0.1:7421", "[::1]:7421", "::1", "hub.example.org", "HUB.example.org:443"]
        {
            assert!(is_allowed(Some(host), None), "{host}");
        }
        for host in
            ["evil.example.org", "localhost.evil.org:7421", "127.0.0.1.evil.org", "", "127.0.0.1:x", "hub.example.org.evil"]
        {
            assert!(!is_allowed(Some(host), None), "{host}");
        }
        assert!(!is_allowed(None, None));
        let own = Some("localhost:7421");
        assert!(is_allowed(own, Some("http://localhost:7421")) && is_allowed(own, Some("https://page.example.org")));
        for origin in ["http://evil.org", "null", "http://localhost:1", "ftp://localhost:7421", "http://localhost:7421.evil.org"]
        {
            assert!(!is_allowed(own, Some(origin)), "{origin}");
        }
    }
}
