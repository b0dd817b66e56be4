//! Any sequence of appending, closing, tearing and opening again, against a list.

use std::fs;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed};
use sabir_store::record::HEAD;
use sabir_store::{Cursor, Damage, Journal, Kind, Reader};

use crate::{RUN, home, read, read_from, small};

#[derive(Debug, Clone)]
enum Step {
    Append(u8, Vec<u8>),
    Sync,
    /// Closes the journal and opens it again.
    Reopen,
    /// The same, with so many bytes lost from the end of the last segment.
    Tear(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let payload =
        prop_oneof![8 => prop::collection::vec(any::<u8>(), 0..60), 1 => prop::collection::vec(any::<u8>(), 500..1_000)];
    prop_oneof![
        12 => (1..5_u8, payload).prop_map(|(kind, payload)| Step::Append(kind, payload)),
        2 => Just(Step::Sync),
        1 => Just(Step::Reopen),
        1 => (0..400_usize).prop_map(Step::Tear),
    ]
}

fn kind(number: u8) -> Kind {
    [Kind::Meta, Kind::Raw, Kind::Event, Kind::Result][usize::from(number) % 4]
}

/// What must be there: which record, what it is, what it holds (`None`: the journal's own end).
type Wanted = (Cursor, Kind, Option<Vec<u8>>);

proptest! {
    #![proptest_config(Config {
        cases: 96,
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(16),
        failure_persistence: None,
        ..Config::default()
    })]

    #[test]
    fn the_journal_is_the_list_of_what_was_appended(
        steps in prop::collection::vec(step(), 1..60),
        segment_bytes in 100..2_000_u64,
        resume in any::<prop::sample::Index>(),
    ) {
        let (_folder, home) = home();
        let folder = home.run(RUN).expect("an id");
        let open = || Journal::open_with(&home, RUN, small(segment_bytes)).expect("opened");
        let mut wanted: Vec<Wanted> = Vec::new();
        let mut journal = open();
        let end = |journal: Journal, wanted: &mut Vec<Wanted>| {
            let seq = wanted.last().map_or(0, |(cursor, ..)| cursor.seq) + 1;
            wanted.push((Cursor { epoch: journal.epoch(), seq }, Kind::End, None));
            journal.finish().expect("finished");
        };
        for step in steps {
            match step {
                Step::Append(number, payload) => {
                    let cursor = journal.append(kind(number), 3, |out| out.extend_from_slice(&payload)).expect("taken");
                    wanted.push((cursor, kind(number), Some(payload)));
                }
                Step::Sync => {
                    let synced = journal.sync().expect("synced");
                    prop_assert_eq!(synced, journal.synced());
                }
                Step::Reopen => {
                    end(journal, &mut wanted);
                    journal = open();
                }
                Step::Tear(lost) => {
                    end(journal, &mut wanted);
                    let last = folder.segment(*folder.segments().expect("segments").last().expect("one"));
                    let size = fs::metadata(&last).expect("a file").len();
                    let left = size.saturating_sub(lost as u64);
                    // Records of the last segment go one by one, as far as they are not whole any more.
                    let (read, _) = read(&home);
                    let mut ends = size;
                    let head = 42 + RUN.len() as u64;
                    while ends > left.max(head) {
                        let record = read.iter().find(|record| Some(record.cursor) == wanted.last().map(|(cursor, ..)| *cursor));
                        ends -= record.map_or(0, |record| (HEAD + record.payload.len()) as u64);
                        wanted.pop();
                    }
                    fs::OpenOptions::new().write(true).open(&last).expect("opened").set_len(left).expect("cut");
                    journal = open();
                    let whole = if left < head { 0 } else { ends };
                    prop_assert_eq!(journal.left().cut, left - whole);
                }
            }
        }
        end(journal, &mut wanted);
        let (records, damage) = read(&home);
        prop_assert_eq!(damage, Damage::default());
        let got: Vec<Wanted> = records
            .iter()
            .map(|record| (record.cursor, record.kind, (record.kind != Kind::End).then(|| record.payload.clone())))
            .collect();
        prop_assert_eq!(&got, &wanted);
        let from = resume.index(records.len());
        let (rest, _) = read_from(Reader::resume(&home, RUN, records[from].cursor).expect("a journal"));
        prop_assert_eq!(&rest, &records[from + 1..]);
    }
}
