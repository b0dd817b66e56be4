//! Errors of the store, and their form in the protocol.

use sabir_protocol::{Code, Refusal};

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
