//! OpenAPI document, generated from the handlers.

use std::collections::BTreeMap;

use axum::Json;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{RefOr, Response};
use utoipa::{IntoResponses, Modify, OpenApi};

use crate::{artifacts, commands, events, ingest, login, metrics, sessions, subscribe, usage};

/// The document. Deprecated routes are not in it.
#[derive(OpenApi)]
#[openapi(
    info(title = "Sabir hub", description = "Stores sessions of coding agents, streams them live, and passes commands to them."),
    paths(
        ingest::websocket::connect,
        ingest::http::hello,
        ingest::http::batches,
        ingest::http::commands,
        ingest::http::log,
        ingest::http::taken,
        sessions::list,
        sessions::agents,
        sessions::get,
        sessions::results,
        sessions::log,
        metrics::health,
        metrics::metrics,
        login::me,
        login::enter,
        login::login_method,
        login::login,
        login::logout,
        usage::usage,
        events::event,
        events::line,
        subscribe::events,
        subscribe::websocket,
        subscribe::list::sessions,
        subscribe::timeline::timeline,
        commands::add,
        commands::list,
        artifacts::declare,
        artifacts::upload,
        artifacts::list,
        artifacts::download,
    ),
    security(("token" = [])),
    modifiers(&Bearer)
)]
struct Document;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("sabir hub token new")).build();
        document.components.get_or_insert_default().add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

fn responses<const N: usize>(all: [(&str, &str); N]) -> BTreeMap<String, RefOr<Response>> {
    all.into_iter().map(|(status, description)| (status.to_owned(), RefOr::T(Response::new(description)))).collect()
}

/// Errors of every route.
pub(crate) enum CommonErrors {}

impl IntoResponses for CommonErrors {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        responses([
            ("401", "No valid token"),
            ("403", "Wrong scope, host or origin"),
            ("429", "Too many requests"),
            ("503", "Temporarily unavailable"),
        ])
    }
}

/// Errors of routes for one session.
pub(crate) enum SessionErrors {}

impl IntoResponses for SessionErrors {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut all = CommonErrors::responses();
        all.extend(responses([("400", "Malformed request"), ("404", "No such session")]));
        all
    }
}

/// Errors of routes for runners.
pub(crate) enum RunnerErrors {}

impl IntoResponses for RunnerErrors {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut all = CommonErrors::responses();
        all.extend(responses([("400", "Malformed request"), ("426", "No common protocol version")]));
        all
    }
}

/// Returns the document.
pub(crate) async fn document() -> Json<utoipa::openapi::OpenApi> {
    Json(Document::openapi())
}
