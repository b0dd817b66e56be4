//! What was said and done, in messages and steps.
//!
//! A step is one round: the expert's message with its tool calls, then their results. Calls made in parallel belong to
//! one message, so a message is closed when the first of them ends, not when the first of them begins.

use super::records::{Message, Part, ToolCall, ToolResult};
use sabir_core::event::ToolStatus;
use sabir_core::export::Ids;
use sabir_core::fold::{Tokens, UsageTally};
use sabir_core::json::RawJson;

/// What happened in the conversation and is worth an event; the step is the one that it happened in.
#[derive(Debug)]
pub(super) enum Happened {
    /// A message calls tools.
    Called { step: u64, message: Message, calls: Vec<ToolCall>, tokens: Tokens },
    /// Calls ended.
    Resolved { step: u64, results: Vec<ToolResult> },
}

#[derive(Debug)]
pub(super) struct Conversation {
    skill: String,
    ids: Ids,
    made: u64,
    pub(super) messages: Vec<Message>,
    /// The expert's message that is being said, and the agent's name for it.
    parts: Vec<Part>,
    said_in: Option<String>,
    /// Calls of that message which are not told yet.
    calls: Vec<ToolCall>,
    /// Calls that were told and have not ended: id and name.
    open: Vec<(String, String)>,
    /// Results that are not told yet.
    results: Vec<ToolResult>,
    pub(super) step: StepState,
}

/// The step that is going on.
#[derive(Debug)]
pub(super) struct StepState {
    pub(super) number: u64,
    /// Where its messages begin in all messages.
    pub(super) first_message: usize,
    pub(super) calls: Vec<ToolCall>,
    pub(super) results: Vec<ToolResult>,
    pub(super) tally: UsageTally,
    pub(super) started_at: i64,
}

impl StepState {
    fn new(number: u64, first_message: usize, started_at: i64) -> Self {
        Self { number, first_message, calls: Vec::new(), results: Vec::new(), tally: UsageTally::default(), started_at }
    }
}

impl Conversation {
    pub(super) fn new(skill: &str, ids: Ids, prompt: Option<&str>, now: i64) -> Self {
        let mut conversation = Self {
            skill: skill.to_owned(),
            ids,
            made: 0,
            messages: Vec::new(),
            parts: Vec::new(),
            said_in: None,
            calls: Vec::new(),
            open: Vec::new(),
            results: Vec::new(),
            step: StepState::new(1, 0, now),
        };
        if let Some(prompt) = prompt {
            let text = Part::Text { id: conversation.id("part"), text: prompt.to_owned() };
            let id = conversation.id("message");
            conversation.messages.push(Message { id, r#type: "userMessage", contents: vec![text] });
            conversation.step.first_message = conversation.messages.len();
        }
        conversation
    }

    pub(super) fn id(&mut self, what: &str) -> String {
        self.made += 1;
        self.ids.id(what, self.made)
    }

    /// A piece of text or reasoning.
    pub(super) fn say(&mut self, thinking: bool, message_id: Option<&str>, delta: &str, now: i64) -> Vec<Happened> {
        let happened = self.settle(now);
        if !self.parts.is_empty() && self.said_in.as_deref() != message_id {
            self.close_message();
        }
        self.said_in = message_id.map(str::to_owned);
        match self.parts.last_mut() {
            Some(Part::Text { text, .. }) if !thinking => text.push_str(delta),
            Some(Part::Thinking { thinking: text, .. }) if thinking => text.push_str(delta),
            _ => {
                let id = self.id("part");
                let text = delta.to_owned();
                self.parts.push(if thinking { Part::Thinking { id, thinking: text } } else { Part::Text { id, text } });
            }
        }
        happened
    }

    /// A call begins.
    pub(super) fn call(&mut self, id: &str, name: &str, input: Option<&str>, now: i64) -> Vec<Happened> {
        let happened = if self.results.is_empty() && self.step.results.is_empty() { Vec::new() } else { self.settle(now) };
        let call =
            ToolCall { id: id.to_owned(), skill_name: self.skill.clone(), tool_name: name.to_owned(), args: arguments(input) };
        self.calls.push(call);
        happened
    }

    /// The arguments of a call that was begun without them.
    pub(super) fn arguments(&mut self, id: &str, input: &str) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.id == id) {
            call.args = arguments(Some(input));
        }
    }

    /// A call ended.
    pub(super) fn result(&mut self, id: &str, status: ToolStatus, output: Option<&str>) -> Vec<Happened> {
        let mut happened = self.announce();
        let Some(index) = self.open.iter().position(|(open, _)| open == id) else { return happened };
        let (id, tool_name) = self.open.remove(index);
        let text = match (output, status) {
            (Some(output), _) => output.to_owned(),
            (None, ToolStatus::Ok) => String::new(),
            (None, status) => status.to_string(),
        };
        let result = vec![Part::Text { id: self.id("part"), text }];
        let is_error = (status != ToolStatus::Ok).then_some(true);
        self.results.push(ToolResult { id, skill_name: self.skill.clone(), tool_name, result, is_error });
        if self.open.is_empty() {
            happened.extend(self.resolve());
        }
        happened
    }

    /// The model begins another round.
    pub(super) fn next_turn(&mut self, now: i64) -> Vec<Happened> {
        let happened = self.close();
        if self.messages.len() > self.step.first_message {
            self.next_step(now);
        }
        happened
    }

    /// Closes what is open: the message that is being said, its calls, and the results that are there.
    pub(super) fn close(&mut self) -> Vec<Happened> {
        let mut happened = self.announce();
        happened.extend(self.resolve());
        self.close_message();
        happened
    }

    /// The answer is the text of the last message, or a message of its own when the agent only gave it as its result.
    pub(super) fn answer(&mut self, answer: &str) {
        let last = self.messages.last_mut().filter(|message| message.r#type == "expertMessage");
        if let Some(Part::Text { text, .. }) = last.and_then(|message| message.contents.last_mut())
            && text.trim() == answer.trim()
        {
            answer.clone_into(text);
            return;
        }
        let part = Part::Text { id: self.id("part"), text: answer.to_owned() };
        let id = self.id("message");
        self.messages.push(Message { id, r#type: "expertMessage", contents: vec![part] });
    }

    /// The last thing that the expert said.
    pub(super) fn last_text(&self) -> Option<&str> {
        self.messages.iter().rev().filter(|message| message.r#type == "expertMessage").find_map(|message| {
            message.contents.iter().rev().find_map(|part| match part {
                Part::Text { text, .. } => Some(text.as_str()),
                _ => None,
            })
        })
    }

    /// Before anything new is said: what went before is told, and a step that has its results is over.
    fn settle(&mut self, now: i64) -> Vec<Happened> {
        let mut happened = self.announce();
        happened.extend(self.resolve());
        if !self.step.results.is_empty() {
            self.next_step(now);
        }
        happened
    }

    fn announce(&mut self) -> Vec<Happened> {
        if self.calls.is_empty() {
            return Vec::new();
        }
        let calls = std::mem::take(&mut self.calls);
        for call in &calls {
            let id = self.id("part");
            let (tool_call_id, tool_name, args) = (call.id.clone(), call.tool_name.clone(), call.args.clone());
            self.parts.push(Part::ToolCall { id, tool_call_id, tool_name, args });
            self.open.push((call.id.clone(), call.tool_name.clone()));
        }
        self.close_message();
        let Some(message) = self.messages.last().cloned() else { return Vec::new() };
        self.step.calls.extend(calls.iter().cloned());
        vec![Happened::Called { step: self.step.number, message, calls, tokens: self.step.tally.total() }]
    }

    fn resolve(&mut self) -> Option<Happened> {
        if self.results.is_empty() {
            return None;
        }
        let results = std::mem::take(&mut self.results);
        let mut contents = Vec::with_capacity(results.len());
        for result in &results {
            contents.push(Part::ToolResult {
                id: self.id("part"),
                tool_call_id: result.id.clone(),
                tool_name: result.tool_name.clone(),
                contents: result.result.clone(),
                is_error: result.is_error,
            });
        }
        let id = self.id("message");
        self.messages.push(Message { id, r#type: "toolMessage", contents });
        self.step.results.extend(results.iter().cloned());
        Some(Happened::Resolved { step: self.step.number, results })
    }

    fn close_message(&mut self) {
        let mut contents = std::mem::take(&mut self.parts);
        contents.retain(|part| !part.is_blank());
        if !contents.is_empty() {
            let id = self.id("message");
            self.messages.push(Message { id, r#type: "expertMessage", contents });
        }
    }

    fn next_step(&mut self, now: i64) {
        self.step = StepState::new(self.step.number + 1, self.messages.len(), now);
    }
}

/// The schema wants an object: what is none is put into one.
fn arguments(input: Option<&str>) -> RawJson {
    let object = input.and_then(RawJson::parse).filter(|json| json.get().starts_with('{'));
    object.unwrap_or_else(|| {
        #[derive(serde::Serialize)]
        struct Wrapped<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            input: Option<&'a str>,
        }
        RawJson::of(&Wrapped { input })
    })
}
