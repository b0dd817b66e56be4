//! Names of agents' own logs.

use sabir_core::agent;

#[test]
fn match_only_in_listed_folders() {
    let mut histories = 0;
    for (history, only) in agent::ALL.iter().filter_map(|agent| agent.history.as_ref()).filter_map(|h| Some((h, h.only?))) {
        histories += 1;
        // Names that logs have somewhere.
        let names =
            ["events.jsonl", "agent-1.jsonl", "session-2026-11-15T18-02-12345678.json", "a_b.jsonl", "chats", "subagents"];
        for others in names.iter().filter(|name| **name != only.name).flat_map(|name| names.map(|last| [*name, last])) {
            for count in 1..=others.len() {
                let path: Vec<&str> = std::iter::repeat_n("folder", only.depth).chain(others[..count].iter().copied()).collect();
                assert_eq!((history.part)(&path), None, "{path:?}");
            }
        }
    }
    assert!(histories > 0, "no agent has such folders");
}
