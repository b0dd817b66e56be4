//! The same by HTTP, where no WebSocket can be had.

use std::time::{Duration, Instant};

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, RequestBuilder, StatusCode};
use sabir_protocol::{
    BATCH_TYPE, Code, EPOCH_HEADER, FromHub, FromShell, Hello, Order, Refusal, VERSION, VERSION_HEADER, WRITER_HEADER, Welcome,
};
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::deliver::{Lost, Way};
use crate::hub::Hub;
use crate::link::{ANSWER, Link, QUEUE, Say, refusal};

/// How long a request may take.
const REQUEST: Duration = Duration::from_secs(60);
/// How long the hub is asked to wait for an order.
const WAIT: u64 = 50;
/// How long we wait for orders after a failure; batches tell sooner that something is wrong.
const PAUSE: Duration = Duration::from_secs(1);

/// A client of a hub.
pub(crate) fn client(hub: &Hub) -> Result<Client, Lost> {
    let broken = |error: &dyn std::fmt::Display| Lost::Broken(format!("HTTP can't be had: {error}"));
    crate::hub::provide();
    let mut headers = HeaderMap::new();
    headers.insert(VERSION_HEADER, HeaderValue::from(VERSION));
    if let Some(token) = hub.authorization() {
        let mut value = HeaderValue::try_from(token).map_err(|error| broken(&error))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let mut builder = Client::builder()
        .default_headers(headers)
        .connect_timeout(ANSWER)
        .timeout(REQUEST)
        // A hub does not send a shell elsewhere with its token.
        .redirect(reqwest::redirect::Policy::none());
    if let Some(tls) = hub.tls() {
        builder = builder.tls_backend_preconfigured((**tls).clone());
    }
    builder.build().map_err(|error| broken(&error))
}

/// Says hello.
pub(crate) async fn greet(hub: &Hub, hello: &Hello) -> Result<(Link, Welcome), Lost> {
    let client = client(hub)?;
    let request = json(client.post(hub.below("hello")).timeout(ANSWER), &FromShell::Hello(hello.clone()));
    match answer(request).await? {
        FromHub::Welcome(welcome) => Ok((link(hub.clone(), client, hello), welcome)),
        FromHub::Error(refusal) => Err(Lost::Refused(refusal)),
        _ => Err(Lost::Broken("the hub did not answer the hello".to_owned())),
    }
}

fn json(request: RequestBuilder, frame: &FromShell) -> RequestBuilder {
    request.header(CONTENT_TYPE, "application/json").body(serde_json::to_vec(frame).unwrap_or_default())
}

/// Sends a request; the frame that answers it. Every status but those of the protocol is an error.
async fn answer(request: RequestBuilder) -> Result<FromHub, Lost> {
    let (status, body) = send(request).await?;
    if let Ok(frame) = serde_json::from_slice::<FromHub>(&body)
        && (status.is_success() || frame != FromHub::Unknown)
    {
        return Ok(frame);
    }
    Err(unknown(status))
}

pub(crate) async fn send(request: RequestBuilder) -> Result<(StatusCode, Vec<u8>), Lost> {
    // The address may be long and says nothing that the user does not know.
    let broken = |error: reqwest::Error| Lost::Broken(format!("the hub can't be reached: {}", cause(&error.without_url())));
    let answer = request.send().await.map_err(broken)?;
    let status = answer.status();
    let body = answer.bytes().await.map_err(broken)?;
    Ok((status, body.to_vec()))
}

/// The innermost reason, which is the one that tells something.
pub(crate) fn cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), cause)
}

fn unknown(status: StatusCode) -> Lost {
    let message = format!("the hub answered {status}");
    match Code::of_status(status.as_u16()) {
        Some(code) => Lost::Refused(Refusal::new(code, message)),
        None => Lost::Broken(message),
    }
}

fn link(hub: Hub, client: Client, hello: &Hello) -> Link {
    let (say, said) = mpsc::channel(QUEUE);
    let (hear, heard) = mpsc::channel(QUEUE);
    let writer = (hello.writer.clone(), hello.epoch);
    let posting = tokio::spawn(post(hub.clone(), client.clone(), writer, said, hear.clone()));
    let asking = tokio::spawn(ask(hub, client, hello.orders, hear));
    Link::new(Way::Http, say, heard, vec![posting, asking])
}

/// Sends what is said, one thing after another.
async fn post(
    hub: Hub,
    client: Client,
    (writer, epoch): (String, u32),
    mut said: mpsc::Receiver<Say>,
    hear: mpsc::Sender<Result<FromHub, Lost>>,
) {
    while let Some(what) = said.recv().await {
        let heard = match what {
            Say::Batch(bytes) => {
                let request = client
                    .post(hub.below("batches"))
                    .header(CONTENT_TYPE, BATCH_TYPE)
                    .header(WRITER_HEADER, &writer)
                    .header(EPOCH_HEADER, epoch)
                    .body(bytes);
                answer(request).await
            }
            Say::Frame(frame @ FromShell::Taken(_)) => match send(json(client.post(hub.below("taken")), &frame)).await {
                Ok((status, _)) if status.is_success() => continue,
                Ok((status, body)) => Err(refusal(&body).map_or_else(|| unknown(status), Lost::Refused)),
                Err(lost) => Err(lost),
            },
            Say::Frame(_) => continue,
        };
        let is_over = heard.is_err();
        if hear.send(heard).await.is_err() || is_over {
            return;
        }
    }
}

#[derive(Deserialize)]
struct Orders {
    orders: Vec<Order>,
}

/// Asks for orders for as long as somebody listens.
async fn ask(hub: Hub, client: Client, mut after: u64, hear: mpsc::Sender<Result<FromHub, Lost>>) {
    loop {
        let asked = Instant::now();
        let mut url = hub.below("orders");
        url.query_pairs_mut().append_pair("after", &after.to_string()).append_pair("wait", &WAIT.to_string());
        let orders = match send(client.get(url)).await {
            Ok((status, body)) if status.is_success() => serde_json::from_slice::<Orders>(&body).ok(),
            _ => None,
        };
        let orders = orders.map(|orders| orders.orders).unwrap_or_default();
        if orders.is_empty() && asked.elapsed() < PAUSE {
            // A hub that fails, or does not wait, is not asked without a pause.
            tokio::time::sleep(PAUSE).await;
        }
        for order in orders {
            after = after.max(order.order);
            if hear.send(Ok(FromHub::Order(order))).await.is_err() {
                return;
            }
        }
    }
}
