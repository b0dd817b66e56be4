//! placeholder
use super::{Options, View};
use crate::event::Event;
/// x
pub struct Envelope;
impl Envelope {
    /// x
    pub fn new(_: &Options) -> Self {
        Self
    }
}
impl View for Envelope {
    fn event(&mut self, _: &Event<'_>, _: &mut Vec<u8>) {}
    fn end(&mut self, _: &mut Vec<u8>) {}
}
