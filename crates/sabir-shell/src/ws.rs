//! The WebSocket.

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

use crate::deliver::{Lost, Way};
use crate::hub::Hub;
use crate::link::{self, ANSWER, Link, QUEUE, Say};

/// What is written is gone after this time, or nobody takes it.
const STALLED: Duration = Duration::from_secs(60);

/// Connects and upgrades.
pub(crate) async fn connect(hub: &Hub) -> Result<Link, Lost> {
    let name = hub.name();
    let broken = |error: &dyn std::fmt::Display| Lost::Broken(format!("{name} can't be reached: {error}"));
    let host = hub.socket().host_str().unwrap_or_default();
    // Numbers of IPv6 stand in brackets in addresses, and nowhere else.
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = hub.socket().port_or_known_default().unwrap_or(443);
    let stream = timeout(ANSWER, TcpStream::connect((host.as_str(), port))).await;
    let stream = stream.map_err(|_| broken(&"no answer"))?.map_err(|error| broken(&error))?;
    // Acks are short and somebody waits for them.
    let _ = stream.set_nodelay(true);
    let request = request(hub).map_err(|error| broken(&error))?;
    match hub.tls() {
        None => upgrade(request, stream).await,
        Some(tls) => {
            let server = ServerName::try_from(host).map_err(|error| broken(&error))?;
            let stream = timeout(ANSWER, TlsConnector::from(tls.clone()).connect(server, stream)).await;
            upgrade(request, stream.map_err(|_| broken(&"no answer"))?.map_err(|error| broken(&error))?).await
        }
    }
}

fn request(hub: &Hub) -> Result<Request, Error> {
    let mut request = hub.socket().as_str().into_client_request()?;
    let headers = request.headers_mut();
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    if let Some(token) = hub.authorization() {
        let mut value = HeaderValue::try_from(token).map_err(|error| Error::HttpFormat(error.into()))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(request)
}

async fn upgrade<S>(request: Request, stream: S) -> Result<Link, Lost>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config = WebSocketConfig::default().max_message_size(Some(2 * MAX_MESSAGE)).max_frame_size(Some(2 * MAX_MESSAGE));
    let upgraded = timeout(ANSWER, tokio_tungstenite::client_async_with_config(request, stream, Some(config))).await;
    match upgraded {
        Ok(Ok((socket, _))) => Ok(link(socket)),
        Ok(Err(Error::Http(answer))) => {
            let status = answer.status();
            let body = answer.body().as_deref().unwrap_or_default();
            // Whoever stands between us and the hub answers in his own words, and HTTP may get through.
            Err(link::refusal(body).map_or_else(|| Lost::NoUpgrade(format!("no WebSocket: {status}")), Lost::Refused))
        }
        Ok(Err(error)) => Err(Lost::NoUpgrade(format!("no WebSocket: {error}"))),
        Err(_) => Err(Lost::NoUpgrade("no WebSocket: no answer".to_owned())),
    }
}

fn link<S>(socket: WebSocketStream<S>) -> Link
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut to, mut from) = socket.split();
    let (say, mut said) = mpsc::channel::<Say>(QUEUE);
    let (hear, heard) = mpsc::channel(QUEUE);
    // It ends when nothing more is said, and says so to the hub.
    tokio::spawn(async move {
        while let Some(what) = said.recv().await {
            let message = match what {
                Say::Batch(bytes) => Message::binary(bytes),
                Say::Frame(frame) => Message::text(serde_json::to_string(&frame).unwrap_or_default()),
            };
            // A connection that takes nothing is broken, which is noticed by who reads it.
            if !matches!(timeout(STALLED, to.send(message)).await, Ok(Ok(()))) {
                return;
            }
        }
        let _ = timeout(ANSWER, to.close()).await;
    });
    let reading = tokio::spawn(async move {
        loop {
            let broken = |what: String| Err(Lost::Broken(what));
            let heard = match from.next().await {
                Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
                    Ok(FromHub::Error(refusal)) => Err(Lost::Refused(refusal)),
                    Ok(frame) => Ok(frame),
                    Err(_) => broken("the hub sent something that is no frame".to_owned()),
                },
                Some(Ok(Message::Close(frame))) => {
                    match frame.and_then(|frame| Some((Code::of_close(frame.code.into())?, frame))) {
                        Some((code, frame)) => Err(Lost::Refused(Refusal::new(code, frame.reason.as_str()))),
                        None => broken("the hub closed the connection".to_owned()),
                    }
                }
                // Pings are answered by the library, and are a sign of life.
                Some(Ok(_)) => Ok(FromHub::Heartbeat {}),
                Some(Err(error)) => broken(format!("the connection broke: {error}")),
                None => broken("the connection ended".to_owned()),
            };
            let is_over = heard.is_err();
            if hear.send(heard).await.is_err() || is_over {
                return;
            }
        }
    });
    Link::new(Way::WebSocket, say, heard, vec![reading])
}
