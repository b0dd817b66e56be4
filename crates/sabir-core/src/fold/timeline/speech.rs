//! What the agent says and thinks, piece by piece, and which of it was the answer.

use super::fold::{Head, TimelineFold, changed};
use super::{Change, Clip, Growth, Item, What};

/// The message or reasoning that grows, with its id.
#[derive(Debug)]
pub(super) struct Speech {
    item: Item,
    message: Option<String>,
}

impl TimelineFold {
    /// More of a message or of reasoning, or a new one.
    pub(super) fn speak(&mut self, head: &Head<'_>, delta: &str, message: Option<&str>, thinks: bool, out: &mut Vec<Change>) {
        if delta.is_empty() {
            return;
        }
        let parent = head.parent.and_then(|call| self.call(call));
        let goes_on = self.speech.as_ref().is_some_and(|speech| {
            let same_kind = matches!(speech.item.what, What::Thinking { .. }) == thinks;
            same_kind && speech.item.parent == parent && speech.message.as_deref() == message
        });
        if goes_on && let Some(speech) = &mut self.speech {
            let growth = Growth { id: speech.item.id, last: head.number, seq: head.seq, until: head.at, text: delta.to_owned() };
            speech.item.grow(&growth, self.clipping);
            out.push(Change::Grow(growth));
        } else {
            let text = Clip::of(delta, self.clipping.speech);
            let what = if thinks { What::Thinking { text } } else { What::Text { text, answer: false } };
            let item = self.put(head, what, out);
            self.speech = Some(Speech { item, message: message.map(str::to_owned) });
        }
        if let Some(speech) = self.speech.as_ref().filter(|_| !thinks && parent.is_none()) {
            let known = self.said.as_mut().filter(|said| said.id == speech.item.id);
            match known {
                // Kept in step only where its beginning still grows: the answer is told anew when it comes.
                Some(said) => (said.last, said.last_seq) = (head.number, head.seq.or(said.last_seq)),
                None => self.said = Some(speech.item.clone()),
            }
        }
    }

    /// The answer of the run: the last message, if that is it, else an item of its own.
    pub(super) fn answer(&mut self, head: &Head<'_>, answer: &str, out: &mut Vec<Change>) {
        let text = Clip::of(answer, self.clipping.speech);
        let spoken = self.speech.take().map(|speech| speech.item);
        let said = match (self.said.take(), spoken) {
            (Some(said), Some(spoken)) if said.id == spoken.id => Some(spoken),
            (said, _) => said,
        };
        let is_answer = |item: &Item| match &item.what {
            What::Text { text: said, .. } => said.size == text.size || said.text.trim() == answer.trim(),
            _ => false,
        };
        match said.filter(is_answer) {
            Some(item) => {
                changed(Item { what: What::Text { text, answer: true }, ..item }, head, out);
            }
            None => {
                self.put(head, What::Text { text, answer: true }, out);
            }
        }
    }
}
