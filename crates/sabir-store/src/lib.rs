//! What ran: the journal of runs, and the logs that agents keep themselves.
//!
//! - [`history`] finds the agents' own logs and reads them in place, in short or whole.
//! - [`index`] keeps what was read in short, so that only what changed is read again.
//! - [`account`] makes sessions of files and counts every response once.
//! - [`usage`] adds up what was spent; [`search`] finds words; [`whole`] reads a session as events.

pub mod account;
pub mod history;
pub mod index;
pub mod layout;
pub mod query;
pub mod search;
pub mod usage;
pub mod whole;
