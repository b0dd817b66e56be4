//! Web UI: its files, sign-in, and the session cookie.

use sabir_hub::OneTimeTokens;
use sabir_protocol::SUBPROTOCOL;
use serde_json::{Value, json};

use crate::client::{Reply, Running, Setup, closed_hub, open_hub};

#[tokio::test]
async fn content_security_policy_allows_only_own_assets() {
    let hub = open_hub().await;
    let page = hub.get("/").await;
    let head = &page.head;
    assert_eq!(page.status, 200);
    let policy = head.lines().find_map(|line| line.strip_prefix("content-security-policy: ")).expect("a policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self';"), "{policy}");
    assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(head.contains("x-content-type-options: nosniff") && head.contains("referrer-policy: no-referrer"), "{head}");
    assert!(head.contains("cache-control: no-store"), "{head}");
    let text = page.text();
    let (mut count, mut weight) = (0, page.body.len());
    for part in text.split("/assets/").skip(1) {
        let name = part.split('"').next().expect("a name");
        let file = hub.get(&format!("/assets/{name}")).await;
        let kind = if name.starts_with("app-") { "text/javascript" } else { "text/css" };
        assert_eq!(file.status, 200, "{name}");
        assert!(file.head.contains(kind) && file.head.contains("immutable") && !file.body.is_empty(), "{}", file.head);
        count += 1;
        let compressed = hub.request("GET", &format!("/assets/{name}"), &[("accept-encoding", "gzip, zstd")], b"").await;
        assert!(
            compressed.head.contains("content-encoding: zstd") && compressed.head.contains("vary: accept-encoding"),
            "{}",
            compressed.head
        );
        assert_eq!(zstd::bulk::decompress(&compressed.body, file.body.len()).ok(), Some(file.body), "{name}");
        weight += compressed.body.len();
    }
    assert_eq!(count, 2, "a script and a style");
    assert!(weight < 150 << 10, "{weight} bytes");
    for path in ["/assets/app.js", "/assets/", "/assets/../index.html", "/favicon.ico"] {
        assert_eq!(hub.get(path).await.status, 404, "{path}");
    }
    // The policy blocks inline scripts and styles.
    assert!(!text.contains("<style") && !text.contains("style=\"") && !text.contains(" onclick"), "{text}");
}

#[tokio::test]
async fn me_returns_scope_and_version() {
    let hub = closed_hub().await;
    assert_eq!(hub.get("/v1/me").await.status, 401);
    for (scope, expected, read_only) in [("watch", "watch", true), ("operate", "operate", false), ("runner:s", "runner", true)] {
        let me = hub.get_with("/v1/me", &hub.token(scope).await).await.json();
        assert_eq!((&me["scope"], &me["readOnly"], &me["local"]), (&json!(expected), &json!(read_only), &json!(false)));
        assert_eq!(me["version"], env!("CARGO_PKG_VERSION"));
    }
    let open = open_hub().await;
    assert_eq!(open.get("/v1/me").await.json()["scope"], "operate");
}

/// The `Cookie` header for the cookie that a response sets.
fn cookie_of(reply: &Reply) -> Option<String> {
    let set = reply.head.lines().find_map(|line| line.strip_prefix("set-cookie: "))?;
    Some(set.split(';').next()?.to_owned())
}

/// Audit entries of one action, without their times.
fn audited(hub: &Running, what: &str) -> Vec<Value> {
    let lines = crate::client::file(hub.folder.path(), "audit.jsonl");
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let mut lines: Vec<Value> = lines.filter(|line| line["what"] == what).collect();
    for line in &mut lines {
        assert!(line["at"].take().is_string());
        line.as_object_mut().expect("an object").remove("at");
    }
    lines
}

#[tokio::test]
async fn session_cookie_is_only_accepted_from_the_own_origin() {
    let hub = closed_hub().await;
    let port = hub.address.port();
    assert_eq!(hub.get("/v1/login").await.json()["method"], "token");
    for (token, status) in [("x".to_owned(), 401), (hub.token("runner:s").await, 403)] {
        let refused = hub.post("/v1/login", &json!({ "token": token })).await;
        assert_eq!((refused.status, cookie_of(&refused)), (status, None));
    }
    let (id, token) = hub.token_until("operate", None).await;
    let signed_in = hub.post("/v1/login", &json!({ "token": token })).await;
    assert_eq!((signed_in.status, signed_in.body.len()), (204, 0));
    let expected = format!("set-cookie: sabir-{port}={token}; path=/; httponly; samesite=strict");
    assert!(signed_in.head.lines().any(|line| line == expected), "{}", signed_in.head);
    let cookie = cookie_of(&signed_in).expect("a cookie");
    let login = json!({"who": "127.0.0.1", "what": "login", "token": id, "scopes": ["operate"]});
    assert_eq!(audited(&hub, "login"), [login], "refused logins are not logins");
    assert!(!crate::client::file(hub.folder.path(), "audit.jsonl").contains(&token), "only the id of a token is in it");

    let own = format!("http://{}", hub.address);
    let other = "http://127.0.0.1:1".to_owned();
    let request = async |method: &str, path: &str, more: &[(&str, &str)]| {
        let headers = [&[("Cookie", cookie.as_str())], more].concat();
        hub.request(method, path, &headers, br#"{"kind":"cancel"}"#).await.status
    };
    let me = hub.request("GET", "/v1/me", &[("Cookie", &cookie)], b"").await.json();
    assert_eq!((&me["scope"], &me["cookie"]), (&json!("operate"), &json!(true)));
    assert_eq!(hub.get_with("/v1/me", &token).await.json()["cookie"], false, "API clients have their token");
    // Reading: browsers name other ports of the same host in `Sec-Fetch-Site`.
    assert_eq!(request("GET", "/v1/sessions", &[("Sec-Fetch-Site", "same-origin")]).await, 200);
    assert_eq!(request("GET", "/v1/sessions", &[("Sec-Fetch-Site", "same-site")]).await, 403);
    // Writing: the session does not exist, so an accepted request gets 404.
    let commands = "/v1/sessions/nobody/commands";
    assert_eq!(request("POST", commands, &[("Origin", &own)]).await, 404);
    for headers in [&[][..], &[("Origin", other.as_str())], &[("Sec-Fetch-Site", "cross-site"), ("Origin", own.as_str())]] {
        assert_eq!(request("POST", commands, headers).await, 403, "{headers:?}");
    }
    assert_eq!(request("GET", "/v1/sessions", &[("Host", "evil.example.org")]).await, 403, "DNS rebinding");
    // The cookie of a hub on another port is not valid.
    let foreign = cookie.replacen(&port.to_string(), "1", 1);
    assert_eq!(hub.request("GET", "/v1/sessions", &[("Cookie", &foreign)], b"").await.status, 401);

    // Streams: server-sent events as above, WebSockets by their origin.
    let runner = format!("Bearer {}", hub.token("runner:s").await);
    let headers = [("Sec-WebSocket-Protocol", SUBPROTOCOL), ("Authorization", runner.as_str())];
    hub.socket("/v1/runners/s", &headers).await.expect("a WebSocket").hello("s", "a", 1, 0).await;
    let socket = async |more: &[(&str, &str)]| {
        let headers = [&[("Cookie", cookie.as_str())], more].concat();
        hub.socket("/v1/sessions/s/watch", &headers).await.map(|_| ())
    };
    assert_eq!(socket(&[("Origin", &own)]).await, Ok(()));
    assert_eq!((socket(&[]).await, socket(&[("Origin", &other)]).await), (Err(403), Err(403)));

    // Signing out deletes the cookie but not a token that signing in did not create; revoking the token ends both.
    let signed_out = hub.request("POST", "/v1/logout", &[("Cookie", &cookie), ("Origin", &own)], b"").await;
    assert!(signed_out.status == 204 && signed_out.head.contains("max-age=0"), "{}", signed_out.head);
    // Without `Origin`, the logout route itself refuses a request from another site.
    for headers in [&[][..], &[("Sec-Fetch-Site", "same-site")], &[("Origin", other.as_str())]] {
        assert_eq!(request("POST", "/v1/logout", headers).await, 403, "{headers:?}");
    }
    assert_eq!(hub.get_with("/v1/me", &token).await.status, 200);
    assert_eq!(audited(&hub, "token_revoked"), [json!(null); 0]);
    let mut events = hub.events("/v1/sessions/events", &[("Cookie", &cookie), ("Connection", "close")]).await;
    assert_eq!(events.status().await, 200);
    hub.store.tokens.revoke_token(&id, sabir_hub::now()).await.expect("revoked");
    while events.next().await.is_some() {}
    assert_eq!(hub.request("GET", "/v1/me", &[("Cookie", &cookie)], b"").await.status, 401);
}

#[tokio::test]
async fn logout_revokes_the_token_of_a_one_time_login() {
    let tokens = OneTimeTokens::new("watch".parse().expect("a scope"));
    let hub = Setup { open: false, one_time_tokens: Some(tokens.clone()), ..Setup::default() }.start().await;
    assert_eq!(hub.get("/v1/login").await.json()["method"], "address");
    let once = json!({ "token": tokens.issue().expect("randomness") });
    let cookie = cookie_of(&hub.post("/v1/login", &once).await).expect("a cookie");
    assert_eq!(hub.post("/v1/login", &once).await.status, 401, "it was used");
    let own = format!("http://{}", hub.address);
    let mut statuses = Vec::new();
    for (method, path) in [("GET", "/v1/me"), ("POST", "/v1/logout"), ("GET", "/v1/me")] {
        statuses.push(hub.request(method, path, &[("Cookie", &cookie), ("Origin", &own)], b"").await.status);
    }
    assert_eq!(statuses, [200, 204, 401]);
    let (login, logout) = (audited(&hub, "login"), audited(&hub, "token_revoked"));
    assert_eq!((login.len(), logout.len()), (1, 1));
    assert_eq!(logout[0], json!({"who": "127.0.0.1", "what": "token_revoked", "token": login[0]["token"], "scopes": ["watch"]}));
}

#[tokio::test]
async fn one_time_token_is_valid_once() {
    let tokens = OneTimeTokens::new("watch".parse().expect("a scope"));
    let setup = Setup { open: false, one_time_tokens: Some(tokens.clone()), ..Setup::default() };
    let hub = setup.start().await;
    let mut used = tokens.redeemed();
    let (first, second) = (tokens.issue().expect("randomness"), tokens.issue().expect("randomness"));
    let exchange = async |token: &str| hub.post("/v1/enter", &json!({ "token": token })).await;
    assert_eq!(exchange("").await.status, 401);
    assert_eq!(exchange(&first[1..]).await.status, 401);
    assert_eq!(*used.borrow_and_update(), 0);
    let exchanged = exchange(&first).await;
    assert_eq!(exchanged.status, 200, "{}", exchanged.text());
    assert_eq!(*used.borrow_and_update(), 1);
    let token = exchanged.json()["token"].as_str().expect("a token").to_owned();
    assert_eq!(exchange(&first).await.status, 401, "it was used");
    assert_eq!(hub.get_with("/v1/me", &token).await.json()["scope"], "watch");
    assert_eq!(hub.get_with("/v1/sessions", &token).await.status, 200);
    assert_eq!(hub.get_with("/v1/sessions", &second).await.status, 401, "it is only valid for an exchange");
    assert_eq!(exchange(&second).await.status, 200);
    assert_eq!(hub.post("/v1/enter", &json!({})).await.status, 400);
    assert_eq!(closed_hub().await.post("/v1/enter", &json!({ "token": "x" })).await.status, 401);
}
