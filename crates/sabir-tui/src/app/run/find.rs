//! Finding and copying what is in a run.

use ratatui::style::Style;
use sabir_core::fold::timeline::{Clip, Item, What};

use super::Run;
use crate::ansi;

impl Run {
    /// Goes to the next place that has what is sought, and says what there is to say.
    pub(crate) fn find(&mut self, forward: bool) -> String {
        if self.sought.trim().is_empty() {
            return "/ finds a text".to_owned();
        }
        let sought = self.sought.to_lowercase();
        let hits: Vec<usize> =
            (0..self.timeline.items.len()).filter(|place| self.shows(*place) && self.has(*place, &sought)).collect();
        let next = if forward {
            hits.iter().position(|hit| *hit > self.cursor).or(Some(0))
        } else {
            hits.iter().rposition(|hit| *hit < self.cursor).or(hits.len().checked_sub(1))
        };
        let Some((number, hit)) = next.and_then(|number| Some((number, *hits.get(number)?))) else {
            return format!("\u{201c}{}\u{201d} is nowhere in this run", self.sought);
        };
        self.unfold(hit);
        self.go(hit);
        format!("\u{201c}{}\u{201d}: {} of {}", self.sought, number + 1, hits.len())
    }

    /// The same from the chosen item on.
    pub(crate) fn find_here(&mut self) -> Option<String> {
        if self.sought.is_empty() {
            return None;
        }
        if self.shows(self.cursor) && self.has(self.cursor, &self.sought.to_lowercase()) {
            self.unfold(self.cursor);
            self.go(self.cursor);
            return None;
        }
        Some(self.find(true))
    }

    fn has(&self, place: usize, sought: &str) -> bool {
        self.item(place).is_some_and(|item| texts(&item.what).iter().any(|text| text.to_lowercase().contains(sought)))
    }

    pub(crate) fn error(&mut self, forward: bool) -> Option<&'static str> {
        let trouble = |place: &usize| self.shows(*place) && self.item(*place).is_some_and(|item| item.what.is_trouble());
        let to = if forward {
            (self.cursor + 1..self.timeline.items.len()).find(trouble)
        } else {
            (0..self.cursor.min(self.timeline.items.len())).rev().find(trouble)
        };
        match to {
            Some(to) => {
                self.unfold(to);
                self.go(to);
                None
            }
            None if forward => Some("no error further down"),
            None => Some("no error further up"),
        }
    }

    /// What is copied of the chosen item.
    pub(crate) fn copied(&self) -> Option<String> {
        text_of(self.item(self.cursor)?)
    }
}

/// The texts of an item that people look for.
fn texts(what: &What) -> Vec<&str> {
    fn clip(clip: &Clip) -> [&str; 2] {
        [&clip.text, &clip.tail]
    }
    match what {
        What::Run { agent, model, cwd, session_id, .. } => {
            [Some(agent), model.as_ref(), cwd.as_ref(), session_id.as_ref()].into_iter().flatten().map(String::as_str).collect()
        }
        What::Prompt { text } | What::Text { text, .. } | What::Thinking { text } => clip(text).to_vec(),
        What::Tool { name, title, input, output, .. } => {
            let clips = [input, output].into_iter().flatten().flat_map(clip);
            [Some(name.as_str()), title.as_deref()].into_iter().flatten().chain(clips).collect()
        }
        What::File { path, diff, .. } => diff.iter().flat_map(clip).chain([path.as_str()]).collect(),
        What::Edits { edits } => edits.iter().flat_map(|edit| [edit.file_path.as_str(), &edit.replacement]).collect(),
        What::Plan { items } => items.iter().map(|step| step.text.as_str()).collect(),
        What::Permission { title, .. } => vec![title],
        What::Retry { message, .. } | What::Activity { message } | What::Error { message, .. } => vec![message],
        What::Unrecognized { raw, .. } => clip(raw).to_vec(),
        _ => Vec::new(),
    }
}

/// What is copied of an item: the text that it is about, with nothing in it that steers a terminal.
pub(crate) fn text_of(item: &Item) -> Option<String> {
    let clip = |clip: &Clip| {
        if clip.is_cut() { format!("{}\n…\n{}", clip.text, clip.tail) } else { format!("{}{}", clip.text, clip.tail) }
    };
    let text = match &item.what {
        What::Tool { output: Some(output), .. } => clip(output),
        What::Tool { input: Some(input), .. } => clip(input),
        What::File { diff: Some(diff), .. } => clip(diff),
        What::Prompt { text } | What::Text { text, .. } | What::Thinking { text } => clip(text),
        What::Unrecognized { raw, .. } => clip(raw),
        what => texts(what).join("\n"),
    };
    let lines = ansi::lines(&text, Style::new(), false);
    let text =
        lines.iter().map(|line| line.iter().map(|piece| piece.text.as_str()).collect::<String>()).collect::<Vec<_>>().join("\n");
    Some(text).filter(|text| !text.is_empty())
}
