//! Events in, changes out.

use std::collections::VecDeque;

use super::speech::Speech;
use super::turns::{Turn, Turns};
use super::{Change, Choice, Clip, Clipping, Edit, Growth, Item, Step, What};
use crate::event::{
    Activity, ErrorEvent, Event, EventKind, Exited, FileChange, Final, Permission, Plan, Prompt, Retry, Session, Started,
    SuggestedEdits, TextDelta, ThinkingDelta, ToolEnd, ToolStart, ToolUpdate, TurnEnd, TurnStart, Unrecognized, Usage,
    UsageScope,
};
use crate::fold::session_result::dollars;
use crate::fold::tokens::{TokensReport, UsageTally};
use crate::price::Table;
use crate::time::Timestamp;

/// More calls than this are not remembered: what a later event says of an older one finds no item.
const MOST_CALLS: usize = 4_096;
/// More open calls than this are not followed: what a later event says of an older one changes nothing.
const MOST_OPEN: usize = 1_024;
/// More open questions than this are not followed: the answer to one is an item of its own.
const MOST_ASKED: usize = 256;

/// Turns the events of all runs of a session into changes of its timeline.
#[derive(Debug, Default)]
pub struct TimelineFold {
    pub(super) clipping: Clipping,
    /// The id of the next item.
    next: u64,
    /// Items that may still change.
    run: Option<Item>,
    turns: Turns,
    plan: Option<Item>,
    /// The message or reasoning that grows, with its id and the call that it is beneath.
    pub(super) speech: Option<Speech>,
    /// The last message of the main agent, which may turn out to be the answer.
    pub(super) said: Option<Item>,
    /// Open calls.
    open: Vec<Item>,
    /// Open questions.
    asked: Vec<Item>,
    /// The items of calls by the ids of the calls, the newest last.
    calls: VecDeque<(String, u64)>,
    runs: u32,
    model: Option<String>,
    tally: UsageTally,
}

impl TimelineFold {
    /// A fold that keeps more or less of long texts.
    pub fn new(clipping: Clipping) -> Self {
        Self { clipping, ..Self::default() }
    }

    /// Takes note of the next event, which has this number in its log, and adds the changes that it makes.
    pub fn event(&mut self, number: u64, event: &Event<'_>, out: &mut Vec<Change>) {
        if matches!(event.kind, EventKind::Started(_)) {
            self.begin_run();
        }
        let head = Head {
            number,
            seq: (event.seq > 0).then_some(event.seq),
            at: event.at,
            line: event.line,
            parent: event.parent_tool_call_id.as_deref(),
        };
        match &event.kind {
            EventKind::Text(TextDelta { delta, message_id, .. }) => {
                return self.speak(&head, delta, message_id.as_deref(), false, out);
            }
            EventKind::Thinking(ThinkingDelta { delta, message_id, .. }) => {
                return self.speak(&head, delta, message_id.as_deref(), true, out);
            }
            _ => {}
        }
        self.tally.event(&event.kind);
        let (speech, output) = (self.clipping.speech, self.clipping.output);
        let clip = |text: &str| Clip::of(text, output);
        match &event.kind {
            EventKind::Started(Started { agent, agent_version, .. }) => {
                let agent_version = agent_version.as_deref().map(str::to_owned);
                let what = What::Run { agent: agent.to_string(), agent_version, model: None, cwd: None, session_id: None };
                self.run = Some(self.put(&head, what, out));
            }
            EventKind::Session(Session { session_id, model, cwd, agent_version, .. }) if head.parent.is_none() => {
                let told = [session_id, model, cwd, agent_version].map(|field| field.as_deref());
                self.session(&head, told, out);
            }
            EventKind::Prompt(Prompt { text, .. }) => {
                self.put(&head, What::Prompt { text: Clip::of(text, speech) }, out);
            }
            EventKind::TurnStart(TurnStart { turn, .. }) => {
                self.speech = None;
                let what = What::Turn { stop_reason: None, tokens: None, cost_usd: None };
                let item = Item { turn: Some(*turn), ..self.item(&head, what) };
                let item = self.add(item, out);
                self.turns.begin(item);
            }
            EventKind::TurnEnd(TurnEnd { stop_reason: why, .. }) => {
                let Some(Turn { item, .. }) = self.turns.of(None) else { return };
                if let What::Turn { stop_reason, .. } = &mut item.what {
                    *stop_reason = why.as_deref().map(str::to_owned);
                }
                touch(item, &head);
                out.push(Change::Put(Box::new(item.clone())));
            }
            EventKind::Usage(Usage { scope, .. }) if *scope != UsageScope::Run => self.count(&head, &event.kind, out),
            EventKind::ToolStart(ToolStart { tool_call_id, name, input, tool_kind, title, .. }) => {
                let what = What::Tool {
                    call: tool_call_id.to_string(),
                    name: name.to_string(),
                    tool_kind: *tool_kind,
                    title: title.as_deref().map(str::to_owned),
                    input: input.as_deref().map(clip),
                    output: None,
                    status: None,
                    exit_code: None,
                    duration_ms: None,
                };
                // Words after a call are a new item, so that the order is the order in which things happened.
                self.speech = None;
                let item = self.put(&head, what, out);
                if self.calls.len() == MOST_CALLS {
                    self.calls.pop_front();
                }
                self.calls.push_back((tool_call_id.to_string(), item.id));
                if self.open.len() == MOST_OPEN {
                    self.open.remove(0);
                }
                self.open.push(item);
            }
            EventKind::ToolUpdate(ToolUpdate { tool_call_id, input, output_delta, .. }) => {
                let (input, delta) = (input.as_deref().map(clip), output_delta.as_deref());
                self.update(&head, tool_call_id, input, delta, out);
            }
            EventKind::ToolEnd(ToolEnd { tool_call_id, output, status: how, exit_code: code, duration_ms: took, .. }) => {
                let Some(place) = self.open.iter().position(|item| is_call(item, tool_call_id)) else { return };
                let mut item = self.open.remove(place);
                if let What::Tool { output: so_far, status, exit_code, duration_ms, .. } = &mut item.what {
                    if let Some(whole) = output.as_deref() {
                        *so_far = Some(clip(whole));
                    }
                    (*status, *exit_code, *duration_ms) = (Some(*how), *code, *took);
                }
                touch(&mut item, &head);
                out.push(Change::Put(Box::new(item)));
            }
            EventKind::FileChange(FileChange { path, change, from, diff, added, removed, tool_call_id, source, .. }) => {
                let what = What::File {
                    path: path.to_string(),
                    change: *change,
                    from: from.as_deref().map(str::to_owned),
                    diff: diff.as_deref().map(clip),
                    added: *added,
                    removed: *removed,
                    tool: tool_call_id.as_deref().and_then(|call| self.call(call)),
                    source: *source,
                };
                self.put(&head, what, out);
            }
            EventKind::SuggestedEdits(SuggestedEdits { edits, .. }) => {
                let edits = edits.iter().map(Edit::from).collect();
                self.put(&head, What::Edits { edits }, out);
            }
            EventKind::Plan(Plan { items, .. }) => {
                let items = items.iter().map(Step::from).collect();
                let plan = match self.plan.take() {
                    Some(plan) => changed(Item { what: What::Plan { items }, ..plan }, &head, out),
                    None => self.put(&head, What::Plan { items }, out),
                };
                self.plan = Some(plan);
            }
            EventKind::Permission(Permission { request_id, tool_call_id, title, options, decision, .. }) => {
                let options = options.iter().flatten().map(Choice::from).collect();
                let what = What::Permission {
                    request: request_id.to_string(),
                    title: title.to_string(),
                    options,
                    decision: decision.as_deref().map(str::to_owned),
                    tool: tool_call_id.as_deref().and_then(|call| self.call(call)),
                };
                self.permission(&head, request_id, what, decision.is_some(), out);
            }
            EventKind::Retry(Retry { attempt, max_attempts, delay_ms, message, .. }) => {
                let (attempt, max_attempts, delay_ms) = (*attempt, *max_attempts, *delay_ms);
                self.put(&head, What::Retry { attempt, max_attempts, delay_ms, message: message.to_string() }, out);
            }
            EventKind::Activity(Activity { message, .. }) => {
                self.put(&head, What::Activity { message: message.to_string() }, out);
            }
            EventKind::Final(Final { text, .. }) => self.answer(&head, text, out),
            EventKind::Error(ErrorEvent { message, class, fatal, .. }) => {
                self.put(&head, What::Error { message: message.to_string(), class: *class, fatal: *fatal }, out);
            }
            EventKind::Unrecognized(Unrecognized { r#type, raw, .. }) => {
                let of = r#type.as_deref().map(str::to_owned);
                self.put(&head, What::Unrecognized { of, raw: clip(raw) }, out);
            }
            EventKind::Exited(Exited { exit_code, signal, outcome, cause, duration_ms, .. }) => {
                let (tokens, cost_usd) = used(&self.tally, self.model.as_deref());
                let what = What::End {
                    outcome: *outcome,
                    cause: *cause,
                    exit_code: *exit_code,
                    signal: signal.as_deref().map(str::to_owned),
                    duration_ms: *duration_ms,
                    tokens,
                    cost_usd,
                };
                self.turns.end();
                self.put(&head, what, out);
            }
            _ => {}
        }
    }

    /// Messages are missing in the log: an error that everybody who looks sees.
    pub fn gap(&mut self, number: u64, at: Option<Timestamp>, what: &str, out: &mut Vec<Change>) {
        let head = Head { number, seq: None, at, line: None, parent: None };
        self.put(&head, What::Error { message: what.to_owned(), class: None, fatal: false }, out);
    }

    fn begin_run(&mut self) {
        let Self { clipping, next, runs, .. } = *self;
        *self = Self { clipping, next, runs: runs + 1, ..Self::default() };
    }

    /// The item of a call.
    pub(super) fn call(&self, call: &str) -> Option<u64> {
        self.calls.iter().rev().find(|(id, _)| id == call).map(|(_, item)| *item)
    }

    fn item(&self, head: &Head<'_>, what: What) -> Item {
        let parent = head.parent.and_then(|call| self.call(call));
        Item {
            id: self.next,
            first: head.number,
            last: head.number,
            seq: head.seq,
            last_seq: head.seq,
            at: head.at,
            until: None,
            line: head.line,
            run: self.runs.max(1),
            turn: self.turns.number(parent),
            parent,
            what,
        }
    }

    /// The next item.
    pub(super) fn put(&mut self, head: &Head<'_>, what: What, out: &mut Vec<Change>) -> Item {
        let item = self.item(head, what);
        self.add(item, out)
    }

    fn add(&mut self, item: Item, out: &mut Vec<Change>) -> Item {
        self.next += 1;
        out.push(Change::Put(Box::new(item.clone())));
        item
    }

    fn session(&mut self, head: &Head<'_>, told: [Option<&str>; 4], out: &mut Vec<Change>) {
        let Some(mut item) = self.run.take() else { return };
        if let What::Run { agent_version, model, cwd, session_id, .. } = &mut item.what {
            let known = [session_id, model, cwd, agent_version];
            let news = known.iter().zip(told).any(|(known, told)| told.is_some() && known.as_deref() != told);
            for (known, told) in known.into_iter().zip(told) {
                if let Some(told) = told {
                    *known = Some(told.to_owned());
                }
            }
            self.model = told[1].map(str::to_owned).or(self.model.take());
            if news {
                item = changed(item, head, out);
            }
        }
        self.run = Some(item);
    }

    /// Counts what was used to the turn in which it was.
    fn count(&mut self, head: &Head<'_>, usage: &EventKind<'_>, out: &mut Vec<Change>) {
        let parent = head.parent.and_then(|call| self.call(call));
        let Some(Turn { item, tally }) = self.turns.of(parent) else { return };
        tally.event(usage);
        if let What::Turn { tokens, cost_usd, .. } = &mut item.what {
            (*tokens, *cost_usd) = used(tally, self.model.as_deref());
        }
        match head.parent {
            None => touch(item, head),
            // A turn that is over does not last until a log tells what was used in it.
            Some(_) => (item.last, item.last_seq) = (head.number, head.seq.or(item.last_seq)),
        }
        out.push(Change::Put(Box::new(item.clone())));
    }

    fn update(&mut self, head: &Head<'_>, call: &str, given: Option<Clip>, delta: Option<&str>, out: &mut Vec<Change>) {
        let clipping = self.clipping;
        let Some(item) = self.open.iter_mut().find(|item| is_call(item, call)) else { return };
        if let (Some(given), What::Tool { input, .. }) = (given, &mut item.what) {
            *input = Some(given);
            touch(item, head);
            out.push(Change::Put(Box::new(item.clone())));
        }
        if let Some(delta) = delta {
            let growth = Growth { id: item.id, last: head.number, seq: head.seq, until: head.at, text: delta.to_owned() };
            item.grow(&growth, clipping);
            out.push(Change::Grow(growth));
        }
    }

    /// A question, or the answer to one that is open.
    fn permission(&mut self, head: &Head<'_>, request: &str, what: What, decided: bool, out: &mut Vec<Change>) {
        let is_it = |item: &Item| matches!(&item.what, What::Permission { request: asked, .. } if asked == request);
        let known = self.asked.iter().position(is_it).map(|place| self.asked.remove(place));
        let item = match known {
            Some(item) => {
                let (asked, answered) = (item.what.clone(), what);
                let what = match (asked, answered) {
                    // An answer need not repeat what could be answered.
                    (What::Permission { options, .. }, What::Permission { request, title, options: now, decision, tool })
                        if now.is_empty() =>
                    {
                        What::Permission { request, title, options, decision, tool }
                    }
                    (_, answered) => answered,
                };
                changed(Item { what, ..item }, head, out)
            }
            None => self.put(head, what, out),
        };
        if !decided && self.asked.len() < MOST_ASKED {
            self.asked.push(item);
        }
    }
}

/// What was used, and what it costs.
fn used(tally: &UsageTally, model: Option<&str>) -> (Option<TokensReport>, Option<f64>) {
    let tokens = tally.total();
    let report = tokens.total().map(|_| TokensReport::new(&tokens, tally.source()));
    (report, dollars(tally, model, Table::embedded()).total)
}

/// What every event has.
pub(super) struct Head<'a> {
    pub(super) number: u64,
    /// The `seq` of the event; nothing where it is not one of the agent's stream.
    pub(super) seq: Option<u64>,
    pub(super) at: Option<Timestamp>,
    pub(super) line: Option<u64>,
    pub(super) parent: Option<&'a str>,
}

/// Says what an item is now.
pub(super) fn changed(mut item: Item, head: &Head<'_>, out: &mut Vec<Change>) -> Item {
    touch(&mut item, head);
    out.push(Change::Put(Box::new(item.clone())));
    item
}

fn touch(item: &mut Item, head: &Head<'_>) {
    item.last = head.number;
    item.last_seq = head.seq.or(item.last_seq);
    item.until = head.at.or(item.until);
}

fn is_call(item: &Item, call: &str) -> bool {
    matches!(&item.what, What::Tool { call: id, .. } if id == call)
}
