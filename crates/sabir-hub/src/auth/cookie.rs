//! The session cookie of the web UI.
//!
//! `POST /v1/login` stores the token in a cookie that is `HttpOnly` and `SameSite=Strict`: every tab of the browser is signed
//! in, and no script can read the token. Cookies ignore ports, so the name includes the port; two hubs on one host do not
//! overwrite each other's cookie.
//!
//! For the same reason a browser also sends the cookie on requests that pages on other ports of the host make. The cookie
//! therefore authenticates only requests that come from the hub's own origin.

use axum::http::{HeaderMap, HeaderValue, Method, header};

use crate::origin_check;

/// The name of the cookie for the port in `Host`.
fn name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    match host.rsplit_once(':') {
        Some((_, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => format!("sabir-{port}"),
        _ => "sabir".to_owned(),
    }
}

/// The token in the cookie.
pub(crate) fn token(headers: &HeaderMap) -> Option<&str> {
    let name = name(headers);
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// A `Set-Cookie` header that stores `token` until the browser closes; without one it deletes the cookie.
pub(crate) fn set(headers: &HeaderMap, token: Option<&str>, tls: bool) -> Option<HeaderValue> {
    // A proxy may end TLS before the hub; browsers state the scheme in `Origin`.
    let is_https = |origin: &HeaderValue| origin.as_bytes().starts_with(b"https://");
    let secure = if tls || headers.get(header::ORIGIN).is_some_and(is_https) { "; Secure" } else { "" };
    let age = if token.is_none() { "; Max-Age=0" } else { "" };
    let (name, token) = (name(headers), token.unwrap_or_default());
    HeaderValue::from_str(&format!("{name}={token}; Path=/; HttpOnly; SameSite=Strict{age}{secure}")).ok()
}

/// Returns whether a request comes from a page of the hub, or from an address that the user typed and that changes nothing.
pub(crate) fn is_same_origin(method: &Method, headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let is_own =
        || text(header::ORIGIN).is_some_and(|origin| origin_check::is_own_origin(origin, text(header::HOST).unwrap_or_default()));
    // A WebSocket is opened with GET, and pages of any origin may open one.
    if headers.contains_key(header::UPGRADE) {
        return is_own();
    }
    match text(header::HeaderName::from_static("sec-fetch-site")) {
        Some("same-origin") => true,
        Some("none") => method.is_safe(),
        Some(_) => false,
        // Browsers omit `Sec-Fetch-Site` on plain HTTP to other machines, and `Origin` on reads from the same origin.
        None if headers.contains_key(header::ORIGIN) => is_own(),
        None => method.is_safe(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, Method};

    use super::{is_same_origin, set, token};

    /// Headers, and whether a GET and a POST with them are accepted.
    type Case<'a> = (&'a [(&'static str, &'a str)], bool, bool);

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().expect("a header"));
        }
        headers
    }

    #[test]
    fn cookie_name_includes_the_port_of_the_host() {
        for (host, name) in
            [("127.0.0.1:7421", "sabir-7421"), ("[::1]:7421", "sabir-7421"), ("[::1]", "sabir"), ("hub.org", "sabir")]
        {
            let request = headers(&[("host", host), ("cookie", "a=b; sabir-1=x"), ("cookie", &format!("c=d; {name}=right"))]);
            assert_eq!(token(&request), Some("right"), "{host}");
            let cookie = set(&request, Some("t"), false).expect("a header");
            assert_eq!(cookie, format!("{name}=t; Path=/; HttpOnly; SameSite=Strict"));
        }
        assert_eq!(token(&headers(&[("host", "localhost:2"), ("cookie", "sabir-1=x; sabir=y; xsabir-2=z; sabir-2")])), None);
    }

    #[test]
    fn cookie_is_secure_if_the_browser_uses_tls() {
        let secure = |fields: &[(&'static str, &str)], tls| {
            set(&headers(fields), None, tls).is_some_and(|value| value.to_str().expect("text").ends_with("Max-Age=0; Secure"))
        };
        assert!(secure(&[], true) && secure(&[("origin", "https://hub.org")], false));
        assert!(!secure(&[("origin", "http://hub.org")], false) && !secure(&[], false));
    }

    #[test]
    fn cookie_is_only_accepted_from_the_own_origin() {
        let own = ("origin", "http://localhost:1");
        let other = ("origin", "http://localhost:2");
        let upgrade = ("upgrade", "websocket");
        let cases: &[Case<'_>] = &[
            (&[], true, false),
            (&[own], true, true),
            (&[other], false, false),
            (&[("sec-fetch-site", "same-origin")], true, true),
            (&[("sec-fetch-site", "none")], true, false),
            (&[("sec-fetch-site", "same-site")], false, false),
            (&[("sec-fetch-site", "cross-site"), own], false, false),
            (&[upgrade], false, false),
            (&[upgrade, other], false, false),
            (&[upgrade, own], true, true),
        ];
        for (fields, get, post) in cases {
            let mut headers = headers(fields);
            headers.insert("host", "localhost:1".parse().expect("a header"));
            assert_eq!(
                (is_same_origin(&Method::GET, &headers), is_same_origin(&Method::POST, &headers)),
                (*get, *post),
                "{fields:?}"
            );
        }
    }
}
