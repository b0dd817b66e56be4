//! Listening for connections, the routes, and graceful shutdown.
//!
//! ```text
//!   accept ──► connection limit ──► TLS ──► HTTP/1.1 (the head has a time limit) ──► origin check ──► routes
//! ```

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::{get, post, put};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use sabir_protocol::{Code, Refusal};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;

use crate::error::{ApiError, NotFound};
use crate::extract::Peer;
use crate::state::{AppState, Settings, SharedState};
use crate::store::Store;
use crate::tls::Certificates;
use crate::{
    artifacts, auth, commands, events, ingest, live_cache, login, metrics, openapi, origin_check, sessions, subscribe, usage,
    web_ui,
};

/// Time that connections have to end by themselves when the hub stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(8);
/// Pause after a failed accept, which may mean that the machine is out of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Maximum size of the head of a request.
const MAX_HEAD_BYTES: usize = 32 << 10;

/// Serves a hub until `stop` completes, and then shuts down: runners and subscribers are notified, and acknowledged messages are
/// on disk.
pub async fn serve(
    listener: TcpListener,
    store: impl Into<Store>,
    settings: Settings,
    tls: Option<Certificates>,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let (stopper, stopped) = watch::channel(false);
    let permits = Arc::new(Semaphore::new(settings.limits.connections));
    let state: SharedState = Arc::new(AppState::new(store.into(), settings, stopped)?);
    let mut background = start_background_tasks(&state);
    let router = router(&state);
    let tls = tls.map(Arc::new);
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let (stream, address, permit) = tokio::select! {
            accepted = accept(&listener, &permits) => accepted,
            () = &mut stop => break,
            Some(_) = connections.join_next() => continue,
        };
        let (state, router, tls) = (Arc::clone(&state), router.clone(), tls.clone());
        let peer = Peer { address: address.ip(), tls: tls.is_some(), permit: permit.map(Arc::new) };
        connections.spawn(async move {
            // Live streams send small frames that should not be delayed.
            let _ = stream.set_nodelay(true);
            match tls {
                None => serve_connection(&state, stream, peer, router).await,
                Some(certificates) => {
                    let tls = TlsAcceptor::from(certificates.current(|error| state.diagnose(error)));
                    // A handshake that fails or takes too long is dropped.
                    if let Ok(Ok(stream)) = tokio::time::timeout(state.limits.request_timeout, tls.accept(stream)).await {
                        serve_connection(&state, stream, peer, router).await;
                    }
                }
            }
        });
    }
    drop(listener);
    let _ = stopper.send(true);
    background.abort_all();
    while background.join_next().await.is_some() {}
    drop(router);
    let drained = async {
        while connections.join_next().await.is_some() {}
        // WebSockets run in tasks of their own, which hold the state until they have sent their close frame.
        while Arc::strong_count(&state) > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, drained).await;
    connections.abort_all();
    state.check_audit(state.audit.flush().await);
    state.live.sweep(true).await;
    Ok(())
}

fn start_background_tasks(state: &SharedState) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(Arc::clone(&state.live).catch_up());
    let live = Arc::clone(&state.live);
    tasks.spawn(periodically(live_cache::WRITE_INTERVAL, move || {
        let live = Arc::clone(&live);
        async move { live.sweep(false).await }
    }));
    let authenticator = state.authenticator.clone();
    tasks.spawn(periodically(auth::REFRESH_INTERVAL, move || {
        let authenticator = authenticator.clone();
        // After a failure, the cached tokens stay valid.
        async move { drop(authenticator.refresh().await) }
    }));
    let shared = Arc::clone(state);
    tasks.spawn(periodically(state.limits.audit_interval, move || {
        let state = Arc::clone(&shared);
        async move { state.check_audit(state.audit.flush().await) }
    }));
    tasks
}

/// Runs `task` now and then every `period`. Missed ticks are skipped.
async fn periodically<F: Future<Output = ()>>(period: Duration, mut task: impl FnMut() -> F) {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        task().await;
    }
}

/// Accepts a connection once the limit allows one.
async fn accept(listener: &TcpListener, permits: &Arc<Semaphore>) -> (TcpStream, SocketAddr, Option<OwnedSemaphorePermit>) {
    // The semaphore is never closed.
    let permit = Arc::clone(permits).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, address)) => return (stream, address, permit),
            // The connection is gone, or the machine is out of resources; neither ends the hub.
            Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
        }
    }
}

async fn serve_connection(
    state: &AppState,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    router: Router,
) {
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        tower_service::Service::call(&mut router.clone(), request)
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(state.limits.request_timeout).max_buf_size(MAX_HEAD_BYTES);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service).with_upgrades());
    tokio::select! {
        // Errors concern only this connection.
        _ = connection.as_mut() => return,
        _ = state.stopping() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

fn router(state: &SharedState) -> Router {
    let routes = read_routes();
    let routes = if state.store.write.is_some() { routes.merge(write_routes()) } else { routes };
    routes
        .fallback(async || ApiError::from(NotFound))
        .method_not_allowed_fallback(async || method_not_allowed())
        // Handlers that read a body have their own limits.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(Arc::clone(state), origin_check::enforce))
        .layer(map_response(add_security_headers))
        .with_state(Arc::clone(state))
}

fn read_routes() -> Router<SharedState> {
    let session = "/v1/sessions/{session}";
    Router::new()
        .merge(web_ui::routes())
        .route("/healthz", get(metrics::health))
        .route("/metrics", get(metrics::metrics))
        .route("/openapi.json", get(openapi::document))
        .route("/v1/enter", post(login::enter))
        .route("/v1/login", get(login::login_method).post(login::login))
        .route("/v1/logout", post(login::logout))
        .route("/v1/me", get(login::me))
        .route("/v1/usage", get(usage::usage))
        .route("/v1/agents", get(sessions::agents))
        .route("/v1/sessions", get(sessions::list))
        .route("/v1/sessions/events", get(subscribe::list::sessions))
        .route(session, get(sessions::get))
        .route(&format!("{session}/events"), get(subscribe::events))
        .route(&format!("{session}/events/{{number}}"), get(events::event))
        .route(&format!("{session}/lines/{{number}}"), get(events::line))
        .route(&format!("{session}/timeline"), get(subscribe::timeline::timeline))
        .route(&format!("{session}/watch"), get(subscribe::websocket))
        .route(&format!("{session}/result"), get(sessions::results))
        .route(&format!("{session}/log"), get(sessions::log))
        .route(&format!("{session}/commands"), get(commands::list))
        .route(&format!("{session}/orders"), get(commands::list))
        .route(&format!("{session}/artifacts"), get(artifacts::list))
        .route(&format!("{session}/artifacts/{{digest}}"), get(artifacts::download))
}

/// Routes that a read-only hub does not have.
fn write_routes() -> Router<SharedState> {
    let session = "/v1/sessions/{session}";
    let mut routes = Router::new()
        .route(&format!("{session}/commands"), post(commands::add))
        .route(&format!("{session}/orders"), post(commands::add))
        .route(&format!("{session}/artifacts"), post(artifacts::declare))
        .route(&format!("{session}/artifacts/{{digest}}"), put(artifacts::upload));
    // `shells` and `orders` are the names in earlier versions.
    for (runner, commands) in [("/v1/runners/{session}", "commands"), ("/v1/shells/{session}", "orders")] {
        routes = routes
            .route(runner, get(ingest::websocket::connect))
            .route(&format!("{runner}/hello"), post(ingest::http::hello))
            .route(&format!("{runner}/batches"), post(ingest::http::batches))
            .route(&format!("{runner}/{commands}"), get(ingest::http::commands))
            .route(&format!("{runner}/log"), get(ingest::http::log))
            .route(&format!("{runner}/taken"), post(ingest::http::taken));
    }
    routes
}

fn method_not_allowed() -> (StatusCode, ApiError) {
    (StatusCode::METHOD_NOT_ALLOWED, ApiError(Refusal::new(Code::Malformed, "method not allowed")))
}

/// Adds headers that forbid framing, content sniffing and caching, unless the response has its own.
async fn add_security_headers(mut response: Response) -> Response {
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
