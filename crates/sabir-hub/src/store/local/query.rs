//! Queries over all sessions: listings and token usage.

use std::collections::BTreeSet;

use sabir_core::pattern::Pattern;
use sabir_core::price::Table;
use sabir_core::time::Timestamp;
use sabir_store::search::Words;
use sabir_store::usage;
use sabir_store::usage::{By, Question};

use super::cache::LocalCache;
use super::list::tokens;
use crate::store::{SessionFilter, SessionPage};
use crate::usage::{Period, UsageRollup, UsageRollupBuilder};

impl LocalCache {
    /// A page of sessions.
    pub(super) fn sessions(&self, filter: &SessionFilter) -> SessionPage {
        let list = self.list();
        let words = filter.text.as_deref().and_then(Pattern::parse).and_then(Words::new);
        let mut page = SessionPage::default();
        let mut last_number = None;
        for listed in &list.all {
            let session = self.updated(listed.session.clone());
            let has_text = || {
                let logged = list.logged_of(listed);
                words.as_ref().is_none_or(|words| logged.is_some_and(|logged| words.are_in(logged, &list.past.logs)))
            };
            if !filter.matches(&session, listed.number) || !has_text() {
                continue;
            }
            if page.sessions.len() == filter.limit {
                page.next = last_number;
                break;
            }
            last_number = Some(listed.number);
            page.sessions.push(session);
        }
        page
    }

    /// Names of all agents that have sessions.
    pub(super) fn agents(&self) -> Vec<String> {
        let list = self.list();
        let agents: BTreeSet<&str> = list.past.sessions.iter().map(|logged| logged.agent.id.as_str()).collect();
        agents.into_iter().map(str::to_owned).collect()
    }

    /// Token usage of a period.
    pub(super) fn usage(&self, period: Period) -> UsageRollup {
        let list = self.list();
        let past = &list.past;
        let millis = |time: Option<Timestamp>| time.map(Timestamp::as_millis);
        let zone = self.sources.zone.clone();
        let question = Question { by: By::Day, since: millis(period.since), until: millis(period.until), zone, breakdown: false };
        let mut rollup = UsageRollupBuilder::default();
        let mut unpriced = 0;
        for ([day, agent, model, project], sum) in usage::cube(&past.logs, &past.sessions, &question, Table::embedded()) {
            unpriced += sum.unpriced_tokens;
            rollup.add((day, agent, model, project), sum.sessions.len() as u64, &tokens(&sum.spent), sum.cost().0);
        }
        let note = (unpriced > 0).then(|| format!("{unpriced} tokens have no price and are not in the cost."));
        rollup.finish(note)
    }
}
