//! Hub endpoint of one session: addresses, TLS and credentials.

use std::fmt;
use std::sync::Arc;

use reqwest::Url;
use rustls::ClientConfig;
use sabir_protocol::{SessionId, is_loopback};

use crate::error::{RunnerError, Source};

/// A bearer token. Its `Debug` output hides the value.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(String);

impl BearerToken {
    /// Trims and validates a token.
    pub fn new(text: &str) -> Result<Self, RunnerError> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(RunnerError::InvalidToken);
        }
        Ok(Self(text.to_owned()))
    }

    /// The secret value.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Endpoint of a hub for one session.
#[derive(Debug, Clone)]
pub struct Hub {
    socket: Url,
    http: Url,
    token: Option<BearerToken>,
    tls: Option<Arc<ClientConfig>>,
}

impl Hub {
    /// Parses a `ws`, `wss`, `http` or `https` address.
    pub fn new(address: &str, session: &SessionId, token: Option<BearerToken>) -> Result<Self, RunnerError> {
        let invalid = |reason: &str| RunnerError::InvalidHubAddress { reason: reason.to_owned() };
        if !address.contains("://") {
            return Err(invalid("it has no scheme"));
        }
        let mut socket = Url::parse(address).map_err(|error| invalid(&error.to_string()))?;
        let is_tls = match socket.scheme() {
            "ws" | "http" => false,
            "wss" | "https" => true,
            _ => return Err(invalid("its scheme is not ws or wss")),
        };
        if socket.host_str().is_none_or(str::is_empty) {
            return Err(invalid("it names no host"));
        }
        if !socket.username().is_empty() || socket.password().is_some() {
            return Err(invalid("it has a user or a password in it; the token has a place of its own"));
        }
        // A parsed URL has at least the root path.
        if socket.path() == "/" {
            socket.set_path(&format!("/v1/shells/{}", session.in_address()));
        }
        socket.set_fragment(None);
        let with_scheme = |scheme: &str| {
            let text = socket.as_str().split_once(':').map_or("", |(_, rest)| rest);
            Url::parse(&format!("{scheme}:{text}")).map_err(|error| invalid(&error.to_string()))
        };
        let (ws, http) = if is_tls { ("wss", "https") } else { ("ws", "http") };
        let tls = if is_tls { Some(tls_config()?) } else { None };
        Ok(Self { socket: with_scheme(ws)?, http: with_scheme(http)?, token, tls })
    }

    /// URL of the WebSocket.
    pub fn websocket_url(&self) -> &Url {
        &self.socket
    }

    /// HTTP URL of a resource below the session's path.
    pub fn url_for(&self, name: &str) -> Url {
        let mut url = self.http.clone();
        let path = format!("{}/{name}", url.path().trim_end_matches('/'));
        url.set_path(&path);
        url
    }

    /// URL for artifact uploads; `None` for custom paths.
    pub fn artifacts_url(&self) -> Option<Url> {
        let mut url = self.http.clone();
        let (before, session) = self.http.path().split_once("/v1/shells/")?;
        let path = format!("{before}/v1/sessions/{session}/artifacts");
        url.set_path(&path);
        Some(url)
    }

    /// Value of the `Authorization` header.
    pub fn authorization(&self) -> Option<String> {
        self.token.as_ref().map(|token| format!("Bearer {}", token.reveal()))
    }

    /// Returns whether the token would be sent unencrypted to another machine.
    pub fn exposes_token(&self) -> bool {
        self.token.is_some() && self.tls.is_none() && !is_loopback(self.socket.host_str().unwrap_or_default())
    }

    /// TLS configuration, for encrypted addresses.
    pub fn tls(&self) -> Option<&Arc<ClientConfig>> {
        self.tls.as_ref()
    }

    /// Host and port.
    pub fn host(&self) -> String {
        let port = self.socket.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}{port}", self.socket.host_str().unwrap_or_default())
    }
}

/// TLS with the system's trust store.
fn tls_config() -> Result<Arc<ClientConfig>, RunnerError> {
    use rustls_platform_verifier::BuilderVerifierExt as _;
    let failed = |error| RunnerError::Tls(Source::new(error));
    install_crypto_provider();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_platform_verifier()
        .map_err(failed)?
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Installs the process-wide cryptography provider of rustls.
pub(crate) fn install_crypto_provider() {
    // Fails only if one is installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

#[cfg(test)]
mod tests {
    use super::{BearerToken, Hub};

    fn hub(address: &str) -> Result<Hub, crate::RunnerError> {
        Hub::new(address, &"a b".parse().expect("a session"), None)
    }

    #[test]
    fn hub_new_uses_session_path_unless_given() {
        let default = hub("ws://127.0.0.1:8080").expect("a hub");
        assert_eq!(default.websocket_url().as_str(), "ws://127.0.0.1:8080/v1/shells/a%20b");
        assert_eq!(default.url_for("hello").as_str(), "http://127.0.0.1:8080/v1/shells/a%20b/hello");
        assert_eq!(default.host(), "127.0.0.1:8080");
        let artifacts = default.artifacts_url().expect("a place for artifacts");
        assert_eq!(artifacts.as_str(), "http://127.0.0.1:8080/v1/sessions/a%20b/artifacts");
        let own = hub("http://h/my/own?x=1").expect("a hub");
        assert_eq!(own.websocket_url().as_str(), "ws://h/my/own?x=1");
        assert_eq!(own.url_for("batches").as_str(), "http://h/my/own/batches?x=1");
        for bad in ["", "h", "ftp://h", "ws://", "ws://u:p@h", "ws://u@h"] {
            assert!(hub(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn exposes_token_only_unencrypted_to_other_machines() {
        let exposes = |address: &str, token: Option<&str>| {
            let token = token.map(|token| BearerToken::new(token).expect("a token"));
            Hub::new(address, &"s".parse().expect("a session"), token).expect("a hub").exposes_token()
        };
        assert!(exposes("ws://hub.example", Some("t")) && exposes("http://10.0.0.1:80/own/path", Some("t")));
        assert!(!exposes("ws://hub.example", None) && !exposes("wss://hub.example", Some("t")));
        assert!(!exposes("ws://127.0.0.1:7421", Some("t")) && !exposes("ws://[::1]:7421", Some("t")));
    }

    #[test]
    fn bearer_token_debug_hides_value() {
        let token = BearerToken::new(" t0ken\n").expect("a token");
        assert_eq!((token.reveal(), format!("{token:?}").as_str()), ("t0ken", "Token(…)"));
        assert!(BearerToken::new("").is_err() && BearerToken::new("a b").is_err() && BearerToken::new("ü").is_err());
    }
}
