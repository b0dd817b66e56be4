//! Every scenario can be told to every CLI.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use sabir_lab::cli;
use sabir_lab::place::{FILES, Place};
use sabir_lab::scenario::{self, Tool, Turn};
use sabir_lab::script::{Input, Step};

fn place() -> Place {
    Place { home: PathBuf::from("/lab/home"), work: PathBuf::from("/lab/work"), address: "127.0.0.1:4321".parse().unwrap() }
}

#[test]
fn names_are_unique() {
    let scenarios: HashSet<_> = scenario::ALL.iter().map(|scenario| scenario.name).collect();
    assert_eq!(scenarios.len(), scenario::ALL.len());
    let recipes: HashSet<_> = cli::ALL.iter().map(|recipe| (recipe.id, recipe.version)).collect();
    assert_eq!(recipes.len(), cli::ALL.len());
    assert_eq!(cli::named("codex").len(), 2);
    assert_eq!(cli::named("codex@0.36.0").len(), 1);
}

#[test]
fn every_recipe_names_the_server() {
    for recipe in cli::ALL {
        let place = place();
        let environment = (recipe.environment)(&place);
        let files = (recipe.files)(&place);
        let mut words = environment.iter().map(|(_, value)| value).chain(files.iter().map(|file| &file.content));
        assert!(words.any(|word| word.contains("http://127.0.0.1:4321")), "{}", recipe.id);
        for file in files.iter().filter(|file| Path::new(file.path).extension().is_some_and(|kind| kind == "json")) {
            assert!(serde_json::from_str::<serde_json::Value>(&file.content).is_ok(), "{} {}", recipe.id, file.path);
        }
    }
}

#[test]
fn every_run_becomes_a_script() {
    for recipe in cli::ALL {
        for run in scenario::ALL.iter().flat_map(|scenario| scenario.runs) {
            let script = scenario::script(run, recipe, &place());
            assert_eq!(script.steps.len(), run.turns.len());
            let mut ids = HashSet::new();
            for step in &script.steps {
                let Step::Reply(reply) = step else { continue };
                assert!(!reply.blocks.is_empty());
                for call in reply.calls() {
                    assert!(ids.insert(call.id.clone()), "{} uses {} twice", recipe.id, call.id);
                    match &call.input {
                        Input::Json(value) => assert!(value.is_object(), "{} {}", recipe.id, call.name),
                        Input::Freeform(text) => assert!(!text.is_empty(), "{} {}", recipe.id, call.name),
                    }
                }
            }
        }
    }
}

#[test]
fn usage_differs_in_every_class_and_step() {
    let run = &scenario::named("multi-turn").unwrap().runs[0];
    let script = scenario::script(run, &cli::ALL[0], &place());
    let mut figures = HashSet::new();
    for step in &script.steps {
        let Step::Reply(reply) = step else { panic!("a failure in multi-turn") };
        let usage = reply.usage;
        for figure in [usage.uncached_input, usage.cache_read, usage.cache_write, usage.output] {
            assert!(figure > 0 && figures.insert(figure), "{figure} comes twice");
        }
        assert!(usage.reasoning < usage.output);
    }
}

#[test]
fn edits_find_their_text() {
    let turns = scenario::ALL.iter().flat_map(|scenario| scenario.runs).flat_map(|run| run.turns);
    let tools = turns.filter_map(|turn| if let Turn::Says { tools, .. } = turn { Some(*tools) } else { None });
    let mut edits = 0;
    for tool in tools.flatten() {
        if let Tool::Edit { path, old, .. } = tool {
            let content = FILES.iter().find(|(name, _)| name == path).map(|(_, content)| *content).unwrap();
            assert_eq!(content.matches(old).count(), 1, "{path}");
            edits += 1;
        }
    }
    assert!(edits > 0);
}

#[test]
fn a_patch_has_whole_lines() {
    let edit = Tool::Edit { path: "sum.sh", old: "$1 - $2", new: "$1 + $2" };
    let patch = "*** Begin Patch\n*** Update File: sum.sh\n@@\n-echo $(($1 - $2))\n+echo $(($1 + $2))\n*** End Patch\n";
    let (name, input) = (cli::named("codex@0.166.0")[0].tool)(&edit, &place());
    assert_eq!(name, "apply_patch");
    assert!(matches!(input, Input::Freeform(text) if text == patch));
}

#[test]
fn the_long_answer_is_long() {
    let run = &scenario::named("big-answer").unwrap().runs[0];
    let script = scenario::script(run, &cli::ALL[0], &place());
    let Some(Step::Reply(reply)) = script.steps.first() else { panic!("no answer") };
    let text = reply.whole_text();
    assert_eq!(text.len(), 1 << 20);
    let lines: HashSet<&str> = text.lines().collect();
    assert_eq!(lines.len(), text.lines().count());
}

#[test]
fn exceptions_name_scenarios_that_exist_and_say_why() {
    let mut count = 0;
    for recipe in cli::ALL {
        for exception in recipe.exceptions {
            count += 1;
            assert!(exception.scenarios.iter().all(|name| scenario::named(name).is_some()), "{}: {exception:?}", recipe.id);
            assert!(!exception.scenarios.is_empty() && exception.why.ends_with('.'), "{}: {exception:?}", recipe.id);
            // What excuses everything says nothing.
            assert!(exception.what.iter().all(|what| !what.is_empty()), "{}: {exception:?}", recipe.id);
        }
    }
    assert!(count > 0);
}
