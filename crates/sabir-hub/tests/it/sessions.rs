//! Listings, results, artifacts, health, metrics and the OpenAPI document.

use ring::digest::{SHA256, digest};
use sabir_protocol::FromHub;
use serde_json::{Value, json};

use crate::client::{Running, event, frame, hello, message, open_hub};

/// Stores a session with one complete run.
async fn store_run(hub: &Running, session: &str, agent: &str, outcome: &str) {
    let mut runner = hub.runner(session).await;
    runner.hello(session, "a", 1, 0).await;
    let init = json!({
        "sessionId": session, "seq": 1, "ts": "2026-01-02T03:04:05Z", "type": "init", "origin": "runner",
        "payload": { "adapter": agent, "meta": { "workspace": format!("work-{session}") } }
    });
    let lines = [
        init.to_string(),
        event(session, 2, &json!({"kind":"started","agent":agent})),
        event(session, 3, &json!({"kind":"toolStart","toolCallId":"1","name":"bash","toolKind":"execute"})),
        event(session, 4, &json!({"kind":"toolEnd","toolCallId":"1","ok":true,"status":"ok"})),
        event(session, 5, &json!({"kind":"usage","scope":"run","inputTokens":10,"outputTokens":5})),
        message(session, 6, &format!("Fixed the parser of {session}")),
        event(session, 7, &json!({"kind":"final","text":"done"})),
        event(session, 8, &json!({"kind":"exited","outcome":outcome,"cancelled":false})),
    ];
    runner.send(frame(1, &lines)).await;
    assert_eq!(runner.receive().await, FromHub::Ack { last: 8 });
    // The overview is updated in the background.
    while hub.get(&format!("/v1/sessions?workspace=work-{session}")).await.json()["sessions"][0]["folded"] != 8 {}
}

#[tokio::test(flavor = "multi_thread")]
async fn list_filters_sessions() {
    let hub = open_hub().await;
    store_run(&hub, "one", "codex", "completed").await;
    store_run(&hub, "two", "pi", "failed").await;
    store_run(&hub, "three", "codex", "failed").await;
    let names = async |query: &str| {
        let reply = hub.get(&format!("/v1/sessions?{query}")).await;
        assert_eq!(reply.status, 200, "{query}: {}", reply.text());
        let sessions = reply.json()["sessions"].as_array().expect("a list").clone();
        sessions.iter().map(|session| session["session"].as_str().expect("an id").to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("").await, "three two one");
    assert_eq!(names("agent=codex").await, "three one");
    assert_eq!(names("status=error&agent=codex").await, "three");
    assert_eq!(names("status=success").await, "one");
    assert_eq!(names("workspace=work-two").await, "two");
    assert_eq!(names("text=parser%20two").await, "two");
    assert_eq!(names("text=tw").await, "");
    assert_eq!(names("prefix=t").await, "three two");
    assert_eq!(names("prefix=hree").await, "", "not the beginning");
    assert_eq!(names("prefix=%25").await, "", "no pattern");
    assert_eq!(names("since=2020-01-01T00:00:00Z").await, "three two one");
    assert_eq!(names("since=2999-01-01T00:00:00Z").await, "");
    assert_eq!(hub.get("/v1/agents").await.json(), json!({ "agents": ["codex", "pi"] }));
    let first = hub.get("/v1/sessions?limit=2").await.json();
    let cursor = first["next"].as_str().expect("a cursor");
    assert_eq!(names(&format!("limit=2&cursor={cursor}")).await, "one");
    for bad in ["status=sleepy", "since=yesterday", "limit=x", "cursor=x", "limit=-1"] {
        assert_eq!(hub.get(&format!("/v1/sessions?{bad}")).await.status, 400, "{bad}");
    }
    let session = hub.get("/v1/sessions/one").await.json();
    let overview = &session["overview"];
    assert_eq!((&overview["agent"], &overview["phase"], &overview["tokens"]), (&json!("codex"), &json!("success"), &json!(15)));
    assert_eq!((&overview["toolCalls"], &overview["tool"], &session["last"]), (&json!(1), &Value::Null, &json!(8)));
    assert_eq!(hub.get("/v1/sessions/nobody").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn results_have_one_entry_per_run() {
    let hub = open_hub().await;
    store_run(&hub, "s", "codex", "completed").await;
    let result = hub.get("/v1/sessions/s/result").await.json();
    assert_eq!((&result["last"], result["runs"].as_array().map(Vec::len)), (&json!(8), Some(1)));
    let run = &result["runs"][0];
    assert_eq!((&run["text"], &run["outcome"], &run["tokens"]["total"]), (&json!("done"), &json!("completed"), &json!(15)));
    let log = hub.get("/v1/sessions/s/log").await;
    assert_eq!(log.text().lines().count(), 8);
    assert!(log.head.contains("filename=\"s.jsonl\""), "{}", log.head);
    for path in ["result", "log"] {
        assert_eq!(hub.get(&format!("/v1/sessions/nobody/{path}")).await.status, 404);
    }
}

fn digest_of(bytes: &[u8]) -> String {
    let digest = digest(&SHA256, bytes);
    digest.as_ref().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

#[tokio::test]
async fn artifact_upload_resumes_and_download_needs_all_bytes() {
    let hub = open_hub().await;
    let bytes: Vec<u8> = (0..200_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    let name = digest_of(&bytes);
    let all = "/v1/sessions/s/artifacts";
    let one = format!("{all}/{name}");
    let about = json!({"digest":name,"size":bytes.len(),"name":"../../x\".html","mediaType":"text/html","complete":true});
    assert_eq!(hub.post(all, &about).await.status, 404, "no session");
    hub.post("/v1/runners/s/hello", &hello("s", "a", 1, 0)).await;
    assert_eq!(hub.request("PUT", &one, &[], &bytes).await.status, 404, "not declared");
    assert_eq!(hub.post(all, &about).await.json(), json!({"offset":0,"complete":false}), "only the bytes make it complete");
    assert_eq!(hub.get(all).await.json()["artifacts"][0]["complete"], false);
    let part = hub.request("PUT", &one, &[], &bytes[..70_000]).await;
    assert_eq!(part.json(), json!({"offset":70_000,"complete":false}));
    assert_eq!(hub.get(&one).await.status, 404, "not complete");
    assert_eq!(hub.post(all, &about).await.json()["offset"], 70_000, "the offset at which the upload continues");
    let wrong = hub.request("PUT", &format!("{one}?offset=5"), &[], &bytes[5..]).await;
    assert_eq!((wrong.status, wrong.json()["offset"].clone()), (409, json!(70_000)));
    let rest = hub.request("PUT", &format!("{one}?offset=70000"), &[], &bytes[70_000..]).await;
    assert_eq!(rest.json(), json!({"offset":bytes.len(),"complete":true}));
    let got = hub.get(&one).await;
    assert_eq!((got.status, got.body.len()), (200, bytes.len()));
    assert_eq!(got.body, bytes);
    assert!(got.head.contains("attachment; filename=\"x_.html\"") && got.head.contains("octet-stream"), "{}", got.head);
    assert_eq!(hub.post(all, &about).await.json()["complete"], true, "it need not be uploaded again");
    // The digest does not give another session access.
    hub.post("/v1/runners/t/hello", &hello("t", "a", 1, 0)).await;
    assert_eq!(hub.get(&format!("/v1/sessions/t/artifacts/{name}")).await.status, 404);
}

#[tokio::test]
async fn artifact_list_is_limited() {
    let hub = open_hub().await;
    hub.post("/v1/runners/s/hello", &hello("s", "a", 1, 0)).await;
    let declare = async |number: u32| {
        let about = json!({"digest":digest_of(&number.to_le_bytes()),"size":1,"name":"x".repeat(15 << 10)});
        hub.post("/v1/sessions/s/artifacts", &about).await
    };
    let mut declared = 0;
    let refused = loop {
        let reply = declare(declared).await;
        if reply.status != 200 {
            break reply;
        }
        declared += 1;
        assert!(declared < 400, "the limit has no effect");
    };
    assert_eq!((refused.code().as_str(), declared > 200), ("too_large", true));
    assert!(hub.get("/v1/sessions/s/artifacts").await.body.len() < 5 << 20);
    assert_eq!(declare(0).await.status, 200, "a known one may be announced again");
}

#[tokio::test]
async fn artifact_with_wrong_bytes_is_rejected() {
    let hub = open_hub().await;
    hub.post("/v1/runners/s/hello", &hello("s", "a", 1, 0)).await;
    let name = digest_of(b"good");
    let all = "/v1/sessions/s/artifacts";
    let one = format!("{all}/{name}");
    assert_eq!(hub.post(all, &json!({"digest":name,"size":4})).await.status, 200);
    assert_eq!(hub.request("PUT", &one, &[], b"evil").await.code(), "malformed");
    assert_eq!(hub.request("PUT", &one, &[], b"good and more").await.code(), "too_large");
    assert_eq!(hub.get(&one).await.status, 404);
    assert_eq!(hub.request("PUT", &one, &[], b"good").await.json()["complete"], true);
    assert_eq!(hub.get(&one).await.body, b"good");
    let huge = json!({"digest":digest_of(b"x"),"size":u64::MAX});
    assert_eq!(hub.post(all, &huge).await.code(), "too_large");
    for bad in [json!({"digest":"../../x","size":1}), json!({"digest":name.to_uppercase(),"size":1}), json!({"size":1})] {
        assert_eq!(hub.post(all, &bad).await.code(), "malformed", "{bad}");
    }
}

#[tokio::test]
async fn health_metrics_and_web_ui_are_served() {
    let hub = open_hub().await;
    store_run(&hub, "s", "codex", "completed").await;
    assert_eq!(hub.get("/healthz").await.text(), "ok\n");
    let page = hub.get("/").await;
    assert!(page.text().contains("<title>Sabir</title>") && page.head.contains("x-frame-options: deny"));
    let metrics = hub.get("/metrics").await.text();
    assert!(metrics.contains("\nsabir_hub_messages_total 8\n"), "{metrics}");
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.split_once(' ').expect("a name and a value");
        assert!(name.starts_with("sabir_hub_") && value.parse::<u64>().is_ok(), "{line}");
    }
}

#[tokio::test]
async fn openapi_document_matches_the_routes() {
    let hub = open_hub().await;
    let document = hub.get("/openapi.json").await.json();
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.")));
    let paths = document["paths"].as_object().expect("addresses");
    let mut ids = Vec::new();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().expect("methods") {
            ids.push(operation["operationId"].as_str().expect("an id").to_owned());
            // A documented route exists and accepts the method.
            let address = path.replace("{session}", "nobody").replace("{digest}", &"0".repeat(64));
            let responses = operation["responses"].as_object().expect("responses");
            if responses.contains_key("200") && responses["200"]["content"]["text/event-stream"].is_object() {
                // Streams do not end by themselves.
                let status = hub.events(&address, &[]).await.status().await;
                assert!(responses.contains_key(&status.to_string()), "{method} {path}: {status}");
                continue;
            }
            let reply = hub.request(&method.to_uppercase(), &address, &[], b"").await;
            let is_unknown = reply.status == 404 && reply.json()["message"] == "not found" && !path.contains('{');
            assert!(reply.status != 405 && !is_unknown && reply.status < 500, "{method} {path}: {}", reply.status);
            let status = reply.status.to_string();
            assert!(responses.contains_key(&status), "{method} {path}: {status} is not documented");
        }
    }
    assert_eq!(ids.len(), 31, "update this number with the routes");
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 31, "ids are unique");
}
