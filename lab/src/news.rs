//! What a CLI printed that this version of Sabir does not know.

use std::collections::BTreeMap;

use sabir_core::drift::{Drift, Shapes};
use sabir_core::event::{EventKind, Unrecognized};

use crate::trial::Seen;

/// What is new of a CLI, and how often it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Types of lines that no rule knows.
    pub types: BTreeMap<String, u64>,
    /// Fields of the others, by the way to them.
    pub fields: BTreeMap<String, u64>,
}

impl News {
    /// Adds what another run printed.
    pub fn add(&mut self, other: &News) {
        for (all, more) in [(&mut self.types, &other.types), (&mut self.fields, &other.fields)] {
            for (name, count) in more {
                *all.entry(name.clone()).or_default() += count;
            }
        }
    }
}

/// What is new in a run of that agent.
pub fn find(id: &str, seen: &Seen) -> News {
    let registry = sabir_agents::builtin();
    let mut drift = Drift::new(Shapes::parse(registry.find(id).map_or("", |agent| &agent.shapes)));
    String::from_utf8_lossy(&seen.raw).lines().for_each(|line| drift.line(line));
    let mut news = News::default();
    for (shape, found) in drift.news() {
        news.fields.insert(shape.clone(), found.count);
    }
    for event in &seen.events {
        if let EventKind::Unrecognized(Unrecognized { r#type, .. }) = &event.kind {
            *news.types.entry(r#type.as_deref().unwrap_or("(no type)").to_owned()).or_default() += 1;
        }
    }
    news
}
