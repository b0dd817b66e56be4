//! What became of the cells agent × scenario: as a table, with the reasons beneath it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::check::{Aspect, Difference};
use crate::cli::{Exception, Recipe};
use crate::news::News;
use crate::scenario::Scenario;

/// What became of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All is as it was served, but for what the CLI does not tell, for these reasons.
    Passed(Vec<&'static str>),
    /// It is not, and what.
    Differs(Vec<String>),
    /// The CLI can't do it, and why.
    NotApplicable(&'static str),
}

/// A cell of the table.
#[derive(Debug)]
pub struct Cell {
    /// The CLI.
    pub recipe: &'static Recipe,
    /// The scenario.
    pub scenario: &'static Scenario,
    /// What became of it.
    pub verdict: Verdict,
    /// What the CLI printed that is not known.
    pub news: News,
    /// How long it took.
    pub time: Duration,
}

/// Weighs the differences of a cell against what is known of the CLI. An exception that explains nothing any more is a difference
/// too: the CLI has learned something, and the table should say so.
pub fn judge(exceptions: &[Exception], scenario: &str, differences: &[Difference]) -> Verdict {
    let known: Vec<&Exception> = exceptions.iter().filter(|exception| exception.scenarios.contains(&scenario)).collect();
    let says = |exception: &Exception, what: &str, difference: &Difference| {
        exception.aspect == difference.aspect && difference.what.contains(what)
    };
    let explains =
        |exception: &Exception, difference: &Difference| exception.what.iter().any(|what| says(exception, what, difference));
    let mut wrong: Vec<String> = differences
        .iter()
        .filter(|difference| !known.iter().any(|exception| explains(exception, difference)))
        .map(ToString::to_string)
        .collect();
    for exception in known.iter().filter(|exception| exception.always) {
        for what in exception.what {
            if !differences.iter().any(|difference| says(exception, what, difference)) {
                wrong.push(format!("{}: not so any more: {what:?} ({})", exception.aspect, exception.why));
            }
        }
    }
    if !wrong.is_empty() {
        return Verdict::Differs(wrong);
    }
    let used = known.iter().filter(|exception| differences.iter().any(|difference| explains(exception, difference)));
    Verdict::Passed(used.map(|exception| exception.why).collect())
}

/// Why a CLI is not told a scenario, if so.
pub fn not_applicable(recipe: &Recipe, scenario: &Scenario) -> Option<&'static str> {
    let whole = |exception: &&Exception| exception.aspect == Aspect::Run && exception.scenarios.contains(&scenario.name);
    let registry = sabir_agents::builtin();
    let claimed = registry.find(recipe.id).map_or(&[][..], |agent| &agent.launch.capabilities.permissions);
    let refused = scenario.runs.iter().any(|run| !claimed.contains(&run.permission));
    let why = recipe.exceptions.iter().find(whole).map(|exception| exception.why);
    why.or_else(|| refused.then_some("`sabir run` does not promise that level for it, and refuses."))
}

/// The table, and beneath it what differs and the reasons. The same cells give the same text.
pub fn markdown(recipes: &[&'static Recipe], scenarios: &[&'static Scenario], cells: &[Cell]) -> String {
    let mut reasons: Vec<&str> = Vec::new();
    let mut differing = String::new();
    let mut text = String::from("| scenario |");
    for recipe in recipes {
        let _ = write!(text, " {} {} |", recipe.id, recipe.version);
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(recipes.len()));
    text.push('\n');
    for scenario in scenarios {
        let _ = write!(text, "| {} |", scenario.name);
        for recipe in recipes {
            let same = |cell: &&Cell| std::ptr::eq(cell.recipe, *recipe) && cell.scenario.name == scenario.name;
            match cells.iter().find(same).map(|cell| &cell.verdict) {
                None => text.push_str(" not run |"),
                Some(Verdict::Passed(why)) => {
                    let _ = write!(text, " passed{} |", numbers(why, &mut reasons));
                }
                Some(Verdict::NotApplicable(why)) => {
                    let _ = write!(text, " not applicable{} |", numbers(&[*why], &mut reasons));
                }
                Some(Verdict::Differs(what)) => {
                    text.push_str(" **differs** |");
                    for what in what {
                        let _ = writeln!(differing, "- {} {}, {}: {what}", recipe.id, recipe.version, scenario.name);
                    }
                }
            }
        }
        text.push('\n');
    }
    if !differing.is_empty() {
        let _ = write!(text, "\nWhat differs:\n\n{differing}");
    }
    if !reasons.is_empty() {
        text.push_str("\nThe reasons:\n\n");
        for (index, why) in reasons.iter().enumerate() {
            let _ = writeln!(text, "{}. {why}", index + 1);
        }
    }
    text
}

/// How many cells there are, and what became of them.
pub fn summary(cells: &[Cell]) -> String {
    let count = |of: fn(&Verdict) -> bool| cells.iter().filter(|cell| of(&cell.verdict)).count();
    format!(
        "{} cells: {} passed, {} differ, {} not applicable",
        cells.len(),
        count(|verdict| matches!(verdict, Verdict::Passed(_))),
        count(|verdict| matches!(verdict, Verdict::Differs(_))),
        count(|verdict| matches!(verdict, Verdict::NotApplicable(_)))
    )
}

/// What each CLI printed that is not known, over all of its cells.
pub fn drift(recipes: &[&'static Recipe], cells: &[Cell]) -> String {
    let listed = |found: &BTreeMap<String, u64>| {
        let words: Vec<String> = found.iter().map(|(name, count)| format!("`{name}` ({count})")).collect();
        if words.is_empty() { "none".to_owned() } else { words.join(", ") }
    };
    let mut text = String::from("| CLI | unknown types | unknown fields |\n|---|---|---|\n");
    for recipe in recipes {
        let mut news = News::default();
        cells.iter().filter(|cell| std::ptr::eq(cell.recipe, *recipe)).for_each(|cell| news.add(&cell.news));
        let _ = writeln!(text, "| {} {} | {} | {} |", recipe.id, recipe.version, listed(&news.types), listed(&news.fields));
    }
    text
}

/// The numbers of reasons, as they stand behind a word.
fn numbers(why: &[&'static str], reasons: &mut Vec<&'static str>) -> String {
    let mut numbers: Vec<usize> = why
        .iter()
        .map(|why| match reasons.iter().position(|known| known == why) {
            Some(index) => index + 1,
            None => {
                reasons.push(why);
                reasons.len()
            }
        })
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.iter().fold(String::new(), |text, number| format!("{text} ({number})"))
}
