//! Everything that can be asked, as a document that is made from the code.

use std::collections::BTreeMap;

use axum::Json;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{RefOr, Response};
use utoipa::{IntoResponses, Modify, OpenApi};

use crate::{api, artifact, control, entrance, ingest, message, metrics, usage, watch};

/// The document.
#[derive(OpenApi)]
#[openapi(
    info(title = "Sabir hub", description = "Logs of coding agents: kept, shown live, and steered."),
    paths(
        ingest::socket,
        ingest::http::hello,
        ingest::http::batches,
        ingest::http::orders,
        ingest::http::log,
        ingest::http::taken,
        api::sessions,
        api::agents,
        api::session,
        api::result,
        api::log,
        api::health,
        entrance::me,
        entrance::enter,
        entrance::login_method,
        entrance::login,
        entrance::logout,
        usage::usage,
        message::event,
        message::line,
        watch::events,
        watch::socket,
        watch::sessions,
        watch::timeline,
        control::put,
        control::list,
        artifact::declare,
        artifact::upload,
        artifact::list,
        artifact::download,
        metrics::show,
    ),
    modifiers(&Bearer)
)]
pub(crate) struct Document;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("sabir hub token new")).build();
        document.components.get_or_insert_default().add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

/// What anything that needs a token may be answered.
pub(crate) enum Refusals {}

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        [
            ("401", "A token is needed"),
            ("403", "The token is for something else"),
            ("429", "Too many requests"),
            ("503", "Not now"),
        ]
        .into_iter()
        .map(|(status, description)| (status.to_owned(), RefOr::T(Response::new(description))))
        .collect()
    }
}

/// Gives the document.
pub(crate) async fn show() -> Json<utoipa::openapi::OpenApi> {
    Json(Document::openapi())
}
