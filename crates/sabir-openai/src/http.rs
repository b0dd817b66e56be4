//! Requests to the endpoint.

use std::io::{BufReader, Read as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sabir_core::event::Cause;
use serde::Deserialize;
use serde_json::Value;
use ureq::http::{HeaderMap, StatusCode};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use crate::trouble::{Again, Trouble, is_used_up, spoken};
use crate::{Config, Key};

/// How much of an error's body is looked at.
const ERROR_BYTES: u64 = 64 * 1024;

/// Where requests go, and with what.
pub(crate) struct Endpoint {
    agent: ureq::Agent,
    base_url: String,
    key: Option<Key>,
    headers: Vec<(String, String)>,
}

/// An answer that has begun.
pub(crate) struct Answer {
    pub(crate) body: BufReader<ureq::BodyReader<'static>>,
    /// The endpoint does not stream and gives one object.
    pub(crate) whole: bool,
}

impl Endpoint {
    pub(crate) fn new(config: &Config) -> Result<Self, Trouble> {
        let tls = match &config.certificates {
            Some(path) => TlsConfig::builder().root_certs(certificates(path)?).build(),
            None => TlsConfig::default(),
        };
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // A key is not carried to wherever an answer points.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .tls_config(tls)
            .user_agent(concat!("sabir/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(Duration::from_secs(30)))
            .timeout_recv_response(Some(config.silence))
            .timeout_per_read(Some(config.silence))
            .build()
            .new_agent();
        let base_url = config.base_url.trim_end_matches('/').to_owned();
        Ok(Self { agent, base_url, key: config.key.clone(), headers: config.headers.clone() })
    }

    /// Makes a request.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Answer, Trouble> {
        let mut request = self.agent.post(format!("{}/{path}", self.base_url));
        request = request.header("content-type", "application/json").header("accept", "text/event-stream, application/json");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {}", key.expose()));
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let response = request.send(body.to_string()).map_err(|error| self.unreachable(&error))?;
        let (parts, body) = response.into_parts();
        if !parts.status.is_success() {
            let mut text = Vec::new();
            // An error whose body breaks off is that error all the same.
            let _ = body.into_with_config().limit(ERROR_BYTES).reader().read_to_end(&mut text);
            return Err(self.refused(parts.status, &parts.headers, &String::from_utf8_lossy(&text)));
        }
        let whole = body.mime_type().is_some_and(|mime| mime.eq_ignore_ascii_case("application/json"));
        Ok(Answer { body: BufReader::new(body.into_with_config().limit(u64::MAX).reader()), whole })
    }

    /// The endpoint did not answer.
    fn unreachable(&self, error: &ureq::Error) -> Trouble {
        let message = self.without_key(&format!("{}: {error}", self.base_url));
        match error {
            ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::InvalidProxyUrl => {
                Trouble::fatal(Cause::InvalidRequest, message)
            }
            _ => Trouble::network(message),
        }
    }

    /// The endpoint answered with an error.
    fn refused(&self, status: StatusCode, headers: &HeaderMap, body: &str) -> Trouble {
        let said = said(body);
        let status = status.as_u16();
        let words = format!("{} {}", said.code, said.message).to_ascii_lowercase();
        let cause = match Cause::of_error(Some(status), &words) {
            _ if is_used_up(&said.code) => Cause::RateLimited,
            Cause::InvalidRequest if said.code.contains("model_not_found") => Cause::ModelNotFound,
            cause => cause,
        };
        let again = match status {
            404 | 405 | 501 if cause != Cause::ModelNotFound => Again::OtherApi,
            400 | 422 if ["stream_options", "include", "encrypted"].iter().any(|word| words.contains(word)) => Again::Plainer,
            408 | 409 | 425 | 429 | 500.. if !is_used_up(&said.code) => Again::Later(retry_after(headers)),
            _ => Again::Never,
        };
        let message = self.without_key(&spoken(&said.code, &said.message));
        Trouble { cause, message: format!("{status}: {message}"), again }
    }

    /// A message as anybody may see it: some endpoints repeat the key that they refuse.
    fn without_key(&self, message: &str) -> String {
        match &self.key {
            Some(key) => message.replace(key.expose(), "[key]"),
            None => message.to_owned(),
        }
    }
}

fn certificates(path: &std::path::Path) -> Result<RootCerts, Trouble> {
    let unusable =
        |why: String| Trouble::fatal(Cause::BadUsage, format!("can't use the certificates of {}: {why}", path.display()));
    let pem = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
    let mut list = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| unusable(error.to_string()))? {
            list.push(certificate);
        }
    }
    Ok(RootCerts::Specific(Arc::new(list)))
}

/// What an error says of itself.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Said {
    pub(crate) code: String,
    pub(crate) message: String,
}

/// Reads the shapes that errors come in: `{"error":{…}}`, `{"error":"…"}`, `{"message":"…"}`, `{"detail":"…"}`, a list of
/// them, or plain text.
pub(crate) fn said(body: &str) -> Said {
    let Ok(value) = serde_json::from_str::<Value>(body) else {
        let line = body.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        return Said { code: String::new(), message: line.chars().take(300).collect() };
    };
    said_in(value.get(0).unwrap_or(&value))
}

/// What a JSON error says.
pub(crate) fn said_in(value: &Value) -> Said {
    #[derive(Deserialize, Default)]
    struct Wire {
        code: Option<Value>,
        r#type: Option<Value>,
        message: Option<Value>,
        detail: Option<Value>,
    }
    let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
    if let Some(message) = error.as_str() {
        return Said { code: String::new(), message: message.to_owned() };
    }
    let wire = Wire::deserialize(error).unwrap_or_default();
    let plain = |value: Option<Value>| match value {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text),
        Some(other) => Some(other.to_string()),
    };
    let code = plain(wire.code).or(plain(wire.r#type)).unwrap_or_default();
    Said { code, message: plain(wire.message).or(plain(wire.detail)).unwrap_or_default() }
}

/// The wait that the endpoint asks for.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |name: &str| text(name)?.parse::<f64>().ok();
    if let Some(millis) = number("retry-after-ms") {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    if let Some(seconds) = number("retry-after") {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let moment = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text("retry-after")?).ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(Duration::from_secs(u64::try_from(moment.as_second()).ok()?).saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use super::{Said, retry_after, said};
    use std::time::Duration;
    use ureq::http::HeaderMap;

    #[test]
    fn errors_are_read_in_every_shape() {
        let says = |code: &str, message: &str| Said { code: code.into(), message: message.into() };
        assert_eq!(said(r#"{"error":{"message":"m","code":"c","type":"t"}}"#), says("c", "m"));
        assert_eq!(said(r#"{"error":{"message":"m","code":null,"type":"t"}}"#), says("t", "m"));
        assert_eq!(said(r#"[{"error":{"message":"m","code":400}}]"#), says("400", "m"));
        assert_eq!(said(r#"{"error":"m"}"#), says("", "m"));
        assert_eq!(said(r#"{"detail":"m"}"#), says("", "m"));
        assert_eq!(said("\n Bad Gateway\nmore"), says("", "Bad Gateway"));
    }

    #[test]
    fn waits_are_read_in_every_shape() {
        let wait = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().expect("a header"));
            retry_after(&headers)
        };
        assert_eq!(wait("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(wait("retry-after", "2"), Some(Duration::from_secs(2)));
        assert_eq!(wait("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(wait("retry-after", "soon"), None);
        assert_eq!(wait("retry-after", "-1"), None);
    }
}
