//! `cargo xtask price`: the price table, taken from the list that the `litellm` package carries.
//!
//! The list has every model of every reseller under the reseller's spelling. The table keeps what the vendors themselves
//! charge, under the shortest name that [`Table::find`] leads every other spelling to, and of the resellers only what
//! differs from that. At the end every name of the list that the table should know is looked up and compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use sabir_core::price::Table;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::process;

/// Where the table is.
const FILE: &str = "crates/sabir-core/src/price/models.json";
/// The list inside the wheel.
const LIST: &str = "litellm/model_prices_and_context_window_backup.json";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Read this wheel instead of downloading the newest
    #[arg(long)]
    wheel: Option<PathBuf>,
}

/// A vendor of models, as the list names it and as agents name it.
struct Vendor {
    name: &'static str,
    /// The vendor's own `litellm_provider`.
    own: &'static [&'static str],
    /// Resellers at list price, or nearly: what differs is kept under its full name. The first one that has a model
    /// which the vendor no longer lists gives its price.
    resellers: &'static [&'static [&'static str]],
    /// What the names of its models start with.
    families: &'static [&'static str],
    /// What stands before a name without making it another model or another price. A weight that is open has many
    /// sellers, so gateways are only named where there is one price.
    prefixes: &'static [&'static str],
}

const VENDORS: &[Vendor] = &[
    Vendor {
        name: "anthropic",
        own: &["anthropic"],
        resellers: &[&["bedrock", "bedrock_converse"], &["vertex_ai-anthropic_models"]],
        families: &["claude-"],
        prefixes: &[
            "anthropic",
            "bedrock/anthropic",
            "global.anthropic",
            "us.anthropic",
            "eu.anthropic",
            "apac.anthropic",
            "au.anthropic",
            "jp.anthropic",
            "openrouter/anthropic",
            "vertex",
            "vertex_ai",
        ],
    },
    Vendor {
        name: "openai",
        own: &["openai"],
        resellers: &[],
        families: &["gpt-", "o1", "o3", "o4", "codex-", "chat-latest", "computer-use", "daybreak"],
        prefixes: &["openai", "openrouter/openai"],
    },
    Vendor {
        name: "google",
        own: &["gemini"],
        resellers: &[&["vertex_ai-language-models"]],
        families: &["gemini-"],
        prefixes: &["gemini", "google", "models", "openrouter/google", "vertex", "vertex_ai"],
    },
    Vendor { name: "xai", own: &["xai"], resellers: &[], families: &["grok-"], prefixes: &["xai", "x-ai", "openrouter/x-ai"] },
    Vendor { name: "deepseek", own: &["deepseek"], resellers: &[], families: &["deepseek-"], prefixes: &["deepseek"] },
    Vendor {
        name: "mistral",
        own: &["mistral"],
        resellers: &[],
        families: &["mistral-", "codestral-", "devstral-", "magistral-", "ministral-", "open-m", "pixtral-"],
        prefixes: &["mistral", "mistralai"],
    },
    Vendor {
        name: "moonshot",
        own: &["moonshot"],
        resellers: &[],
        families: &["kimi-", "moonshot-"],
        prefixes: &["moonshot", "moonshotai"],
    },
    Vendor {
        name: "qwen",
        own: &["dashscope"],
        resellers: &[],
        families: &["qwen", "qwq"],
        prefixes: &["alibaba", "dashscope", "qwen"],
    },
    Vendor { name: "zai", own: &["zai"], resellers: &[], families: &["glm-"], prefixes: &["zai", "z-ai", "zhipuai"] },
    Vendor { name: "minimax", own: &["minimax"], resellers: &[], families: &["minimax-"], prefixes: &["minimax"] },
];

/// Parts of names of models that do not answer with text, or answer from the web at a price per search.
const NOT_FOR_CODE: &[&str] =
    &["audio", "tts", "image", "realtime", "live", "search", "robotics", "omni", "research", "computer-use", "vision", "voxtral"];

/// Figures of one price, per million tokens, in the words of our table.
type Figures = BTreeMap<&'static str, f64>;

#[derive(Debug, Clone, PartialEq, Default)]
struct Price {
    figures: Figures,
    tiers: BTreeMap<u64, Figures>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let folder = crate::root().join("target/price");
    let wheel = match &arguments.wheel {
        Some(wheel) => wheel.clone(),
        None => download(&folder)?,
    };
    let file_name = wheel.file_name().unwrap_or_default().to_string_lossy();
    let version = file_name.split('-').nth(1).context("the wheel's name has no version")?.to_owned();
    let list = member(&wheel, LIST)?;
    let list: Map<String, Value> = serde_json::from_str(&list).context("the price list is not JSON")?;

    let taken = jiff::Zoned::now().date().to_string();
    let source = format!("litellm {version} (PyPI)");
    let text = table(&list, &taken, &source)?;
    std::fs::write(crate::root().join(FILE), &text).with_context(|| format!("could not write {FILE}"))?;
    println!("{FILE}: {} models, {} KB, from {source}", Table::parse(&text)?.len(), text.len() / 1000);
    Ok(())
}

/// The newest wheel, by pip.
fn download(folder: &std::path::Path) -> Result<PathBuf> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest"]).arg(folder).arg("litellm");
    process::run(&mut pip)?;
    let mut wheels = std::fs::read_dir(folder)?.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    wheels.find(|path| path.extension().is_some_and(|extension| extension == "whl")).context("pip downloaded no wheel")
}

/// A file of a zip archive. Python is there for pip anyway, and reads archives.
fn member(archive: &std::path::Path, name: &str) -> Result<String> {
    let script = "import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))";
    let output = Command::new("python3").args(["-c", script]).arg(archive).arg(name).output()?;
    if !output.status.success() {
        bail!("{name} is not in {}: {}", archive.display(), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// One entry of the list, under the name that it has there.
struct Entry {
    /// The whole name, e.g. `us.anthropic.claude-sonnet-4-5-20250929-v1:0`.
    name: String,
    /// The name without prefix and ending.
    base: String,
    /// Whether somebody else than the vendor sells it.
    resold: bool,
    price: Price,
}

/// The file's text.
fn table(list: &Map<String, Value>, taken: &str, source: &str) -> Result<String> {
    let mut providers = BTreeMap::new();
    let mut all = Vec::new();
    for vendor in VENDORS {
        let own = entries(list, vendor, vendor.own, false);
        ensure!(!own.is_empty(), "the list has no model of {}", vendor.name);
        let mut models: BTreeMap<String, Price> = BTreeMap::new();
        let resold = vendor.resellers.iter().flat_map(|reseller| entries(list, vendor, reseller, true));
        let every: Vec<Entry> = own.into_iter().chain(resold).filter(|entry| !entry.price.figures.is_empty()).collect();
        // Undated names first: they say what the vendor charges today. Then the newest dated one.
        let undated = every.iter().filter(|entry| !entry.resold && plain(vendor, &entry.name) == entry.base);
        for entry in undated.chain(&every) {
            models.entry(entry.base.clone()).or_insert_with(|| entry.price.clone());
        }
        // What a dated or resold name costs otherwise is kept under that name, undated where the newest one says so.
        for entry in &every {
            let undated = without_endings(&entry.name);
            let newest = every.iter().find(|other| without_endings(&other.name) == undated);
            let name = if models.get(&entry.base) == Some(&entry.price) {
                continue;
            } else if !entry.resold {
                plain(vendor, &entry.name)
            } else if newest.is_some_and(|newest| newest.price == entry.price) {
                undated
            } else {
                entry.name.clone()
            };
            models.insert(name, entry.price.clone());
        }
        providers.insert(vendor.name, (vendor.prefixes, models));
        all.extend(every);
    }
    let text = write(&providers, taken, source);
    check(&text, &all)?;
    Ok(text)
}

/// The models of a vendor that some providers of the list sell, the newest date first.
fn entries(list: &Map<String, Value>, vendor: &Vendor, providers: &[&str], resold: bool) -> Vec<Entry> {
    let mut found = Vec::new();
    for (name, model) in list {
        let is = |key: &str, words: &[&str]| model.get(key).and_then(Value::as_str).is_some_and(|word| words.contains(&word));
        let base = base(vendor, name);
        if is("litellm_provider", providers)
            && is("mode", &["chat", "responses"])
            && vendor.families.iter().any(|family| base.starts_with(family))
            // A reseller's name without the reseller's prefix cannot be told from the vendor's.
            && (!resold || plain(vendor, name) != name.to_lowercase())
            && !NOT_FOR_CODE.iter().any(|part| base.contains(part))
        {
            found.push(Entry { name: name.to_lowercase(), base, resold, price: price(model) });
        }
    }
    found.sort_by(|a, b| b.name.cmp(&a.name));
    found
}

/// A name without the longest prefix of its vendor that it has.
fn plain(vendor: &Vendor, name: &str) -> String {
    let name = name.to_lowercase();
    let stripped = |prefix: &&str| {
        let rest = name.strip_prefix(prefix)?;
        rest.strip_prefix(['/', '.']).map(str::to_owned)
    };
    vendor.prefixes.iter().filter_map(stripped).min_by_key(String::len).unwrap_or(name)
}

/// The name of the model itself.
fn base(vendor: &Vendor, name: &str) -> String {
    without_endings(&plain(vendor, name))
}

fn without_endings(name: &str) -> String {
    let mut name = name.to_owned();
    while let Some(shorter) = without_ending(&name) {
        name.truncate(shorter);
    }
    name
}

/// Where the name ends without its date, `-latest` or revision.
fn without_ending(name: &str) -> Option<usize> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    for ending in ["-latest", "@default", "-v1", "-v1:0", "-v2:0"] {
        if name.ends_with(ending) {
            return Some(name.len() - ending.len());
        }
    }
    let (cut, tail) = name.rfind(['-', '@']).map(|cut| (cut, &name[cut + 1..]))?;
    if tail.len() == 8 && tail.starts_with("20") && digits(tail) {
        return Some(cut);
    }
    // A date with hyphens: the ten characters `2025-08-07` behind a hyphen.
    let start = name.len().checked_sub(11)?;
    let date = name.get(start..)?.strip_prefix("-20")?;
    let dated = date.split('-').all(digits) && date.split('-').map(str::len).eq([2, 2, 2]);
    dated.then_some(start)
}

#[derive(Deserialize)]
struct Range {
    range: (f64, f64),
    #[serde(flatten)]
    figures: Map<String, Value>,
}

/// The figures of an entry of the list.
fn price(model: &Value) -> Price {
    const WORDS: [(&str, &str); 5] = [
        ("input_cost_per_token", "input"),
        ("output_cost_per_token", "output"),
        ("cache_read_input_token_cost", "cacheRead"),
        ("cache_creation_input_token_cost", "cacheWrite5m"),
        ("cache_creation_input_token_cost_above_1hr", "cacheWrite1h"),
    ];
    // The list writes 0 for cache writes that a provider does not bill apart, and for models on trial.
    let figures = |of: &Map<String, Value>, suffix: &str| -> Figures {
        let known = |(key, word): (&str, &'static str)| {
            let per_token = of.get(&format!("{key}{suffix}"))?.as_f64()?;
            // Seven digits after the point are enough for any price and drop the noise of the conversion.
            (per_token > 0.0).then_some((word, (per_token * 1e13).round() / 1e7))
        };
        WORDS.into_iter().filter_map(known).collect()
    };
    let Some(model) = model.as_object() else { return Price::default() };
    let mut price = Price { figures: figures(model, ""), tiers: BTreeMap::new() };
    let mut reasoning_differs = reasoning_differs(model);
    for key in model.keys() {
        let limit = key.strip_prefix("input_cost_per_token_above_").and_then(|rest| rest.strip_suffix("k_tokens"));
        if let Some(limit) = limit.and_then(|limit| limit.parse::<u64>().ok()) {
            price.tiers.insert(limit * 1000, figures(model, &format!("_above_{limit}k_tokens")));
        }
    }
    let ranges = model.get("tiered_pricing").and_then(|ranges| Vec::<Range>::deserialize(ranges).ok());
    for Range { range, figures: of } in ranges.unwrap_or_default() {
        reasoning_differs |= self::reasoning_differs(&of);
        let figures = figures(&of, "");
        if range.0 > 0.0 {
            // Token counts of the list are whole and far below 2^53.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            price.tiers.insert(range.0 as u64, figures);
        } else {
            price.figures = figures;
        }
    }
    price.tiers.retain(|_, tier| *tier != price.figures && !tier.is_empty());
    if reasoning_differs {
        // Output with two prices has none that we could compute with.
        price.figures.remove("output");
        for tier in price.tiers.values_mut() {
            tier.remove("output");
        }
    }
    price
}

fn reasoning_differs(of: &Map<String, Value>) -> bool {
    let reasoning = of.get("output_cost_per_reasoning_token").and_then(Value::as_f64);
    reasoning.is_some() && reasoning != of.get("output_cost_per_token").and_then(Value::as_f64)
}

/// One line per model, so that a change of prices is a readable diff.
fn write(providers: &BTreeMap<&str, (&[&str], BTreeMap<String, Price>)>, taken: &str, source: &str) -> String {
    fn figures(figures: &Figures) -> String {
        let order = ["input", "output", "cacheRead", "cacheWrite5m", "cacheWrite1h"];
        let known = order.iter().filter_map(|word| Some(format!("\"{word}\": {}", figures.get(word)?)));
        known.collect::<Vec<_>>().join(", ")
    }
    let mut text = format!("{{\n  \"taken\": \"{taken}\",\n  \"source\": \"{source}\",\n  \"providers\": {{");
    for (index, (name, (prefixes, models))) in providers.iter().enumerate() {
        let prefixes = prefixes.iter().map(|prefix| format!("\"{prefix}\"")).collect::<Vec<_>>().join(", ");
        let comma = if index > 0 { "," } else { "" };
        let _ = write!(text, "{comma}\n    \"{name}\": {{\n      \"prefixes\": [{prefixes}],\n      \"models\": {{");
        for (index, (model, price)) in models.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let _ = write!(text, "{comma}\n        \"{model}\": {{{}", figures(&price.figures));
            if !price.tiers.is_empty() {
                let tiers =
                    price.tiers.iter().map(|(limit, tier)| format!("{{\"aboveInputTokens\": {limit}, {}}}", figures(tier)));
                let _ = write!(text, ", \"tiers\": [{}]", tiers.collect::<Vec<_>>().join(", "));
            }
            text.push('}');
        }
        text.push_str("\n      }\n    }");
    }
    text.push_str("\n  }\n}\n");
    text
}

/// Looks every name of the list up in the finished table.
fn check(text: &str, entries: &[Entry]) -> Result<()> {
    let table = Table::parse(text)?;
    for Entry { name, price, .. } in entries {
        let found = table.find(name).with_context(|| format!("`{name}` is not found in the new table"))?;
        let figures = [("input", found.input), ("output", found.output), ("cacheRead", found.cache_read)];
        for (word, figure) in figures {
            ensure!(
                figure == price.figures.get(word).copied(),
                "`{name}` would be priced as another model: {word} {figure:?}, not {:?}",
                price.figures.get(word)
            );
        }
    }
    Ok(())
}
