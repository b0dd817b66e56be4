//! A list and a run to look at, and a program to look at them with.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use sabir_core::event::Event;
use sabir_core::fold::timeline::{Change, TimelineFold};
use sabir_core::fold::{CostSource, Phase};
use sabir_tui::source::{CLIPPING, Feed, Listing, Row};
use sabir_tui::{App, Effect, Message, Palette, draw};

/// The moment of all tests: 2026-11-15T12:00:00Z.
pub(crate) const NOW: i64 = 1_794_744_000_000;

pub(crate) const DIFF: &str = "--- a/stats.py\\n+++ b/stats.py\\n@@ -1,4 +1,6 @@\\n def mean(values):\\n+    if not values:\\n+        return 0.0\\n     return sum(values) / len(values)\\n \\n-# end\\n+# The end\\n";

/// The events of a run that has a bit of everything, without what every event has.
pub(crate) fn events() -> Vec<String> {
    let at = |second: u32, fields: &str| format!(r#""at":"2026-11-15T11:58:{second:02}Z",{fields}"#);
    vec![
        at(0, r#""kind":"started","agent":"claude-code","agentVersion":"2.0.44""#),
        at(0, r#""kind":"session","sessionId":"5d0f7a5e","model":"claude-sonnet-4-5-20250929","cwd":"/home/user/project""#),
        at(0, r#""kind":"prompt","text":"Fix the failing test, please.\nAnd say why it failed.""#),
        at(1, r#""kind":"turnStart","turn":1"#),
        at(
            1,
            r#""kind":"thinking","delta":"The test fails on an empty list. I should run it first,\nthen look at the function.""#,
        ),
        at(
            2,
            r#""kind":"text","delta":"I'll run the tests to see the failure, and look at the function that they are about while they run.""#,
        ),
        at(
            2,
            r#""kind":"plan","items":[{"text":"Run the tests","status":"completed"},{"text":"Guard the empty list","status":"inProgress"},{"text":"Run them again","status":"pending"}]"#,
        ),
        at(
            3,
            r#""kind":"toolStart","toolCallId":"1","name":"Bash","toolKind":"execute","input":"{\"command\":\"python -m pytest -q tests/test_mean.py\",\"timeout\":60}""#,
        ),
        at(
            5,
            r#""kind":"toolEnd","toolCallId":"1","ok":false,"status":"error","exitCode":1,"durationMs":1104,"output":"\u001b[31mE   ZeroDivisionError: division by zero\u001b[0m\n\u001b]0;owned\u00071 failed, 2 passed in 0.04s\n""#,
        ),
        at(
            5,
            r#""kind":"usage","scope":"message","inputTokens":12,"cacheReadTokens":8000,"cacheWriteTokens":5000,"outputTokens":120,"model":"claude-sonnet-4-5-20250929""#,
        ),
        at(6, r#""kind":"turnStart","turn":2"#),
        at(7, r#""kind":"toolStart","toolCallId":"2","name":"Task","toolKind":"delegate","title":"Find who else calls mean()""#),
        at(7, r#""kind":"text","delta":"Looking through the callers.","parentToolCallId":"2""#),
        at(
            8,
            r#""kind":"toolStart","toolCallId":"3","name":"Grep","toolKind":"search","input":"{\"pattern\":\"mean\\\\(\"}","parentToolCallId":"2""#,
        ),
        at(
            8,
            r#""kind":"toolEnd","toolCallId":"3","ok":true,"status":"ok","durationMs":31,"output":"report.py:12: mean(rows)","parentToolCallId":"2""#,
        ),
        at(9, r#""kind":"toolEnd","toolCallId":"2","ok":true,"status":"ok","durationMs":2210,"output":"One caller: report.py""#),
        at(
            10,
            r#""kind":"toolStart","toolCallId":"4","name":"Edit","toolKind":"edit","input":"{\"file_path\":\"/home/user/project/stats.py\"}""#,
        ),
        at(
            10,
            &format!(
                r#""kind":"fileChange","path":"/home/user/project/stats.py","change":"update","diff":"{DIFF}","added":3,"removed":1,"toolCallId":"4","source":"inferred""#
            ),
        ),
        at(10, r#""kind":"toolEnd","toolCallId":"4","ok":true,"status":"ok","durationMs":254"#),
        at(11, r#""kind":"retry","attempt":1,"maxAttempts":3,"delayMs":2000,"message":"overloaded""#),
        at(
            12,
            r#""kind":"toolStart","toolCallId":"5","name":"Bash","toolKind":"execute","input":"{\"command\":\"python -m pytest -q tests/test_mean.py\"}""#,
        ),
    ]
}

/// How it goes on, and ends.
pub(crate) fn end() -> Vec<String> {
    let at = |second: u32, fields: &str| format!(r#""at":"2026-11-15T11:58:{second:02}Z",{fields}"#);
    vec![
        at(14, r#""kind":"toolEnd","toolCallId":"5","ok":true,"status":"ok","durationMs":994,"output":"3 passed in 0.03s""#),
        at(
            14,
            r#""kind":"usage","scope":"message","inputTokens":10,"cacheReadTokens":8250,"cacheWriteTokens":760,"outputTokens":199,"model":"claude-sonnet-4-5-20250929""#,
        ),
        at(15, r#""kind":"text","delta":"Fixed: `mean([])` now returns 0.0, and all three tests pass.""#),
        at(15, r#""kind":"final","text":"Fixed: `mean([])` now returns 0.0, and all three tests pass.""#),
        at(15, r#""kind":"exited","outcome":"completed","cancelled":false,"durationMs":15852"#),
    ]
}

/// What events make of a timeline.
pub(crate) fn changes(fold: &mut TimelineFold, number: &mut u64, events: &[String]) -> Vec<Change> {
    let mut changes = Vec::new();
    for fields in events {
        *number += 1;
        let json = format!("{{\"runId\":\"r\",\"seq\":{number},{fields}}}");
        let event = serde_json::from_str::<Event<'_>>(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
        fold.event(*number, &event, &mut changes);
    }
    changes
}

pub(crate) fn rows() -> Vec<Row> {
    let base = |id: &str, agent: &str, phase: Phase, ago: i64, took: i64| Row {
        cwd: Some("/home/user/project".to_owned()),
        started: Some(NOW - (ago + took) * 1_000),
        last: Some(NOW - ago * 1_000),
        ..Row::new(id, agent, phase)
    };
    vec![
        Row {
            title: Some("Fix the failing test, please. And say why it failed.".to_owned()),
            model: Some("claude-sonnet-4-5-20250929".to_owned()),
            tool: Some("Bash".to_owned()),
            tokens: Some(22_351),
            cost: Some(0.0313),
            ..base("5d0f7a5e-6c1b", "claude-code", Phase::Running, 2, 118)
        },
        Row {
            title: Some("Write a parser for the config\nwith tests".to_owned()),
            cwd: Some("/home/user/日本語".to_owned()),
            tokens: Some(1_234_567),
            cost: Some(2.5),
            cost_source: CostSource::Computed,
            ..base("c0de", "codex", Phase::Success, 3_700, 754)
        },
        Row {
            title: Some("evil \u{1b}]52;c;aGk=\u{7}\u{202e}title".to_owned()),
            ..base("bad0", "gemini", Phase::Error, 86_400 * 3, 12)
        },
        Row { cwd: None, last: None, started: None, ..base("0a1b", "codex", Phase::Incomplete, 90_000, 1) },
        Row { title: Some("May I delete it?".to_owned()), ..base("a5c1", "qwen", Phase::Asking, 5, 400) },
    ]
}

/// A program on a screen of that size.
pub(crate) struct Screen {
    pub(crate) app: App,
    terminal: Terminal<TestBackend>,
    fold: TimelineFold,
    number: u64,
    ticket: u64,
}

impl Screen {
    pub(crate) fn new(width: u16, height: u16) -> Self {
        let mut app = App::new("this machine", Palette::plain(), (width, height), None);
        app.update(Message::Time(NOW));
        let terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        Self { app, terminal, fold: TimelineFold::new(CLIPPING), number: 0, ticket: 0 }
    }

    /// With the list.
    pub(crate) fn listed(width: u16, height: u16) -> Self {
        let mut screen = Self::new(width, height);
        screen.app.update(Message::Listing(Listing::Rows(rows())));
        screen
    }

    /// With a run that goes on.
    pub(crate) fn opened(width: u16, height: u16) -> Self {
        let mut screen = Self::listed(width, height);
        screen.key('g');
        screen.open();
        screen.feed(&events());
        screen.tell(Feed::Live);
        screen
    }

    /// With a run that takes orders and asks something.
    pub(crate) fn asking(width: u16, height: u16) -> Self {
        let mut screen = Self::opened(width, height);
        let mut rows = rows();
        rows[0].takes = ["cancel", "prompt", "permission"].map(str::to_owned).to_vec();
        rows[0].phase = Phase::Asking;
        screen.app.update(Message::Listing(Listing::Rows(rows)));
        screen.feed(&[r#""kind":"permission","requestId":"q1","title":"rm -rf build","toolCallId":"5""#.to_owned()]);
        screen
    }

    pub(crate) fn open(&mut self) {
        let effects = self.press(KeyCode::Enter);
        let [Effect::Watch { ticket, .. }] = *effects else { panic!("{effects:?}") };
        self.ticket = ticket;
    }

    pub(crate) fn feed(&mut self, events: &[String]) {
        let changes = changes(&mut self.fold, &mut self.number, events);
        self.tell(Feed::Changes(changes));
    }

    pub(crate) fn tell(&mut self, feed: Feed) {
        self.app.update(Message::Feed(self.ticket, feed));
    }

    /// With the end of the run.
    pub(crate) fn end(&mut self) {
        self.feed(&end());
        let mut rows = rows();
        rows[0] = Row { phase: Phase::Success, tool: None, ..rows[0].clone() };
        self.app.update(Message::Listing(Listing::Rows(rows)));
        self.tell(Feed::Over);
    }

    pub(crate) fn press(&mut self, code: KeyCode) -> Vec<Effect> {
        self.app.update(Message::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    pub(crate) fn key(&mut self, letter: char) -> Vec<Effect> {
        self.press(KeyCode::Char(letter))
    }

    pub(crate) fn keys(&mut self, letters: &str) {
        letters.chars().for_each(|letter| drop(self.key(letter)));
    }

    pub(crate) fn control(&mut self, letter: char) -> Vec<Effect> {
        self.app.update(Message::Key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL)))
    }

    pub(crate) fn resize(&mut self, width: u16, height: u16) {
        self.terminal.backend_mut().resize(width, height);
        self.terminal.autoresize().expect("another size");
        self.app.update(Message::Resize(width, height));
    }

    /// What is on the screen. The chosen row is marked, since there are no colours in a text.
    pub(crate) fn shown(&mut self) -> String {
        let app = &self.app;
        self.terminal.draw(|frame| draw(frame, app)).expect("drawn");
        let buffer = self.terminal.backend().buffer();
        let mut text = String::new();
        for row in buffer.content().chunks(usize::from(buffer.area.width)) {
            let mut line = String::new();
            let mut skip = 0;
            for cell in row {
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                skip = unicode_width::UnicodeWidthStr::width(cell.symbol()).saturating_sub(1);
                line.push_str(cell.symbol());
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}
