//! The journal of a run, written beside what is printed.

use std::ffi::OsStr;
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use sabir_core::event::{Event, RunId};
use sabir_core::fold::{ResultOptions, SessionResult, SessionResultFold};
use sabir_core::line::{RawLine, Source};
use sabir_core::time::Timestamp;
use sabir_run::RunConfig;
use sabir_store::meta::{secret_values, without_secrets, without_values};
use sabir_store::{Home, Journal, Meta, Trouble, Why};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::print;

/// Switches the journal off, like `--no-journal`.
const VARIABLE: &str = "SABIR_JOURNAL";
/// How often a disk that takes nothing is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Whether runs are journaled.
pub(crate) fn wanted(no_journal: bool) -> bool {
    let off = |value: &OsStr| ["off", "0", "no", "false"].iter().any(|word| value.eq_ignore_ascii_case(word));
    !no_journal && !std::env::var_os(VARIABLE).is_some_and(|value| off(&value))
}

/// Refuses the id of a new run that the journal has a run of. What else is wrong with the journal is told when the run begins.
pub(crate) fn check_new(run_id: &RunId) -> Result<(), Failure> {
    let checked = Home::find().and_then(|home| Journal::check_new(&home, run_id.as_str()));
    checked.map_or_else(|trouble| refused(trouble).map_or(Ok(()), Err), Ok)
}

/// Why a run can't have the id that it was given.
fn refused(trouble: Trouble) -> Option<Failure> {
    matches!(trouble.why, Why::Live | Why::Used).then(|| Failure::usage(trouble.what).hint(trouble.hint))
}

/// What is kept of one run; nothing, when the journal is off or could not be opened.
#[derive(Default)]
pub(crate) struct Recording {
    open: Option<Open>,
    /// It was to be kept, and is not.
    lost: bool,
}

/// A run whose last records are on their way to the disk.
pub(crate) struct Ending {
    journal: Option<Journal>,
    lost: bool,
}

struct Open {
    journal: Journal,
    result: SessionResultFold,
    /// The user knows that nothing is kept any more.
    told: bool,
    look_again: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Recording {
    /// Creates the journal of a run. A journal that can't be written is told and does not keep the run from going on; another
    /// run of that id does.
    pub(crate) fn begin(plan: &RunConfig, options: ResultOptions) -> Result<Self, Failure> {
        let journal = match Home::find().and_then(|home| Journal::create(&home, plan.run_id.as_str())) {
            Ok(journal) => journal,
            Err(trouble) => {
                if let Some(failure) = refused(trouble.clone()) {
                    return Err(failure);
                }
                tell(&trouble);
                return Ok(Self { open: None, lost: true });
            }
        };
        journal.meta(&meta(plan));
        let result = SessionResult::fold_with(options);
        Ok(Self { open: Some(Open { journal, result, told: false, look_again: None }), lost: false })
    }

    /// Takes a line as the agent printed it.
    pub(crate) fn line(&mut self, line: &RawLine<'_>, source: Source, at: Option<Timestamp>) {
        if let Some(open) = &self.open {
            let at = at.and_then(|at| u64::try_from(at.as_millis()).ok()).unwrap_or_default();
            open.journal.raw_line(line, source, at);
        }
    }

    /// Takes an event, and its JSON where that is written already.
    pub(crate) fn event(&mut self, event: &Event<'_>, json: Option<&[u8]>) {
        if let Some(open) = &mut self.open {
            open.result.event(event);
            open.journal.event(|out| match json {
                Some(json) => out.extend_from_slice(json),
                None => event.write_json(out),
            });
        }
    }

    /// Tells once when nothing can be kept any more.
    pub(crate) fn idle(&mut self) {
        if let Some(open) = self.open.as_mut().filter(|open| !open.told)
            && let Some(trouble) = open.journal.trouble()
        {
            open.told = true;
            tell(&trouble);
        }
    }

    /// Ready when more can be taken.
    pub(crate) fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(open) = &mut self.open else { return Poll::Ready(()) };
        loop {
            if open.journal.poll_room(context).is_ready() {
                open.look_again = None;
                return Poll::Ready(());
            }
            // A disk that does not answer wakes nobody.
            let timer = open.look_again.get_or_insert_with(|| Box::pin(tokio::time::sleep(LOOK_AGAIN)));
            ready!(timer.as_mut().poll(context));
            open.look_again = None;
        }
    }

    /// Takes note of the result. What it gives is to be [finished](Ending::finish), which waits for the disk.
    pub(crate) fn end(self) -> Ending {
        let Some(Open { journal, result, told, .. }) = self.open else { return Ending { journal: None, lost: self.lost } };
        journal.result(&result.finish());
        Ending { journal: (!told).then_some(journal), lost: told }
    }
}

impl Ending {
    /// Waits until all of a run is on the disk. A run that completed and could not be kept has not gone well.
    pub(crate) fn finish(self, exit: Exit) -> Exit {
        let Self { journal, mut lost } = self;
        if let Some(Err(trouble)) = journal.map(Journal::finish) {
            tell(&trouble);
            lost = true;
        }
        if lost && exit == Exit::Completed { Exit::Delivery } else { exit }
    }
}

/// Of many runs whose journals can't be written, one tells: the disk is the same.
fn tell(trouble: &Trouble) {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        print::warning(&format!("{}; the run goes on, and is not kept in the journal", trouble.what));
        print::hint(&trouble.hint);
    });
}

fn meta(plan: &RunConfig) -> Meta {
    let own = sabir_run::secrets::variables().map(|(name, value)| (lossy(&name), lossy(&value)));
    let given = plan.environment.iter().map(|(name, value)| (lossy(name), lossy(value)));
    let set = plan.command.environment.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let secrets = secret_values(own.chain(given).chain(set));
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Meta {
        schema: Meta::SCHEMA.to_owned(),
        run_id: plan.run_id.as_str().to_owned(),
        agent: plan.agent.id.to_string(),
        agent_version: plan.agent_version.clone(),
        sabir_version: env!("CARGO_PKG_VERSION").to_owned(),
        program: plan.program.display().to_string(),
        arguments: without_secrets(&plan.command.arguments, &plan.prompt, &secrets),
        cwd: std::path::absolute(&plan.cwd).unwrap_or_else(|_| plan.cwd.clone()).display().to_string(),
        prompt: without_values(&plan.prompt, &secrets),
        started: i64::try_from(since.as_millis()).ok().and_then(Timestamp::from_millis),
    }
}

fn lossy(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}
