//! Readers that watch while a run is written.

use std::sync::mpsc;

use sabir_store::cursor::Kept;
use sabir_store::{Damage, Home, Journal, Kind, Reader, Waited};

use crate::{LONG, RUN, append, assert_dense, home, read, small};

/// Reads to the end of the run, however long that takes; tells of each record.
fn follow(home: &Home, seen: &mpsc::Sender<u64>) -> (Vec<Kept>, Damage) {
    let mut reader = Reader::open(home, RUN).expect("a journal");
    let mut all = Vec::new();
    loop {
        while let Some(record) = reader.next().expect("readable") {
            // The test may have seen enough.
            let _ = seen.send(record.cursor.seq);
            all.push(Kept::from(record));
        }
        match reader.wait(LONG).expect("watched") {
            Waited::More => {}
            Waited::Ended => return (all, reader.damage()),
            Waited::TimedOut => panic!("nothing came"),
        }
    }
}

#[test]
fn readers_see_what_is_written_as_it_is_written() {
    let (_folder, home) = home();
    let journal = Journal::open_with(&home, RUN, small(20_000)).expect("opened");
    let (told, seen) = mpsc::channel();
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (home, told) = (home.clone(), told.clone());
            std::thread::spawn(move || follow(&home, &told))
        })
        .collect();
    for number in 0..5_000_u32 {
        append(&journal, Kind::Event, &number.to_le_bytes().repeat(usize::try_from(number % 50).expect("small")));
        if number % 1_000 == 999 {
            // All three have seen it before more comes: they do not wait for the end.
            let last = journal.sync().expect("synced").seq;
            let mut waiting = 3;
            while waiting > 0 {
                waiting -= u32::from(seen.recv_timeout(LONG).expect("a reader sees it") == last);
            }
        }
    }
    journal.finish().expect("finished");
    let (want, damage) = read(&home);
    assert_eq!((want.len(), damage), (5_001, Damage::default()));
    assert_dense(&want);
    for reader in readers {
        let (got, damage) = reader.join().expect("it ends");
        assert!(got == want, "a reader saw something else");
        assert_eq!(damage, Damage::default());
    }
}

#[test]
fn half_a_record_of_a_live_run_is_not_there_yet() {
    use std::io::Write as _;
    let (_folder, home) = home();
    let journal = Journal::open(&home, RUN).expect("opened");
    append(&journal, Kind::Event, b"{}");
    journal.sync().expect("synced");
    let path = home.run(RUN).expect("an id").segment(1);
    let whole = std::fs::read(&path).expect("readable");
    let mut reader = Reader::open(&home, RUN).expect("a journal");
    assert_eq!(reader.next().expect("readable").map(|record| record.cursor.seq), Some(1));
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).expect("opened");
    file.write_all(b"half").expect("written");
    assert!(reader.next().expect("readable").is_none());
    assert_eq!(reader.damage(), Damage::default());
    // The other half comes.
    file.set_len(whole.len() as u64).expect("as it was");
    append(&journal, Kind::Event, b"[]");
    journal.sync().expect("synced");
    assert_eq!(reader.next().expect("readable").map(|record| record.payload.to_vec()), Some(b"[]".to_vec()));
    file.write_all(b"half").expect("written");
    assert!(reader.next().expect("readable").is_none());
    drop(journal);
    // Now it never will: what was written behind it is found, and it is damage.
    assert_eq!(reader.next().expect("readable").map(|record| record.kind), Some(Kind::End));
    assert_eq!((reader.damage().places, reader.damage().bytes), (1, 4));
}

#[test]
fn a_reader_that_waits_goes_on_when_the_run_is_taken_up_again() {
    let (_folder, home) = home();
    Journal::open(&home, RUN).expect("opened").finish().expect("finished");
    let mut reader = Reader::open(&home, RUN).expect("a journal");
    let ended = |reader: &mut Reader| loop {
        while reader.next().expect("readable").is_some() {}
        match reader.wait(LONG).expect("watched") {
            Waited::More => {}
            other => break other,
        }
    };
    assert_eq!(ended(&mut reader), Waited::Ended);
    let journal = Journal::open(&home, RUN).expect("opened again");
    append(&journal, Kind::Event, b"{}");
    journal.finish().expect("finished");
    assert_eq!(ended(&mut reader), Waited::Ended);
    assert_eq!((reader.cursor().epoch, reader.cursor().seq), (2, 3));
}
