//! Artifacts: files that a session leaves, by the digest of their bytes.
//!
//! ```text
//!   POST artifacts {digest, size, …}   ──►  what it is, at once;   ◄── {offset: 0}
//!   PUT  artifacts/DIGEST?offset=0     ──►  bytes, as many as come;  ◄── {offset: 4096}   (the connection broke)
//!   PUT  artifacts/DIGEST?offset=4096  ──►  the rest;                ◄── {offset: size, complete: true}
//! ```
//!
//! Bytes are given out only after their digest was looked at. File names are digests, never what somebody calls a file.

mod files;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use sabir_protocol::{Code, Refusal, SessionId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::Deed;
use crate::hub::{Asker, Hub, Named, Refused, Shared, malformed};
use crate::ingest::http::body;
use crate::openapi::Refusals;
use crate::store::Artifact;

pub(crate) use files::Folder;

/// The list of the artifacts of a session is no longer.
const LIST_BYTES: usize = 4 << 20;
/// What an artifact takes in it beside its name and media type.
const ENTRY_BYTES: usize = 200;

/// How far the bytes of an artifact are.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Progress {
    /// So many bytes are here.
    offset: u64,
    /// All of them are, and they have the digest.
    complete: bool,
}

/// The artifacts of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Artifacts {
    artifacts: Vec<Artifact>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct From {
    /// How many bytes were sent before.
    #[serde(default)]
    offset: u64,
}

fn check_digest(digest: &str) -> Result<(), Refused> {
    let plain = digest.len() == 64 && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    plain.then_some(()).ok_or_else(|| malformed("a digest is a SHA-256 in 64 small hexadecimal digits"))
}

/// The artifacts of a session; none if the hub is read-only.
async fn artifacts(hub: &Hub, session: &SessionId) -> Result<Vec<Artifact>, Refused> {
    let Some(write) = &hub.store.write else { return Ok(Vec::new()) };
    Ok(write.artifacts.artifacts(session).await.map_err(|error| hub.trouble(error))?)
}

async fn known(hub: &Hub, session: &SessionId, digest: &str) -> Result<Artifact, Refused> {
    check_digest(digest)?;
    let all = artifacts(hub, session).await?;
    Ok(all.into_iter().find(|artifact| artifact.digest == digest).ok_or(Code::NotFound)?)
}

/// Says that there is an artifact, and asks how much of it is here.
#[utoipa::path(
    post,
    path = "/v1/sessions/{session}/artifacts",
    operation_id = "declareArtifact",
    tag = "artifacts",
    params(("session" = String, Path, description = "The session")),
    request_body = Artifact,
    responses(
        (status = 200, description = "Where its bytes go on", body = Progress),
        (status = 400, description = "Not an artifact"),
        (status = 404, description = "There is no such session"),
        (status = 413, description = "Too large"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn declare(
    State(hub): State<Shared>,
    asker: Asker,
    Named(session): Named,
    request: Body,
) -> Result<Json<Progress>, Refused> {
    asker.may(Deed::Write(&session))?;
    let text = body(&hub, request, 16 << 10).await?;
    let mut artifact: Artifact = serde_json::from_slice(&text).map_err(malformed)?;
    check_digest(&artifact.digest)?;
    if artifact.size > hub.limits.artifact_bytes {
        return Err(too_large(&hub));
    }
    let described = |artifact: &Artifact| {
        let texts = [&artifact.name, &artifact.media_type].map(|text| text.as_deref().map_or(0, str::len));
        ENTRY_BYTES + texts.iter().sum::<usize>()
    };
    let all = artifacts(&hub, &session).await?;
    let others: usize = all.iter().filter(|known| known.digest != artifact.digest).map(described).sum();
    if others + described(&artifact) > LIST_BYTES {
        let what = format!("the list of the artifacts of a session has at most {LIST_BYTES} bytes");
        return Err(Refusal::new(Code::TooLarge, what).into());
    }
    let size = artifact.size;
    // Only bytes that are here, with this digest and this size, make it complete, whatever the shell says. That another session has
    // them is told only to who may see that session; everybody else sends them, and so shows to have them.
    let is_known = all.iter().any(|known| known.digest == artifact.digest && known.complete) || asker.may(Deed::See).is_ok();
    artifact.complete = is_known && hub.artifacts.size(&artifact.digest).await == Some(size);
    if !artifact.complete && !hub.artifacts.has_room(size) {
        return Err(files::full(&hub));
    }
    let progress = Progress { offset: size, complete: true };
    let (digest, complete) = (artifact.digest.clone(), artifact.complete);
    let kept = hub.write()?.artifacts.put_artifact(&session, artifact).await.map_err(|trouble| hub.trouble(trouble))?;
    if !kept {
        return Err(Code::NotFound.into());
    }
    if complete {
        return Ok(Json(progress));
    }
    Ok(Json(Progress { offset: hub.artifacts.begun(&session, &digest).await, complete: false }))
}

/// Takes bytes of an artifact that was declared.
#[utoipa::path(
    put,
    path = "/v1/sessions/{session}/artifacts/{digest}",
    operation_id = "uploadArtifact",
    tag = "artifacts",
    params(
        ("session" = String, Path, description = "The session"),
        ("digest" = String, Path, description = "The SHA-256 of the bytes"),
        From,
    ),
    request_body(content = Vec<u8>, description = "Bytes from `offset` on", content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "How far it is", body = Progress),
        (status = 400, description = "Not a digest, or the bytes do not have it"),
        (status = 404, description = "It was not declared"),
        (status = 409, description = "It goes on at another offset", body = Progress),
        (status = 413, description = "More bytes than were declared"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn upload(
    State(hub): State<Shared>,
    asker: Asker,
    Named(session): Named,
    Path((_session, digest)): Path<(String, String)>,
    query: Result<Query<From>, QueryRejection>,
    request: Body,
) -> Result<Response, Refused> {
    asker.may(Deed::Write(&session))?;
    let Query(From { offset }) = query.map_err(|error| malformed(error.body_text()))?;
    let artifact = known(&hub, &session, &digest).await?;
    if artifact.complete {
        return Ok(Json(Progress { offset: artifact.size, complete: true }).into_response());
    }
    let written = files::take(&hub, &session, &asker, &artifact, offset, request).await?;
    match written {
        files::Taken::Elsewhere(offset) => {
            Ok((axum::http::StatusCode::CONFLICT, Json(Progress { offset, complete: false })).into_response())
        }
        files::Taken::Part(offset) => Ok(Json(Progress { offset, complete: false }).into_response()),
        files::Taken::Whole => {
            let size = artifact.size;
            let artifact = Artifact { complete: true, ..artifact };
            hub.write()?.artifacts.put_artifact(&session, artifact).await.map_err(|trouble| hub.trouble(trouble))?;
            Ok(Json(Progress { offset: size, complete: true }).into_response())
        }
    }
}

/// The artifacts of a session.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session}/artifacts",
    operation_id = "listArtifacts",
    tag = "artifacts",
    params(("session" = String, Path, description = "The session")),
    responses(
        (status = 200, description = "By their digests", body = Artifacts),
        (status = 400, description = "Not an id"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn list(State(hub): State<Shared>, asker: Asker, Named(session): Named) -> Result<Json<Artifacts>, Refused> {
    asker.may(Deed::See)?;
    let artifacts = artifacts(&hub, &session).await?;
    Ok(Json(Artifacts { artifacts }))
}

/// The bytes of an artifact.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session}/artifacts/{digest}",
    operation_id = "downloadArtifact",
    tag = "artifacts",
    params(
        ("session" = String, Path, description = "The session"),
        ("digest" = String, Path, description = "The SHA-256 of the bytes"),
    ),
    responses(
        (status = 200, description = "The bytes", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 400, description = "Not a digest"),
        (status = 404, description = "There is no such artifact, or it is not complete"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn download(
    State(hub): State<Shared>,
    asker: Asker,
    Named(session): Named,
    Path((_session, digest)): Path<(String, String)>,
) -> Result<Response, Refused> {
    asker.may(Deed::See)?;
    let artifact = known(&hub, &session, &digest).await?;
    if !artifact.complete {
        return Err(Code::NotFound.into());
    }
    let bytes = hub.artifacts.read(&digest).await.ok_or(Code::NotFound)?;
    let bytes = hub.body(asker, bytes);
    // Whatever it is, a browser saves it and runs nothing of it.
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, artifact.size.to_string()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{}\"", safe(artifact.name.as_deref(), &digest))),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::CONTENT_SECURITY_POLICY, "sandbox".to_owned()),
    ];
    Ok((headers, bytes).into_response())
}

/// A name that means nothing to a header or a path.
fn safe(name: Option<&str>, digest: &str) -> String {
    let last = name.and_then(|name| name.rsplit(['/', '\\']).next()).unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' };
    let name: String = last.chars().map(plain).take(100).collect();
    if name.trim_matches(['.', '_']).is_empty() { digest.to_owned() } else { name.trim_start_matches('.').to_owned() }
}

fn too_large(hub: &Hub) -> Refused {
    Refusal::new(Code::TooLarge, format!("an artifact has at most {} bytes", hub.limits.artifact_bytes)).into()
}

#[cfg(test)]
mod tests {
    use super::safe;

    #[test]
    fn a_name_leads_nowhere() {
        for (name, expected) in [
            ("../../etc/passwd", "passwd"),
            ("a\r\nSet-Cookie: b", "a__Set-Cookie__b"),
            ("report.html", "report.html"),
            ("..", "d1"),
            ("C:\\x\\y.txt", "y.txt"),
            ("\"", "d1"),
            ("", "d1"),
        ] {
            assert_eq!(safe(Some(name), "d1"), expected, "{name}");
        }
    }
}
