//! What the screens look like. `SABIR_UPDATE=1` writes the expected files anew; read the diff.

use std::path::Path;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;
use ratatui::style::Modifier;
use sabir_tui::source::Listing;
use sabir_tui::{App, Message, Palette, draw};

use crate::sample::{Screen, rows};

fn looks_like(name: &str, shown: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/screens").join(format!("{name}.txt"));
    sabir_test_support::snapshot::assert(&path, shown);
}

const SIZES: [(u16, u16); 2] = [(80, 24), (120, 40)];

#[test]
fn list() {
    for (width, height) in SIZES {
        looks_like(&format!("runs-{width}x{height}"), &Screen::listed(width, height).shown());
    }
    looks_like("runs-empty-80x24", &Screen::new(80, 24).shown());
    looks_like("runs-40x12", &Screen::listed(40, 12).shown());
}

#[test]
fn filter() {
    let mut screen = Screen::listed(80, 24);
    screen.keys("fj ");
    looks_like("filter-80x24", &screen.shown());
    screen.press(KeyCode::Esc);
    looks_like("filtered-80x24", &screen.shown());
}

#[test]
fn help() {
    for (width, height) in SIZES {
        let mut screen = Screen::listed(width, height);
        screen.key('?');
        looks_like(&format!("help-{width}x{height}"), &screen.shown());
    }
    let mut screen = Screen::opened(80, 24);
    screen.key('?');
    looks_like("help-run-80x24", &screen.shown());
}

#[test]
fn live_run() {
    for (width, height) in SIZES {
        let mut screen = Screen::opened(width, height);
        looks_like(&format!("run-live-{width}x{height}"), &screen.shown());
    }
}

#[test]
fn finished_run() {
    for (width, height) in SIZES {
        let mut screen = Screen::opened(width, height);
        screen.end();
        looks_like(&format!("run-end-{width}x{height}"), &screen.shown());
        screen.keys("ge");
        looks_like(&format!("run-error-{width}x{height}"), &screen.shown());
    }
}

#[test]
fn unfolded_run() {
    let mut screen = Screen::opened(100, 90);
    screen.end();
    screen.keys("zg");
    looks_like("run-unfolded-100x90", &screen.shown());
}

#[test]
fn search() {
    let mut screen = Screen::opened(80, 24);
    screen.keys("g/zerodivision");
    looks_like("search-typing-80x24", &screen.shown());
    screen.press(KeyCode::Enter);
    looks_like("search-found-80x24", &screen.shown());
}

#[test]
fn questions_and_commands() {
    let mut screen = Screen::asking(80, 24);
    looks_like("asks-80x24", &screen.shown());
    screen.key('a');
    looks_like("asks-answer-80x24", &screen.shown());
    screen.press(KeyCode::Esc);
    screen.key('x');
    looks_like("cancel-80x24", &screen.shown());
    screen.press(KeyCode::Esc);
    screen.keys("pand the docs, please");
    looks_like("prompt-80x24", &screen.shown());
}

#[test]
fn diff() {
    for (width, height) in SIZES {
        let mut screen = Screen::opened(width, height);
        screen.key('d');
        looks_like(&format!("diff-{width}x{height}"), &screen.shown());
    }
}

/// Nothing that an agent says reaches the terminal raw, and no size is too small.
#[test]
fn any_size_is_free_of_control_characters() {
    for width in [1, 2, 3, 5, 8, 13, 21, 34, 55, 80, 110, 121, 200] {
        for height in [1, 2, 3, 4, 5, 8, 12, 24, 50] {
            let mut screen = Screen::opened(60, 20);
            screen.resize(width, height);
            for keys in ["", "g", "z", "jjjjjj", "d", "q", "?", "jjjj", "q", "fff", "qq", "f", "jj"] {
                screen.keys(keys);
                let shown = screen.shown();
                assert!(
                    !shown.chars().any(|c| c != '\n' && sabir_core::readable::steers(c)),
                    "{width}x{height} {keys}: {shown:?}"
                );
            }
        }
    }
}

#[test]
fn selected_row_is_one_bar() {
    let mut app = App::new("this machine", Palette::coloured(), (80, 24), None);
    app.update(Message::Listing(Listing::Rows(rows())));
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a terminal");
    terminal.draw(|frame| draw(frame, &app)).expect("drawn");
    let row = &terminal.backend().buffer().content()[2 * 80..3 * 80];
    assert!(row[0].style().add_modifier.contains(Modifier::REVERSED), "{:?}", row[0]);
    assert!(row.iter().all(|cell| cell.style() == row[0].style()), "{row:?}");
}
