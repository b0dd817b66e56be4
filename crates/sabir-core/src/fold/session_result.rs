//! One run as one value: what it answered, did, used and cost, and how it ended.

mod cost;
mod over;
mod shape;
mod write;

use std::collections::BTreeMap;

use super::tokens::{Tokens, TokensReport, TokensSource, UsageTally};
use crate::agent::Accounting;
use crate::event::{
    self, ErrorEvent, Event, EventKind, Exited, Final, Outcome, Session, Started, ToolEnd, ToolStart, ToolUpdate, TurnEnd,
    TurnStart, Usage, UsageScope,
};
use crate::json::RawJson;
use crate::price::Table;
use crate::time::Timestamp;

pub use over::{Over, Taker};
pub use shape::{Cost, CostSource, FileChange, ModelUse, Reported, SessionResult, Status, ToolCall, Turn, Unrecognized};

/// Results of tools are kept up to this size; the whole is in the raw log.
const RESULT_BYTES: usize = 64 * 1024;

/// What the fold is told beside the events.
#[derive(Debug, Clone, Default)]
pub struct ResultOptions {
    /// The model that the agent was started with, for agents that do not name it.
    pub model: Option<String>,
    /// Prices to use instead of the embedded ones.
    pub prices: Option<Table>,
}

/// Collects events into a [`SessionResult`].
#[derive(Debug, Default)]
pub struct SessionResultFold {
    options: ResultOptions,
    result: SessionResult,
    accounting: Accounting,
    tally: UsageTally,
    /// The calls that have not ended, each with the number of calls that began before it.
    /// In boxes, since mostly one is open at a time: a map has room for many from the first one on.
    open: BTreeMap<String, Box<(usize, ToolCall)>>,
    calls: usize,
    /// The last turn: what follows its end may still belong to it.
    turn: Option<Turn>,
    over: Over,
    turn_open: bool,
    turn_tokens: TurnTokens,
    first_at: Option<Timestamp>,
    last_at: Option<Timestamp>,
    turns_ended: u32,
}

impl SessionResult {
    /// A fold with embedded prices.
    pub fn fold() -> SessionResultFold {
        SessionResultFold::default()
    }

    /// A fold with options of its own.
    pub fn fold_with(options: ResultOptions) -> SessionResultFold {
        SessionResultFold { options, ..SessionResultFold::default() }
    }
}

impl SessionResultFold {
    /// Takes note of the next event.
    pub fn event(&mut self, event: &Event<'_>) {
        let mut over = std::mem::take(&mut self.over);
        self.event_with(event, &mut over);
        self.over = over;
    }

    /// The same, for who takes what is over at once.
    pub fn event_with(&mut self, event: &Event<'_>, over: &mut impl Taker) {
        let main = event.parent_tool_call_id.is_none();
        if let Some(at) = event.at {
            self.first_at.get_or_insert(at);
            // What a sub-agent did may be told after the end of all, which it does not move.
            if main || self.last_at < Some(at) {
                self.last_at = Some(at);
            }
        }
        self.tally.event_priced(&event.kind, self.options.prices.as_ref());
        let result = &mut self.result;
        match &event.kind {
            EventKind::Started(Started { agent, agent_version, detection, accounting, .. }) => {
                result.agent = agent.clone().into_owned();
                result.agent_version = agent_version.as_deref().map(str::to_owned);
                result.detection = *detection;
                self.accounting = accounting.unwrap_or_else(|| Accounting::legacy(agent));
            }
            EventKind::Session(Session { session_id, model, agent_version, .. }) if main => {
                let note = |field: &mut Option<String>, value: &Option<_>| {
                    if let Some(value) = value {
                        *field = Some(String::clone(value));
                    }
                };
                note(&mut result.session_id, &session_id.as_deref().map(str::to_owned));
                note(&mut result.model, &model.as_deref().map(str::to_owned));
                note(&mut result.agent_version, &agent_version.as_deref().map(str::to_owned));
            }
            EventKind::TurnStart(TurnStart { turn, .. }) => {
                if let Some(turn) = self.turn.replace(Turn { turn: *turn, ..Turn::default() }) {
                    over.turn(turn);
                }
                self.turn_open = true;
                self.turn_tokens = TurnTokens::default();
            }
            EventKind::TurnEnd(TurnEnd { stop_reason, .. }) => {
                self.turns_ended += 1;
                self.turn_open = false;
                if let Some(turn) = &mut self.turn {
                    turn.stop_reason = stop_reason.as_deref().map(str::to_owned);
                }
                if let Some(reason) = stop_reason {
                    result.stop_reason = Some(reason.clone().into_owned());
                }
            }
            EventKind::Usage(Usage { scope, .. }) if main && self.turn_open && *scope != UsageScope::Run => {
                if let Some(turn) = &mut self.turn {
                    turn.usage = self.turn_tokens.event(&event.kind).native(self.accounting);
                }
            }
            EventKind::ToolStart(ToolStart { tool_call_id, name, input, tool_kind, .. }) => {
                let call = ToolCall {
                    id: tool_call_id.clone().into_owned(),
                    name: name.clone().into_owned(),
                    kind: *tool_kind,
                    args: input.as_deref().map(RawJson::from_text),
                    parent_id: event.parent_tool_call_id.as_deref().map(str::to_owned),
                    ..ToolCall::default()
                };
                if let Some(same) = self.open.insert(call.id.clone(), Box::new((self.calls, call))) {
                    let (number, call) = *same;
                    over.call(number, call, None);
                }
                self.calls += 1;
                if let Some(turn) = self.turn.as_mut().filter(|_| main) {
                    turn.tool_calls.push(tool_call_id.clone().into_owned());
                }
            }
            EventKind::ToolUpdate(ToolUpdate { tool_call_id, input: Some(input), .. }) => {
                if let Some(open) = self.open.get_mut(tool_call_id.as_ref()) {
                    open.1.args = Some(RawJson::from_text(input));
                }
            }
            EventKind::ToolEnd(ToolEnd { tool_call_id, output, status, exit_code, duration_ms, .. }) => {
                if let Some(open) = self.open.remove(tool_call_id.as_ref()) {
                    let (number, mut call) = *open;
                    call.status = *status;
                    call.exit_code = *exit_code;
                    call.duration_ms = *duration_ms;
                    call.result_bytes = output.as_ref().map(|output| output.size() as u64);
                    over.call(number, call, output.as_ref());
                }
            }
            EventKind::FileChange(event::FileChange { path, change, from, added, removed, tool_call_id, source, .. }) => {
                over.file_change(FileChange {
                    path: path.clone().into_owned(),
                    change: *change,
                    from: from.as_deref().map(str::to_owned),
                    added: *added,
                    removed: *removed,
                    tool_call_id: tool_call_id.as_deref().map(str::to_owned),
                    source: *source,
                });
            }
            EventKind::Final(Final { text, .. }) => result.text = Some(text.clone().into_owned()),
            EventKind::Error(ErrorEvent { message, class, .. }) => {
                result.errors.push(Reported { message: message.clone().into_owned(), class: *class });
            }
            EventKind::Unrecognized(event::Unrecognized { r#type, .. }) => {
                result.unrecognized.lines += 1;
                let name = r#type.as_deref().unwrap_or("(no type)").to_owned();
                *result.unrecognized.types.entry(name).or_default() += 1;
            }
            EventKind::Exited(_) => self.exited(&event.kind),
            _ => {}
        }
    }

    fn exited(&mut self, kind: &EventKind<'_>) {
        let EventKind::Exited(Exited {
            exit_code, signal, outcome, cause, stop_reason, turns, duration_ms, api_duration_ms, ..
        }) = kind
        else {
            return;
        };
        let result = &mut self.result;
        result.outcome = *outcome;
        result.status = Status::of(*outcome);
        result.cause = *cause;
        result.exit_code = *exit_code;
        result.signal = signal.as_deref().map(str::to_owned);
        if let Some(reason) = stop_reason {
            result.stop_reason = Some(reason.clone().into_owned());
        }
        result.turns = turns.or((self.turns_ended > 0).then_some(self.turns_ended));
        let measured = self.first_at.zip(self.last_at).and_then(|(first, last)| last.millis_since(first));
        result.duration_ms = duration_ms.or(measured);
        result.api_duration_ms = *api_duration_ms;
    }

    /// Tokens and dollars so far, as far as they are known: for a meter that runs along.
    pub fn so_far(&self) -> (Option<u64>, Option<f64>) {
        let model = self.result.model.as_deref().or(self.options.model.as_deref());
        let prices = self.options.prices.as_ref().unwrap_or_else(|| Table::embedded());
        (self.tally.total().total(), dollars(&self.tally, model, prices).total)
    }

    /// What is over and was not taken out.
    pub fn over(&mut self) -> &mut Over {
        &mut self.over
    }

    /// Counts what is open as over: no more events come.
    pub fn close(&mut self) -> &mut Over {
        let mut over = std::mem::take(&mut self.over);
        self.close_with(&mut over);
        self.over = over;
        &mut self.over
    }

    /// The same, for who takes what is over at once.
    pub fn close_with(&mut self, over: &mut impl Taker) {
        if let Some(turn) = self.turn.take() {
            over.turn(turn);
        }
        for open in std::mem::take(&mut self.open).into_values() {
            let (number, call) = *open;
            over.call(number, call, None);
        }
    }

    /// The result of all events so far, without what was [taken out](Self::over).
    pub fn finish(mut self) -> SessionResult {
        let Over { turns, mut calls, file_changes } = std::mem::take(self.close());
        let Self { options, mut result, accounting, tally, .. } = self;
        calls.sort_unstable_by_key(|(number, _)| *number);
        result.turn_details = turns;
        result.tool_calls = calls.into_iter().map(|(_, call)| call).collect();
        result.file_changes = file_changes;
        if result.model.is_none() {
            result.model = options.model;
        }
        let total: Tokens = tally.total();
        let broken_off =
            matches!(result.outcome, Outcome::Cancelled | Outcome::TimedOut | Outcome::Crashed | Outcome::Incomplete);
        let source = match tally.source() {
            TokensSource::Summed if broken_off => TokensSource::Estimated,
            source => source,
        };
        result.usage = total.native(accounting);
        result.tokens = TokensReport::new(&total, source);
        let prices = options.prices.as_ref().unwrap_or_else(|| Table::embedded());
        cost::fill(&mut result, &tally, source, prices);
        result
    }
}

/// The tokens of a turn, by the rule of the [tally](UsageTally): there are many turns, and nobody asks for the models of one.
#[derive(Debug, Default)]
struct TurnTokens {
    /// What was told of the turn as one.
    whole: Tokens,
    /// What its messages used since.
    messages: Tokens,
}

impl TurnTokens {
    /// Takes note of what a message or the turn used; gives the sum.
    fn event(&mut self, kind: &EventKind<'_>) -> Tokens {
        let tokens = Tokens::of_event(kind).unwrap_or_default();
        if matches!(kind, EventKind::Usage(Usage { scope: UsageScope::Message, .. })) {
            self.messages.add(&tokens);
        } else {
            self.messages = Tokens::default();
            self.whole.add(&tokens);
        }
        let mut sum = self.whole;
        sum.add(&self.messages);
        sum
    }
}

/// What was used in dollars, as far as that is known.
pub(super) fn dollars(tally: &UsageTally, model: Option<&str>, prices: &Table) -> Cost {
    let mut result = SessionResult { model: model.map(str::to_owned), ..SessionResult::default() };
    cost::fill(&mut result, tally, TokensSource::Estimated, prices);
    result.cost
}
