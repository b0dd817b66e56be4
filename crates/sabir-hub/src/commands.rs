//! Commands to the runner of a session: a prompt, a cancellation, the answer to a question.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use sabir_protocol::{Code, Order, OrderKind, Refusal};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::audit::AuditEntry;
use crate::error::{ApiError, NotFound, malformed};
use crate::extract::{ApiJson, ApiQuery, Operator, SessionPath, SessionView};
use crate::now;
use crate::openapi::SessionErrors;
use crate::state::{ReportError as _, SharedState};
use crate::store::{AddCommandResult, MAX_PENDING_BYTES, StoredCommand};

/// Maximum size of a request with a command.
const MAX_BODY: usize = 512 << 10;

/// A command to a runner.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewCommand {
    /// `prompt`, `cancel` or `permission`.
    kind: CommandKind,
    /// Text of a prompt.
    text: Option<String>,
    /// Reason of a cancellation.
    reason: Option<String>,
    /// Id of the question that a permission answers.
    request_id: Option<String>,
    /// Answer of a permission.
    decision: Option<Decision>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum CommandKind {
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

impl CommandKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Cancel => "cancel",
            Self::Permission => "permission",
        }
    }
}

impl NewCommand {
    /// The command in the protocol; an error if a field is missing.
    fn into_order(self, by: String) -> Result<Order, &'static str> {
        let mut order =
            Order { order: 0, kind: OrderKind::Cancel, text: None, reason: None, request_id: None, decision: None, by: Some(by) };
        match self.kind {
            CommandKind::Prompt => {
                order.kind = OrderKind::Prompt;
                order.text = Some(self.text.filter(|text| !text.trim().is_empty()).ok_or("a prompt needs a text")?);
            }
            CommandKind::Cancel => order.reason = self.reason,
            CommandKind::Permission => {
                order.kind = OrderKind::Permission;
                let question = self.request_id.filter(|id| !id.is_empty());
                order.request_id = Some(question.ok_or("a permission needs the requestId of a question")?);
                let decision = self.decision.ok_or("a permission needs a decision: allow or deny")?;
                order.decision = Some(if matches!(decision, Decision::Allow) { "allow" } else { "deny" }.to_owned());
            }
        }
        Ok(order)
    }
}

/// Number of a new command.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CommandNumber {
    /// Number in the session, from 1.
    order: u64,
}

/// Commands of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Commands {
    /// Commands with their outcomes, in order.
    #[serde(rename = "orders")]
    commands: Vec<StoredCommand>,
}

/// Start of a list of commands.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct CommandQuery {
    /// Only commands after this number.
    #[serde(default)]
    after: u64,
}

/// Sends a command to the runner of a session, as soon as that is connected.
#[utoipa::path(post, path = "/v1/sessions/{session}/commands", operation_id = "addCommand", tag = "commands",
    params(SessionPath),
    request_body = NewCommand,
    responses(
        (status = 201, description = "The command is stored until the runner has answered it", body = CommandNumber),
        (status = 413, description = "The request is too large"), SessionErrors,
    ))]
pub(crate) async fn add(
    State(state): State<SharedState>,
    Operator(client): Operator,
    SessionPath(session): SessionPath,
    ApiJson(command): ApiJson<NewCommand, MAX_BODY>,
) -> Result<Response, ApiError> {
    let who = client.principal.audit_name();
    let what = command.kind.as_str();
    let command = command.into_order(who.clone()).map_err(malformed)?;
    let added = state.write_store()?.commands.add_command(&session, command, now()).await.report(&state)?;
    let number = match added {
        AddCommandResult::Added(command) => command.order,
        AddCommandResult::UnknownSession => return Err(NotFound.into()),
        AddCommandResult::Full { pending } => {
            let message = format!(
                "{pending} bytes of commands are pending for the runner of this session, of at most {MAX_PENDING_BYTES}; try again \
                 after it has answered some"
            );
            return Err(Refusal { retry_after_seconds: Some(30), ..Refusal::new(Code::SlowDown, message) }.into());
        }
    };
    state.metrics.commands.add(1);
    let entry = AuditEntry { who: &who, what, session: Some(session.as_str()), order: Some(number), ..AuditEntry::default() };
    state.check_audit(state.audit.append(&entry).await);
    Ok((StatusCode::CREATED, Json(CommandNumber { order: number })).into_response())
}

/// Lists the commands of a session and their outcomes.
#[utoipa::path(get, path = "/v1/sessions/{session}/commands", operation_id = "listCommands", tag = "commands",
    params(SessionPath, CommandQuery),
    responses((status = 200, description = "Commands in order", body = Commands), SessionErrors))]
pub(crate) async fn list(
    SessionView { state, session, .. }: SessionView,
    ApiQuery(CommandQuery { after }): ApiQuery<CommandQuery>,
) -> Result<Json<Commands>, ApiError> {
    state.store.sessions.session(&session).await.report(&state)?.ok_or(NotFound)?;
    let commands = match &state.store.write {
        Some(store) => store.commands.commands(&session, after).await.report(&state)?,
        None => Vec::new(),
    };
    Ok(Json(Commands { commands }))
}
