//! Several changes as few: what was changed again before anybody looked is told once.

use std::collections::BTreeMap;

use super::{Change, Clipping};

/// Changes that come to the same, with at most one for each item.
///
/// Items do not depend on one another, so a change may take the place of an earlier one of the same item; the first one
/// keeps its place, so that items still come in the order of their ids.
pub fn merged(changes: Vec<Change>, clipping: Clipping) -> Vec<Change> {
    let mut places: BTreeMap<u64, usize> = BTreeMap::new();
    let mut out: Vec<Change> = Vec::with_capacity(changes.len());
    for change in changes {
        let id = match &change {
            Change::Put(item) => item.id,
            Change::Grow(growth) => growth.id,
        };
        let Some(before) = places.get(&id).and_then(|place| out.get_mut(*place)) else {
            places.insert(id, out.len());
            out.push(change);
            continue;
        };
        match (before, change) {
            (before, change @ Change::Put(_)) => *before = change,
            (Change::Put(item), Change::Grow(growth)) => item.grow(&growth, clipping),
            (Change::Grow(before), Change::Grow(growth)) => {
                before.text.push_str(&growth.text);
                before.last = growth.last;
                before.seq = growth.seq.or(before.seq);
                before.until = growth.until.or(before.until);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::merged;
    use crate::event::Event;
    use crate::fold::timeline::{Change, Clipping, Timeline, TimelineFold};

    #[test]
    fn merged_changes_make_the_same_timeline() {
        let clipping = Clipping { speech: 8, output: 5 };
        let mut fold = TimelineFold::new(clipping);
        let mut changes = Vec::new();
        let fields = [
            r#""kind":"started","agent":"codex""#,
            r#""kind":"turnStart","turn":1"#,
            r#""kind":"text","delta":"one ""#,
            r#""kind":"text","delta":"two three ""#,
            r#""kind":"toolStart","toolCallId":"c","name":"bash","toolKind":"execute""#,
            r#""kind":"toolUpdate","toolCallId":"c","outputDelta":"a long output""#,
            r#""kind":"toolUpdate","toolCallId":"c","outputDelta":" and more of it""#,
            r#""kind":"text","delta":"four""#,
            r#""kind":"toolUpdate","toolCallId":"c","outputDelta":" end""#,
            r#""kind":"usage","scope":"message","inputTokens":10,"outputTokens":5"#,
            r#""kind":"toolEnd","toolCallId":"c","ok":true,"status":"ok""#,
            r#""kind":"exited","outcome":"completed","cancelled":false"#,
        ];
        for (number, fields) in (1..).zip(fields) {
            let json = format!("{{\"runId\":\"r\",\"seq\":1,{fields}}}");
            let event: Event<'_> = serde_json::from_str(&json).expect(fields);
            fold.event(number, &event, &mut changes);
        }
        let shown = |changes: &[Change]| {
            let mut timeline = Timeline::default();
            changes.iter().for_each(|change| timeline.apply(change.clone(), clipping));
            timeline
        };
        let all = shown(&changes);
        // Wherever a page ends, the pages come to the same.
        for cut in 0..=changes.len() {
            let mut pages = merged(changes[..cut].to_vec(), clipping);
            pages.extend(merged(changes[cut..].to_vec(), clipping));
            assert_eq!(shown(&pages), all, "cut at {cut}");
        }
        assert!(merged(changes.clone(), clipping).len() == all.items.len() && all.items.len() < changes.len());
    }
}
