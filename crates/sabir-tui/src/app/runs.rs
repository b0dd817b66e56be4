//! The list of runs: which are shown, and which is chosen.

use std::collections::{BTreeMap, BTreeSet};

use sabir_core::fold::Phase;

use crate::source::Row;

/// The list.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// All runs: those that go on first, then the latest first.
    pub(crate) rows: Vec<Row>,
    /// Runs that a search for the words has found.
    found: BTreeMap<String, Row>,
    /// Those that are shown, as places in `rows`.
    pub(crate) shown: Vec<usize>,
    /// The id of the chosen run: rows may move.
    pub(crate) selected: Option<String>,
    /// The first row on the screen.
    pub(crate) top: usize,
    /// What is sought.
    pub(crate) words: String,
    /// Only these; all, when there are none.
    agents: BTreeSet<String>,
    phases: BTreeSet<&'static str>,
    /// Whether the list was read at all.
    pub(crate) loaded: bool,
    pub(crate) trouble: Option<String>,
}

/// A row of the filter.
#[derive(Debug, PartialEq)]
pub(crate) struct Choice {
    pub(crate) kind: &'static str,
    pub(crate) word: String,
    /// How many runs are so.
    pub(crate) count: usize,
    /// Whether it was chosen.
    pub(crate) on: bool,
}

impl Runs {
    pub(super) fn take(&mut self, mut rows: Vec<Row>) {
        let known: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        let more: Vec<Row> = self.found.values().filter(|row| !known.contains(row.id.as_str())).cloned().collect();
        rows.extend(more);
        // A run that goes on stays where it is, whatever it does.
        rows.sort_by(|a, b| {
            let key =
                |row: &Row| (row.phase.is_over(), std::cmp::Reverse(if row.phase.is_over() { row.last } else { row.started }));
            key(a).cmp(&key(b)).then_with(|| a.id.cmp(&b.id))
        });
        self.rows = rows;
        self.loaded = true;
        self.trouble = None;
        self.show();
    }

    fn show(&mut self) {
        let words: Vec<String> = self.words.split_whitespace().map(str::to_lowercase).collect();
        let fits = |row: &Row| {
            let agent = self.agents.is_empty() || self.agents.contains(&row.agent);
            let phase = self.phases.is_empty() || self.phases.contains(word(row.phase));
            agent && phase && (words.is_empty() || self.found.contains_key(&row.id) || has_all(row, &words))
        };
        self.shown = (0..self.rows.len()).filter(|place| fits(&self.rows[*place])).collect();
    }

    pub(super) fn seek(&mut self, words: String) {
        if self.words != words {
            self.found.clear();
        }
        self.words = words;
        self.show();
    }

    /// Takes what a search for these words has found, if they are still sought.
    pub(super) fn find(&mut self, words: &str, found: Vec<Row>) {
        if self.words == words {
            self.found = found.into_iter().map(|row| (row.id.clone(), row)).collect();
            let (rows, trouble) = (std::mem::take(&mut self.rows), self.trouble.take());
            self.take(rows);
            self.trouble = trouble;
        }
    }

    /// Whether some runs may not be shown.
    pub(crate) fn narrowed(&self) -> bool {
        !(self.words.is_empty() && self.agents.is_empty() && self.phases.is_empty())
    }

    /// In words, what is shown.
    pub(crate) fn narrowing(&self) -> String {
        let chosen = self.agents.iter().map(String::as_str).chain(self.phases.iter().copied());
        let mut parts: Vec<String> = chosen.map(str::to_owned).collect();
        if !self.words.is_empty() {
            parts.push(format!("\u{201c}{}\u{201d}", self.words));
        }
        parts.join(", ")
    }

    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.found.clear();
        self.agents.clear();
        self.phases.clear();
        self.show();
    }

    /// The rows of the filter.
    pub(crate) fn choices(&self) -> Vec<Choice> {
        let mut agents: BTreeMap<&str, usize> = BTreeMap::new();
        let mut phases: BTreeMap<&'static str, usize> = BTreeMap::new();
        for row in &self.rows {
            *agents.entry(&row.agent).or_default() += 1;
            *phases.entry(word(row.phase)).or_default() += 1;
        }
        // What was chosen stays there, so that it can be switched off.
        agents.extend(
            self.agents
                .iter()
                .filter(|agent| !agents.contains_key(agent.as_str()))
                .map(|agent| (agent.as_str(), 0))
                .collect::<Vec<_>>(),
        );
        phases
            .extend(self.phases.iter().filter(|phase| !phases.contains_key(*phase)).map(|phase| (*phase, 0)).collect::<Vec<_>>());
        let agents = agents.into_iter().map(|(word, count)| {
            let on = self.agents.contains(word);
            Choice { kind: "agent", word: word.to_owned(), count, on }
        });
        let known = Phase::ALL.into_iter().map(word).filter_map(|word| Some((word, *phases.get(word)?)));
        let phases = known.map(|(word, count)| {
            let on = self.phases.contains(word);
            Choice { kind: "status", word: word.to_owned(), count, on }
        });
        agents.chain(phases).collect()
    }

    pub(super) fn switch(&mut self, place: usize) {
        let Some(choice) = self.choices().into_iter().nth(place) else { return };
        if choice.kind == "agent" {
            if !self.agents.remove(&choice.word) {
                self.agents.insert(choice.word);
            }
        } else if let Some(phase) = Phase::ALL.into_iter().map(word).find(|word| *word == choice.word)
            && !self.phases.remove(phase)
        {
            self.phases.insert(phase);
        }
        self.show();
    }

    /// The chosen row, as a place among those that are shown.
    pub(crate) fn at(&self) -> Option<usize> {
        let selected = self.selected.as_deref()?;
        self.shown.iter().position(|place| self.rows[*place].id == selected)
    }

    /// The chosen run.
    pub(crate) fn chosen(&self) -> Option<&Row> {
        self.at().map(|at| &self.rows[self.shown[at]])
    }

    /// Chooses the row at a place of those that are shown. True when it was chosen already.
    pub(super) fn choose(&mut self, place: usize) -> bool {
        let Some(row) = self.shown.get(place).map(|place| &self.rows[*place]) else { return false };
        let same = self.selected.as_ref() == Some(&row.id);
        self.selected = Some(row.id.clone());
        same
    }

    pub(super) fn step(&mut self, to: impl Fn(usize, usize) -> usize) {
        let last = self.shown.len().saturating_sub(1);
        self.choose(to(self.at().unwrap_or(0), last));
    }

    pub(super) fn scroll(&mut self, lines: isize, height: usize) {
        self.top = self.top.saturating_add_signed(lines).min(self.shown.len().saturating_sub(height));
        let at = self.at().unwrap_or(0);
        self.choose(
            at.clamp(self.top, (self.top + height).saturating_sub(1).max(self.top)).min(self.shown.len().saturating_sub(1)),
        );
    }

    /// Something is chosen as long as there is something, and it is on the screen.
    pub(super) fn settle(&mut self, height: usize) {
        let at = match self.at() {
            Some(at) => at,
            None => {
                self.choose(0);
                0
            }
        };
        let height = height.max(1);
        self.top = self.top.min(at).max((at + 1).saturating_sub(height)).min(self.shown.len().saturating_sub(height));
    }
}

/// How a run stands, in the words of the page.
pub(crate) fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Starting => "starting",
        Phase::Running => "running",
        Phase::Asking => "asks",
        Phase::Success => "done",
        Phase::Error => "failed",
        Phase::Cancelled => "cancelled",
        Phase::Timeout => "timed out",
        Phase::Incomplete => "incomplete",
    }
}

fn has_all(row: &Row, words: &[String]) -> bool {
    let fields = [
        Some(row.id.as_str()),
        Some(&row.agent),
        row.cwd.as_deref(),
        row.title.as_deref(),
        row.model.as_deref(),
        row.tool.as_deref(),
    ];
    let all = fields.into_iter().flatten().collect::<Vec<_>>().join("\n").to_lowercase();
    words.iter().all(|word| all.contains(word.as_str()))
}
