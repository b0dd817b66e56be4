//! What is done before a journal is written again.
//!
//! What a crash left half written at the end of the last segment is cut off. Nothing else is changed: damage in the middle
//! stays where it is, and readers step over it. The new epoch gets a segment of its own, so no file is ever written twice.

use std::fs::OpenOptions;
use std::io;

use crate::cursor::Cursor;
use crate::layout::RunFolder;
use crate::reader::Reader;
use crate::segment::{Header, Opening};
use crate::trouble::{Trouble, Why};
use crate::window::Window;

/// Where a journal was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Left {
    /// The last segment; 0 when there is none.
    pub segment: u32,
    /// The last whole record.
    pub last: Cursor,
    /// How many bytes of a torn tail were cut off.
    pub cut: u64,
}

/// Cuts off a torn tail and says where to go on. The caller holds the lock of the run.
pub(crate) fn repair(folder: &RunFolder) -> Result<Left, Trouble> {
    let failed = |error: &io::Error| Trouble::io(format_args!("can't take up the journal of the run {}", folder.id()), error);
    let numbers = folder.segments().map_err(|error| failed(&error))?;
    let mut left = Left { segment: numbers.last().copied().unwrap_or(0), ..Left::default() };
    for (back, number) in numbers.iter().rev().enumerate() {
        let position = last_of(folder, *number, back == 0, &mut left.cut).map_err(|error| failed(&error))?;
        match position {
            None => {
                let what = format!("a newer version of sabir wrote the journal of the run {}", folder.id());
                return Err(Trouble::new(Why::NewerSchema, what, "use that version, or another --run-id"));
            }
            // A segment with nothing readable in it tells nothing; the one before it does.
            Some(Cursor::START) => {}
            Some(position) => {
                left.last = position;
                break;
            }
        }
    }
    Ok(left)
}

/// The last whole record of a segment, or what its head says of the records before it; `None` when it is of a newer version.
fn last_of(folder: &RunFolder, number: u32, is_last: bool, cut: &mut u64) -> io::Result<Option<Cursor>> {
    let path = folder.segment(number);
    let before = match Header::parse(Window::open(&path)?.bytes(0, usize::from(u16::MAX))?) {
        Opening::Newer(_) => return Ok(None),
        Opening::Whole(header, _) => header.before(),
        Opening::Short(_) | Opening::Damaged => Cursor::START,
    };
    let mut reader = Reader::only(folder.clone(), number);
    while reader.next()?.is_some() {}
    let size = std::fs::metadata(&path)?.len();
    if is_last {
        // What the dead writer wrote and did not sync is told to others from now on, so it has to stay.
        let file = OpenOptions::new().write(true).open(&path)?;
        if reader.whole_up_to() < size {
            file.set_len(reader.whole_up_to())?;
            *cut = size - reader.whole_up_to();
        }
        file.sync_all()?;
    }
    Ok(Some(reader.position().max(before)))
}
