//! stand-in
use crate::event::CostParts;
#[derive(Debug, Clone, Default)]
pub struct Table;
pub struct Price;
pub struct Billable {
    pub uncached_input: u64,
    pub cache_read: u64,
    pub cache_write_5m: u64,
    pub cache_write_1h: u64,
    pub output: u64,
}
impl Table {
    pub fn embedded() -> &'static Table {
        &Table
    }
    pub fn find(&self, _: &str) -> Option<&Price> {
        None
    }
}
impl Price {
    pub fn base_cost(&self, _: &Billable) -> Option<CostParts> {
        None
    }
    pub fn cost(&self, _: &Billable) -> Option<CostParts> {
        None
    }
}
