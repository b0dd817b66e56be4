//! `sabir completions` and `sabir man`.
//!
//! What a shell sources asks this program what a word can be, so that what can be completed is never older than the
//! program, and ids of sessions can be.

use std::ffi::OsStr;

use clap::CommandFactory as _;
use clap_complete::engine::CompletionCandidate;
use clap_complete::env::{CompleteEnv, Shells};

use sabir_store::account::Session;
use sabir_store::index::Log;
use sabir_store::whole;

use crate::cli::{Cli, CompletionsArguments};
use crate::commands::agents::registry;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::past;
use crate::print::human::visible;
use crate::print::json::Out;

/// The variable through which a shell asks.
const ASKED: &str = "SABIR_COMPLETE";
/// So many sessions are offered, the latest ones.
const OFFERED: usize = 100;

pub(crate) fn run(arguments: &CompletionsArguments) -> Result<Exit, Failure> {
    let mut out = Out::default();
    let name = arguments.shell.to_string();
    let shell = Shells::builtins();
    let shell = shell.completer(&name).ok_or_else(|| Failure::usage(format!("nothing can be completed in {name}")))?;
    shell
        .write_registration(ASKED, "sabir", "sabir", "sabir", out.buffer())
        .map_err(|error| Failure::io("writing the completions failed", &error))?;
    out.write()?;
    Ok(Exit::Completed)
}

/// Answers a shell that asks what a word can be. False when none does, and this is a command like any other.
pub(crate) fn answered() -> clap::error::Result<bool> {
    let here = std::env::current_dir().ok();
    CompleteEnv::with_factory(Cli::command).var(ASKED).try_complete(std::env::args_os(), here.as_deref())
}

/// The sessions whose ids begin so, the latest first.
pub(crate) fn sessions(begins: &OsStr) -> Vec<CompletionCandidate> {
    offered(begins, |_, _| true)
}

/// The runs of the journal whose ids begin so, the latest first.
pub(crate) fn runs(begins: &OsStr) -> Vec<CompletionCandidate> {
    offered(begins, |session, logs| whole::run_of(session, logs).is_some())
}

/// The agents whose ids begin so.
pub(crate) fn agents(begins: &OsStr) -> Vec<CompletionCandidate> {
    let Some(begins) = begins.to_str() else { return Vec::new() };
    let ids = registry().iter().filter(|agent| agent.log.is_some()).map(|agent| agent.id.as_str());
    ids.filter(|id| id.starts_with(begins)).map(CompletionCandidate::new).collect()
}

fn offered(begins: &OsStr, chosen: impl Fn(&Session, &[Log]) -> bool) -> Vec<CompletionCandidate> {
    let Some(begins) = begins.to_str() else { return Vec::new() };
    let past = past::load_quietly(None);
    let all = past.sessions.iter().chain(&past.parts);
    // An id that could steer the terminal, or is several lines, is none that a shell can put on its own line.
    let is_harmless = |session: &Session| visible(&session.id) == session.id;
    let mut sessions: Vec<&Session> =
        all.filter(|session| session.id.starts_with(begins) && is_harmless(session) && chosen(session, &past.logs)).collect();
    sessions.sort_by_key(|session| std::cmp::Reverse(session.last));
    let offered = sessions.into_iter().take(OFFERED).enumerate().map(|(place, session)| {
        let title: String = visible(session.account(&past.logs).title().unwrap_or_default()).chars().take(60).collect();
        let about = format!("{}  {title}", session.agent.id.as_str());
        CompletionCandidate::new(&session.id).help(Some(about.into())).display_order(Some(place))
    });
    offered.collect()
}

pub(crate) fn man() -> Result<Exit, Failure> {
    let mut out = Out::default();
    let page = clap_mangen::Man::new(Cli::command());
    page.render(out.buffer()).map_err(|error| Failure::io("writing the manual page failed", &error))?;
    out.write()?;
    Ok(Exit::Completed)
}
