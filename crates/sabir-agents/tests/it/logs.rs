//! Names of agents' own logs.

#[test]
fn match_only_in_listed_folders() {
    let mut histories = 0;
    let registry = sabir_agents::builtin();
    let logs = registry.iter().filter_map(|agent| agent.log.as_ref());
    for (log, only) in logs.filter_map(|log| Some((log, log.filter.as_ref()?))) {
        histories += 1;
        // Names that logs have somewhere.
        let names =
            ["events.jsonl", "agent-1.jsonl", "session-2026-11-15T18-02-12345678.json", "a_b.jsonl", "chats", "subagents"];
        for others in names.iter().filter(|name| **name != only.name).flat_map(|name| names.map(|last| [*name, last])) {
            for count in 1..=others.len() {
                let path: Vec<&str> = std::iter::repeat_n("folder", only.depth).chain(others[..count].iter().copied()).collect();
                assert_eq!(log.classify(&path), None, "{path:?}");
            }
        }
    }
    assert!(histories > 0, "no agent has such folders");
}
