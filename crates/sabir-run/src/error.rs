//! Errors of process setup. Failures of a run itself are reported as its [`RunOutcome`](crate::RunOutcome).

use std::io;

/// A text that is not an [`EnvRule`](crate::EnvRule).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a variable name or assignment")]
#[non_exhaustive]
pub struct ParseEnvRuleError;

/// Why [`secrets::protect`](crate::secrets::protect) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProtectError {
    /// The variable that passes the secrets has a value from elsewhere.
    #[error("{variable} is set, and not by this program")]
    ForeignDescriptor {
        /// Name of the variable.
        variable: &'static str,
    },
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
}
