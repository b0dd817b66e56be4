//! `sabir shell repair`: repairs the outboxes of sessions.

use sabir_shell::outbox::Repair;
use sabir_shell::{Outbox, RunnerError, SessionId};
use sabir_store::Home;
use serde::Serialize;

use crate::cli::shell::RepairArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::human::{grouped, visible};
use crate::print::json::Out;
use crate::print::{self, table};

/// What a repair did, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Repaired {
    lost_messages: u64,
    /// The first and the last number of each range.
    lost: Vec<[u64; 2]>,
    restored_messages: u64,
    torn_bytes: u64,
}

impl Repaired {
    pub(super) fn of(repair: &Repair) -> Self {
        Self {
            lost_messages: repair.lost_count(),
            lost: repair.lost.iter().map(|range| [*range.start(), *range.end()]).collect(),
            restored_messages: repair.restored,
            torn_bytes: repair.torn_bytes,
        }
    }
}

/// A line for a program.
#[derive(Serialize)]
struct Line<'a> {
    session: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<u64>,
    #[serde(flatten)]
    repaired: Option<Repaired>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What became of one outbox.
enum Checked {
    Live,
    Sound { messages: u64 },
    Damaged { messages: u64, repair: Repair },
    Failed(RunnerError),
}

impl Checked {
    fn state(&self, dry_run: bool) -> &'static str {
        match self {
            Self::Live => "running",
            Self::Sound { .. } => "undamaged",
            Self::Damaged { .. } if dry_run => "damaged",
            Self::Damaged { .. } => "repaired",
            Self::Failed(_) => "failed",
        }
    }

    fn is_failure(&self, dry_run: bool) -> bool {
        match self {
            Self::Live | Self::Sound { .. } => false,
            Self::Damaged { repair, .. } => dry_run || repair.lost_count() > 0,
            Self::Failed(_) => true,
        }
    }
}

pub(super) fn run(arguments: &RepairArguments) -> Result<Exit, Failure> {
    let home = Home::find().map_err(RunnerError::from)?;
    let mut sessions = Vec::new();
    for name in &arguments.sessions {
        let session = name.parse::<SessionId>().map_err(|error| Failure::usage(error.to_string()))?;
        if !home.outbox(name).map_err(RunnerError::from)?.exists() {
            return Err(Failure::usage(format!("the session {} has no outbox on this machine", visible(name)))
                .hint("`sabir shell repair --dry-run` lists those that have one"));
        }
        sessions.push(session);
    }
    if arguments.sessions.is_empty() {
        let folders = home.outboxes().map_err(|error| Failure::io("reading the outboxes failed", &error))?;
        sessions.extend(folders.iter().filter_map(|folder| folder.id().parse::<SessionId>().ok()));
    }
    let (mut out, mut rows, mut has_failed) = (Out::default(), Vec::new(), false);
    for session in &sessions {
        let checked = check(&home, session, arguments.dry_run).unwrap_or_else(Checked::Failed);
        has_failed |= checked.is_failure(arguments.dry_run);
        let state = checked.state(arguments.dry_run);
        let (messages, repair, error) = match &checked {
            Checked::Live => (None, None, None),
            Checked::Sound { messages } => (Some(*messages), None, None),
            Checked::Damaged { messages, repair } => (Some(*messages), Some(repair), None),
            Checked::Failed(failure) => (None, None, Some(failure)),
        };
        if arguments.json {
            let (repaired, error) = (repair.map(Repaired::of), error.map(super::message));
            let line = Line { session: session.as_str(), state, messages, repaired, error };
            serde_json::to_writer(out.buffer(), &line).map_err(|error| Failure::io("writing JSON failed", &error.into()))?;
            out.buffer().push(b'\n');
            continue;
        }
        let detail = match (repair, error) {
            (Some(repair), _) => repair.to_string(),
            (_, Some(failure)) => visible(&super::message(failure)),
            _ => String::new(),
        };
        rows.push(vec![visible(session.as_str()), messages.map_or_else(|| "—".to_owned(), grouped), state.to_owned(), detail]);
        if let Some(hint) = error.and_then(super::hint) {
            print::hint(hint);
        }
    }
    out.write()?;
    if !arguments.json && rows.is_empty() {
        print::note("no session has an outbox on this machine");
    } else if !arguments.json {
        table::print_with_room(&["SESSION", "MESSAGES", "STATE", "DETAIL"], &rows, &[], 0)?;
    }
    Ok(if has_failed { Exit::Delivery } else { Exit::Completed })
}

fn check(home: &Home, session: &SessionId, dry_run: bool) -> Result<Checked, RunnerError> {
    if home.outbox(session.as_str())?.is_live() {
        return Ok(Checked::Live);
    }
    let Some((repair, messages)) = Outbox::check(home, session)? else { return Ok(Checked::Sound { messages: 0 }) };
    if repair.is_empty() {
        return Ok(Checked::Sound { messages });
    }
    if dry_run {
        return Ok(Checked::Damaged { messages, repair });
    }
    let Some(outbox) = Outbox::open(home, session)? else { return Ok(Checked::Sound { messages: 0 }) };
    outbox.sync()?;
    Ok(Checked::Damaged { messages: outbox.last() - outbox.after(), repair: outbox.repair().clone() })
}
