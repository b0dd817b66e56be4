//! What somebody wants of a session: a further prompt, an end, the answer to a question.

use std::io;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use sabir_protocol::{Code, Order, OrderKind, Refusal};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::audit::Entry;
use crate::auth::Deed;
use crate::clock::now;
use crate::error::StoreError;
use crate::hub::{Asker, Hub, Named, Refused, Shared, malformed};
use crate::ingest::http::body;
use crate::openapi::Refusals;
use crate::store::{AddCommandResult, MAX_PENDING_BYTES, StoredCommand};

/// A prompt is at most so long, with what stands around it.
const LONGEST: usize = 512 << 10;

/// What somebody wants of a session.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewOrder {
    /// `prompt`, `cancel` or `permission`.
    kind: Kind,
    /// Of a prompt: its text.
    text: Option<String>,
    /// Of a cancel: why.
    reason: Option<String>,
    /// Of a permission: the question.
    request_id: Option<String>,
    /// Of a permission: the answer.
    decision: Option<Decision>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Prompt,
    Cancel,
    Permission,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Allow,
    Deny,
}

/// The number that an order got.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Numbered {
    /// From 1, in the session.
    order: u64,
}

/// The orders of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AllOrders {
    orders: Vec<StoredCommand>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct After {
    /// Orders after this number.
    #[serde(default)]
    after: u64,
}

impl NewOrder {
    /// The order, if it has all that its kind needs.
    fn order(self, by: String) -> Result<Order, &'static str> {
        let mut order =
            Order { order: 0, kind: OrderKind::Cancel, text: None, reason: None, request_id: None, decision: None, by: Some(by) };
        match self.kind {
            Kind::Prompt => {
                order.kind = OrderKind::Prompt;
                order.text = Some(self.text.filter(|text| !text.trim().is_empty()).ok_or("a prompt has a text")?);
            }
            Kind::Cancel => order.reason = self.reason,
            Kind::Permission => {
                order.kind = OrderKind::Permission;
                let question = self.request_id.filter(|id| !id.is_empty());
                order.request_id = Some(question.ok_or("a permission has the requestId of a question")?);
                let decision = self.decision.ok_or("a permission has a decision, allow or deny")?;
                order.decision = Some(if matches!(decision, Decision::Allow) { "allow" } else { "deny" }.to_owned());
            }
        }
        Ok(order)
    }
}

/// Puts an order to a session. Its shell gets it as soon as it is connected.
#[utoipa::path(
    post,
    path = "/v1/sessions/{session}/orders",
    operation_id = "putOrder",
    tag = "control",
    params(("session" = String, Path, description = "The session")),
    request_body = NewOrder,
    responses(
        (status = 201, description = "It is kept until the shell says what became of it", body = Numbered),
        (status = 400, description = "Not an order"),
        (status = 404, description = "There is no such session"),
        (status = 413, description = "Too large"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn put(
    State(hub): State<Shared>,
    asker: Asker,
    Named(session): Named,
    request: Body,
) -> Result<Response, Refused> {
    asker.may(Deed::Order)?;
    let text = body(&hub, request, LONGEST).await?;
    let wanted: NewOrder = serde_json::from_slice(&text).map_err(malformed)?;
    let who = asker.visitor.name();
    let kind = wanted.kind;
    let order = wanted.order(who.clone()).map_err(malformed)?;
    let order = match hub.write()?.commands.add_command(&session, order, now()).await.map_err(|trouble| hub.trouble(trouble))? {
        AddCommandResult::Added(order) => order,
        AddCommandResult::UnknownSession => return Err(Code::NotFound.into()),
        AddCommandResult::Full { pending } => {
            let what = format!(
                "{pending} bytes of orders wait for the shell of this session, and at most {MAX_PENDING_BYTES} may: nothing more is \
                 taken until it has dealt with some"
            );
            return Err(Refusal { retry_after_seconds: Some(30), ..Refusal::new(Code::SlowDown, what) }.into());
        }
    };
    hub.counts.orders.add(1);
    let what = match kind {
        Kind::Prompt => "prompt",
        Kind::Cancel => "cancel",
        Kind::Permission => "permission",
    };
    let entry = Entry { who: &who, what, session: Some(session.as_str()), order: Some(order.order), ..Entry::default() };
    noted(&hub, hub.audit.note(&entry).await);
    Ok((StatusCode::CREATED, Json(Numbered { order: order.order })).into_response())
}

/// The orders of a session, and what became of them.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session}/orders",
    operation_id = "listOrders",
    tag = "control",
    params(("session" = String, Path, description = "The session"), After),
    responses(
        (status = 200, description = "In the order of their numbers", body = AllOrders),
        (status = 400, description = "Not a number"),
        (status = 404, description = "There is no such session"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn list(
    State(hub): State<Shared>,
    asker: Asker,
    Named(session): Named,
    query: Result<Query<After>, QueryRejection>,
) -> Result<Json<AllOrders>, Refused> {
    asker.may(Deed::See)?;
    let Query(After { after }) = query.map_err(|error| malformed(error.body_text()))?;
    let known = hub.store.sessions.session(&session).await.map_err(|trouble| hub.trouble(trouble))?;
    known.ok_or(Code::NotFound)?;
    let orders = match &hub.store.write {
        Some(write) => write.commands.commands(&session, after).await.map_err(|trouble| hub.trouble(trouble))?,
        None => Vec::new(),
    };
    Ok(Json(AllOrders { orders }))
}

/// What could not be noted is no reason to take back what was done, and the operator hears of it.
pub(crate) fn noted(hub: &Hub, written: io::Result<()>) {
    if let Err(error) = written {
        let _ = hub.trouble(StoreError::Unavailable(format!("an audit line could not be written: {error}")));
    }
}
