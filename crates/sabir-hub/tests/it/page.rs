//! The page, and how one comes to see it.

use sabir_hub::Entrance;
use serde_json::json;

use crate::client::{Setup, closed_hub, open_hub};

#[tokio::test]
async fn the_page_runs_its_own_script_and_nothing_else() {
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
        let small = hub.request("GET", &format!("/assets/{name}"), &[("accept-encoding", "gzip, zstd")], b"").await;
        assert!(small.head.contains("content-encoding: zstd") && small.head.contains("vary: accept-encoding"), "{}", small.head);
        assert_eq!(zstd::bulk::decompress(&small.body, file.body.len()).ok(), Some(file.body), "{name}");
        weight += small.body.len();
    }
    assert_eq!(count, 2, "a script and a style");
    assert!(weight < 150 << 10, "{weight} bytes");
    for gone in ["/assets/app.js", "/assets/", "/assets/../index.html", "/favicon.ico"] {
        assert_eq!(hub.get(gone).await.status, 404, "{gone}");
    }
    // Inline scripts and styles would not run.
    assert!(!text.contains("<style") && !text.contains("style=\"") && !text.contains(" onclick"), "{text}");
}

#[tokio::test]
async fn one_says_who_one_is() {
    let hub = closed_hub().await;
    assert_eq!(hub.get("/v1/me").await.status, 401);
    for (scope, told, read_only) in [("watch", "watch", true), ("operate", "operate", false), ("runner:s", "runner", true)] {
        let me = hub.get_with("/v1/me", &hub.token(scope).await).await.json();
        assert_eq!((&me["scope"], &me["readOnly"], &me["local"]), (&json!(told), &json!(read_only), &json!(false)));
        assert_eq!(me["version"], env!("CARGO_PKG_VERSION"));
    }
    let open = open_hub().await;
    assert_eq!(open.get("/v1/me").await.json()["scope"], "operate");
}

#[tokio::test]
async fn an_address_lets_in_once() {
    let entrance = Entrance::new("watch".parse().expect("a scope"));
    let setup = Setup { open: false, entrance: Some(entrance.clone()), ..Setup::default() };
    let hub = setup.start().await;
    let mut used = entrance.used();
    let (first, second) = (entrance.token().expect("randomness"), entrance.token().expect("randomness"));
    let enter = async |token: &str| hub.post("/v1/enter", &json!({ "token": token })).await;
    assert_eq!(enter("").await.status, 401);
    assert_eq!(enter(&first[1..]).await.status, 401);
    assert_eq!(*used.borrow_and_update(), 0);
    let entered = enter(&first).await;
    assert_eq!(entered.status, 200, "{}", entered.text());
    assert_eq!(*used.borrow_and_update(), 1);
    let token = entered.json()["token"].as_str().expect("a token").to_owned();
    assert_eq!(enter(&first).await.status, 401, "it was used");
    assert_eq!(hub.get_with("/v1/me", &token).await.json()["scope"], "watch");
    assert_eq!(hub.get_with("/v1/sessions", &token).await.status, 200);
    assert_eq!(hub.get_with("/v1/sessions", &second).await.status, 401, "it is for entering only");
    assert_eq!(enter(&second).await.status, 200);
    assert_eq!(hub.post("/v1/enter", &json!({})).await.status, 400);
    assert_eq!(closed_hub().await.post("/v1/enter", &json!({ "token": "x" })).await.status, 401);
}
