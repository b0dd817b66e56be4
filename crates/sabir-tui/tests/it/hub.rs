//! A hub that says what it was told to, on this machine.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use sabir_core::fold::Phase;
use sabir_core::fold::timeline::{Change, TimelineFold, What};
use sabir_tui::Source as _;
use sabir_tui::source::hub::Hub;
use sabir_tui::source::{Feed, Listing, Order, Wake};

use crate::sample::{changes, events};

/// Answers each request with the next of these, and tells what was asked.
fn serve(answers: Vec<String>) -> (String, Receiver<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for (answer, stream) in answers.into_iter().zip(listener.incoming()) {
            let mut stream: TcpStream = stream.expect("a connection");
            let reader = BufReader::new(stream.try_clone().expect("the same"));
            let asked: Vec<String> = reader.lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            sender.send(asked).expect("heard");
            stream.write_all(answer.as_bytes()).expect("answered");
        }
    });
    (address, receiver)
}

fn stream(events: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}")
}

fn answer(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn the_list_of_a_hub_is_told_as_it_changes() {
    let one = |phase: &str, tokens: u32| {
        format!(
            "event: session\ndata: {{\"session\":\"a b\",\"connected\":true,\"last\":3,\"folded\":3,\"takes\":[\"cancel\"],\"shell\":null,\"created\":\"2026-11-15T11:58:00Z\",\"updated\":\"2026-11-15T11:59:00Z\",\"overview\":{{\"agent\":\"codex\",\"phase\":\"{phase}\",\"tokens\":{tokens},\"tool\":\"shell\",\"later\":1}}}}\n\n"
        )
    };
    let me = answer("200 OK", r#"{"scope":"operate","readOnly":false}"#);
    let (address, asked) =
        serve(vec![me, stream(&format!("event: reset\ndata: {{}}\n\n{}:\n\n{}", one("running", 1), one("success", 7)))]);
    let hub = Hub::new(&address, Some("secret".to_owned()));
    let mut last = None;
    hub.list(&Wake::default(), &mut |listing| match listing {
        Listing::Rows(rows) => {
            last = Some(rows);
            true
        }
        Listing::Trouble(_) => false,
    });
    let rows = last.expect("told");
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0].id.as_str(), rows[0].agent.as_str(), rows[0].phase, rows[0].tokens),
        ("a b", "codex", Phase::Success, Some(7))
    );
    assert_eq!(rows[0].started, Some(1_794_743_880_000));
    assert!(rows[0].takes("cancel") && !rows[0].takes("prompt"));
    assert!(asked.recv().expect("asked")[0].starts_with("GET /v1/me "));
    let asked = asked.recv().expect("asked");
    assert!(asked[0].starts_with("GET /v1/sessions/events "));
    assert!(asked.iter().any(|line| line.eq_ignore_ascii_case("authorization: Bearer secret")), "{asked:?}");
}

#[test]
fn a_stream_that_breaks_off_goes_on_after_what_was_seen() {
    let all = changes(&mut TimelineFold::default(), &mut 0, &events());
    let json = |changes: &[Change]| serde_json::to_string(changes).expect("JSON");
    let first = stream(&format!("id: 5\ndata: {}\n\n", json(&all[..5])));
    let second = stream(&format!("id: 21\ndata: {}\n\nevent: live\nid: 21\ndata: {{\"last\":21}}\n\n", json(&all[5..])));
    let (address, asked) = serve(vec![first, second]);
    let hub = Arc::new(Hub::new(&address, None));
    let mut told = Vec::new();
    hub.watch("a b/c", &mut |feed| {
        let live = feed == Feed::Live;
        told.push(feed);
        !live
    });
    let got: Vec<Change> = told
        .iter()
        .filter_map(|feed| if let Feed::Changes(changes) = feed { Some(changes.clone()) } else { None })
        .flatten()
        .collect();
    assert_eq!(got, all);
    assert!(got.iter().any(|change| matches!(change, Change::Put(item) if matches!(item.what, What::Tool { .. }))));
    let (one, two) = (asked.recv().expect("asked"), asked.recv().expect("asked again"));
    assert!(one[0].starts_with("GET /v1/sessions/a%20b%2Fc/timeline "), "{one:?}");
    assert!(!one.iter().any(|line| line.to_lowercase().starts_with("last-event-id")));
    assert!(two.iter().any(|line| line.eq_ignore_ascii_case("last-event-id: 5")), "{two:?}");
}

#[test]
fn a_hub_that_says_no_is_not_asked_again_and_says_why() {
    let (address, asked) =
        serve(vec![answer("401 Unauthorized", r#"{"code":"unauthorized","message":"a token is needed\u001b[2J"}"#)]);
    let mut told = Vec::new();
    Hub::new(&address, None).watch("x", &mut |feed| {
        told.push(feed);
        true
    });
    let [Feed::Trouble(why)] = &*told else { panic!("{told:?}") };
    assert!(why.contains("401 a token is needed; --token or SABIR_TOKEN"), "{why}");
    assert_eq!(asked.iter().count(), 1);
}

#[test]
fn a_token_that_may_only_watch_gives_no_orders() {
    let session = "event: session\ndata: {\"session\":\"a\",\"takes\":[\"cancel\"],\"overview\":{\"phase\":\"running\"}}\n\n";
    let me = r#"{"scope":"watch","readOnly":true}"#;
    let (address, _asked) = serve(vec![answer("200 OK", me), stream(session)]);
    let mut takes = None;
    Hub::new(&address, None).list(&Wake::default(), &mut |listing| match listing {
        Listing::Rows(rows) => {
            takes = rows.first().map(|row| row.takes("cancel"));
            takes.is_none()
        }
        Listing::Trouble(why) => panic!("{why}"),
    });
    assert_eq!(takes, Some(false));
}

#[test]
fn an_order_is_put_and_what_became_of_it_is_told() {
    let (address, asked) = serve(vec![
        answer("201 Created", r#"{"order":3}"#),
        answer("200 OK", r#"{"orders":[{"order":{"order":3,"kind":"permission"},"taken":null}]}"#),
        answer("200 OK", r#"{"orders":[{"taken":{"order":3,"accepted":true}}]}"#),
        answer("201 Created", r#"{"order":4}"#),
        answer("200 OK", r#"{"orders":[{"taken":{"order":4,"accepted":false,"reason":"it has ended"}}]}"#),
        answer("403 Forbidden", r#"{"code":"forbidden","message":"may only watch"}"#),
    ]);
    let hub = Hub::new(&address, Some("secret".to_owned()));
    assert_eq!(hub.order("a b", &Order::Answer { request: "q".to_owned(), allow: false }), "permission: taken");
    assert_eq!(hub.order("a b", &Order::Cancel), "cancel: refused: it has ended");
    let no = hub.order("a b", &Order::Prompt("go on".to_owned()));
    assert!(no.starts_with("prompt: ") && no.contains("403 may only watch"), "{no}");
    let first: Vec<String> = asked.iter().map(|asked| asked[0].clone()).collect();
    assert_eq!(first.iter().filter(|line| line.starts_with("POST /v1/sessions/a%20b/orders ")).count(), 3, "{first:?}");
    assert!(first[1].starts_with("GET /v1/sessions/a%20b/orders?after=2 "), "{first:?}");
}

#[test]
fn a_hub_looks_through_all_that_was_said() {
    let page =
        r#"{"sessions":[{"session":"old","takes":["cancel"],"overview":{"agent":"codex","phase":"success"}}],"next":null}"#;
    let (address, asked) = serve(vec![answer("200 OK", page), answer("400 Bad Request", r#"{"message":"no words"}"#)]);
    let hub = Hub::new(&address, None);
    let rows = hub.search("división & more").expect("a hub can").expect("found");
    assert_eq!((rows[0].id.as_str(), rows[0].agent.as_str()), ("old", "codex"));
    assert!(hub.search("-").expect("a hub can").is_err_and(|why| why.contains("no words")));
    assert!(asked.recv().expect("asked")[0].starts_with("GET /v1/sessions?limit=200&text=divisi%C3%B3n%20%26%20more "));
}
