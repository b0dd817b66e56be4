//! Many events to one value.

mod overview;
mod session_result;
pub mod timeline;
mod tokens;

pub use overview::{Overview, OverviewFold, Phase};
pub use session_result::{
    Cost, CostSource, FileChange, ModelUse, Over, Reported, ResultOptions, SessionResult, SessionResultFold, Status, Taker,
    ToolCall, Turn, Unrecognized,
};
pub use tokens::{NativeUsage, Tokens, TokensReport, TokensSource, UsageSum, UsageTally};
