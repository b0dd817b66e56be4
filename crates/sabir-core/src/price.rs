//! What tokens cost: a dated table of list prices and the arithmetic over it.
//!
//! The table is a JSON file that is built in ([`Table::embedded`]); a newer or a private one has the same shape and is
//! read with [`Table::parse`], alone or [over](Table::overlay) the built-in one:
//!
//! ```json
//! {"taken": "2026-11-15", "source": "our contract",
//!  "providers": {"anthropic": {"prefixes": ["anthropic", "gateway.example/claude"],
//!                "models": {"claude-sonnet-4-5": {"input": 2.4, "output": 12, "cacheRead": 0.24}}}}}
//! ```
//!
//! Prices are US dollars per million tokens. A figure that is left out is not known, which is not the same as free: a
//! cost that needs it is `None`.
//!
//! The tables that agents and gateways print model names from do not agree on spelling, so a name is looked up by
//! [rule](Table::find) and never by likeness.

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use crate::event::CostParts;
use crate::json::Str;

mod name;

/// Prices of many models, taken on one day.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The day on which the figures were taken, `YYYY-MM-DD`.
    pub taken: String,
    /// Where they were taken from.
    pub source: String,
    /// Prefixes of names, folded, and the providers whose models they stand before.
    prefixes: BTreeMap<String, BTreeSet<Arc<str>>>,
    /// Prices by folded name.
    models: BTreeMap<String, Listed>,
    /// The limits of all tiers of all models, ascending.
    thresholds: BTreeSet<u64>,
}

#[derive(Debug, Clone, PartialEq)]
struct Listed {
    provider: Arc<str>,
    price: Price,
}

/// What one model costs, in US dollars per million tokens. `None` is a price that is not known.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Price {
    /// Input that was neither read from nor written to the cache.
    pub input: Option<f64>,
    /// Output, reasoning included.
    pub output: Option<f64>,
    /// Input read from the cache.
    pub cache_read: Option<f64>,
    /// Input written to the cache for five minutes, or for however long the provider keeps it by default.
    #[serde(rename = "cacheWrite5m")]
    pub cache_write_5m: Option<f64>,
    /// Input written to the cache for an hour.
    #[serde(rename = "cacheWrite1h")]
    pub cache_write_1h: Option<f64>,
    /// Other prices for requests with a long input, the smallest limit first.
    #[serde(default)]
    pub tiers: Vec<Tier>,
}

/// The prices of a request whose whole input is longer than a limit. What a tier does not name costs what it costs
/// without the tier.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tier {
    /// The tier holds for inputs of more tokens than this, cached ones included.
    pub above_input_tokens: u64,
    /// As in [`Price`].
    pub input: Option<f64>,
    /// As in [`Price`].
    pub output: Option<f64>,
    /// As in [`Price`].
    pub cache_read: Option<f64>,
    /// As in [`Price`].
    #[serde(rename = "cacheWrite5m")]
    pub cache_write_5m: Option<f64>,
    /// As in [`Price`].
    #[serde(rename = "cacheWrite1h")]
    pub cache_write_1h: Option<f64>,
}

/// The prices of one tier of a model, in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    input: Option<f64>,
    output: Option<f64>,
    cache_read: Option<f64>,
    cache_write_5m: Option<f64>,
    cache_write_1h: Option<f64>,
}

/// The tokens of one request by what they cost. The classes are disjoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Billable {
    /// Input that was neither read from nor written to the cache.
    pub uncached_input: u64,
    /// Input read from the cache.
    pub cache_read: u64,
    /// Input written to the cache, without what [`Billable::cache_write_1h`] counts.
    pub cache_write_5m: u64,
    /// Input written to the cache for an hour.
    pub cache_write_1h: u64,
    /// Output, reasoning included.
    pub output: u64,
}

/// The tokens of any number of requests of one model, summed by price tier: the cost is that of the single requests, and
/// the size does not depend on their number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bill {
    /// Requests at the base price.
    base: Billable,
    /// The others, by the threshold that their input exceeds.
    above: BTreeMap<u64, Billable>,
}

/// Why a text is not a price table.
#[derive(Debug)]
pub enum ParseError {
    /// It is not JSON of that shape.
    Json(serde_json::Error),
    /// A price of that model is negative or not a number.
    Price(String),
    /// Two entries are spellings of one name, this one, and differ.
    Twice(String),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "not a price table: {error}"),
            Self::Price(model) => write!(f, "a price of `{model}` is not an amount of money"),
            Self::Twice(model) => write!(f, "`{model}` is listed twice with different prices"),
        }
    }
}

impl std::error::Error for ParseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Json(error) => Some(error),
            Self::Price(_) | Self::Twice(_) => None,
        }
    }
}

/// The file, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound = "'de: 'a")]
struct File<'a> {
    taken: String,
    source: String,
    providers: BTreeMap<String, Provider<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound = "'de: 'a")]
struct Provider<'a> {
    #[serde(default)]
    prefixes: Vec<String>,
    models: Models<'a>,
}

/// Names and prices, in their order: nothing is looked up in them.
struct Models<'a>(Vec<(Cow<'a, str>, Price)>);

impl<'de: 'a, 'a> Deserialize<'de> for Models<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<'a>(PhantomData<&'a str>);
        impl<'de: 'a, 'a> Visitor<'de> for List<'a> {
            type Value = Models<'a>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("prices by name")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut models = Vec::new();
                while let Some((Str(name), price)) = map.next_entry()? {
                    models.push((name, price));
                }
                Ok(Models(models))
            }
        }
        deserializer.deserialize_map(List(PhantomData))
    }
}

impl Table {
    /// The table that is built in.
    pub fn embedded() -> &'static Self {
        static TABLE: OnceLock<Table> = OnceLock::new();
        TABLE.get_or_init(|| {
            // A test reads the file; should it ever be broken, every model is an unknown one.
            Self::parse(include_str!("price/models.json")).unwrap_or_else(|error| Self {
                taken: String::new(),
                source: error.to_string(),
                prefixes: BTreeMap::new(),
                models: BTreeMap::new(),
                thresholds: BTreeSet::new(),
            })
        })
    }

    /// Reads a table.
    pub fn parse(json: &str) -> Result<Self, ParseError> {
        let file: File<'_> = serde_json::from_str(json).map_err(ParseError::Json)?;
        let (prefixes, models, thresholds) = Default::default();
        let mut table = Self { taken: file.taken, source: file.source, prefixes, models, thresholds };
        for (provider, Provider { prefixes, models }) in file.providers {
            let provider: Arc<str> = provider.into();
            for prefix in prefixes {
                table.prefixes.entry(name::fold(&prefix)).or_default().insert(provider.clone());
            }
            for (model, mut price) in models.0 {
                if !price.figures().all(|figure| figure.is_finite() && figure >= 0.0) {
                    return Err(ParseError::Price(model.into_owned()));
                }
                price.complete(&provider);
                table.thresholds.extend(price.tiers.iter().map(|tier| tier.above_input_tokens));
                let listed = Listed { provider: provider.clone(), price };
                let folded = name::fold(&model);
                match table.models.entry(folded) {
                    Entry::Vacant(new) => drop(new.insert(listed)),
                    Entry::Occupied(other) if other.get().price == listed.price => {}
                    Entry::Occupied(_) => return Err(ParseError::Twice(model.into_owned())),
                }
            }
        }
        Ok(table)
    }

    /// This table with the entries of another one added; where both know a model, the other one's price holds.
    #[must_use]
    pub fn overlay(mut self, other: Self) -> Self {
        for (prefix, providers) in other.prefixes {
            self.prefixes.entry(prefix).or_default().extend(providers);
        }
        self.models.extend(other.models);
        self.thresholds.extend(other.thresholds);
        self.source = format!("{}, then {}", other.source, self.source);
        self.taken = other.taken;
        self
    }

    /// The price of a model, by the name that an agent gives it.
    ///
    /// Upper and lower case are the same, and so are all characters between the words of a name: `Claude-Sonnet-4.5`
    /// is `claude-sonnet-4-5`. A name that is not in the table is tried without what may stand around it:
    ///
    /// - in front, a prefix of the provider whose model it then is: `anthropic/`, `us.anthropic.`, `models/`;
    /// - behind, in any order: a date (`-20250929`, `@20250929`, `-2025-08-07`), `-latest`, `@default`, the context
    ///   mark `[1m]` and the revision that Bedrock appends (`-v1:0`).
    ///
    /// The name with most of its ending wins. Anything else that differs makes another model, whose price is unknown.
    pub fn find(&self, model: &str) -> Option<&Price> {
        let folded = name::fold(model);
        let listed = name::without_endings(&folded).find_map(|name| {
            self.models.get(name).or_else(|| {
                // Each prefix that the name starts with, the shortest first.
                name.match_indices('-').find_map(|(hyphen, _)| {
                    let providers = self.prefixes.get(&name[..hyphen])?;
                    self.models.get(&name[hyphen + 1..]).filter(|listed| providers.contains(&listed.provider))
                })
            })
        });
        listed.map(|listed| &listed.price)
    }

    /// The highest threshold of any tier of any model that an input of so many tokens exceeds; 0 when there is none. Requests
    /// with the same threshold are in the same tier, whatever their model.
    pub fn threshold(&self, input: u64) -> u64 {
        self.thresholds.range(..input).next_back().copied().unwrap_or(0)
    }

    /// How many models it knows.
    pub fn len(&self) -> usize {
        self.models.len()
    }

    /// Whether it knows no model.
    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }
}

impl Price {
    /// What a request costs; `None` when it has tokens of a class whose price is not known. The whole input chooses
    /// the tier.
    pub fn cost(&self, tokens: &Billable) -> Option<CostParts> {
        self.rates(self.threshold(tokens.input())).cost(tokens)
    }

    /// The highest threshold that an input of so many tokens exceeds; 0 for the base price.
    pub fn threshold(&self, input: u64) -> u64 {
        self.tiers.iter().rev().map(|tier| tier.above_input_tokens).find(|threshold| *threshold < input).unwrap_or(0)
    }

    /// The prices of requests whose input exceeds this threshold.
    pub fn rates(&self, threshold: u64) -> Rates {
        let reached = self.tiers.partition_point(|tier| tier.above_input_tokens <= threshold);
        let tier = reached.checked_sub(1).map(|last| &self.tiers[last]);
        let rate = |of_tier: fn(&Tier) -> Option<f64>, base: Option<f64>| tier.and_then(of_tier).or(base);
        Rates {
            input: rate(|tier| tier.input, self.input),
            output: rate(|tier| tier.output, self.output),
            cache_read: rate(|tier| tier.cache_read, self.cache_read),
            cache_write_5m: rate(|tier| tier.cache_write_5m, self.cache_write_5m),
            cache_write_1h: rate(|tier| tier.cache_write_1h, self.cache_write_1h),
        }
    }

    /// Fills in what the provider's published rule says of figures that lists leave out, and sorts the tiers.
    fn complete(&mut self, provider: &str) {
        // Anthropic's price page: writing for an hour costs twice the input. No other provider publishes such a rule.
        if provider == "anthropic" {
            self.cache_write_1h = self.cache_write_1h.or(self.input.map(|input| input * 2.0));
            for tier in &mut self.tiers {
                tier.cache_write_1h = tier.cache_write_1h.or(tier.input.map(|input| input * 2.0));
            }
        }
        self.tiers.sort_by_key(|tier| tier.above_input_tokens);
    }

    fn figures(&self) -> impl Iterator<Item = f64> {
        let base = [self.input, self.output, self.cache_read, self.cache_write_5m, self.cache_write_1h];
        let tiers = self
            .tiers
            .iter()
            .flat_map(|tier| [tier.input, tier.output, tier.cache_read, tier.cache_write_5m, tier.cache_write_1h]);
        base.into_iter().chain(tiers).flatten()
    }
}

impl Billable {
    /// The whole input.
    pub fn input(&self) -> u64 {
        let classes = [self.uncached_input, self.cache_read, self.cache_write_5m, self.cache_write_1h];
        classes.into_iter().fold(0, u64::saturating_add)
    }

    /// Adds the tokens of another request.
    pub fn add(&mut self, other: &Self) {
        let Self { uncached_input, cache_read, cache_write_5m, cache_write_1h, output } = other;
        self.uncached_input = self.uncached_input.saturating_add(*uncached_input);
        self.cache_read = self.cache_read.saturating_add(*cache_read);
        self.cache_write_5m = self.cache_write_5m.saturating_add(*cache_write_5m);
        self.cache_write_1h = self.cache_write_1h.saturating_add(*cache_write_1h);
        self.output = self.output.saturating_add(*output);
    }
}

impl Bill {
    /// Adds the tokens of one request, or of several, whose input exceeds the threshold.
    pub fn add(&mut self, threshold: u64, tokens: &Billable) {
        let tier = if threshold == 0 { &mut self.base } else { self.above.entry(threshold).or_default() };
        tier.add(tokens);
    }

    /// Adds the requests of another bill.
    pub fn add_all(&mut self, other: &Self) {
        self.base.add(&other.base);
        other.above.iter().for_each(|(threshold, tokens)| self.add(*threshold, tokens));
    }

    /// What the requests cost; `None` when there are tokens of a class whose price is not known.
    pub fn cost(&self, price: &Price) -> Option<CostParts> {
        let base = price.rates(0).cost(&self.base)?;
        let mut above = self.above.iter();
        above.try_fold(base, |sum, (threshold, tokens)| Some(sum + price.rates(*threshold).cost(tokens)?))
    }
}

impl Rates {
    /// Whether the price of every class is known that there are tokens of.
    pub fn know(&self, tokens: &Billable) -> bool {
        let known = |tokens: u64, rate: Option<f64>| tokens == 0 || rate.is_some();
        known(tokens.uncached_input, self.input)
            && known(tokens.output, self.output)
            && known(tokens.cache_read, self.cache_read)
            && known(tokens.cache_write_5m, self.cache_write_5m)
            && known(tokens.cache_write_1h, self.cache_write_1h)
    }

    /// What the tokens cost, of one request or of many that have these rates; `None` when there are some of a class whose
    /// price is not known.
    pub fn cost(&self, tokens: &Billable) -> Option<CostParts> {
        let cost = |tokens: u64, rate: Option<f64>| match tokens {
            0 => Some(0.0),
            _ => Some(tokens as f64 * rate? / 1e6),
        };
        Some(CostParts {
            input: cost(tokens.uncached_input, self.input)?,
            output: cost(tokens.output, self.output)?,
            cache_read: cost(tokens.cache_read, self.cache_read)?,
            cache_write: cost(tokens.cache_write_5m, self.cache_write_5m)? + cost(tokens.cache_write_1h, self.cache_write_1h)?,
        })
    }
}

#[cfg(test)]
mod tests;
