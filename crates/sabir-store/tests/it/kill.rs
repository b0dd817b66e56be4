//! A writer that is killed at any moment.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use sabir_store::{Home, Journal, Kind};

use crate::{RUN, assert_dense, home, read, small};

const WRITER: &str = "SABIR_TEST_WRITER";
const ROUNDS: u64 = 40;

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// What the record of that number holds.
fn payload(seq: u64) -> Vec<u8> {
    let mut numbers = Numbers(seq);
    let size = if seq.is_multiple_of(97) { 300_000 } else { numbers.below(2_000) };
    (0..size).map(|_| u8::try_from(numbers.below(256)).expect("a byte")).collect()
}

/// Writes until it is killed, and says what is on the disk.
fn write_for_ever(home: &Home) {
    let journal = Journal::open_with(home, RUN, small(1 << 20)).expect("opened");
    let mut stdout = std::io::stdout();
    let mut numbers = Numbers(u64::from(journal.epoch()));
    let mut seq = journal.synced().seq;
    loop {
        for _ in 0..=numbers.below(300) {
            seq += 1;
            let cursor = journal.append(Kind::Raw, 0, |out| out.extend_from_slice(&payload(seq))).expect("taken");
            assert_eq!(cursor.seq, seq);
        }
        let synced = journal.sync().expect("synced");
        // A line of its own: the test runner prints too.
        writeln!(stdout, "\nsynced {}", synced.seq).expect("the parent reads");
    }
}

fn start(home: &Home) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "kill::what_was_synced_survives_a_kill", "--nocapture"])
        .env(WRITER, home.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("it starts")
}

#[test]
fn what_was_synced_survives_a_kill() {
    if let Some(home) = std::env::var_os(WRITER) {
        return write_for_ever(&Home::at(home));
    }
    let (_folder, home) = home();
    let mut numbers = Numbers(20_261_116);
    for round in 1..=ROUNDS {
        let mut child = start(&home);
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut synced = 0;
        // At least one sync, so that there is something to lose; then somewhere in the middle of the next.
        for _ in 0..=numbers.below(6) {
            synced = lines
                .by_ref()
                .find_map(|line| line.expect("readable").strip_prefix("synced ").map(|seq| seq.parse::<u64>().expect("a number")))
                .expect("it syncs");
        }
        for _ in 0..numbers.below(200_000) {
            std::hint::spin_loop();
        }
        child.kill().expect("killed");
        // What it still could say counts too.
        for line in lines.map_while(Result::ok) {
            synced = line.strip_prefix("synced ").and_then(|seq| seq.parse().ok()).unwrap_or(synced);
        }
        child.wait().expect("it is gone");

        let (records, damage) = read(&home);
        assert_dense(&records);
        let last = records.last().expect("records").cursor;
        assert!(last.seq >= synced, "round {round}: {synced} was synced, {} is there", last.seq);
        assert_eq!(u64::from(last.epoch), round);
        for record in &records {
            assert!(record.payload == payload(record.cursor.seq), "round {round}: record {}", record.cursor);
        }
        assert_eq!((damage.places, damage.missing, damage.headers), (0, 0, 0), "round {round}");
        assert!(!home.run(RUN).expect("an id").is_live());
    }
}
