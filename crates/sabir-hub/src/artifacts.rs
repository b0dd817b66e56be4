//! Artifacts: files of a session, addressed by the digest of their bytes.
//!
//! ```text
//!   POST artifacts {digest, size, …}   ──►  stores the description;  ◄── {offset: 0}
//!   PUT  artifacts/DIGEST?offset=0     ──►  stores bytes;            ◄── {offset: 4096}   (the connection broke)
//!   PUT  artifacts/DIGEST?offset=4096  ──►  stores the rest;         ◄── {offset: size, complete: true}
//! ```
//!
//! Bytes can be downloaded only after their digest was verified. Digests are the file names, never the names that clients give.

mod files;

use axum::Json;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use sabir_protocol::{Code, Refusal, SessionId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::Permission;
use crate::error::{ApiError, NotFound};
use crate::extract::{ApiJson, ApiQuery, DigestPath, Runner, SessionPath, SessionView, check_digest};
use crate::openapi::{CommonErrors, SessionErrors};
use crate::state::{AppState, ReportError as _};
use crate::store::Artifact;

pub(crate) use files::ArtifactFiles;

/// Maximum size of a description.
const MAX_BODY: usize = 16 << 10;
/// Maximum size of the list of a session's artifacts.
const MAX_LIST_BYTES: usize = 4 << 20;
/// Size of an entry in the list without its name and media type.
const ENTRY_BYTES: usize = 200;

/// Progress of an upload.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UploadProgress {
    /// Number of stored bytes.
    offset: u64,
    /// Whether all bytes are stored and their digest was verified.
    complete: bool,
}

/// Artifacts of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Artifacts {
    /// Artifacts, by digest.
    artifacts: Vec<Artifact>,
}

/// Position of uploaded bytes.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct UploadQuery {
    /// Number of bytes that were uploaded before.
    #[serde(default)]
    offset: u64,
}

/// Artifacts of a session; none if the hub is read-only.
async fn artifacts_of(state: &AppState, session: &SessionId) -> Result<Vec<Artifact>, ApiError> {
    let Some(store) = &state.store.write else { return Ok(Vec::new()) };
    Ok(store.artifacts.artifacts(session).await.report(state)?)
}

async fn find(state: &AppState, session: &SessionId, digest: &str) -> Result<Artifact, ApiError> {
    let artifacts = artifacts_of(state, session).await?;
    Ok(artifacts.into_iter().find(|artifact| artifact.digest == digest).ok_or(NotFound)?)
}

/// Announces an artifact, and returns how many of its bytes the hub has.
#[utoipa::path(post, path = "/v1/sessions/{session}/artifacts", operation_id = "declareArtifact", tag = "artifacts",
    params(SessionPath),
    request_body = Artifact,
    responses(
        (status = 200, description = "Offset at which the upload continues", body = UploadProgress),
        (status = 413, description = "The artifact or the list of artifacts is too large"), SessionErrors,
    ))]
pub(crate) async fn declare(
    Runner { state, client, session, store }: Runner,
    ApiJson(mut artifact): ApiJson<Artifact, MAX_BODY>,
) -> Result<Json<UploadProgress>, ApiError> {
    check_digest(&artifact.digest)?;
    if artifact.size > state.limits.artifact_bytes {
        return Err(too_large(&state));
    }
    let entry_bytes = |artifact: &Artifact| {
        let texts = [&artifact.name, &artifact.media_type].map(|text| text.as_deref().map_or(0, str::len));
        ENTRY_BYTES + texts.iter().sum::<usize>()
    };
    let declared = artifacts_of(&state, &session).await?;
    let others: usize = declared.iter().filter(|other| other.digest != artifact.digest).map(entry_bytes).sum();
    if others + entry_bytes(&artifact) > MAX_LIST_BYTES {
        let message = format!("the list of a session's artifacts exceeds {MAX_LIST_BYTES} bytes");
        return Err(Refusal::new(Code::TooLarge, message).into());
    }
    let size = artifact.size;
    // Stored bytes with this digest and size complete the artifact. If another session uploaded them, only clients that may
    // view that session learn it; others upload them again, which proves that they have them.
    let may_know = declared.iter().any(|other| other.digest == artifact.digest && other.complete)
        || client.principal.authorize(Permission::View).is_ok();
    artifact.complete = may_know && state.artifacts.size(&artifact.digest).await == Some(size);
    if !artifact.complete && !state.artifacts.has_space(size) {
        return Err(files::quota_exceeded(&state));
    }
    let (digest, complete) = (artifact.digest.clone(), artifact.complete);
    if !store.artifacts.put_artifact(&session, artifact).await.report(&state)? {
        return Err(NotFound.into());
    }
    let offset = if complete { size } else { state.artifacts.partial_size(&session, &digest).await };
    Ok(Json(UploadProgress { offset, complete }))
}

/// Uploads bytes of an announced artifact.
#[utoipa::path(put, path = "/v1/sessions/{session}/artifacts/{digest}", operation_id = "uploadArtifact", tag = "artifacts",
    params(SessionPath, DigestPath, UploadQuery),
    request_body(content = Vec<u8>, description = "Bytes from `offset` on", content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "Progress of the upload", body = UploadProgress), SessionErrors,
        (status = 400, description = "Invalid digest, or the bytes do not have it"),
        (status = 404, description = "The artifact was not announced"),
        (status = 409, description = "The upload continues at another offset", body = UploadProgress),
        (status = 413, description = "More bytes than announced"),
    ))]
pub(crate) async fn upload(
    runner: Runner,
    DigestPath(digest): DigestPath,
    ApiQuery(UploadQuery { offset }): ApiQuery<UploadQuery>,
    body: Body,
) -> Result<Response, ApiError> {
    let Runner { state, session, store, .. } = &runner;
    let artifact = find(state, session, &digest).await?;
    let size = artifact.size;
    if artifact.complete {
        return Ok(Json(UploadProgress { offset: size, complete: true }).into_response());
    }
    match files::write(&runner, &artifact, offset, body).await? {
        files::WriteResult::WrongOffset(offset) => {
            Ok((StatusCode::CONFLICT, Json(UploadProgress { offset, complete: false })).into_response())
        }
        files::WriteResult::Partial(offset) => Ok(Json(UploadProgress { offset, complete: false }).into_response()),
        files::WriteResult::Complete => {
            let artifact = Artifact { complete: true, ..artifact };
            store.artifacts.put_artifact(session, artifact).await.report(state)?;
            Ok(Json(UploadProgress { offset: size, complete: true }).into_response())
        }
    }
}

/// Lists the artifacts of a session.
#[utoipa::path(get, path = "/v1/sessions/{session}/artifacts", operation_id = "listArtifacts", tag = "artifacts",
    params(SessionPath),
    responses(
        (status = 200, description = "Artifacts, by digest", body = Artifacts),
        (status = 400, description = "Invalid session id"), CommonErrors,
    ))]
pub(crate) async fn list(SessionView { state, session, .. }: SessionView) -> Result<Json<Artifacts>, ApiError> {
    let artifacts = artifacts_of(&state, &session).await?;
    Ok(Json(Artifacts { artifacts }))
}

/// Downloads an artifact.
#[utoipa::path(get, path = "/v1/sessions/{session}/artifacts/{digest}", operation_id = "downloadArtifact", tag = "artifacts",
    params(SessionPath, DigestPath),
    responses(
        (status = 200, description = "The bytes", body = Vec<u8>, content_type = "application/octet-stream"), SessionErrors,
        (status = 404, description = "No such artifact, or its upload is not complete"),
    ))]
pub(crate) async fn download(
    SessionView { state, client, session }: SessionView,
    DigestPath(digest): DigestPath,
) -> Result<Response, ApiError> {
    let artifact = find(&state, &session, &digest).await?;
    if !artifact.complete {
        return Err(NotFound.into());
    }
    let bytes = state.artifacts.read(&digest).await.ok_or(NotFound)?;
    let bytes = state.revocable_body(client, bytes);
    // Browsers save the file whatever its type, and run nothing in it.
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, artifact.size.to_string()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{}\"", file_name(artifact.name.as_deref(), &digest))),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::CONTENT_SECURITY_POLICY, "sandbox".to_owned()),
    ];
    Ok((headers, bytes).into_response())
}

/// A name without characters that are special in a header or a path.
fn file_name(name: Option<&str>, digest: &str) -> String {
    let last = name.and_then(|name| name.rsplit(['/', '\\']).next()).unwrap_or_default();
    let sanitize = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' };
    let name: String = last.chars().map(sanitize).take(100).collect();
    if name.trim_matches(['.', '_']).is_empty() { digest.to_owned() } else { name.trim_start_matches('.').to_owned() }
}

fn too_large(state: &AppState) -> ApiError {
    Refusal::new(Code::TooLarge, format!("an artifact may have at most {} bytes", state.limits.artifact_bytes)).into()
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn file_name_has_no_special_characters() {
        for (name, expected) in [
            ("../../etc/passwd", "passwd"),
            ("a\r\nSet-Cookie: b", "a__Set-Cookie__b"),
            ("report.html", "report.html"),
            ("..", "d1"),
            ("C:\\x\\y.txt", "y.txt"),
            ("\"", "d1"),
            ("", "d1"),
        ] {
            assert_eq!(file_name(Some(name), "d1"), expected, "{name}");
        }
    }
}
