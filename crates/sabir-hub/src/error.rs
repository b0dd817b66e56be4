//! Errors of the store and of the API.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sabir_protocol::{Code, FromHub, Refusal};

/// A store call that failed. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store cannot do this now: the disk or the size limit is full, or it is closing.
    #[error("{0}")]
    Unavailable(String),
    /// A defect, or a database that something else changed.
    #[error("{0}")]
    Internal(String),
    /// Stored data can no longer be read.
    #[error("{0}")]
    Damaged(String),
}

impl From<StoreError> for Refusal {
    /// Hides the details, which are for the operator.
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => {
                Self::new(Code::Unavailable, "the hub cannot store data at the moment; try again later")
            }
            StoreError::Internal(_) => Self::new(Code::Internal, "internal error of the hub"),
            StoreError::Damaged(_) => {
                Self::new(Code::Internal, "the hub's database is damaged here; `sabir hub verify` shows where")
            }
        }
    }
}

/// A refusal as an HTTP response.
#[derive(Debug)]
pub(crate) struct ApiError(pub(crate) Refusal);

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

/// The requested resource does not exist.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotFound;

impl From<NotFound> for ApiError {
    fn from(_: NotFound) -> Self {
        Self(Refusal::new(Code::NotFound, "not found"))
    }
}

/// The response to a request that cannot be parsed.
pub(crate) fn malformed(message: impl std::fmt::Display) -> ApiError {
    ApiError(Refusal::new(Code::Malformed, message.to_string()))
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after = self.0.retry_after_seconds;
        let mut response = (status, Json(FromHub::Error(self.0))).into_response();
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
