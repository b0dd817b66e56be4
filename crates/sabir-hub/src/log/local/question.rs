//! What is asked about all sessions: which of them fit, and what they spent.

use std::collections::BTreeSet;

use sabir_core::pattern::Pattern;
use sabir_core::price::Table;
use sabir_core::time::Timestamp;
use sabir_store::search::Words;
use sabir_store::usage;
use sabir_store::usage::{By, Question};

use super::kept::Kept;
use super::list::tokens;
use crate::log::{Filter, Page};
use crate::usage::{Cube, CubeFold, Period};

impl Kept {
    /// The sessions that fit.
    pub(super) fn found(&self, filter: &Filter) -> Page {
        let list = self.list();
        let words = filter.text.as_deref().and_then(Pattern::parse).and_then(Words::new);
        let mut page = Page::default();
        for listed in &list.all {
            let session = self.freshened(listed.session.clone());
            let seen = &session.overview;
            let fits = filter.agent.as_ref().is_none_or(|agent| seen.agent.as_ref() == Some(agent))
                && filter.phase.is_none_or(|phase| seen.phase == phase)
                && filter.workspace.as_ref().is_none_or(|workspace| seen.workspace.as_ref() == Some(workspace))
                && filter.since.is_none_or(|since| session.updated >= since)
                && filter.prefix.as_ref().is_none_or(|prefix| session.session.as_str().starts_with(prefix))
                && filter.cursor.is_none_or(|cursor| listed.number < cursor);
            let says = || {
                let logged = list.logged_of(listed);
                words.as_ref().is_none_or(|words| logged.is_some_and(|logged| words.are_in(logged, &list.past.logs)))
            };
            if !fits || !says() {
                continue;
            }
            if page.sessions.len() == filter.limit {
                page.next = page.sessions.last().and_then(|last| {
                    list.all.iter().find(|listed| listed.session.session == last.session).map(|listed| listed.number)
                });
                break;
            }
            page.sessions.push(session);
        }
        page
    }

    /// The agents that sessions are of.
    pub(super) fn agents(&self) -> Vec<String> {
        let list = self.list();
        let agents: BTreeSet<&str> = list.past.sessions.iter().map(|logged| logged.agent.id.as_str()).collect();
        agents.into_iter().map(str::to_owned).collect()
    }

    /// What was spent.
    pub(super) fn cube(&self, period: Period) -> Cube {
        let list = self.list();
        let past = &list.past;
        let millis = |time: Option<Timestamp>| time.map(Timestamp::as_millis);
        let zone = self.sources.zone.clone();
        let question = Question { by: By::Day, since: millis(period.since), until: millis(period.until), zone, breakdown: false };
        let mut fold = CubeFold::default();
        let mut unpriced = 0;
        for ([day, agent, model, project], sum) in usage::cube(&past.logs, &past.sessions, &question, Table::embedded()) {
            unpriced += sum.unpriced_tokens;
            fold.add((day, agent, model, project), sum.sessions.len() as u64, &tokens(&sum.spent), sum.cost().0);
        }
        let note = (unpriced > 0).then(|| format!("{unpriced} tokens have no price and are not in the cost."));
        fold.finish(note)
    }
}
