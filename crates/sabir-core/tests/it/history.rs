//! The two ways of reading a log tell the same.

use sabir_core::agent;
use sabir_core::decode::Start;
use sabir_core::event::EventKind;
use sabir_core::history::{Ledger, Spent};
use sabir_core::line;

use crate::fixtures;

#[test]
fn a_log_in_short_spends_what_the_whole_log_spends() {
    let mut seen = 0;
    for fixture in fixtures::all() {
        let logged = fixture.folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("history-"));
        let Some(agent) = agent::find(&fixture.agent).filter(|_| logged) else { continue };
        let history = agent.history.as_ref().unwrap_or_else(|| panic!("{} keeps logs", agent.id));
        let mut ledger = Ledger::default();
        line::split(&fixture.input).for_each(|line| (history.note)(&mut ledger, line.bytes));
        let mut whole = Spent::default();
        for event in fixtures::decode(Start::auto(), &fixture.input, &fixture.end()) {
            if let EventKind::Usage {
                input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, ..
            } = event.kind
            {
                whole.add(&Spent {
                    input: input_tokens.unwrap_or(0),
                    cache_read: cache_read_tokens.unwrap_or(0),
                    cache_write: cache_write_tokens.unwrap_or(0),
                    output: output_tokens.unwrap_or(0),
                    cache_write_1h: 0,
                    reasoning: reasoning_tokens.unwrap_or(0),
                });
            }
        }
        let short = Spent { cache_write_1h: 0, ..ledger.spent() };
        assert_eq!(short, whole, "{}", fixture.folder.display());
        assert_eq!(ledger.bad_lines, 0, "{}", fixture.folder.display());
        seen += 1;
    }
    assert!(seen > 0, "there are logs among the fixtures");
}
