//! One file per verb.

pub(crate) mod agent_loop;
pub(crate) mod agents;
pub(crate) mod batch;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod drift;
pub(crate) mod hub;
pub(crate) mod jobs;
pub(crate) mod ls;
mod page;
pub(crate) mod parse;
pub(crate) mod prune;
pub(crate) mod query;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod show;
pub(crate) mod tail;
pub(crate) mod tui;
pub(crate) mod usage;
