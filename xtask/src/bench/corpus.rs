//! A history of a year of work, with the exact truth of what it cost.
//!
//! The same sizes give the same bytes. Everything that leads readers of such logs astray is in it: responses written in
//! several lines with figures that grow, sub-agents whose figures are told three times, side questions and forks that
//! repeat lines, token counts that are written twice, spawned threads that begin with their parent's history, messages
//! rewritten as they grow, text that looks like a line of a log, torn last lines.

mod claude;
mod codex;
mod gemini;
mod journal;
mod opencode;
mod pi;
mod random;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sabir_store::Home;
use serde::{Deserialize, Serialize};

use random::Random;

/// What was really used.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Truth {
    /// By agent.
    pub(super) agents: BTreeMap<String, AgentTruth>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct AgentTruth {
    pub(super) models: BTreeMap<String, Figures>,
    pub(super) days: BTreeMap<String, Figures>,
    pub(super) tool_calls: u64,
    pub(super) responses: u64,
    pub(super) sessions: u64,
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// Tokens in disjoint classes, and their cost at list prices.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) input: u64,
    pub(super) cache_read: u64,
    pub(super) cache_write: u64,
    pub(super) cache_write_1h: u64,
    pub(super) output: u64,
    pub(super) cost: f64,
}

/// US dollars per million tokens: input, output, cache write for five minutes, for an hour, cache read.
const PRICES: &[(&str, [f64; 5])] = &[
    ("claude-opus-4-5-20251101", [5.0, 25.0, 6.25, 10.0, 0.5]),
    ("claude-sonnet-4-5-20250929", [3.0, 15.0, 3.75, 6.0, 0.3]),
    ("claude-haiku-4-5-20251001", [1.0, 5.0, 1.25, 2.0, 0.1]),
    ("gpt-5.1-codex", [1.25, 10.0, 0.0, 0.0, 0.125]),
    ("gpt-5.2-codex", [1.75, 14.0, 0.0, 0.0, 0.175]),
    ("gemini-2.5-flash", [0.3, 2.5, 0.0, 0.0, 0.03]),
];

impl Figures {
    fn priced(mut self, model: &str) -> Self {
        let price = PRICES.iter().find(|(name, _)| *name == model).map_or([0.0; 5], |(_, price)| *price);
        let tokens = [self.input, self.output, self.cache_write - self.cache_write_1h, self.cache_write_1h, self.cache_read];
        self.cost = tokens.iter().zip(price).map(|(tokens, price)| *tokens as f64 * price / 1e6).sum();
        self
    }

    fn add(&mut self, other: &Self) {
        self.input += other.input;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.cache_write_1h += other.cache_write_1h;
        self.output += other.output;
        self.cost += other.cost;
    }

    pub(super) fn total(&self) -> u64 {
        self.input + self.cache_read + self.cache_write + self.output
    }
}

impl AgentTruth {
    /// Counts a response at a moment.
    fn count(&mut self, model: &str, at: i64, figures: Figures) {
        let figures = figures.priced(model);
        self.models.entry(model.to_owned()).or_default().add(&figures);
        self.days.entry(time(at)[..10].to_owned()).or_default().add(&figures);
        self.responses += 1;
    }

    pub(super) fn sum(&self) -> Figures {
        let mut sum = Figures::default();
        self.models.values().for_each(|figures| sum.add(figures));
        sum
    }
}

/// The folder of a corpus of that many megabytes, which is written unless it is there, and its truth.
pub(super) fn folder(bench: &Path, megabytes: u64) -> Result<(PathBuf, Truth)> {
    /// Raised when the same size gives other bytes.
    const VERSION: u32 = 3;
    let folder = bench.join(format!("corpus-{megabytes}-v{VERSION}"));
    let truth_file = folder.join("truth.json");
    if let Ok(text) = fs::read_to_string(&truth_file) {
        return Ok((folder, serde_json::from_str(&text)?));
    }
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let mut writer = Writer { home: folder.join("home"), random: Random::new(7), truth: AgentTruth::default() };
    let mut truth = Truth::default();
    let bytes = megabytes * 1_000_000;
    let agents: [(&str, u64, Write); 5] = [
        ("claude-code", bytes * 60 / 100, claude::write),
        ("codex", bytes * 28 / 100, codex::write),
        ("gemini", bytes * 4 / 100, gemini::write),
        ("opencode", bytes * 4 / 100, opencode::write),
        ("pi", bytes * 4 / 100, pi::write),
    ];
    for (agent, bytes, write) in agents {
        write(&mut writer, bytes)?;
        truth.agents.insert(agent.to_owned(), std::mem::take(&mut writer.truth));
    }
    fs::write(&truth_file, serde_json::to_string_pretty(&truth)?)?;
    Ok((folder, truth))
}

/// The folder of a history of so many small sessions, which is written unless it is there.
pub(super) fn sessions(bench: &Path, count: u64) -> Result<PathBuf> {
    let folder = bench.join(format!("sessions-{count}"));
    let whole = folder.join("whole");
    if !whole.exists() {
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let mut writer = Writer { home: folder.join("home"), random: Random::new(11), truth: AgentTruth::default() };
        claude::write_small(&mut writer, count)?;
        fs::write(whole, "")?;
    }
    Ok(folder)
}

/// The folder of a journal of so many runs, which is written unless it is there.
pub(super) fn runs(bench: &Path, count: u64) -> Result<PathBuf> {
    let folder = bench.join(format!("runs-{count}"));
    let whole = folder.join("whole");
    if !whole.exists() {
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(folder.join("home"))?;
        journal::write(&Home::at(folder.join("sabir")), count)?;
        fs::write(whole, "")?;
    }
    Ok(folder)
}

/// The id of the one long run.
pub(super) const LONG_RUN: &str = "0b0b0b0b-0000-4000-8000-000000000000";

/// The folder of a history of one run of about so many events, which is written anew; how many bytes that is.
pub(super) fn long_run(bench: &Path, events: u64) -> Result<(PathBuf, u64)> {
    let folder = bench.join(format!("long-{events}"));
    let mut writer = Writer { home: folder.join("home"), random: Random::new(13), truth: AgentTruth::default() };
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    claude::write_long(&mut writer, LONG_RUN, events)?;
    Ok((folder, writer.truth.bytes))
}

/// Writes about that many bytes of an agent's logs.
type Write = fn(&mut Writer, u64) -> Result<()>;

/// Writes logs and keeps the truth about them.
struct Writer {
    home: PathBuf,
    random: Random,
    truth: AgentTruth,
}

impl Writer {
    /// Writes a log. One in a hundred ends inside a line, as a killed program leaves it.
    fn log(&mut self, path: &str, mut text: String) -> Result<()> {
        if self.random.one_in(100) {
            text.push_str(r#"{"type":"assistant","timestamp":"2026-11-0"#);
        }
        let path = self.home.join(path);
        fs::create_dir_all(path.parent().context("a log is in a folder")?)?;
        fs::write(&path, &text)?;
        self.truth.files += 1;
        self.truth.bytes += text.len() as u64;
        Ok(())
    }
}

/// The first moment of the corpus: 2026-08-16.
const BEGIN: i64 = 1_786_838_400_000;
/// … and how long it goes on.
const SPAN: u64 = 88 * 24 * 3600 * 1000;

/// A moment as logs write it.
fn time(millis: i64) -> String {
    jiff::Timestamp::from_millisecond(millis).map_or_else(|_| String::new(), |moment| format!("{moment:.3}"))
}
