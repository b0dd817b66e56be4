//! The transcript for people: standard output of `codex exec` up to 0.46, and standard error since.
//!
//! ```text
//! [2026-11-15T18:00:43] codex                          codex                    up to 0.42 every section begins with
//!                                                      I will list the files.   a time, later with a word on a line
//! I will list the files.                               exec                     of its own
//! [2026-11-15T18:00:43] exec bash -lc ls in /dir       bash -lc ls in /dir succeeded in 8ms:
//! [2026-11-15T18:00:43] bash -lc ls succeeded in 8ms:  README.md
//! README.md                                            tokens used
//! [2026-11-15T18:00:43] tokens used: 1,410             1,410
//! ```
//!
//! `tokens used` leaves the cached tokens out and does not divide the rest, so it is told as activity and not as usage.
//! Text behind it is the answer once more, from a caller that prints both streams or the file of the last message.

mod about;
mod calls;
mod heading;

use std::borrow::Cow;

use about::About;
use calls::Calls;
use heading::Heading;
use sabir_core::agent::Confidence;
use sabir_core::dialect::{Dialect, End, Facts, Held, Verdict};
use sabir_core::event::{Activity, EventKind, Outcome, Plan, PlanItem, PlanStatus, Text, TextDelta, ThinkingDelta, TurnStart};
use sabir_core::line::Line;

use super::answer::{self, Answer, MARKER};
use super::report;
use super::trouble::Trouble;

/// More blank lines than these in a row are not a part of any message.
const MOST_BLANK_LINES: usize = 4_096;

/// Reads transcripts.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    form: Form,
    /// Headings and output are coloured.
    coloured: bool,
    section: Section,
    about: About,
    /// What the section holds so far, where that is needed when it ends.
    held: Held,
    /// Blank lines that are a part of the message only if more of it follows.
    blank_lines: usize,
    messages: u64,
    /// The message that is being said stands behind a marker.
    marked: bool,
    plan: Vec<PlanItem<'static>>,
    calls: Calls,
    answer: Answer,
    trouble: Trouble,
    /// The tokens were counted after the answer.
    answered: bool,
    aborted: bool,
}

/// How sections begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Form {
    #[default]
    Unknown,
    Times,
    Words,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Section {
    /// Nothing was recognized yet.
    #[default]
    Before,
    About,
    Prompt,
    Thinking,
    Message,
    /// A command whose end is not in sight.
    CommandTitle,
    /// The end of a command of several lines, which is repeated whole.
    EndTitle,
    Output,
    Patch,
    Plan,
    TokenFigure,
    /// Behind the token figure.
    Tail,
    /// Lines that say nothing new.
    Skipped,
}

/// How sure a line makes us that the stream is of this dialect.
pub(super) fn detect(line: &str) -> Confidence {
    let line = heading::plain(line);
    if line.starts_with("OpenAI Codex v") {
        return Confidence::Certain;
    }
    match heading::stamped(&line).map(|(_, rest)| heading::with_time(rest)) {
        Some(Heading::Notice(_) | Heading::Error(_)) => Confidence::Possible,
        Some(_) => Confidence::Certain,
        None if !line.starts_with('{') && line.contains(MARKER) => Confidence::Possible,
        None => Confidence::None,
    }
}

impl Dialect for Transcript {
    fn line<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        let plain = heading::plain(&line.text);
        let stamped = heading::stamped(&plain).filter(|_| self.form != Form::Words);
        if let Some((at, _)) = stamped {
            self.form = Form::Times;
            self.calls.at = at;
        }
        facts.at = self.calls.at;
        if self.section == Section::Plan && self.step(stamped.map_or(&*plain, |(_, rest)| rest)) {
            return;
        }
        let heading = match stamped {
            Some((_, rest)) => {
                // A command of several lines ends with all of them.
                if self.calls.begins_with_line(rest) && heading::end(rest).is_none() {
                    self.close(facts);
                    self.section = Section::EndTitle;
                    self.held.set(rest);
                    return;
                }
                Some(heading::with_time(rest))
            }
            None if self.form == Form::Words => heading::without_time(&plain, |label| self.calls.is_open(label)),
            None if self.form == Form::Unknown && plain.starts_with("OpenAI Codex v") => {
                self.form = Form::Words;
                heading::without_time(&plain, |_| false)
            }
            None => None,
        };
        match heading {
            Some(heading) => {
                self.coloured |= plain.len() != line.text.len();
                self.close(facts);
                self.open(heading, facts);
            }
            None => self.body(&line.text, facts),
        }
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        if self.section == Section::Before {
            self.section = Section::Tail;
        }
        self.close(facts);
        let verdict = match self.trouble.verdict() {
            Some(failed) => failed,
            None if self.aborted => Verdict::of(Outcome::Cancelled),
            None if self.answered && self.answer.stands() => Verdict::of(Outcome::Completed),
            None if self.answer.stands() => Verdict { exit_code_decides: true, ..Verdict::of(Outcome::Completed) },
            None => Verdict::of(Outcome::Incomplete),
        };
        report::answer(&self.answer, &verdict, end, facts);
        verdict
    }
}

impl Transcript {
    fn open(&mut self, heading: Heading<'_>, facts: &mut Facts<'_>) {
        self.section = match heading {
            Heading::Banner { version } => {
                self.about = About::of(version);
                Section::About
            }
            Heading::Prompt => {
                facts.push(TurnStart::default());
                Section::Prompt
            }
            Heading::Message => self.open_message(false),
            Heading::Thinking => {
                self.messages += 1;
                Section::Thinking
            }
            Heading::Command(text) => self.command(text, facts),
            Heading::Tool(invocation) => {
                self.answer.overtake();
                self.calls.tool(invocation, facts);
                Section::Skipped
            }
            Heading::Patch => {
                self.answer.overtake();
                self.calls.patch(facts);
                Section::Patch
            }
            Heading::End(end) => {
                self.answer.overtake();
                self.calls.end(&end, facts);
                Section::Output
            }
            Heading::Diff => Section::Skipped,
            Heading::Plan => {
                self.answer.overtake();
                Section::Plan
            }
            Heading::Tokens(figure) => {
                self.answered = self.answer.stands();
                match figure {
                    Some(figure) => tokens(figure, facts),
                    None => Section::TokenFigure,
                }
            }
            Heading::Search(query) => {
                self.answer.overtake();
                self.calls.search(query, facts);
                Section::Skipped
            }
            Heading::Error(message) => {
                if let Some(error) = self.trouble.fatal(Cow::Owned(message.to_owned())) {
                    facts.push(error);
                }
                Section::Skipped
            }
            Heading::Aborted(message) => {
                self.aborted = true;
                facts.push(Activity::new(message.to_owned()));
                Section::Skipped
            }
            Heading::Notice(message) => {
                let message = Cow::Owned(message.to_owned());
                match self.trouble.retry(&message) {
                    Some(retry) => facts.push(retry),
                    None => facts.push(Activity::new(message)),
                }
                Section::Skipped
            }
        };
    }

    /// Reads a line that begins nothing.
    fn body(&mut self, text: &str, facts: &mut Facts<'_>) {
        match self.section {
            Section::Message | Section::Thinking => self.piece(text, facts),
            Section::About => {
                if let Some(session) = self.about.line(&heading::plain(text)) {
                    facts.push(session);
                    self.section = Section::Skipped;
                }
            }
            Section::CommandTitle | Section::EndTitle => self.title(text, facts),
            Section::Output => {
                let text = if self.coloured { heading::plain(text) } else { Cow::Borrowed(text) };
                self.held.push(&text);
                self.held.push("\n");
            }
            Section::Patch => {
                let text = if self.coloured { heading::plain(text) } else { Cow::Borrowed(text) };
                self.calls.patch_line(&text);
            }
            Section::TokenFigure => self.section = tokens(text.trim(), facts),
            Section::Before | Section::Tail => {
                self.held.push(text);
                self.held.push("\n");
            }
            Section::Prompt | Section::Plan | Section::Skipped => {}
        }
    }

    /// Ends the section that is open.
    fn close(&mut self, facts: &mut Facts<'_>) {
        let held = self.held.take();
        match std::mem::replace(&mut self.section, Section::Skipped) {
            Section::Message => self.close_message(&held),
            Section::Output | Section::Patch => self.calls.close(&held, facts),
            Section::CommandTitle if !held.is_empty() => self.calls.command(&held, None, facts),
            Section::Plan if !self.plan.is_empty() => facts.push(Plan::new(std::mem::take(&mut self.plan))),
            Section::Before => activities(&held, facts),
            Section::Tail => self.tail(held.trim(), facts),
            _ => {}
        }
        self.blank_lines = 0;
    }

    fn open_message(&mut self, marked: bool) -> Section {
        self.messages += 1;
        self.marked = marked;
        Section::Message
    }

    fn close_message(&mut self, message: &str) {
        if !message.is_empty() {
            self.answer.set(message, self.marked);
        } else if self.marked {
            self.answer.mark();
        }
    }

    /// Says a line of a message or of reasoning, and of the blank lines before it those that are inside.
    fn piece(&mut self, text: &str, facts: &mut Facts<'_>) {
        if self.section == Section::Message
            && let Some((before, behind)) = answer::split_at_marker(text)
        {
            if !before.trim().is_empty() {
                self.piece(before.trim_end(), facts);
            }
            if self.held.as_str().is_empty() {
                self.marked = true;
            } else {
                self.close(facts);
                self.section = self.open_message(true);
            }
            return self.piece(behind, facts);
        }
        if text.is_empty() {
            self.blank_lines = (self.blank_lines + 1).min(MOST_BLANK_LINES);
            return;
        }
        let started = !self.held.as_str().is_empty();
        let newlines = if started { self.blank_lines + 1 } else { 0 };
        self.blank_lines = 0;
        let delta = format!("{}{text}", "\n".repeat(newlines));
        self.held.push(&delta);
        let (delta, message_id) = (Text::from(delta), Some(Cow::Owned(format!("message_{}", self.messages))));
        facts.push(match self.section {
            Section::Thinking => EventKind::Thinking(ThinkingDelta::new(delta).message_id(message_id)),
            _ => EventKind::Text(TextDelta::new(delta).message_id(message_id)),
        });
    }

    /// Text outside of any section: the answer once more, or the only time it is said. What is neither was printed by
    /// somebody else.
    fn tail(&mut self, text: &str, facts: &mut Facts<'_>) {
        let marked = answer::unmarked(text);
        let said = self.answer.as_str().map(str::trim);
        match marked {
            None if text.is_empty() || said == Some(text) => {}
            None if said.is_some() => activities(text, facts),
            _ => {
                let is_marked = marked.is_some();
                let (shown, answer) = marked.unwrap_or_else(|| (text.to_owned(), text.to_owned()));
                if said != Some(answer.as_str()) && !shown.trim().is_empty() {
                    self.messages += 1;
                    let message_id = Some(Cow::Owned(format!("message_{}", self.messages)));
                    facts.push(TextDelta::new(shown).message_id(message_id));
                }
                if answer.is_empty() { self.answer.mark() } else { self.answer.set(&answer, is_marked) }
            }
        }
    }

    /// Reads the next line of a title of several lines. Only a line with ` in ` can be its last one.
    fn title(&mut self, text: &str, facts: &mut Facts<'_>) {
        if !self.held.as_str().is_empty() {
            self.held.push("\n");
        }
        self.held.push(text);
        if !text.contains(" in ") {
            return;
        }
        let title = self.held.take();
        if self.section == Section::CommandTitle {
            self.section = self.command(&title, facts);
        } else if let Some(end) = heading::end(&title) {
            self.calls.end(&end, facts);
            self.section = Section::Output;
        } else {
            self.held.set(&title);
        }
    }

    /// Begins a command, once its title is whole.
    fn command(&mut self, title: &str, facts: &mut Facts<'_>) -> Section {
        self.answer.overtake();
        let ended = heading::end(title);
        let label = ended.map_or(title, |end| end.label);
        let Some((command, folder)) = heading::command_and_folder(label) else {
            self.held.set(title);
            return Section::CommandTitle;
        };
        self.calls.command(command, Some(folder), facts);
        let Some(end) = ended else { return Section::Skipped };
        self.calls.end(&heading::End { label: command, ..end }, facts);
        Section::Output
    }

    /// Reads a step of a plan; false when the line is none.
    fn step(&mut self, line: &str) -> bool {
        let mut glyph_and_step = line.trim_start().splitn(2, ' ');
        let status = match glyph_and_step.next() {
            Some("✓") => PlanStatus::Completed,
            Some("→") => PlanStatus::InProgress,
            Some("•") => PlanStatus::Pending,
            _ => return false,
        };
        let text = Cow::Owned(glyph_and_step.next().unwrap_or_default().to_owned());
        self.plan.push(PlanItem { text, status });
        true
    }
}

fn tokens(figure: &str, facts: &mut Facts<'_>) -> Section {
    facts.push(Activity::new(format!("tokens used: {figure}")));
    Section::Tail
}

fn activities(text: &str, facts: &mut Facts<'_>) {
    for line in text.lines() {
        facts.push(Activity::new(line.to_owned()));
    }
}
