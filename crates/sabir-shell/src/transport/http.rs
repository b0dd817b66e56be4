//! HTTP transport, for networks without WebSocket support: batches are posted, commands are long-polled.

use std::time::{Duration, Instant};

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, RequestBuilder, StatusCode};
use sabir_protocol::{
    BATCH_TYPE, Code, EPOCH_HEADER, FromHub, FromShell, Hello, Order, Refusal, VERSION, VERSION_HEADER, WRITER_HEADER, Welcome,
};
use serde::Deserialize;
use tokio::sync::mpsc;

use super::{CHANNEL_CAPACITY, Connection, Outgoing, RESPONSE_TIMEOUT, parse_refusal};
use crate::delivery::{Disconnect, Transport};
use crate::hub::Hub;

/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Long-poll duration.
const LONG_POLL_SECONDS: u64 = 50;
/// Delay between polls that fail or return early. Delivery errors are reported by batches.
const POLL_RETRY_DELAY: Duration = Duration::from_secs(1);

/// HTTP client with the hub's credentials.
pub(crate) fn client(hub: &Hub) -> Result<Client, Disconnect> {
    let failed = |error: &dyn std::fmt::Display| Disconnect::Broken(format!("HTTP can't be had: {error}"));
    crate::hub::install_crypto_provider();
    let mut headers = HeaderMap::new();
    headers.insert(VERSION_HEADER, HeaderValue::from(VERSION));
    if let Some(token) = hub.authorization() {
        let mut value = HeaderValue::try_from(token).map_err(|error| failed(&error))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let mut builder = Client::builder()
        .default_headers(headers)
        .connect_timeout(RESPONSE_TIMEOUT)
        .timeout(REQUEST_TIMEOUT)
        // Never forward the token to another server.
        .redirect(reqwest::redirect::Policy::none());
    if let Some(tls) = hub.tls() {
        builder = builder.tls_backend_preconfigured((**tls).clone());
    }
    builder.build().map_err(|error| failed(&error))
}

/// Sends the hello and waits for the welcome.
pub(crate) async fn handshake(hub: &Hub, hello: &Hello) -> Result<(Connection, Welcome), Disconnect> {
    let client = client(hub)?;
    let request = json(client.post(hub.url_for("hello")).timeout(RESPONSE_TIMEOUT), &FromShell::Hello(hello.clone()));
    match exchange(request).await? {
        FromHub::Welcome(welcome) => Ok((open_connection(hub.clone(), client, hello), welcome)),
        FromHub::Error(refusal) => Err(Disconnect::Refused(refusal)),
        _ => Err(Disconnect::Broken("the hub did not answer the hello".to_owned())),
    }
}

fn json(request: RequestBuilder, frame: &FromShell) -> RequestBuilder {
    request.header(CONTENT_TYPE, "application/json").body(serde_json::to_vec(frame).unwrap_or_default())
}

/// Sends a request and parses the frame in its response.
async fn exchange(request: RequestBuilder) -> Result<FromHub, Disconnect> {
    let (status, body) = send(request).await?;
    if let Ok(frame) = serde_json::from_slice::<FromHub>(&body)
        && (status.is_success() || frame != FromHub::Unknown)
    {
        return Ok(frame);
    }
    Err(unexpected_status(status))
}

pub(crate) async fn send(request: RequestBuilder) -> Result<(StatusCode, Vec<u8>), Disconnect> {
    // Without the URL, which is long and known to the user.
    let failed =
        |error: reqwest::Error| Disconnect::Broken(format!("the hub can't be reached: {}", root_cause(&error.without_url())));
    let response = request.send().await.map_err(failed)?;
    let status = response.status();
    let body = response.bytes().await.map_err(failed)?;
    Ok((status, body.to_vec()))
}

/// Innermost source of an error.
pub(crate) fn root_cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), root_cause)
}

fn unexpected_status(status: StatusCode) -> Disconnect {
    let message = format!("the hub answered {status}");
    match Code::of_status(status.as_u16()) {
        Some(code) => Disconnect::Refused(Refusal::new(code, message)),
        None => Disconnect::Broken(message),
    }
}

fn open_connection(hub: Hub, client: Client, hello: &Hello) -> Connection {
    let (outgoing, outgoing_rx) = mpsc::channel(CHANNEL_CAPACITY);
    let (incoming, incoming_rx) = mpsc::channel(CHANNEL_CAPACITY);
    let writer = (hello.writer.clone(), hello.epoch);
    let post_task = tokio::spawn(post_outgoing(hub.clone(), client.clone(), writer, outgoing_rx, incoming.clone()));
    let poll_task = tokio::spawn(poll_commands(hub, client, hello.orders, incoming));
    Connection::new(Transport::Http, outgoing, incoming_rx, vec![post_task, poll_task])
}

/// Posts outgoing messages, one at a time.
async fn post_outgoing(
    hub: Hub,
    client: Client,
    (writer, epoch): (String, u32),
    mut outgoing: mpsc::Receiver<Outgoing>,
    incoming: mpsc::Sender<Result<FromHub, Disconnect>>,
) {
    while let Some(message) = outgoing.recv().await {
        let received = match message {
            Outgoing::Batch(bytes) => {
                let request = client
                    .post(hub.url_for("batches"))
                    .header(CONTENT_TYPE, BATCH_TYPE)
                    .header(WRITER_HEADER, &writer)
                    .header(EPOCH_HEADER, epoch)
                    .body(bytes);
                exchange(request).await
            }
            Outgoing::Frame(frame @ FromShell::Taken(_)) => match send(json(client.post(hub.url_for("taken")), &frame)).await {
                Ok((status, _)) if status.is_success() => continue,
                Ok((status, body)) => Err(parse_refusal(&body).map_or_else(|| unexpected_status(status), Disconnect::Refused)),
                Err(reason) => Err(reason),
            },
            Outgoing::Frame(_) => continue,
        };
        let is_last = received.is_err();
        if incoming.send(received).await.is_err() || is_last {
            return;
        }
    }
}

#[derive(Deserialize)]
struct CommandsResponse {
    orders: Vec<Order>,
}

/// Polls for remote commands while the connection is open.
async fn poll_commands(hub: Hub, client: Client, mut after: u64, incoming: mpsc::Sender<Result<FromHub, Disconnect>>) {
    loop {
        let started = Instant::now();
        let mut url = hub.url_for("orders");
        url.query_pairs_mut().append_pair("after", &after.to_string()).append_pair("wait", &LONG_POLL_SECONDS.to_string());
        let response = match send(client.get(url)).await {
            Ok((status, body)) if status.is_success() => serde_json::from_slice::<CommandsResponse>(&body).ok(),
            _ => None,
        };
        let commands = response.map(|response| response.orders).unwrap_or_default();
        if commands.is_empty() && started.elapsed() < POLL_RETRY_DELAY {
            // Limits the rate if the hub fails or does not wait.
            tokio::time::sleep(POLL_RETRY_DELAY).await;
        }
        for command in commands {
            after = after.max(command.order);
            if incoming.send(Ok(FromHub::Order(command))).await.is_err() {
                return;
            }
        }
    }
}
