//! Plain aligned columns. Nothing in a cell steers the terminal, whoever wrote it.

use std::io::{IsTerminal as _, Write as _};

use sabir_core::readable;
use unicode_width::UnicodeWidthStr as _;

use super::{note, table_width};
use crate::failure::Failure;

/// Prints rows under a bold head, as wide as the terminal, and whole where a program reads them.
pub(crate) fn print(head: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
    print_within(&Cells::new(head, rows), table_width())
}

/// Prints rows as wide as the terminal, and whole where a program reads them. Where the terminal is too narrow for the
/// rest and so many columns of the last cell, columns are left out in the given order.
pub(crate) fn print_with_room(head: &[&str], rows: &[Vec<String>], droppable: &[usize], room: usize) -> Result<(), Failure> {
    let cells = Cells::new(head, rows);
    let width = if std::io::stdout().is_terminal() { table_width() } else { usize::MAX };
    let last = head.len().saturating_sub(1);
    let widest = |column: usize| if column == last { room } else { cells.widest(column) };
    let kept = columns_within(head.len(), droppable, width, widest);
    print_within(&cells.picked(|row| kept.iter().map(|column| row[*column].clone()).collect()), width)
}

fn print_within(cells: &Cells, width: usize) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    let bold = anstyle::Style::new().bold();
    for (index, line) in cells.lines(width).into_iter().enumerate() {
        let style = if index == 0 { bold } else { anstyle::Style::new() };
        writeln!(stdout, "{style}{line}{style:#}").map_err(|error| Failure::io("writing to standard output failed", &error))?;
    }
    Ok(())
}

/// A table of figures, which are aligned to the right.
pub(crate) struct FigureTable<'t> {
    /// The names of the columns; one that has none is not missed when it is left out.
    pub(crate) head: &'t [&'t str],
    /// The columns with text.
    pub(crate) texts: &'t [usize],
    /// The columns that a narrow terminal does without, in this order. The user is told which were left out.
    pub(crate) droppable: &'t [usize],
    /// The least width of the last column, where it is a text that may be cut.
    pub(crate) room: Option<usize>,
}

impl FigureTable<'_> {
    pub(crate) fn print(&self, rows: &[Vec<String>]) -> Result<(), Failure> {
        let Self { head, texts, droppable, room } = *self;
        let cells = Cells::new(head, rows);
        let last = head.len().saturating_sub(1);
        let widest = |column: usize| match room {
            Some(room) if column == last => room.min(cells.widest(column)),
            _ => cells.widest(column),
        };
        let kept = columns_within(head.len(), droppable, table_width(), widest);
        let aligned = |row: &[String], column: usize| {
            let cell = &row[column];
            let gap = if texts.contains(&column) { 0 } else { cells.widest(column).saturating_sub(cell.width()) };
            format!("{}{cell}", " ".repeat(gap))
        };
        let pick = |row: &[String]| kept.iter().map(|column| aligned(row, *column)).collect();
        print_within(&cells.picked(pick), table_width())?;
        let is_missed = |column: &usize| !kept.contains(column) && !head[*column].is_empty();
        let missed: Vec<&str> = (0..head.len()).filter(is_missed).map(|column| head[column]).collect();
        if !missed.is_empty() {
            note(&format!("the terminal is too narrow for all columns; left out: {}", missed.join(", ")));
        }
        Ok(())
    }
}

/// The cells of a table, its head first. Names of sessions, folders and models are what a log says: they are made harmless
/// here, before anything is measured, so that no table can print them as they came.
struct Cells(Vec<Vec<String>>);

impl Cells {
    fn new(head: &[&str], rows: &[Vec<String>]) -> Self {
        let head = head.iter().map(|cell| readable::line(cell)).collect();
        let rows = rows.iter().map(|row| row.iter().map(|cell| readable::line(cell)).collect());
        Self(std::iter::once(head).chain(rows).collect())
    }

    /// What is made of each row.
    fn picked(&self, pick: impl Fn(&[String]) -> Vec<String>) -> Self {
        Self(self.0.iter().map(|row| pick(row)).collect())
    }

    /// How wide a column is.
    fn widest(&self, column: usize) -> usize {
        self.0.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0)
    }

    /// The rows as lines; the last column takes what is left of the width.
    fn lines(&self, width: usize) -> Vec<String> {
        let columns = self.0.first().map_or(0, Vec::len);
        let widths: Vec<usize> = (0..columns).map(|column| self.widest(column)).collect();
        let line = |row: &Vec<String>| {
            let mut line = String::new();
            for (index, (cell, column)) in row.iter().zip(&widths).enumerate() {
                line.push_str(cell);
                if index + 1 < columns {
                    line.push_str(&" ".repeat(column - cell.width() + 2));
                }
            }
            fit(&line, width)
        };
        self.0.iter().map(line).collect()
    }
}

/// The columns that fit, when the others are left out in the given order.
fn columns_within(columns: usize, droppable: &[usize], width: usize, widest: impl Fn(usize) -> usize) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..columns).collect();
    let mut dropped = droppable.iter();
    let needed = |kept: &[usize]| kept.iter().map(|column| widest(*column) + 2).sum::<usize>().saturating_sub(2);
    while needed(&kept) > width
        && let Some(column) = dropped.next()
    {
        kept.retain(|kept| kept != column);
    }
    kept
}

/// The text cut to a number of columns, with a sign that it was cut.
pub(crate) fn fit(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.trim_end().to_owned();
    }
    let mut cut = String::new();
    let mut columns = 0;
    for character in text.chars() {
        let character_width = unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
        if columns + character_width + 1 > width {
            break;
        }
        columns += character_width;
        cut.push(character);
    }
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::{Cells, columns_within, fit};

    #[test]
    fn columns_are_aligned_by_what_they_take_on_the_screen() {
        let rows = [vec!["日本".to_owned(), "x".to_owned()], vec!["a".to_owned(), "y".to_owned()]];
        assert_eq!(Cells::new(&["n", "v"], &rows).lines(80), ["n     v", "日本  x", "a     y"]);
    }

    #[test]
    fn what_steers_a_terminal_is_not_in_a_table_and_takes_no_room_in_it() {
        let rows = [vec!["a\u{1b}[31m\r\nb".to_owned(), "\u{9b}2Jx\u{1b}]0;title\u{7}".to_owned()]];
        assert_eq!(Cells::new(&["n", "v"], &rows).lines(80), ["n    v", "a b  x"]);
    }

    #[test]
    fn columns_go_in_their_order_until_the_rest_fits() {
        let columns = |width: usize| columns_within(4, &[2, 1], width, |column| [8, 10, 6, 20][column]);
        assert_eq!(columns(50), [0, 1, 2, 3]);
        assert_eq!(columns(49), [0, 1, 3]);
        assert_eq!(columns(30), [0, 3]);
        assert_eq!(columns(5), [0, 3], "the others stay");
    }

    #[test]
    fn what_does_not_fit_is_cut() {
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("abc", 4), "abc");
        assert_eq!(fit("日本語", 4), "日…");
    }
}
