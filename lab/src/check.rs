//! What was seen of a run against what was served to it.

mod output;

use std::fmt::{self, Display};
use std::fs;

use sabir_core::event::{Change, EventKind, Exited, Outcome, TextDelta, ThinkingDelta, ToolStatus, Unrecognized};
use sabir_core::launch::Permission;
use sabir_core::laws;
use serde::Serialize;

use crate::cli::Recipe;
use crate::place;
use crate::scenario::{FORBIDDEN, Interrupt, Run, Tool, Turn};
use crate::trial::Seen;
use crate::truth::{Lanes, Tokens};

/// What a run is looked at for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Aspect {
    /// The whole of it.
    Run,
    /// How it ended, and the exit code of `sabir run`.
    Outcome,
    /// The final text.
    Answer,
    /// The texts on the way.
    Texts,
    /// The reasoning.
    Thinking,
    /// The tool calls: their number, names and ends.
    Tools,
    /// What the tools gave back.
    Output,
    /// The exit codes of commands.
    ExitCode,
    /// The files that were changed.
    Files,
    /// The tokens, class by class.
    Tokens,
    /// The session: its id, and what it remembers.
    Session,
    /// The laws of the vocabulary, and that every line was understood.
    Stream,
    /// The processes that are left.
    Processes,
}

impl Display for Aspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Aspect::Run => "run",
            Aspect::Outcome => "outcome",
            Aspect::Answer => "answer",
            Aspect::Texts => "texts",
            Aspect::Thinking => "thinking",
            Aspect::Tools => "tools",
            Aspect::Output => "output",
            Aspect::ExitCode => "exit code",
            Aspect::Files => "files",
            Aspect::Tokens => "tokens",
            Aspect::Session => "session",
            Aspect::Stream => "stream",
            Aspect::Processes => "processes",
        })
    }
}

/// Something that is not as it was served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where.
    pub aspect: Aspect,
    /// What, in one line.
    pub what: String,
}

impl Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.aspect, self.what)
    }
}

/// Everything that is not as it was served; nothing when all is well. `remembered` is what a continued session must have told the
/// model again.
pub fn check(recipe: &Recipe, run: &Run, seen: &Seen, remembered: Option<&str>) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut differs = |aspect: Aspect, what: String| differences.push(Difference { aspect, what: short(&what) });
    outcome(run, seen, &mut differs);
    texts(run, seen, &mut differs);
    tools(recipe, run, seen, &mut differs);
    output::outputs(run, seen, &mut differs);
    files(run, seen, &mut differs);
    if run.interrupt.is_none() {
        tokens(recipe, seen, &mut differs);
    }
    if seen.result.session_id.is_none() {
        differs(Aspect::Session, "no session id".to_owned());
    }
    if let Some(word) = remembered
        && !seen.truth.last_request.contains(word)
    {
        differs(Aspect::Session, format!("the model was not told {word:?} again"));
    }
    stream(seen, &mut differs);
    match &seen.left {
        Some(left) if !left.is_empty() => differs(Aspect::Processes, format!("{} left: {}", left.len(), left[0].command)),
        _ => {}
    }
    differences
}

fn short(text: &str) -> String {
    let line = text.replace('\n', "\\n");
    if line.chars().count() <= 240 { line } else { line.chars().take(239).chain(['…']).collect() }
}

fn outcome(run: &Run, seen: &Seen, differs: &mut impl FnMut(Aspect, String)) {
    let outcome = seen.result.outcome;
    let (right, wanted, code) = if run.interrupt.is_some() {
        (outcome == Outcome::Cancelled, "cancelled", 4)
    } else if seen.truth.final_text.is_some() {
        (outcome == Outcome::Completed, "completed", 0)
    } else {
        (outcome == Outcome::Failed, "failed", 1)
    };
    if !right || seen.code != Some(code) {
        let got = seen.code.map_or_else(|| "none, it was killed".to_owned(), |code| code.to_string());
        differs(Aspect::Outcome, format!("{outcome} and exit code {got}, not {wanted} and {code}"));
    }
    if seen.truth.after_the_script > 0 {
        differs(Aspect::Outcome, format!("{} requests after the end of the script", seen.truth.after_the_script));
    }
}

fn texts(run: &Run, seen: &Seen, differs: &mut impl FnMut(Aspect, String)) {
    let answer = seen.result.text.as_deref();
    // What a run says that was stopped may be an answer that came to nothing; it is checked that it is a part of what was served.
    let right = match (run.interrupt, answer) {
        (Some(_), Some(text)) => {
            seen.truth.texts.iter().chain(&seen.truth.unfinished_texts).any(|served| served.contains(text.trim()))
        }
        (Some(_), None) => true,
        (None, _) => answer == seen.truth.final_text.as_deref(),
    };
    if !right {
        differs(Aspect::Answer, format!("{} instead of {}", quoted(answer), quoted(seen.truth.final_text.as_deref())));
    }
    let mut said = String::new();
    let mut thought = String::new();
    for event in &seen.events {
        match &event.kind {
            EventKind::Text(TextDelta { delta, .. }) => said.push_str(delta),
            EventKind::Thinking(ThinkingDelta { delta, .. }) => thought.push_str(delta),
            _ => {}
        }
    }
    if let Some(missing) = missing(&said, &seen.truth.texts) {
        differs(Aspect::Texts, format!("{} is not in the text events", quoted(Some(missing))));
    }
    if let Some(missing) = missing(&thought, &seen.truth.thinking) {
        differs(Aspect::Thinking, format!("{} is not in the thinking events", quoted(Some(missing))));
    }
}

/// The first of the texts that does not follow the ones before it.
fn missing<'a>(mut said: &str, served: &'a [String]) -> Option<&'a str> {
    for text in served {
        match said.find(text.as_str()) {
            Some(at) => said = &said[at + text.len()..],
            None => return Some(text),
        }
    }
    None
}

fn quoted(text: Option<&str>) -> String {
    match text {
        None => "nothing".to_owned(),
        Some(text) if text.chars().count() > 80 => {
            format!("{:?}… ({} bytes)", text.chars().take(60).collect::<String>(), text.len())
        }
        Some(text) => format!("{text:?}"),
    }
}

/// The tools of the turns that were served.
fn served<'r>(run: &'r Run, seen: &Seen) -> Vec<&'r Tool> {
    let tools = run.turns.iter().flat_map(|turn| if let Turn::Says { tools, .. } = turn { *tools } else { &[] });
    tools.take(seen.truth.tool_calls.len()).collect()
}

/// Whether the run may do what a tool does.
fn allowed(run: &Run, tool: &Tool) -> bool {
    match (run.permission, tool) {
        (Permission::Full, _) | (_, Tool::Read(_)) => true,
        (Permission::Edit, Tool::Write { path, .. } | Tool::Edit { path, .. }) => !path.starts_with(".."),
        _ => false,
    }
}

fn tools(recipe: &Recipe, run: &Run, seen: &Seen, differs: &mut impl FnMut(Aspect, String)) {
    let wanted: Vec<(&str, Option<ToolStatus>)> = served(run, seen)
        .iter()
        .map(|tool| {
            let status = if tool.fails() { ToolStatus::Error } else { ToolStatus::Ok };
            let ends = run.interrupt != Some(Interrupt::MidTool) && allowed(run, tool);
            (recipe.told(tool, &seen.place), ends.then_some(status))
        })
        .collect();
    let got: Vec<(&str, ToolStatus)> = seen.result.tool_calls.iter().map(|call| (call.name.as_str(), call.status)).collect();
    let right = wanted.len() == got.len()
        && wanted.iter().zip(&got).all(|(wanted, got)| {
            // A command that was interrupted, and one that was not allowed, has any end but a good one.
            wanted.0 == got.0 && wanted.1.map_or(got.1 != ToolStatus::Ok, |status| status == got.1)
        });
    if !right {
        let wanted = wanted.iter().map(|(name, status)| format!("{name} {}", status.map_or("stopped", word)));
        let got = got.iter().map(|(name, status)| format!("{name} {}", word(*status)));
        differs(
            Aspect::Tools,
            format!("[{}] instead of [{}]", got.collect::<Vec<_>>().join(", "), wanted.collect::<Vec<_>>().join(", ")),
        );
    }
}

fn word(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Ok => "ok",
        ToolStatus::Error => "error",
        ToolStatus::Denied => "denied",
        ToolStatus::Cancelled => "cancelled",
        _ => "unfinished",
    }
}

fn files(run: &Run, seen: &Seen, differs: &mut impl FnMut(Aspect, String)) {
    let mut wanted = Vec::new();
    for tool in served(run, seen).into_iter().filter(|tool| allowed(run, tool)) {
        match *tool {
            Tool::Write { path, content } => {
                on_disk(seen, path, content, differs);
                wanted.push((path, Change::Create));
            }
            Tool::Edit { path, old, new } => {
                let before = place::FILES.iter().find(|(name, _)| *name == path).map_or("", |(_, content)| content);
                on_disk(seen, path, &before.replace(old, new), differs);
                wanted.push((path, Change::Update));
            }
            Tool::Shell(_) | Tool::Read(_) => {}
        }
    }
    untouched(run, seen, differs);
    let got: Vec<(&str, Change)> = seen.result.file_changes.iter().map(|change| (change.path.as_str(), change.change)).collect();
    let right = wanted.len() == got.len()
        && wanted.iter().zip(&got).all(|(wanted, got)| {
            let path = std::path::Path::new(got.0);
            wanted.1 == got.1 && (path == std::path::Path::new(wanted.0) || path == seen.place.work.join(wanted.0))
        });
    if !right {
        differs(Aspect::Files, format!("{got:?} instead of {wanted:?}"));
    }
}

/// What a run may not do is looked for on the disk: what is told of it does not count.
fn untouched(run: &Run, seen: &Seen, differs: &mut impl FnMut(Aspect, String)) {
    if run.permission == Permission::Full {
        return;
    }
    let folders = seen.place.work.ancestors().take(2);
    for file in folders.flat_map(|folder| FORBIDDEN.map(|name| folder.join(name))).filter(|file| file.exists()) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        differs(Aspect::Files, format!("{name} was written, which was not allowed"));
    }
    if run.permission == Permission::ReadOnly {
        for (path, content) in place::FILES {
            on_disk(seen, path, content, differs);
        }
    }
}

fn on_disk(seen: &Seen, path: &str, wanted: &str, differs: &mut impl FnMut(Aspect, String)) {
    let got = fs::read_to_string(seen.place.work.join(path)).unwrap_or_default();
    if got != wanted {
        differs(Aspect::Files, format!("{path} holds {}", quoted(Some(&got))));
    }
}

fn tokens(recipe: &Recipe, seen: &Seen, differs: &mut impl FnMut(Aspect, String)) {
    let Lanes { main, aux, .. } = seen.truth.usage;
    let most = if recipe.counts_auxiliary { aux.replies } else { 0 };
    // What the CLI asks for itself may be answered before or after it counts.
    let ways = (0..=most).map(|replies| unlike(seen, &plus(main, aux, replies)));
    for wrong in ways.min_by_key(Vec::len).into_iter().flatten() {
        differs(Aspect::Tokens, wrong);
    }
}

/// The tokens of the agent, and of so many of the other replies, which all cost the same.
fn plus(main: Tokens, aux: Tokens, replies: u64) -> Tokens {
    let part = |all: u64| all * replies / aux.replies.max(1);
    Tokens {
        uncached_input: main.uncached_input + part(aux.uncached_input),
        cache_read: main.cache_read + part(aux.cache_read),
        cache_write: main.cache_write + part(aux.cache_write),
        output: main.output + part(aux.output),
        reasoning: main.reasoning + part(aux.reasoning),
        replies: main.replies + replies,
    }
}

/// The classes that are not as they should be.
fn unlike(seen: &Seen, wanted: &Tokens) -> Vec<String> {
    let got = &seen.result.tokens;
    let classes = [
        ("uncached input", got.uncached_input, wanted.uncached_input),
        ("cache read", got.cache_read, wanted.cache_read),
        ("cache write", got.cache_write, wanted.cache_write),
        ("output", got.output, wanted.output),
        ("reasoning", got.reasoning, wanted.reasoning),
    ];
    // A class that the CLI does not know is right only if there was nothing in it.
    let wrong = classes.iter().filter(|(_, got, wanted)| got.unwrap_or(0) != *wanted);
    let told = |got: Option<u64>| got.map_or_else(|| "unknown".to_owned(), |got| got.to_string());
    wrong.map(|(class, got, wanted)| format!("{class} {} instead of {wanted}", told(*got))).collect()
}

fn stream(seen: &Seen, differs: &mut impl FnMut(Aspect, String)) {
    if let Err(broken) = laws::check(&seen.events) {
        differs(Aspect::Stream, broken.to_string());
    }
    if let Some(line) = seen.garbage.first() {
        differs(Aspect::Stream, format!("{} lines are no events: {line}", seen.garbage.len()));
    }
    let unrecognized = seen.events.iter().find_map(|event| match &event.kind {
        EventKind::Unrecognized(Unrecognized { raw, .. }) => Some(raw),
        _ => None,
    });
    if let Some(raw) = unrecognized {
        differs(Aspect::Stream, format!("{} lines were not understood: {raw}", seen.result.unrecognized.lines));
    }
    let quiescent = seen.events.iter().any(|event| matches!(event.kind, EventKind::Exited(Exited { quiescent: Some(true), .. })));
    if seen.left.is_some() && !quiescent {
        differs(Aspect::Processes, "the run does not say that nothing is left".to_owned());
    }
}
