//! Plain aligned columns.

use std::io::{IsTerminal as _, Write as _};

use unicode_width::UnicodeWidthStr as _;

use super::width;
use crate::failure::Failure;

/// Prints rows under a bold head, as wide as the terminal.
pub(crate) fn print(head: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
    print_within(head, rows, width())
}

/// Prints rows as wide as the terminal, and whole where a program reads them. Where the terminal is too narrow for the
/// rest and so many columns of the last cell, columns are left out in the given order.
pub(crate) fn print_with_room(head: &[&str], rows: &[Vec<String>], droppable: &[usize], room: usize) -> Result<(), Failure> {
    if !std::io::stdout().is_terminal() {
        return print_within(head, rows, usize::MAX);
    }
    let last = head.len().saturating_sub(1);
    let widest = |column: usize| if column == last { room } else { widest(head, rows, column) };
    let kept = columns_within(head.len(), droppable, width(), widest);
    let pick = |cells: &dyn Fn(usize) -> String| -> Vec<String> { kept.iter().map(|column| cells(*column)).collect() };
    let rows: Vec<Vec<String>> = rows.iter().map(|row| pick(&|column| row[column].clone())).collect();
    let head = pick(&|column| head[column].to_owned());
    print_within(&head.iter().map(String::as_str).collect::<Vec<_>>(), &rows, width())
}

fn print_within(head: &[&str], rows: &[Vec<String>], width: usize) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    let bold = anstyle::Style::new().bold();
    for (index, line) in lines(head, rows, width).into_iter().enumerate() {
        let style = if index == 0 { bold } else { anstyle::Style::new() };
        writeln!(stdout, "{style}{line}{style:#}").map_err(|error| Failure::io("writing to standard output failed", &error))?;
    }
    Ok(())
}

/// Prints rows of figures. Where the terminal is too narrow, columns are left out in the given order until it fits; the
/// first column is never left out.
pub(crate) fn print_fitted(head: &[&str], rows: &[Vec<String>], droppable: &[usize]) -> Result<(), Failure> {
    let widest = |column: usize| widest(head, rows, column);
    let kept = columns_within(head.len(), droppable, width(), widest);
    let widths: Vec<usize> = kept.iter().map(|column| widest(*column)).collect();
    // Figures are read from the right.
    let aligned = |cell: &str, place: usize| match kept[place] {
        0 => cell.to_owned(),
        column if head[column].is_empty() => cell.to_owned(),
        _ => format!("{}{cell}", " ".repeat(widths[place] - cell.width())),
    };
    let pick = |cells: &dyn Fn(usize) -> String| -> Vec<String> {
        kept.iter().enumerate().map(|(place, column)| aligned(&cells(*column), place)).collect()
    };
    let head = pick(&|column| head[column].to_owned());
    let rows: Vec<Vec<String>> = rows.iter().map(|row| pick(&|column| row[column].clone())).collect();
    print(&head.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
}

fn widest(head: &[&str], rows: &[Vec<String>], column: usize) -> usize {
    rows.iter().map(|row| row[column].width()).chain([head[column].width()]).max().unwrap_or(0)
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

/// Rows of cells under a head; the last column takes what is left of the width.
pub(crate) fn lines(head: &[&str], rows: &[Vec<String>], width: usize) -> Vec<String> {
    let columns = head.len();
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.width()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (index, (cell, column)) in cells.zip(&widths).enumerate() {
            line.push_str(cell);
            if index + 1 < columns {
                line.push_str(&" ".repeat(column - cell.width() + 2));
            }
        }
        fit(&line, width)
    };
    let mut all = vec![line(&mut head.iter().copied())];
    all.extend(rows.iter().map(|row| line(&mut row.iter().map(String::as_str))));
    all
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
    use super::{columns_within, fit, lines};

    #[test]
    fn columns_are_aligned_by_what_they_take_on_the_screen() {
        let rows = [vec!["日本".to_owned(), "x".to_owned()], vec!["a".to_owned(), "y".to_owned()]];
        assert_eq!(lines(&["n", "v"], &rows, 80), ["n     v", "日本  x", "a     y"]);
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
