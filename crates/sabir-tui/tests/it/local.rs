//! Runs of a journal on this disk, as they are written.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;

use sabir_agents::builtin;
use sabir_core::event::Event;
use sabir_core::fold::Phase;
use sabir_core::fold::timeline::{Timeline, What};
use sabir_store::history::Places;
use sabir_store::{Home, Journal, Meta, past};
use sabir_tui::Source as _;
use sabir_tui::source::local::Local;
use sabir_tui::source::{CLIPPING, Feed, Listing, Wake};
use tempfile::TempDir;

use crate::sample::{end, events};

fn write(journal: &Journal, number: &mut u64, events: &[String]) {
    for fields in events {
        *number += 1;
        let json = format!("{{\"runId\":\"run-1\",\"seq\":{number},{fields}}}");
        let event: Event<'_> = serde_json::from_str(&json).expect("an event");
        journal.event(|out| event.write_json(out));
    }
    journal.sync().expect("on the disk");
}

fn begin(home: &Home) -> Journal {
    let journal = Journal::open(home, "run-1").expect("a journal");
    journal.meta(&Meta {
        schema: Meta::SCHEMA.to_owned(),
        run_id: "run-1".to_owned(),
        agent: "claude-code".to_owned(),
        cwd: "/home/user/project".to_owned(),
        prompt: "Fix it".to_owned(),
        ..Meta::default()
    });
    journal
}

fn local(folder: &TempDir) -> Local {
    let home = Home::at(folder.path());
    let places = Places { home: None, variables: BTreeMap::new(), registry: builtin() };
    Local::new(Box::new(move || past::load(&places, Some(&home), None, |_| true, &mut |_, _| {})))
}

#[test]
fn a_run_is_told_as_it_is_written_and_to_its_end() {
    let folder = TempDir::new().expect("a folder");
    let home = Home::at(folder.path());
    let journal = begin(&home);
    let mut number = 0;
    write(&journal, &mut number, &events());
    let local = local(&folder);
    let mut listed = Vec::new();
    local.list(&Wake::default(), &mut |listing| {
        listed.push(listing);
        false
    });
    let [Listing::Rows(rows)] = &*listed else { panic!("{listed:?}") };
    let row = &rows[0];
    assert_eq!(
        (row.id.as_str(), row.phase, row.tool.as_deref(), row.project()),
        ("run-1", Phase::Running, Some("Bash"), Some("project"))
    );
    assert_eq!((row.tokens, row.title.as_deref()), (Some(13_132), Some("Fix it")));
    assert!(row.cost.is_some_and(|cost| cost > 0.0));

    let (sender, receiver) = channel();
    let watching = std::thread::spawn(move || local.watch("run-1", &mut |feed| sender.send(feed).is_ok()));
    let mut timeline = Timeline::default();
    let mut take = |until: Feed| {
        for feed in &receiver {
            if feed == until {
                return;
            }
            let Feed::Changes(changes) = feed else { panic!("{feed:?}") };
            changes.into_iter().for_each(|change| timeline.apply(change, CLIPPING));
        }
        panic!("{until:?} never came");
    };
    take(Feed::Live);
    write(&journal, &mut number, &end());
    journal.finish().expect("finished");
    take(Feed::Over);
    watching.join().expect("ended");
    assert!(matches!(timeline.items.last().expect("items").what, What::End { .. }));
}

#[test]
fn a_run_that_nobody_knows_is_trouble() {
    let folder = TempDir::new().expect("a folder");
    let mut told = Vec::new();
    local(&folder).watch("gone", &mut |feed| {
        told.push(feed);
        true
    });
    assert!(matches!(&*told, [Feed::Trouble(why)] if why.contains("gone")), "{told:?}");
}
