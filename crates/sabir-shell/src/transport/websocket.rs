//! WebSocket transport.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use sabir_protocol::{Code, FromHub, MAX_MESSAGE, Refusal, SUBPROTOCOL};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::{self as transport, CHANNEL_CAPACITY, Connection, Outgoing, RESPONSE_TIMEOUT};
use crate::delivery::{Disconnect, Transport};
use crate::hub::Hub;

/// Timeout of a write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Connects and upgrades.
pub(crate) async fn connect(hub: &Hub) -> Result<Connection, Disconnect> {
    let host_name = hub.host();
    let unreachable = |error: &dyn std::fmt::Display| Disconnect::Broken(format!("{host_name} can't be reached: {error}"));
    let host = hub.websocket_url().host_str().unwrap_or_default();
    // Only URLs put brackets around IPv6 addresses.
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = hub.websocket_url().port_or_known_default().unwrap_or(443);
    let stream = timeout(RESPONSE_TIMEOUT, TcpStream::connect((host.as_str(), port))).await;
    let stream = stream.map_err(|_| unreachable(&"no answer"))?.map_err(|error| unreachable(&error))?;
    // Acks are small and latency-sensitive.
    let _ = stream.set_nodelay(true);
    let request = request(hub).map_err(|error| unreachable(&error))?;
    match hub.tls() {
        None => upgrade(request, stream).await,
        Some(tls) => {
            let server = ServerName::try_from(host).map_err(|error| unreachable(&error))?;
            let stream = timeout(RESPONSE_TIMEOUT, TlsConnector::from(tls.clone()).connect(server, stream)).await;
            upgrade(request, stream.map_err(|_| unreachable(&"no answer"))?.map_err(|error| unreachable(&error))?).await
        }
    }
}

fn request(hub: &Hub) -> Result<Request, Error> {
    let mut request = hub.websocket_url().as_str().into_client_request()?;
    let headers = request.headers_mut();
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    if let Some(token) = hub.authorization() {
        let mut value = HeaderValue::try_from(token).map_err(|error| Error::HttpFormat(error.into()))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(request)
}

async fn upgrade<S>(request: Request, stream: S) -> Result<Connection, Disconnect>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config = WebSocketConfig::default().max_message_size(Some(2 * MAX_MESSAGE)).max_frame_size(Some(2 * MAX_MESSAGE));
    let upgraded = timeout(RESPONSE_TIMEOUT, tokio_tungstenite::client_async_with_config(request, stream, Some(config))).await;
    match upgraded {
        Ok(Ok((socket, _))) => Ok(open_connection(socket)),
        Ok(Err(Error::Http(answer))) => {
            let status = answer.status();
            let body = answer.body().as_deref().unwrap_or_default();
            // The response is not the hub's: a proxy rejects upgrades, and HTTP may work.
            Err(transport::parse_refusal(body)
                .map_or_else(|| Disconnect::NoUpgrade(format!("no WebSocket: {status}")), Disconnect::Refused))
        }
        Ok(Err(error)) => Err(Disconnect::NoUpgrade(format!("no WebSocket: {error}"))),
        Err(_) => Err(Disconnect::NoUpgrade("no WebSocket: no answer".to_owned())),
    }
}

fn open_connection<S>(socket: WebSocketStream<S>) -> Connection
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut writer, mut reader) = socket.split();
    let (outgoing, mut outgoing_rx) = mpsc::channel::<Outgoing>(CHANNEL_CAPACITY);
    let (incoming, incoming_rx) = mpsc::channel(CHANNEL_CAPACITY);
    // Ends when the connection is dropped, with a close frame.
    tokio::spawn(async move {
        while let Some(outgoing) = outgoing_rx.recv().await {
            let message = match outgoing {
                Outgoing::Batch(bytes) => Message::binary(bytes),
                Outgoing::Frame(frame) => Message::text(serde_json::to_string(&frame).unwrap_or_default()),
            };
            // The reader task notices a broken connection.
            if !matches!(timeout(WRITE_TIMEOUT, writer.send(message)).await, Ok(Ok(()))) {
                return;
            }
        }
        let _ = timeout(RESPONSE_TIMEOUT, writer.close()).await;
    });
    let reader_task = tokio::spawn(async move {
        loop {
            let disconnected = |message: String| Err(Disconnect::Broken(message));
            let received = match reader.next().await {
                Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
                    Ok(FromHub::Error(refusal)) => Err(Disconnect::Refused(refusal)),
                    Ok(frame) => Ok(frame),
                    Err(_) => disconnected("the hub sent something that is no frame".to_owned()),
                },
                Some(Ok(Message::Close(frame))) => {
                    match frame.and_then(|frame| Some((Code::of_close(frame.code.into())?, frame))) {
                        Some((code, frame)) => Err(Disconnect::Refused(Refusal::new(code, frame.reason.as_str()))),
                        None => disconnected("the hub closed the connection".to_owned()),
                    }
                }
                // Pings are answered by tungstenite and count as heartbeats.
                Some(Ok(_)) => Ok(FromHub::Heartbeat {}),
                Some(Err(error)) => disconnected(format!("the connection broke: {error}")),
                None => disconnected("the connection ended".to_owned()),
            };
            let is_last = received.is_err();
            if incoming.send(received).await.is_err() || is_last {
                return;
            }
        }
    });
    Connection::new(Transport::WebSocket, outgoing, incoming_rx, vec![reader_task])
}
