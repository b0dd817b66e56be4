//! What keys, clicks and news do, without a screen where none is needed.

use ratatui::crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use sabir_core::fold::Phase;
use sabir_tui::keys::Scope;
use sabir_tui::source::{Feed, Listing, Order, Row};
use sabir_tui::{Effect, Message};

use crate::sample::{Screen, events, rows};

fn mouse(kind: MouseEventKind, column: u16, row: u16) -> Message {
    Message::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE })
}

/// The line of the screen that has this.
fn line_of(screen: &mut Screen, text: &str) -> Option<u16> {
    screen.shown().lines().position(|line| line.contains(text)).and_then(|line| u16::try_from(line).ok())
}

#[test]
fn runs_that_go_on_are_first_and_the_latest_come_next() {
    let mut screen = Screen::listed(80, 24);
    let order: Vec<Option<u16>> =
        ["● running", "? asks", "✓ done", "✗ failed", "… incomplete"].map(|state| line_of(&mut screen, state)).to_vec();
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{order:?}");
}

#[test]
fn the_chosen_run_stays_chosen_when_rows_move() {
    let mut screen = Screen::listed(80, 24);
    screen.keys("jj");
    let mut rows = rows();
    rows.push(Row { started: Some(1), last: Some(i64::MAX / 2), ..Row::new("new0", "pi", Phase::Success) });
    screen.app.update(Message::Listing(Listing::Rows(rows)));
    let effects = screen.press(KeyCode::Enter);
    assert_eq!(effects, [Effect::Watch { ticket: 1, id: "c0de".to_owned() }]);
}

#[test]
fn words_narrow_the_list_while_they_are_typed() {
    let mut screen = Screen::listed(80, 24);
    screen.keys("/PARSER codex");
    assert!(screen.shown().contains("1 of 5 runs"));
    screen.press(KeyCode::Backspace);
    screen.press(KeyCode::Enter);
    assert_eq!(screen.press(KeyCode::Enter), [Effect::Watch { ticket: 1, id: "c0de".to_owned() }]);
    assert_eq!(screen.press(KeyCode::Esc), [Effect::Unwatch]);
    assert_eq!(screen.press(KeyCode::Esc), []);
    assert!(screen.shown().contains(" 5 runs"), "the first Esc shows everything again");
    assert_eq!(screen.press(KeyCode::Esc), [Effect::Quit]);
}

#[test]
fn given_up_words_are_as_they_were() {
    let mut screen = Screen::listed(80, 24);
    screen.keys("/codex");
    screen.press(KeyCode::Enter);
    screen.keys("/nothing like it");
    assert!(screen.shown().contains("no run is like that"));
    screen.press(KeyCode::Esc);
    assert!(screen.shown().contains("2 of 5 runs"));
}

#[test]
fn the_filter_chooses_agents_and_states() {
    let mut screen = Screen::listed(80, 24);
    screen.keys("fj ");
    assert_eq!(screen.app.scope(), Scope::Filter);
    assert!(screen.shown().contains("2 of 5 runs"));
    screen.keys("G ");
    screen.press(KeyCode::Esc);
    assert!(screen.shown().contains("1 of 5 runs"), "codex that is incomplete");
    screen.key('c');
    assert!(screen.shown().contains(" 5 runs"));
}

#[test]
fn a_run_that_goes_on_is_followed_until_one_moves() {
    let mut screen = Screen::opened(80, 24);
    assert!(screen.shown().contains("▼ follows"));
    assert!(screen.shown().contains("▸ Bash python -m pytest"), "the tool that runs now");
    screen.key('k');
    assert!(screen.shown().contains("‖ paused"));
    screen.feed(&[r#""kind":"text","delta":"The news.""#.to_owned()]);
    screen.keys("gg");
    assert!(!screen.shown().contains("The news."));
    screen.key(' ');
    assert!(screen.shown().contains("The news.") && screen.shown().contains("▼ follows"));
}

#[test]
fn feeds_of_another_run_change_nothing() {
    let mut screen = Screen::opened(80, 24);
    let before = screen.shown();
    screen.app.update(Message::Feed(77, Feed::Trouble("not mine".to_owned())));
    assert_eq!(screen.shown(), before);
    screen.tell(Feed::Trouble("mine\u{1b}[2J".to_owned()));
    assert!(screen.shown().contains(" mine") && !screen.shown().contains("2J"));
}

#[test]
fn a_log_that_is_told_anew_replaces_what_was_there() {
    let mut screen = Screen::opened(80, 24);
    screen.tell(Feed::Anew);
    assert!(screen.shown().contains("Bash"), "what was there stays until there is something else");
    let mut fold = sabir_core::fold::timeline::TimelineFold::default();
    let changes = crate::sample::changes(&mut fold, &mut 0, &events()[..3]);
    screen.tell(Feed::Changes(changes));
    let shown = screen.shown();
    assert!(shown.contains("Fix the failing test") && !shown.contains("pytest"), "{shown}");
}

#[test]
fn enter_unfolds_and_folds() {
    let mut screen = Screen::opened(80, 40);
    screen.keys("g");
    assert!(!screen.shown().contains("then look at the function."));
    screen.keys("jjj");
    screen.press(KeyCode::Enter);
    assert!(screen.shown().contains("then look at the function."), "{}", screen.shown());
    screen.press(KeyCode::Enter);
    assert!(!screen.shown().contains("then look at the function."));
}

#[test]
fn errors_are_found_in_both_directions_and_unfolded() {
    let mut screen = Screen::opened(80, 24);
    screen.keys("ge");
    assert!(screen.shown().contains("ZeroDivisionError"), "{}", screen.shown());
    screen.key('e');
    assert!(screen.shown().contains("no error further down"));
    screen.keys("GE");
    assert!(screen.shown().contains("timeout: 60"));
    screen.key('E');
    assert!(screen.shown().contains("no error further up"));
}

#[test]
fn what_is_sought_is_found_in_folded_items_and_from_the_end_again_at_the_beginning() {
    let mut screen = Screen::opened(80, 24);
    screen.keys("g/PYTEST");
    screen.press(KeyCode::Enter);
    assert!(screen.shown().contains("1 of 2"), "{}", screen.shown());
    screen.key('n');
    assert!(screen.shown().contains("2 of 2"));
    screen.key('n');
    assert!(screen.shown().contains("1 of 2"));
    screen.key('N');
    assert!(screen.shown().contains("2 of 2"));
    screen.keys("/xyzzy");
    screen.press(KeyCode::Enter);
    assert!(screen.shown().contains("is nowhere in this run"));
}

#[test]
fn copying_gives_the_text_without_what_steers() {
    let mut screen = Screen::opened(80, 24);
    screen.keys("ge");
    let copied = screen.key('y');
    let expected = "E   ZeroDivisionError: division by zero\n1 failed, 2 passed in 0.04s\n";
    assert_eq!(copied, [Effect::Copy(expected.to_owned())]);
    screen.key('d');
    let [Effect::Copy(diff)] = &*screen.key('y') else { panic!("a diff is copied") };
    assert!(diff.starts_with("--- a/stats.py\n"));
    screen.keys("qq");
    assert_eq!(screen.key('y'), [Effect::Copy("5d0f7a5e-6c1b".to_owned())]);
}

#[test]
fn sub_agents_are_nested_and_can_be_hidden() {
    let mut screen = Screen::opened(100, 60);
    assert!(screen.shown().contains("┆   Looking through the callers.") && screen.shown().contains("2 steps inside"));
    screen.keys("g/callers.");
    screen.press(KeyCode::Enter);
    screen.key('s');
    let shown = screen.shown();
    assert!(!shown.contains("Looking through") && shown.contains("2 steps inside, hidden"), "{shown}");
    screen.key('s');
    assert!(screen.shown().contains("Looking through"));
}

#[test]
fn only_some_items_are_shown_when_that_is_wanted() {
    let mut screen = Screen::opened(100, 60);
    screen.key('f');
    assert!(screen.shown().contains("showing talk") && !screen.shown().contains("Grep"));
    screen.key('f');
    assert!(screen.shown().contains("Grep") && !screen.shown().contains("Looking through"));
    screen.key('f');
    screen.key('f');
    assert!(screen.shown().contains("overloaded") && !screen.shown().contains("Grep"));
    screen.key('f');
    assert!(screen.shown().contains("Looking through"));
}

#[test]
fn the_mouse_scrolls_chooses_and_opens() {
    let mut screen = Screen::listed(80, 24);
    let row = line_of(&mut screen, "✓ done").expect("shown");
    let click = |row| mouse(MouseEventKind::Down(MouseButton::Left), 5, row);
    assert_eq!(screen.app.update(click(row)), []);
    assert_eq!(screen.app.update(click(row)), [Effect::Watch { ticket: 1, id: "c0de".to_owned() }]);
    let mut screen = Screen::opened(80, 24);
    screen.key('g');
    let thinking = line_of(&mut screen, "thinking").expect("shown");
    screen.app.update(click(thinking));
    screen.app.update(click(thinking));
    assert!(screen.shown().contains("then look at the function."));
    let before = screen.shown();
    screen.app.update(mouse(MouseEventKind::ScrollDown, 5, 5));
    assert_ne!(screen.shown(), before);
    screen.app.update(mouse(MouseEventKind::ScrollUp, 5, 5));
    assert_eq!(screen.shown(), before);
}

#[test]
fn the_end_is_reached_and_nothing_is_beyond_it() {
    let mut screen = Screen::opened(80, 24);
    screen.end();
    screen.key('G');
    let end = screen.shown();
    assert!(end.contains("✓ completed"));
    for _ in 0..50 {
        screen.press(KeyCode::PageDown);
    }
    assert_eq!(screen.shown(), end);
    for _ in 0..50 {
        screen.press(KeyCode::PageUp);
    }
    assert!(screen.shown().contains("▶ claude-code 2.0.44"));
}

#[test]
fn a_run_can_be_opened_from_the_start_and_left_from_anywhere() {
    let mut app = sabir_tui::App::new("x", sabir_tui::Palette::coloured(), (80, 24), Some("c0".to_owned()));
    let effects = app.update(Message::Listing(Listing::Rows(rows())));
    assert_eq!(effects, [Effect::Watch { ticket: 1, id: "c0de".to_owned() }]);
    let mut screen = Screen::opened(80, 24);
    for keys in ["", "d", "?", "q/abc"] {
        screen.keys(keys);
        assert_eq!(screen.control('c'), [Effect::Quit], "{keys}");
    }
    assert_eq!(screen.app.update(Message::Stop), [Effect::Quit]);
}

/// A run of 100,000 items costs what is on the screen.
#[test]
fn only_what_is_on_the_screen_is_laid_out() {
    let mut screen = Screen::opened(80, 24);
    let call = |number: u32| {
        [
            format!(
                r#""kind":"toolStart","toolCallId":"x{number}","name":"Bash","toolKind":"execute","input":"{{\"command\":\"step {number}\"}}""#
            ),
            format!(r#""kind":"toolEnd","toolCallId":"x{number}","ok":true,"status":"ok","output":"done {number}""#),
        ]
    };
    screen.feed(&(0..50_000).flat_map(call).collect::<Vec<_>>());
    assert!(screen.shown().contains("step 49999"));
    screen.keys("g");
    assert!(screen.shown().contains("▶ claude-code"));
    screen.keys("/step 25000");
    screen.press(KeyCode::Enter);
    assert!(screen.shown().contains("done 25000"));
}

#[test]
fn orders_are_given_where_the_run_takes_them_and_a_cancel_after_a_question() {
    let ordered = |order: Order| vec![Effect::Order { id: "5d0f7a5e-6c1b".to_owned(), order }];
    let mut screen = Screen::asking(80, 24);
    assert_eq!(screen.key('x'), []);
    assert_eq!(screen.app.scope(), Scope::Question);
    assert_eq!((screen.key('n'), screen.app.scope()), (Vec::new(), Scope::Run));
    screen.key('x');
    assert_eq!(screen.key('y'), ordered(Order::Cancel));
    screen.key('a');
    assert_eq!(screen.key('n'), ordered(Order::Answer { request: "q1".to_owned(), allow: false }));
    screen.keys("pgo on, q");
    assert_eq!(screen.press(KeyCode::Enter), ordered(Order::Prompt("go on, q".to_owned())));
    screen.app.update(Message::Ordered("prompt: taken".to_owned()));
    assert!(screen.shown().contains("prompt: taken"));
    screen.keys("p ");
    assert_eq!(screen.press(KeyCode::Enter), [], "nothing was said");
    // An answer that somebody else gave takes the question away.
    screen.key('a');
    screen.feed(&[r#""kind":"permission","requestId":"q1","title":"rm -rf build","decision":"allow""#.to_owned()]);
    assert_eq!(screen.app.scope(), Scope::Run);
    screen.key('a');
    assert!(screen.shown().contains("the agent asks nothing"));
    let mut screen = Screen::opened(80, 24);
    for key in ['x', 'p', 'a'] {
        assert_eq!((screen.key(key), screen.app.scope()), (Vec::new(), Scope::Run));
        assert!(screen.shown().contains("from here"), "{key}");
    }
    screen.end();
    screen.key('x');
    assert!(screen.shown().contains("this run is over"));
}

#[test]
fn what_a_hub_found_is_shown_beside_what_the_list_knows() {
    let mut screen = Screen::listed(80, 24);
    screen.keys("/division");
    assert!(screen.shown().contains("no run is like that"));
    assert_eq!(screen.press(KeyCode::Enter), [Effect::Search("division".to_owned())]);
    let found = vec![rows()[1].clone(), Row { title: Some("an old one".to_owned()), ..Row::new("0ld", "pi", Phase::Success) }];
    screen.app.update(Message::Found("something else".to_owned(), Ok(found.clone())));
    assert!(screen.shown().contains("no run is like that"), "that was not asked");
    screen.app.update(Message::Found("division".to_owned(), Ok(found)));
    let shown = screen.shown();
    assert!(shown.contains("2 of 6 runs") && shown.contains("an old one") && shown.contains("Write a parser"), "{shown}");
    screen.app.update(Message::Listing(Listing::Rows(rows())));
    assert!(screen.shown().contains("2 of 6 runs"), "the list is told again, and what was found stays");
    screen.app.update(Message::Found("division".to_owned(), Err("the hub is away".to_owned())));
    assert!(screen.shown().contains("the hub is away"));
}

#[test]
fn a_run_took_as_long_as_the_list_says_also_where_nothing_happened_at_first() {
    let mut screen = Screen::opened(80, 24);
    screen.end();
    let mut rows = rows();
    // A minute before the first thing that it did.
    rows[0] = Row { phase: Phase::Success, started: rows[0].started.map(|at| at - 60_000), ..rows[0].clone() };
    let took = |screen: &mut Screen| screen.shown().lines().nth(1).expect("a second line").trim().to_owned();
    let before = took(&mut screen);
    screen.app.update(Message::Listing(Listing::Rows(rows)));
    let after = took(&mut screen);
    assert!(before.ends_with(" 15s") && after.ends_with(" 1m15s"), "{before}; {after}");
}
