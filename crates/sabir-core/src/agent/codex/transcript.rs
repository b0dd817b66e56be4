//! stub
use crate::agent::Match;
use crate::dialect::{Dialect, End, Facts, Verdict};
use crate::line::Line;
use crate::event::Outcome;
#[derive(Debug, Default)]
pub(super) struct Transcript;
pub(super) fn detect(_: &str) -> Match { Match::No }
impl Dialect for Transcript {
    fn line<'a>(&mut self, _: &Line<'a>, _: &mut Facts<'a>) {}
    fn end(&mut self, _: &End, _: &mut Facts<'static>) -> Verdict { Verdict::of(Outcome::Incomplete) }
}
