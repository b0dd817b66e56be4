//! Listening, and what stands before every request.
//!
//! ```text
//!   accept ──► room for a connection ──► TLS ──► HTTP/1.1 (the head must come in time) ──► door ──► routes
//! ```

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderValue, Request, header};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::{get, post, put};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use sabir_protocol::Code;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::control::noted;
use crate::hub::{Hub, Peer, Refused, Settings, Shared};
use crate::store::Store;
use crate::tls::Certificates;
use crate::{api, artifact, control, door, entrance, ingest, message, metrics, openapi, page, usage, watch as watching};

/// How long connections have to end by themselves when the hub stops.
const GRACE: Duration = Duration::from_secs(8);
/// After an error that has to do with the whole machine, accepting waits this long.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of the head of a request.
const HEAD: usize = 32 << 10;

/// Serves a hub until `stop`, and then ends in good order: shells and watchers are told, what was taken is on disk.
pub async fn serve(
    listener: TcpListener,
    store: impl Into<Store>,
    settings: Settings,
    tls: Option<Certificates>,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let (stopper, stopped) = watch::channel(false);
    let places = Arc::new(Semaphore::new(settings.limits.connections));
    let hub: Shared = Arc::new(Hub::new(store.into(), settings, stopped)?);
    let mut background = JoinSet::new();
    background.spawn(hub.gate.clone().keep_looking());
    background.spawn(Arc::clone(&hub.live).keep_sweeping());
    background.spawn(Arc::clone(&hub.live).catch_up());
    background.spawn(Arc::clone(&hub).keep_auditing());
    let router = router(&hub);
    let tls = tls.map(Arc::new);
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = &mut stop => break,
            Some(_) = connections.join_next() => continue,
        };
        let (stream, peer, place) = accepted;
        let (hub, router, tls) = (Arc::clone(&hub), router.clone(), tls.clone());
        let peer = Peer { address: peer.ip(), tls: tls.is_some(), place: place.map(Arc::new) };
        connections.spawn(async move {
            // What is said in small pieces is for people who wait.
            let _ = stream.set_nodelay(true);
            match tls {
                None => speak(&hub, stream, peer, router).await,
                Some(certificates) => {
                    let tls = TlsAcceptor::from(certificates.current(|failed| hub.note(failed)));
                    // Who does not finish a handshake in time has nothing to say.
                    if let Ok(Ok(stream)) = tokio::time::timeout(hub.limits.patience, tls.accept(stream)).await {
                        speak(&hub, stream, peer, router).await;
                    }
                }
            }
        });
    }
    drop(listener);
    let _ = stopper.send(true);
    let all = async { while connections.join_next().await.is_some() {} };
    background.abort_all();
    while background.join_next().await.is_some() {}
    // Shells that went over to a WebSocket are tasks of their own, and hold the hub until they have said goodbye.
    let upgraded = async {
        while Arc::strong_count(&hub) > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    drop(router);
    let _ = tokio::time::timeout(GRACE, async {
        all.await;
        upgraded.await;
    })
    .await;
    connections.abort_all();
    noted(&hub, hub.audit.flush().await);
    hub.live.sweep(true).await;
    Ok(())
}

/// The next connection, when there is room for one.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, Option<tokio::sync::OwnedSemaphorePermit>) {
    // The semaphore is never closed.
    let place = Arc::clone(places).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, place),
            // The connection is gone already, or the machine has no room for one: neither ends a hub.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn speak(hub: &Shared, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Peer, router: Router) {
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        tower_service::Service::call(&mut router.clone(), request)
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(hub.limits.patience).max_buf_size(HEAD);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service).with_upgrades());
    tokio::select! {
        // How a connection ends is its own business.
        _ = connection.as_mut() => return,
        _ = hub.stopping() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

fn router(hub: &Shared) -> Router {
    let session = "/v1/sessions/{session}";
    let routes = Router::new()
        .merge(page::routes())
        .route("/healthz", get(api::health))
        .route("/metrics", get(metrics::show))
        .route("/openapi.json", get(openapi::show))
        .route("/v1/enter", post(entrance::enter))
        .route("/v1/login", get(entrance::login_method).post(entrance::login))
        .route("/v1/logout", post(entrance::logout))
        .route("/v1/me", get(entrance::me))
        .route("/v1/usage", get(usage::usage))
        .route("/v1/agents", get(api::agents))
        .route("/v1/sessions", get(api::sessions))
        .route("/v1/sessions/events", get(watching::sessions))
        .route(session, get(api::session))
        .route(&format!("{session}/events"), get(watching::events))
        .route(&format!("{session}/events/{{number}}"), get(message::event))
        .route(&format!("{session}/lines/{{number}}"), get(message::line))
        .route(&format!("{session}/timeline"), get(watching::timeline))
        .route(&format!("{session}/watch"), get(watching::socket))
        .route(&format!("{session}/result"), get(api::result))
        .route(&format!("{session}/log"), get(api::log))
        .route(&format!("{session}/orders"), get(control::list))
        .route(&format!("{session}/artifacts"), get(artifact::list))
        .route(&format!("{session}/artifacts/{{digest}}"), get(artifact::download));
    // What is only shown takes nothing.
    let routes = if hub.store.write.is_none() { routes } else { routes.merge(writing()) };
    routes
        .fallback(async || Refused::from(Code::NotFound))
        .method_not_allowed_fallback(async || wrong_method())
        // Every handler has a limit of its own.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(Arc::clone(hub), door::check))
        .layer(map_response(harden))
        .with_state(Arc::clone(hub))
}

/// The addresses that something is sent to.
fn writing() -> Router<Shared> {
    let (session, shell) = ("/v1/sessions/{session}", "/v1/shells/{session}");
    Router::new()
        .route(shell, get(ingest::socket))
        .route(&format!("{shell}/hello"), post(ingest::http::hello))
        .route(&format!("{shell}/batches"), post(ingest::http::batches))
        .route(&format!("{shell}/orders"), get(ingest::http::orders))
        .route(&format!("{shell}/log"), get(ingest::http::log))
        .route(&format!("{shell}/taken"), post(ingest::http::taken))
        .route(&format!("{session}/orders"), post(control::put))
        .route(&format!("{session}/artifacts"), post(artifact::declare))
        .route(&format!("{session}/artifacts/{{digest}}"), put(artifact::upload))
}

fn wrong_method() -> (axum::http::StatusCode, Refused) {
    let refusal = sabir_protocol::Refusal::new(Code::Malformed, "this address does not take this method");
    (axum::http::StatusCode::METHOD_NOT_ALLOWED, Refused(refusal))
}

/// Headers that every answer has: nothing of a hub is to be framed, guessed at, or kept by others.
async fn harden(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}
