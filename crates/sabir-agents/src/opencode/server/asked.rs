//! What the agent asks the person: whether it may, and what to choose.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::Facts;
use sabir_core::event::{Permission, PermissionOption};
use sabir_core::json;

use super::super::session::Sessions;
use super::wire::Question;

/// How many questions may wait for an answer.
const WAITING: usize = 256;

/// The questions that wait, by id, with what an answer does not repeat.
#[derive(Default)]
pub(super) struct Asked {
    waiting: BTreeMap<String, Waiting>,
}

struct Waiting {
    title: String,
    call: Option<String>,
}

impl Asked {
    /// Reads an event of `permission.*` or `question.*`; `None` when it is none that is known.
    pub(super) fn read<'a>(&mut self, name: &str, body: &'a str, sessions: &mut Sessions, facts: &mut Facts<'a>) -> Option<()> {
        let event: Question<'a> = json::parse(body)?;
        if let Some(session) = &event.session_id
            && sessions.enter(session, facts).is_none()
        {
            return Some(());
        }
        match name.rsplit('.').next()? {
            "asked" | "updated" => self.asked(event, facts),
            "replied" | "rejected" => self.answered(event, facts),
            _ => None,
        }
    }

    fn asked<'a>(&mut self, event: Question<'a>, facts: &mut Facts<'a>) -> Option<()> {
        let id = event.id?.0;
        let tool_call_id = event.tool.map(|tool| tool.call_id).or(event.call_id).map(Cow::from);
        let mut questions = event.questions.into_iter().flatten();
        let (title, options) = if let Some(asking) = questions.next() {
            let options = asking.options.into_iter().flatten();
            let options = options.map(|choice| PermissionOption { id: choice.label.0.clone(), label: choice.label.0 });
            (asking.question.0, options.collect::<Vec<_>>())
        } else {
            let what = event.permission.map_or(Cow::Borrowed("permission"), Cow::from);
            let patterns: Vec<&str> = event.patterns.iter().flatten().map(|pattern| &**pattern).collect();
            let asked = if patterns.is_empty() { what } else { Cow::Owned(format!("{what}: {}", patterns.join(", "))) };
            let options = [("once", "Allow once"), ("always", "Always allow"), ("reject", "Reject")];
            let options = options.map(|(id, label)| PermissionOption { id: id.into(), label: label.into() });
            (event.title.map_or(asked, Cow::from), options.into())
        };
        if self.waiting.len() >= WAITING {
            self.waiting.pop_first();
        }
        let waiting = Waiting { title: title.clone().into_owned(), call: tool_call_id.clone().map(Cow::into_owned) };
        self.waiting.insert(id.clone().into_owned(), waiting);
        facts.push(Permission::new(id, title).tool_call_id(tool_call_id).options(options));
        Some(())
    }

    fn answered<'a>(&mut self, event: Question<'a>, facts: &mut Facts<'a>) -> Option<()> {
        let id = event.request_id?.0;
        let waiting = self.waiting.remove(&*id);
        let (title, call) = waiting.map_or((String::new(), None), |waiting| (waiting.title, waiting.call));
        let answers = event.answers.map(|answers| {
            let answers: Vec<&str> = answers.iter().flatten().map(|answer| &**answer).collect();
            Cow::Owned(answers.join(", "))
        });
        let decision = event.reply.map(Cow::from).or(answers).unwrap_or(Cow::Borrowed("reject"));
        facts.push(Permission::new(id, title).tool_call_id(call).decision(decision));
        Some(())
    }
}
