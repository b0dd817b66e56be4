//! A run as people read it: text as it comes, one line per tool, and a table at the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use sabir_core::event::{
    self, Activity, Change, ErrorEvent, Event, EventKind, Permission, Plan, PlanStatus, Prompt, Retry, Session, Started,
    TextDelta, ThinkingDelta, ToolEnd, ToolKind, ToolStart, ToolStatus, ToolUpdate, Unrecognized,
};
use sabir_core::export::call_detail;
use sabir_core::fold::{CostSource, Over, ResultOptions, SessionResult, SessionResultFold, Status};
use sabir_core::readable::{self, duration};

use super::table::fit;
use crate::reason::Reason;

pub(crate) use sabir_core::readable::{grouped, line as visible};

const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const NAME: Style = AnsiColor::Cyan.on_default();
const NOTE: Style = AnsiColor::Yellow.on_default();

/// Prints events for people.
pub(crate) struct Human {
    fold: SessionResultFold,
    did: Did,
    reason: Reason,
    color: bool,
    width: usize,
    /// Calls whose line is not written yet, with the text that it will have.
    open: BTreeMap<String, Call>,
    /// What the cursor stands behind: a line of text must be ended before another kind of line.
    mid_line: Option<Speech>,
    /// The model and the id of the session, as far as they were told.
    session: [Option<String>; 2],
    diffs: bool,
    printed: String,
}

/// What somebody says: what is not of the same piece begins on a line of its own.
#[derive(Clone, PartialEq)]
struct Speech {
    is_thinking: bool,
    parent: Option<String>,
    message: Option<String>,
}

/// What was done, in figures: what a long run did need not be kept for its table.
struct Did {
    calls: usize,
    failed: usize,
    files: usize,
    /// Lines added and removed; `None` once the counts of one change are unknown.
    lines: Option<(u64, u64)>,
}

impl Default for Did {
    fn default() -> Self {
        Self { calls: 0, failed: 0, files: 0, lines: Some((0, 0)) }
    }
}

impl Did {
    fn count(&mut self, over: &mut Over) {
        for (_, call) in over.calls.drain(..) {
            self.calls += 1;
            self.failed += usize::from(call.status != ToolStatus::Ok);
        }
        for change in over.file_changes.drain(..) {
            self.files += 1;
            let lines = self.lines.zip(change.added.zip(change.removed));
            self.lines = lines.map(|(all, one)| (all.0.saturating_add(one.0), all.1.saturating_add(one.1)));
        }
        over.turns.clear();
    }
}

struct Call {
    name: String,
    kind: ToolKind,
    detail: Option<String>,
    /// What it changed, as far as that was said before its end.
    changes: Vec<Changed>,
}

/// A file that was changed: a line that says so, and how.
struct Changed {
    line: String,
    diff: Option<String>,
}

/// How many lines of a diff are shown, and of an error.
const DIFF: usize = 60;
const ERROR: usize = 40;
/// How much of a line of an error is shown.
const LONGEST: usize = 2_000;

impl Human {
    pub(crate) fn new(options: ResultOptions, color: bool, width: usize) -> Self {
        let fold = SessionResult::fold_with(options);
        let (open, session) = (BTreeMap::new(), [None, None]);
        let (did, reason) = (Did::default(), Reason::default());
        Self { fold, did, reason, color, width, open, mid_line: None, session, diffs: false, printed: String::new() }
    }

    /// The same, with what was changed in files.
    pub(crate) fn with_diffs(self) -> Self {
        Self { diffs: true, ..self }
    }

    /// Appends what an event looks like.
    pub(crate) fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        self.fold.event(event);
        self.did.count(self.fold.over());
        self.reason.event(event);
        let depth = usize::from(event.parent_tool_call_id.is_some());
        match &event.kind {
            EventKind::Started(Started { agent, .. }) => self.line(0, BOLD, &format!("▶ {agent}")),
            EventKind::Session(Session { model, session_id, .. }) => {
                let mut news = Vec::new();
                for (known, fact) in self.session.iter_mut().zip([model, session_id]) {
                    if let Some(fact) = fact.as_deref().filter(|fact| known.as_deref() != Some(*fact)) {
                        news.push(fact);
                        *known = Some(fact.to_owned());
                    }
                }
                self.line(depth, DIM, &news.join(" · "));
            }
            EventKind::Prompt(Prompt { text, .. }) => self.line(depth, NOTE, &format!("› {text}")),
            EventKind::Text(TextDelta { delta, message_id, .. }) => self.speech(event, false, message_id.as_deref(), delta),
            EventKind::Thinking(ThinkingDelta { delta, message_id, .. }) => {
                self.speech(event, true, message_id.as_deref(), delta);
            }
            EventKind::ToolStart(ToolStart { tool_call_id, name, input, tool_kind, title, .. }) => {
                // The status line needs a line of its own while the tool runs.
                self.end_speech();
                let detail = call_detail(*tool_kind, title.as_deref(), input.as_deref());
                self.open.insert(
                    tool_call_id.to_string(),
                    Call { name: name.to_string(), kind: *tool_kind, detail, changes: Vec::new() },
                );
            }
            EventKind::ToolUpdate(ToolUpdate { tool_call_id, input: Some(input), .. }) => {
                if let Some(call) = self.open.get_mut(tool_call_id.as_ref()) {
                    call.detail = call_detail(call.kind, None, Some(input)).or(call.detail.take());
                }
            }
            EventKind::ToolEnd(ToolEnd { tool_call_id, output, status, exit_code, duration_ms, .. }) => {
                let call = self.open.remove(tool_call_id.as_ref());
                self.tool(depth, call.as_ref(), output.as_deref(), *status, *exit_code, *duration_ms);
                call.iter().flat_map(|call| &call.changes).for_each(|change| self.changed(depth + 1, change));
            }
            EventKind::FileChange(event::FileChange { path, change, from, added, removed, tool_call_id, diff, .. }) => {
                let sign = match change {
                    Change::Create => "+",
                    Change::Delete => "-",
                    _ => "~",
                };
                let from = from.as_deref().map(|from| format!("{from} → ")).unwrap_or_default();
                let counts = match (added, removed) {
                    (Some(added), Some(removed)) => format!("  +{added} -{removed}"),
                    _ => String::new(),
                };
                let diff = diff.as_deref().filter(|_| self.diffs).map(str::to_owned);
                let changed = Changed { line: format!("{sign} {from}{path}{counts}"), diff };
                match tool_call_id.as_ref().and_then(|id| self.open.get_mut(id.as_ref())) {
                    Some(call) => call.changes.push(changed),
                    None => self.changed(depth + 1, &changed),
                }
            }
            EventKind::Plan(Plan { items, .. }) => {
                for item in items {
                    let sign = match item.status {
                        PlanStatus::Completed => "[x]",
                        PlanStatus::InProgress => "[>]",
                        _ => "[ ]",
                    };
                    self.line(depth + 1, DIM, &format!("{sign} {}", item.text));
                }
            }
            EventKind::Permission(Permission { title, decision, .. }) => {
                let decision = decision.as_deref().unwrap_or("asked");
                self.line(depth, NOTE, &format!("? {title} ({decision})"));
            }
            EventKind::Retry(Retry { attempt, max_attempts, message, .. }) => {
                let of = max_attempts.map(|max| format!(" of {max}")).unwrap_or_default();
                self.line(depth, NOTE, &format!("↻ attempt {attempt}{of} failed: {message}"));
            }
            EventKind::Activity(Activity { message, .. }) => self.line(depth, DIM, &format!("· {message}")),
            EventKind::Error(ErrorEvent { message, .. }) => self.error(depth, message),
            EventKind::Unrecognized(Unrecognized { r#type, raw, .. }) => {
                self.line(depth, NOTE, &format!("? unrecognized {}: {raw}", r#type.as_deref().unwrap_or("line")));
            }
            _ => {}
        }
        out.append(&mut std::mem::take(&mut self.printed).into_bytes());
    }

    /// Tools, tokens and cost so far, for the line that moves.
    pub(crate) fn meter(&self) -> String {
        let mut text = String::new();
        if let Some(call) = self.open.values().next() {
            let _ = write!(text, "  {}", visible(&call.name));
            if let Some(detail) = &call.detail {
                let _ = write!(text, " {}", visible(detail));
            }
        }
        let (tokens, cost) = self.fold.so_far();
        if let Some(tokens) = tokens {
            let _ = write!(text, "  {} tokens", grouped(tokens));
        }
        if let Some(cost) = cost.filter(|cost| *cost > 0.0) {
            let _ = write!(text, "  ${cost:.4}");
        }
        text
    }

    /// Appends the table of the run.
    pub(crate) fn end(mut self, out: &mut Vec<u8>) {
        self.end_speech();
        self.did.count(self.fold.close());
        let result = std::mem::take(&mut self.fold).finish();
        self.table(&result);
        out.append(&mut self.printed.into_bytes());
    }

    fn tool(
        &mut self,
        depth: usize,
        call: Option<&Call>,
        output: Option<&str>,
        status: ToolStatus,
        exit_code: Option<i32>,
        duration_ms: Option<u64>,
    ) {
        let (sign, style) = match status {
            ToolStatus::Ok => ("✓", GOOD),
            ToolStatus::Unfinished => ("…", NOTE),
            _ => ("✗", BAD),
        };
        let mut said = match status {
            ToolStatus::Ok => String::new(),
            _ => format!("  {status}"),
        };
        if let Some(code) = exit_code.filter(|code| *code != 0) {
            let _ = write!(said, " (exit {code})");
        }
        if let Some(millis) = duration_ms {
            let _ = write!(said, "  {}", duration(millis));
        }
        let name = call.map_or("tool", |call| call.name.as_str());
        let detail = call.and_then(|call| call.detail.as_deref()).unwrap_or_default();
        self.end_speech();
        let room = self.width.saturating_sub(depth * 2 + said.len() + 2);
        let head = fit(&visible(&format!("{name}  {detail}")), room);
        let (name, rest) = head.split_at(name.len().min(head.len()).min(floor(&head, name.len())));
        let line = format!(
            "{}{} {}{rest}{}",
            "  ".repeat(depth),
            self.paint(style, sign),
            self.paint(NAME, name),
            self.paint(DIM, &said)
        );
        self.printed.push_str(&line);
        self.printed.push('\n');
        // Of a failure the last line is the one that tells; a success is taken at its word.
        if status != ToolStatus::Ok
            && let Some(last) = output.and_then(|output| output.lines().rfind(|line| !line.trim().is_empty()))
        {
            self.line(depth + 1, DIM, last);
        }
    }

    fn speech(&mut self, event: &Event<'_>, is_thinking: bool, message: Option<&str>, delta: &str) {
        if delta.is_empty() {
            return;
        }
        let parent = event.parent_tool_call_id.as_deref().map(str::to_owned);
        let speech = Speech { is_thinking, parent, message: message.map(str::to_owned) };
        if self.mid_line.as_ref().is_some_and(|before| *before != speech) {
            self.end_speech();
        }
        let mut text = readable::text(delta);
        if speech.parent.is_some() {
            // What a sub-agent says stands where its tools do.
            let indent = if self.mid_line.is_none() { "  " } else { "" };
            let (lines, end) = text.strip_suffix('\n').map_or((text.as_str(), ""), |lines| (lines, "\n"));
            text = format!("{indent}{}{end}", lines.replace('\n', "\n  "));
        }
        let style = if is_thinking { DIM.italic() } else { Style::new() };
        let text = self.paint(style, &text);
        self.printed.push_str(&text);
        self.mid_line = if delta.ends_with('\n') { None } else { Some(speech) };
    }

    fn changed(&mut self, depth: usize, changed: &Changed) {
        self.line(depth, NOTE, &changed.line);
        let all = changed.diff.as_deref().unwrap_or_default().lines();
        let lines: Vec<&str> = all.skip_while(|line| !line.starts_with("@@")).collect();
        for line in lines.iter().take(DIFF) {
            let style = match line.as_bytes().first() {
                Some(b'+') => GOOD,
                Some(b'-') => BAD,
                _ => DIM,
            };
            self.line(depth + 1, style, line);
        }
        if lines.len() > DIFF {
            self.line(depth + 1, DIM, &format!("… {} more lines", lines.len() - DIFF));
        }
    }

    fn end_speech(&mut self) {
        if self.mid_line.take().is_some() {
            self.printed.push('\n');
        }
    }

    fn line(&mut self, depth: usize, style: Style, text: &str) {
        self.end_speech();
        if text.trim().is_empty() {
            return;
        }
        let indent = "  ".repeat(depth);
        let text = fit(&visible(text), self.width.saturating_sub(indent.len()));
        let text = self.paint(style, &text);
        self.printed.push_str(&indent);
        self.printed.push_str(&text);
        self.printed.push('\n');
    }

    /// An error is not cut at the width: its end often says what to do.
    fn error(&mut self, depth: usize, message: &str) {
        self.end_speech();
        let indent = "  ".repeat(depth);
        let text = readable::text(message.trim());
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        for (place, line) in lines.take(ERROR).enumerate() {
            let line = self.paint(BAD, &format!("{} {}", if place == 0 { "✗" } else { " " }, fit(line, LONGEST)));
            let _ = writeln!(self.printed, "{indent}{line}");
        }
    }

    fn paint(&self, style: Style, text: &str) -> String {
        if self.color && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    fn table(&mut self, result: &SessionResult) {
        let (style, sign) = match result.status {
            Status::Success => (GOOD, "✓"),
            Status::Error => (BAD, "✗"),
            _ => (NOTE, "…"),
        };
        let mut outcome = format!("{sign} {}", self.reason.outcome(result.outcome, result.cause));
        let error: Vec<String> = self.reason.error(result.outcome).into_iter().map(visible).collect();
        if let [first, ..] = &*error {
            let _ = write!(outcome, ": {first}");
        }
        let Did { calls, failed, files, lines } = self.did;
        let lines = lines.map_or_else(String::new, |(added, removed)| format!(" (+{added} -{removed})"));
        let tools = match (calls, failed) {
            (0, _) => "none".to_owned(),
            (all, 0) => all.to_string(),
            (all, failed) => format!("{all} ({failed} not ok)"),
        };
        let rows = [
            ("outcome", outcome),
            ("model", result.model.clone().unwrap_or_else(|| "—".to_owned())),
            ("turns", result.turns.map_or_else(|| "—".to_owned(), |turns| turns.to_string())),
            ("tools", tools),
            ("files", format!("{files}{lines}")),
            ("tokens", tokens(result)),
            ("cost", cost(result)),
            ("time", result.duration_ms.map_or_else(|| "—".to_owned(), duration)),
        ];
        let rule = "─".repeat(self.width.min(60));
        self.line(0, DIM, &rule);
        for (name, value) in rows {
            let is_outcome = name == "outcome";
            let value = visible(&value);
            let value = if is_outcome { self.paint(style.bold(), &value) } else { fit(&value, self.width.saturating_sub(10)) };
            let name = self.paint(DIM, &format!("{name:<8}"));
            let _ = writeln!(self.printed, "{name}  {value}");
            for line in error.iter().skip(1).filter(|_| is_outcome) {
                let _ = writeln!(self.printed, "{:10}{}", "", self.paint(style, line));
            }
        }
        self.line(0, DIM, &rule);
    }
}

fn tokens(result: &SessionResult) -> String {
    let tokens = &result.tokens;
    let Some(total) = tokens.total else { return "—".to_owned() };
    let parts =
        [("in", tokens.uncached_input), ("cached", tokens.cache_read), ("written", tokens.cache_write), ("out", tokens.output)];
    let parts: Vec<String> = parts
        .into_iter()
        .filter_map(|(name, count)| count.filter(|count| *count > 0).map(|count| format!("{} {name}", grouped(count))))
        .collect();
    format!("{} ({})", grouped(total), parts.join(", "))
}

fn cost(result: &SessionResult) -> String {
    let word = match result.cost.source {
        CostSource::Reported => "reported",
        CostSource::Computed => "computed",
        CostSource::Unknown => "",
    };
    match (result.cost.total, &result.cost.reason) {
        (Some(total), _) => format!("${total:.4} {word}"),
        (None, Some(reason)) => format!("— ({reason})"),
        (None, None) => "—".to_owned(),
    }
}

/// The last place up to `at` where a character starts.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|index| text.is_char_boundary(*index)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use sabir_core::event::{Change, ChangeSource};
    use sabir_core::fold::{FileChange, Over};

    use super::Did;

    #[test]
    fn line_counts_of_changes_are_unknown_once_those_of_one_are() {
        let change = |lines: Option<u64>| FileChange {
            path: "a.txt".to_owned(),
            change: Change::Update,
            from: None,
            added: lines,
            removed: lines,
            tool_call_id: None,
            source: ChangeSource::Reported,
        };
        let lines = |counts: &[Option<u64>]| {
            let mut did = Did::default();
            did.count(&mut Over { file_changes: counts.iter().copied().map(change).collect(), ..Over::default() });
            (did.files, did.lines)
        };
        assert_eq!(lines(&[]), (0, Some((0, 0))));
        assert_eq!(lines(&[Some(2), Some(3)]), (2, Some((5, 5))));
        assert_eq!(lines(&[Some(2), None]), (2, None));
    }
}
