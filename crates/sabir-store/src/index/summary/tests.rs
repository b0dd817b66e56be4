use sabir_core::event::Outcome;
use sabir_core::history::{OpenResponse, Paid, Spent};

use super::{Account, Bytes, Ledger, Response, Stretch};

const DAY: i64 = 24 * 60 * 60_000;

fn response(at: i64, cost: Option<Paid>) -> Response {
    let spent = Spent { input: 10, cache_read: 20, cache_write: 30, output: 4, cache_write_1h: 5, reasoning: 1 };
    Response { id: at.unsigned_abs(), at, model: 0, calls: 2, spent, cost, copied: false }
}

fn of(responses: &[Response]) -> Account {
    Account::of(&Ledger { responses: responses.to_vec(), ..Ledger::default() })
}

/// A ledger in which everything is told.
fn full() -> Ledger {
    let mut ledger = Ledger {
        session: Some("a session".to_owned()),
        parent: Some("its parent".to_owned()),
        cwd: Some("/home/é".to_owned()),
        version: Some("1.0".to_owned()),
        title: Some("do it".to_owned()),
        first: Some(-5),
        last: Some(i64::MAX),
        outcome: Some(Outcome::Limited),
        responses: vec![response(1, None), response(DAY, Some(Paid::Reported(0.5))), response(2 * DAY, None)],
        models: vec!["one".to_owned(), "two\0three".to_owned()],
        claimed: vec![(0, response(1, None).spent), (1, Spent::default())],
        bad_lines: 1 << 40,
        model: Some(0),
        sum: response(2, None).spent,
        recorded: true,
        calls: 7,
        threads: vec![(-1, u64::MAX), (3, 4)],
        owner: 9,
        step: 2,
        itemized: true,
        open: [OpenResponse { name: 1, request: u64::MAX, id: 3, input: 4, since: 5 }, OpenResponse::default()],
        ..Ledger::default()
    };
    assert!(ledger.is_new_call("a") && ledger.is_new_call("b"));
    ledger
}

#[test]
fn a_ledger_goes_on_where_it_was() {
    for ledger in [Ledger::default(), full(), Ledger { model: Some(u16::MAX - 1), ..full() }, Ledger { first: None, ..full() }] {
        let account = Account::of(&ledger);
        assert_eq!(account.ledger().as_ref(), Some(&ledger));
        let again = Account::read(Bytes::copy_from_slice(account.as_bytes())).expect("an account");
        assert_eq!((&again, again.ledger().as_ref()), (&account, Some(&ledger)));
    }
    assert_eq!(Account::default().ledger(), None, "there is no state to go on from");
}

#[test]
fn what_is_told_is_in_the_account() {
    let (ledger, account) = (full(), Account::of(&full()));
    let texts = [account.session(), account.parent(), account.cwd(), account.version(), account.title()];
    assert_eq!(texts, ["a session", "its parent", "/home/é", "1.0", "do it"].map(Some));
    assert_eq!((account.first(), account.last(), account.outcome()), (ledger.first, ledger.last, ledger.outcome));
    assert_eq!((account.calls(), account.bad_lines(), account.totals().spent), (7, 1 << 40, ledger.spent()));
    assert!(account.models().eq(&ledger.models) && account.claimed().eq(ledger.claimed.iter().copied()));
    assert_eq!((account.model(1), account.model(2)), (Some("two\0three"), None));
    assert!(account.responses().eq(ledger.responses.iter().copied()));
    assert!(account.keys().iter().map(|key| u64::from_le_bytes(*key)).eq(ledger.responses.iter().map(Response::key)));
    let nothing = Account::of(&Ledger { cwd: Some(String::new()), ..Ledger::default() });
    assert_eq!((nothing.cwd(), nothing.outcome(), nothing.first()), (None, None, None));
}

#[test]
fn outcomes_keep_their_numbers() {
    let names: Vec<&str> = Outcome::ALL.iter().map(|outcome| outcome.as_str()).collect();
    let known = "completed failed limited refused cancelled timedOut crashed incomplete startFailed";
    assert_eq!(names.join(" "), known, "indexes have the numbers of the others: raise `REVISION` if one of them changes");
    for outcome in Outcome::ALL {
        assert_eq!(Account::of(&Ledger { outcome: Some(*outcome), ..Ledger::default() }).outcome(), Some(*outcome));
    }
}

#[test]
fn stretches_are_of_what_is_alike_and_nothing_is_lost_in_them() {
    let reported = |at, usd| response(at, Some(Paid::Reported(usd)));
    let mut unsound = response(DAY + 3, None);
    unsound.spent.cache_write_1h = 31;
    let account = of(&[
        Response { at: 9, ..response(5, None) },
        response(4, None),
        Response { model: 1, ..response(6, None) },
        response(DAY - 1, None),
        response(DAY, None),
        Response { copied: true, ..response(DAY + 1, None) },
        unsound,
        unsound,
        reported(DAY + 4, 0.25),
        reported(DAY + 5, 0.5),
        response(DAY + 6, Some(Paid::Computed(2.0))),
        response(DAY + 7, Some(Paid::Unknown)),
        response(DAY + 8, Some(Paid::Unknown)),
    ]);
    let stretches: Vec<_> = account.stretches().collect();
    let counts: Vec<u32> = stretches.iter().map(|(stretch, _)| stretch.responses).collect();
    assert_eq!(counts, [2, 1, 1, 1, 1, 1, 1, 2, 1, 2]);
    assert_eq!((stretches[0].0.first, stretches[0].0.last, stretches[0].0.longest_input), (4, 9, 60));
    assert_eq!(stretches[7].0.cost, Some(Paid::Reported(0.75)));
    let totals = account.totals();
    assert_eq!((totals.calls_of_all, totals.calls_of_own), (26, 24));
    for (stretch, records) in stretches {
        let (mut spent, mut calls) = (Spent::default(), 0);
        for response in records {
            spent.add(&response.spent);
            calls += u64::from(response.calls);
            assert_eq!(Stretch::of(&response).copied, stretch.copied);
        }
        assert_eq!((stretch.spent, stretch.calls), (spent, calls));
    }
}

#[test]
fn what_is_no_account_is_noticed_or_says_something_else_and_nothing_worse() {
    let account = Account::of(&full());
    let bytes = account.as_bytes();
    for place in 0..bytes.len() {
        assert_eq!(Account::read(Bytes::copy_from_slice(&bytes[..place])), None, "cut at {place}");
        for change in [1, 0x80, 0xff] {
            let mut changed = bytes.to_vec();
            changed[place] ^= change;
            if let Some(other) = Account::read(changed.into()) {
                let _ = (other.ledger(), other.responses().count(), other.models().count(), other.claimed().count());
                assert_ne!(other, account);
            }
        }
    }
}
