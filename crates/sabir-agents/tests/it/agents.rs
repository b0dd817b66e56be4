//! The table of agents, and that each of them has fixtures.

use std::path::Path;

use crate::common::fixture::{self, Fixture};

#[test]
fn have_a_file_a_title_and_dialects_with_names_of_their_own() {
    let core = Path::new(env!("CARGO_MANIFEST_DIR"));
    for agent in &sabir_agents::builtin() {
        let id = agent.id.as_str();
        assert!(core.join(format!("src/agent/{}.rs", id.replace('-', "_"))).is_file(), "{id}: no file in src/agent/");
        assert!(!agent.dialects.is_empty() && !agent.title.is_empty(), "{id}: no dialect or no title");
        for dialect in &agent.dialects {
            let count = agent.dialects.iter().filter(|other| other.name == dialect.name).count();
            assert_eq!(count, 1, "{id}: dialects called {}", dialect.name);
        }
    }
}

#[test]
fn have_ids_and_aliases_of_their_own() {
    let registry = sabir_agents::builtin();
    let names: Vec<&str> =
        registry.iter().flat_map(|agent| agent.aliases.iter().map(String::as_str).chain([agent.id.as_str()])).collect();
    for name in &names {
        assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
    }
}

#[test]
fn have_fixtures() {
    let folders = fixture::folders();
    for agent in &sabir_agents::builtin() {
        let prefix = format!("{}/", agent.id);
        assert!(folders.iter().any(|(name, _)| name.starts_with(&prefix)), "{}: no folder in fixtures/{prefix}", agent.id);
    }
}

/// Checks of some fixtures would pass if there were none of that sort.
#[test]
fn have_fixtures_of_every_sort() {
    let fixtures = fixture::all();
    let count = |is_of_sort: fn(&Fixture) -> bool| fixtures.iter().filter(|fixture| is_of_sort(fixture)).count();
    assert!(count(|fixture| fixture.json_objects().is_some()) > 100, "streams of JSON objects");
    assert!(count(|fixture| fixture.case.detect) > 100, "streams that tell their agent");
    assert!(
        count(|fixture| fixture.is_log() && sabir_agents::builtin().find(&fixture.agent).is_some_and(|agent| agent.log.is_some()))
            > 0,
        "logs"
    );
}
