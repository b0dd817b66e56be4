//! The messages of a session's log to its timeline.

use std::borrow::Cow;

use sabir_core::event::{Event, EventKind, Prompt, RunId};
use sabir_core::fold::timeline::{Change, Clipping, TimelineFold};
use sabir_core::time::Timestamp;
use serde::Deserialize;

use super::read::{Events, GAP, Message};

/// Longer events than this are left out of a timeline: there may be one for everybody who looks.
const LONGEST: usize = 16 << 20;
/// No more pieces are added to a prompt of this length.
const LONGEST_PROMPT: usize = 4 << 20;

/// Turns the messages of a log, in order, into changes of its timeline. Items are named by the numbers of messages; an
/// event in fragments has the number of its last one.
///
/// What the user asks stands before the run that it starts, where the agent does not repeat it as an event. It is shown
/// as the first thing in that run.
#[derive(Debug)]
pub struct LogTimeline {
    events: Events,
    fold: TimelineFold,
    /// A prompt that waits for its run.
    asked: Option<Asked>,
    /// The last prompt that was shown: an agent that repeats it says nothing new.
    shown: Option<String>,
}

#[derive(Debug)]
struct Asked {
    number: u64,
    at: Option<Timestamp>,
    text: String,
}

#[derive(Deserialize)]
struct From<'a> {
    #[serde(borrow, default)]
    origin: Option<Cow<'a, str>>,
}

impl LogTimeline {
    /// Of texts, so much is kept.
    pub fn new(clipping: Clipping) -> Self {
        Self { events: Events::of_at_most(LONGEST).bounded(), fold: TimelineFold::new(clipping), asked: None, shown: None }
    }

    /// Takes note of the next message and adds the changes that it makes. One that can't be read says nothing.
    pub fn message(&mut self, line: &[u8], out: &mut Vec<Change>) {
        let Ok(message) = serde_json::from_slice::<Message<'_>>(line) else { return };
        match message.r#type.as_ref() {
            "event" => {
                let Self { events, fold, asked, shown } = self;
                events.message(&message, |event| tell(fold, asked, shown, message.seq, event, out));
            }
            "prompt" => {
                let is_of_user =
                    serde_json::from_slice::<From<'_>>(line).is_ok_and(|from| from.origin.as_deref() == Some("backend"));
                let Some(text) = message.text().filter(|_| is_of_user) else { return };
                match &mut self.asked {
                    // The next piece of a long one.
                    Some(asked) if message.piece().is_some_and(|(index, _)| index > 0) => {
                        if asked.text.len() < LONGEST_PROMPT {
                            asked.text.push_str(&text);
                        }
                    }
                    asked => *asked = Some(Asked { number: message.seq, at: Timestamp::parse(&message.ts), text }),
                }
            }
            GAP => self.fold.gap(message.seq, Timestamp::parse(&message.ts), &message.text().unwrap_or_default(), out),
            // An error of the runner itself, such as messages that it lost. The agent has no event for it.
            "log" if message.level == "error" => {
                if let Some(text) = message.text() {
                    self.fold.gap(message.seq, Timestamp::parse(&message.ts), &text, out);
                }
            }
            _ => {}
        }
    }
}

impl Default for LogTimeline {
    fn default() -> Self {
        Self::new(Clipping::default())
    }
}

fn tell(
    fold: &mut TimelineFold,
    asked: &mut Option<Asked>,
    shown: &mut Option<String>,
    number: u64,
    event: &Event<'_>,
    out: &mut Vec<Change>,
) {
    let begins = matches!(event.kind, EventKind::Started(_));
    if begins {
        fold.event(number, event, out);
    }
    if let Some(Asked { number, at, text }) = asked.take() {
        let run_id: RunId = event.run_id.clone();
        let kind = EventKind::Prompt(Prompt::new(text.as_str()));
        fold.event(number, &Event { run_id, seq: 0, at, line: None, parent_tool_call_id: None, kind }, out);
        *shown = Some(text);
    }
    match &event.kind {
        EventKind::Started(_) => {}
        EventKind::Prompt(Prompt { text, .. }) if shown.take_if(|shown| shown.trim() == text.trim()).is_some() => {}
        _ => fold.event(number, event, out),
    }
}

#[cfg(test)]
mod tests {
    use super::LogTimeline;
    use crate::envelope::Envelope;
    use sabir_core::decode::{Decoder, Start};
    use sabir_core::event::Event;
    use sabir_core::export::{Exporter as _, Options};
    use sabir_core::fold::timeline::{Clipping, Timeline, What};
    use sabir_core::line::Line;

    fn log(options: &Options, events: &[&str]) -> Vec<u8> {
        let mut view = Envelope::new(&Options { events: true, ..options.clone() });
        let mut out = Vec::new();
        for (index, fields) in events.iter().enumerate() {
            let json = format!("{{\"runId\":\"r\",\"seq\":{},{fields}}}", index + 1);
            view.event(&serde_json::from_str::<Event<'_>>(&json).expect(fields), &mut out);
        }
        view.end(&mut out);
        out
    }

    fn timeline(log: &[u8]) -> Timeline {
        let (mut fold, mut timeline, mut changes) = (LogTimeline::default(), Timeline::default(), Vec::new());
        for line in log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            fold.message(line, &mut changes);
        }
        changes.into_iter().for_each(|change| timeline.apply(change, Clipping::default()));
        timeline
    }

    const STARTED: &str = r#""kind":"started","agent":"codex""#;
    const SESSION: &str = r#""kind":"session","sessionId":"s","model":"m""#;
    const TEXT: &str = r#""kind":"text","delta":"hello there""#;

    #[test]
    fn the_prompt_of_a_run_is_the_first_thing_in_it_and_is_shown_once() {
        let options = Options { prompt: Some("do it, ".repeat(9)), partial_bytes: 20, ..Options::default() };
        let again = format!(r#""kind":"prompt","text":"{}""#, "do it, ".repeat(9));
        let other = r#""kind":"prompt","text":"and that""#;
        let seen = timeline(&log(&options, &[STARTED, SESSION, &again, TEXT, other]));
        let told: Vec<String> = seen
            .items
            .iter()
            .map(|item| match &item.what {
                What::Run { model, .. } => format!("run {}", model.as_deref().unwrap_or("?")),
                What::Prompt { text } | What::Text { text, .. } => text.text.clone(),
                other => format!("{other:?}"),
            })
            .collect();
        assert_eq!(told, ["run m", &"do it, ".repeat(9), "hello there", "and that"]);
    }

    #[test]
    fn items_carry_the_seq_of_their_events() {
        let options = Options { prompt: Some("do it".to_owned()), partial_bytes: 20, ..Options::default() };
        let call = r#""kind":"toolStart","toolCallId":"c","name":"bash","toolKind":"execute""#;
        let end = r#""kind":"toolEnd","toolCallId":"c","ok":true,"status":"ok","output":"done""#;
        let seen = timeline(&log(&options, &[STARTED, SESSION, TEXT, TEXT, call, r#""kind":"activity","message":"m""#, end]));
        let numbers: Vec<_> = seen.items.iter().map(|item| (item.seq, item.last_seq)).collect();
        // The prompt of the shell is no event of the agent.
        let expected = [(1, 2), (0, 0), (3, 4), (5, 7), (6, 6)];
        assert_eq!(numbers, expected.map(|(seq, last)| ((seq > 0).then_some(seq), (last > 0).then_some(last))));
        assert!(seen.items.iter().any(|item| Some(item.first) != item.seq), "numbers of messages are others");
    }

    #[test]
    fn an_error_of_the_runner_is_in_the_timeline() {
        let mut lines = log(&Options::default(), &[STARTED, TEXT]);
        lines.extend_from_slice(
            br#"{"sessionId":"r","ts":"2026-01-02T03:04:05Z","type":"log","level":"error","seq":9,"payload":{"text":"message 8 was lost"}}"#,
        );
        let item = timeline(&lines).items.pop().expect("an item");
        assert!(matches!(&item.what, What::Error { message, fatal: false, .. } if message == "message 8 was lost"), "{item:?}");
    }

    #[test]
    fn a_log_has_the_timeline_of_its_events() {
        let fixture = include_str!("../../../sabir-agents/fixtures/codex/lab-create-and-edit/input");
        let (mut decoder, mut events) = (Decoder::new(Start::detect(sabir_agents::builtin())), Vec::new());
        for (number, line) in (1..).zip(fixture.lines()) {
            let mut some = Vec::new();
            decoder.line(&Line::of(number, line), &mut some);
            events.extend(some.into_iter().map(Event::into_owned));
        }
        let mut view = Envelope::new(&Options { events: true, partial_bytes: 50, ..Options::default() });
        let mut log = Vec::new();
        events.iter().for_each(|event| view.event(event, &mut log));
        view.end(&mut log);
        let (mut fold, mut expected) = (sabir_core::fold::timeline::TimelineFold::default(), Timeline::default());
        let mut changes = Vec::new();
        events.iter().for_each(|event| fold.event(0, event, &mut changes));
        changes.into_iter().for_each(|change| expected.apply(change, Clipping::default()));
        let what = |timeline: Timeline| timeline.items.into_iter().map(|item| item.what).collect::<Vec<_>>();
        assert!(expected.items.len() > 3);
        assert_eq!(what(timeline(&log)), what(expected));
    }
}
