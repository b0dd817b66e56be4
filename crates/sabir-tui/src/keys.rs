//! The one table of keys: what is typed, what it does, and the words for it.
//!
//! The keymap, the line at the bottom, the help and the table in `docs/tui.md` all come from [`TABLE`], so none of them can
//! tell something else than the others.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What the user looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The list of runs.
    Runs,
    /// One run.
    Run,
    /// The diffs of a run.
    Diff,
    /// A question to the user: whether a run is to end, whether an agent may.
    Question,
    /// The choice of agents and states.
    Filter,
    /// The help.
    Help,
}

impl Scope {
    /// All of them, in the order of the help.
    pub const ALL: [Self; 6] = [Self::Runs, Self::Run, Self::Question, Self::Diff, Self::Filter, Self::Help];

    /// Its heading in the help.
    pub fn title(self) -> &'static str {
        match self {
            Self::Runs => "List of runs",
            Self::Run => "One run",
            Self::Question => "Question",
            Self::Diff => "Diffs",
            Self::Filter => "Filter",
            Self::Help => "Help",
        }
    }
}

/// What a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// To the next row.
    Down,
    /// To the row before.
    Up,
    /// A line down.
    LineDown,
    /// A line up.
    LineUp,
    /// A screen down.
    PageDown,
    /// A screen up.
    PageUp,
    /// To the beginning.
    First,
    /// To the end.
    Last,
    /// Opens, folds, or switches what is chosen.
    Open,
    /// Back to where one came from; at last, out.
    Back,
    /// Types what is to be found.
    Search,
    /// To the next place that was found.
    NextFound,
    /// To the place before that was found.
    PreviousFound,
    /// Chooses what is shown.
    Filter,
    /// To the next error.
    NextError,
    /// To the error before.
    PreviousError,
    /// Follows what comes, or stays.
    Follow,
    /// Shows the diffs.
    Diff,
    /// Shows or hides what a sub-agent did.
    SubAgent,
    /// Folds or opens everything.
    FoldAll,
    /// Copies what is chosen.
    Copy,
    /// Reads the list again.
    Reload,
    /// Shows everything again.
    Clear,
    /// Ends the run, after a question.
    Cancel,
    /// Types a prompt for the agent.
    Prompt,
    /// Looks at what the agent asks.
    Answer,
    /// Yes.
    Yes,
    /// No.
    No,
    /// Shows the help.
    Help,
    /// Leaves the program.
    Quit,
}

/// A key of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    code: KeyCode,
    control: bool,
}

const fn key(code: KeyCode) -> Key {
    Key { code, control: false }
}

const fn letter(letter: char) -> Key {
    key(KeyCode::Char(letter))
}

const fn control(letter: char) -> Key {
    Key { code: KeyCode::Char(letter), control: true }
}

impl Key {
    fn is(self, event: &KeyEvent) -> bool {
        // Shift is in the letter already, and some terminals do not tell it.
        self.code == event.code && self.control == event.modifiers.contains(KeyModifiers::CONTROL)
    }

    /// What is written on it.
    pub fn name(self) -> String {
        let name = match self.code {
            KeyCode::Char(' ') => "Space".to_owned(),
            KeyCode::Char(letter) => letter.to_string(),
            KeyCode::Down => "↓".to_owned(),
            KeyCode::Up => "↑".to_owned(),
            KeyCode::Left => "←".to_owned(),
            KeyCode::Right => "→".to_owned(),
            KeyCode::PageDown => "PgDn".to_owned(),
            KeyCode::PageUp => "PgUp".to_owned(),
            other => format!("{other:?}"),
        };
        if self.control { format!("Ctrl-{}", name.to_uppercase()) } else { name }
    }
}

/// A row of the table.
#[derive(Debug)]
pub struct Binding {
    /// Where it holds.
    pub scopes: &'static [Scope],
    /// What may be pressed.
    pub keys: &'static [Key],
    /// What happens.
    pub action: Action,
    /// The word at the bottom of the screen; empty where there is none.
    pub word: &'static str,
    /// The words of the help.
    pub help: &'static str,
}

impl Binding {
    /// The names of its keys, as the help and the documentation write them.
    pub fn names(&self) -> String {
        self.keys.iter().map(|key| key.name()).collect::<Vec<_>>().join(" ")
    }
}

const RUNS: &[Scope] = &[Scope::Runs];
const RUN: &[Scope] = &[Scope::Run];
const TEXTS: &[Scope] = &[Scope::Run, Scope::Diff, Scope::Help];
const MOVES: &[Scope] = &[Scope::Runs, Scope::Run, Scope::Diff, Scope::Filter, Scope::Help];
const QUESTION: &[Scope] = &[Scope::Question];

/// The table. Of rows for the same action the first that fits the screen counts.
pub const TABLE: &[Binding] = &[
    row(RUNS, &[key(KeyCode::Enter), letter('l'), key(KeyCode::Right)], Action::Open, "open", "open the run"),
    row(RUN, &[key(KeyCode::Enter)], Action::Open, "unfold", "unfold or fold a tool call, a thought, a diff"),
    row(&[Scope::Filter], &[key(KeyCode::Enter), letter(' ')], Action::Open, "switch", "show these, or no longer"),
    row(MOVES, &[letter('j'), key(KeyCode::Down)], Action::Down, "", "down"),
    row(MOVES, &[letter('k'), key(KeyCode::Up)], Action::Up, "", "up"),
    row(TEXTS, &[control('e')], Action::LineDown, "", "a line down"),
    row(TEXTS, &[control('y')], Action::LineUp, "", "a line up"),
    row(MOVES, &[key(KeyCode::PageDown), control('d')], Action::PageDown, "", "a screen down"),
    row(MOVES, &[key(KeyCode::PageUp), control('u')], Action::PageUp, "", "a screen up"),
    row(MOVES, &[letter('g'), key(KeyCode::Home)], Action::First, "", "to the beginning"),
    row(RUN, &[letter('G'), key(KeyCode::End)], Action::Last, "", "to the end, and follow what comes"),
    row(
        &[Scope::Runs, Scope::Diff, Scope::Filter, Scope::Help],
        &[letter('G'), key(KeyCode::End)],
        Action::Last,
        "",
        "to the end",
    ),
    row(RUNS, &[letter('/')], Action::Search, "search", "show runs that have these words; Enter asks a hub"),
    row(RUN, &[letter('/')], Action::Search, "search", "find a text in the run"),
    row(RUN, &[letter('n')], Action::NextFound, "", "to the next place that was found"),
    row(RUN, &[letter('N')], Action::PreviousFound, "", "to the place before"),
    row(RUNS, &[letter('f')], Action::Filter, "filter", "choose agents and states"),
    row(RUN, &[letter('f')], Action::Filter, "filter", "everything, then talk, tools, files or errors alone"),
    row(&[Scope::Runs, Scope::Filter], &[letter('c')], Action::Clear, "", "show everything again"),
    row(RUN, &[letter('e')], Action::NextError, "error", "to the next error"),
    row(RUN, &[letter('E')], Action::PreviousError, "", "to the error before"),
    row(RUN, &[letter(' ')], Action::Follow, "follow", "follow what comes, or stay here"),
    row(RUN, &[letter('d')], Action::Diff, "diff", "all diffs of the run, from the chosen one on"),
    row(&[Scope::Diff], &[letter('n'), letter(']')], Action::NextFound, "next file", "to the next file"),
    row(&[Scope::Diff], &[letter('N'), letter('[')], Action::PreviousFound, "file before", "to the file before"),
    row(RUN, &[letter('s')], Action::SubAgent, "", "hide or show what a sub-agent did"),
    row(RUN, &[letter('z')], Action::FoldAll, "", "unfold or fold everything"),
    row(RUNS, &[letter('y')], Action::Copy, "", "copy the id of the run"),
    row(&[Scope::Run, Scope::Diff], &[letter('y')], Action::Copy, "copy", "copy what is chosen"),
    row(RUNS, &[letter('r')], Action::Reload, "", "read the list again"),
    row(RUN, &[letter('p')], Action::Prompt, "", "say something to the agent, where it takes prompts"),
    row(RUN, &[letter('a')], Action::Answer, "", "answer what the agent asks, where it takes answers"),
    row(RUN, &[letter('x')], Action::Cancel, "", "cancel the run, where it can be; it is asked whether to"),
    row(QUESTION, &[letter('y')], Action::Yes, "yes", "yes: cancel it, allow it"),
    row(QUESTION, &[letter('n')], Action::No, "no", "no: let it go on, deny it"),
    row(&Scope::ALL, &[letter('?')], Action::Help, "help", "these keys"),
    row(RUNS, &[letter('q')], Action::Quit, "quit", "leave"),
    row(RUNS, &[key(KeyCode::Esc)], Action::Back, "", "show everything again, then leave"),
    row(
        &[Scope::Run, Scope::Question, Scope::Diff, Scope::Filter, Scope::Help],
        &[letter('q'), key(KeyCode::Esc), letter('h'), key(KeyCode::Left)],
        Action::Back,
        "back",
        "back",
    ),
    row(&Scope::ALL, &[control('c')], Action::Quit, "", "leave at once"),
];

const fn row(scopes: &'static [Scope], keys: &'static [Key], action: Action, word: &'static str, help: &'static str) -> Binding {
    Binding { scopes, keys, action, word, help }
}

/// What a key does here.
pub fn action(scope: Scope, event: &KeyEvent) -> Option<Action> {
    let found = of(scope).find(|row| row.keys.iter().any(|key| key.is(event)));
    found.map(|row| row.action)
}

/// The rows that hold here.
pub fn of(scope: Scope) -> impl Iterator<Item = &'static Binding> {
    TABLE.iter().filter(move |row| row.scopes.contains(&scope))
}

#[cfg(test)]
mod tests {
    use super::{Scope, of};

    #[test]
    fn no_key_does_two_things_in_one_place() {
        for scope in Scope::ALL {
            let names: Vec<String> = of(scope).flat_map(|row| row.keys).map(|key| key.name()).collect();
            for name in &names {
                assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name} in {scope:?}");
            }
        }
    }

    #[test]
    fn one_gets_out_and_helped_everywhere() {
        use super::Action;
        for scope in Scope::ALL {
            for wanted in [Action::Quit, Action::Help, Action::Back] {
                assert!(of(scope).any(|row| row.action == wanted), "{wanted:?} in {scope:?}");
            }
        }
    }
}
