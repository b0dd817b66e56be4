use super::{Billable, Price, Table};
use crate::event::CostParts;

const SMALL: &str = r#"{
  "taken": "2026-01-02", "source": "a test",
  "providers": {
    "anthropic": {
      "prefixes": ["anthropic", "us.anthropic", "vertex_ai"],
      "models": {
        "claude-a-4-5": {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite5m": 3.75,
          "tiers": [{"aboveInputTokens": 200000, "input": 6, "output": 22.5, "cacheRead": 0.6, "cacheWrite5m": 7.5}]},
        "claude-a-4-5-20250101": {"input": 1, "output": 2}
      }
    },
    "openai": {"prefixes": ["openai"], "models": {"gpt-z": {"input": 1.25, "output": 10}}}
  }
}"#;

fn small() -> Table {
    Table::parse(SMALL).expect("a table")
}

fn input_price(table: &Table, model: &str) -> Option<f64> {
    table.find(model).and_then(|price| price.input)
}

#[track_caller]
fn assert_cost(price: &Price, tokens: Billable, [input, output, cache_read, cache_write]: [f64; 4]) {
    let got = price.cost(&tokens).expect("a cost");
    let want = CostParts { input, output, cache_read, cache_write };
    for (got, want) in [
        (got.input, want.input),
        (got.output, want.output),
        (got.cache_read, want.cache_read),
        (got.cache_write, want.cache_write),
    ] {
        assert!((got - want).abs() < 1e-12, "{got} is not {want}");
    }
}

#[test]
fn the_embedded_table_is_dated_and_knows_the_models_of_today() {
    let table = Table::embedded();
    assert!(table.len() > 100, "{}", table.source);
    assert_eq!(table.taken.len(), "2026-01-01".len());
    assert!(table.source.starts_with("litellm "));
    for model in
        ["claude-sonnet-4-5-20250929", "claude-sonnet-4.5", "gpt-5-codex", "gemini-2.5-flash", "qwen3-coder-plus", "grok-4.5"]
    {
        let price = table.find(model).unwrap_or_else(|| panic!("{model} has no price"));
        assert!(price.input.is_some() && price.output.is_some(), "{model}");
    }
}

#[test]
fn list_prices_of_a_known_model_by_hand() {
    // Claude Sonnet 4.5: $3 in, $15 out, $0.30 cache read, $3.75 and $6 cache write, per million.
    let price = Table::embedded().find("claude-sonnet-4-5-20250929").expect("known");
    let tokens =
        Billable { uncached_input: 1_000, output: 2_000, cache_read: 10_000, cache_write_5m: 4_000, cache_write_1h: 1_000 };
    assert_cost(price, tokens, [0.003, 0.030, 0.003, 0.015 + 0.006]);
}

#[test]
fn spellings_of_one_name() {
    let table = small();
    for model in [
        "claude-a-4-5",
        "Claude-A-4.5",
        "claude-a-4-5@20991231",
        "claude-a-4-5-2099-12-31",
        "claude-a-4-5-latest",
        "claude-a-4-5[1m]",
        "anthropic/claude-a-4.5",
        "us.anthropic.claude-a-4-5-20991231-v1:0",
        "vertex_ai/claude-a-4-5@default",
        "anthropic/claude-a-4-5-20991231[1m]",
    ] {
        assert_eq!(input_price(&table, model), Some(3.0), "{model}");
    }
}

#[test]
fn the_most_exact_entry_wins() {
    let table = small();
    assert_eq!(input_price(&table, "claude-a-4-5-20250101"), Some(1.0));
    assert_eq!(input_price(&table, "anthropic/claude-a-4-5@20250101[1m]"), Some(1.0));
}

#[test]
fn other_models_have_no_price() {
    let table = small();
    for model in [
        "",
        "-",
        "claude-a-4",
        "claude-a-4-5-fast",
        "claude-a-4-50",
        "claude-a",
        "claude-b-4-5",
        "xclaude-a-4-5",
        "elsewhere/claude-a-4-5",
        "openai/claude-a-4-5",
        "anthropic/gpt-z",
        "anthropic",
        "gpt-z-mini",
        "ft:gpt-z",
        "gpt-z:free",
        "latest",
        "20250929",
        "🦀",
    ] {
        assert_eq!(table.find(model), None, "{model}");
    }
}

#[test]
fn the_tier_is_chosen_by_the_whole_input() {
    let table = small();
    let price = table.find("claude-a-4-5").expect("known");
    let at_limit = Billable { uncached_input: 1_000, cache_read: 199_000, output: 1_000, ..Billable::default() };
    assert_cost(price, at_limit, [0.003, 0.015, 0.0597, 0.0]);
    let above = Billable { cache_read: 199_001, ..at_limit };
    assert_cost(price, above, [0.006, 0.0225, 0.119_400_6, 0.0]);
    assert_eq!([at_limit, above].map(|tokens| price.threshold(tokens.input())), [0, 200_000]);
    assert_eq!([at_limit, above].map(|tokens| table.threshold(tokens.input())), [0, 200_000]);
}

#[test]
fn writing_for_an_hour_is_twice_the_input_at_anthropic_only() {
    let table = small();
    let tokens = Billable { cache_write_1h: 1_000_000, ..Billable::default() };
    // A million tokens is in the tier: 2 × $6.
    assert_cost(table.find("claude-a-4-5").expect("known"), tokens, [0.0, 0.0, 0.0, 12.0]);
    assert_eq!(table.find("gpt-z").expect("known").cost(&tokens), None);
}

#[test]
fn a_class_without_a_price_is_no_cost_only_when_it_has_tokens() {
    let table = small();
    let price = table.find("gpt-z").expect("known");
    assert_cost(price, Billable { uncached_input: 400, output: 100, ..Billable::default() }, [0.0005, 0.001, 0.0, 0.0]);
    assert_eq!(price.cost(&Billable { cache_read: 1, ..Billable::default() }), None);
}

#[test]
fn a_private_table_lies_over_the_other() {
    let private = r#"{"taken":"2026-02-03","source":"a contract","providers":{
        "openai":{"models":{"gpt-z":{"input":1,"output":8}}},
        "own":{"prefixes":["own"],"models":{"own-coder":{"input":0.1,"output":0.2}}}}}"#;
    let table = small().overlay(Table::parse(private).expect("a table"));
    assert_eq!(input_price(&table, "openai/gpt-z"), Some(1.0));
    assert_eq!(input_price(&table, "own/own-coder"), Some(0.1));
    assert_eq!(input_price(&table, "claude-a-4-5"), Some(3.0));
    assert_eq!((table.taken.as_str(), table.source.as_str()), ("2026-02-03", "a contract, then a test"));
}

#[test]
fn broken_tables_are_refused() {
    let table = |models: &str| {
        Table::parse(&format!(r#"{{"taken":"","source":"","providers":{{"p":{{"models":{models}}}}}}}"#))
            .map_err(|error| error.to_string())
    };
    assert_eq!(table(r#"{"m":{"input":-1}}"#), Err("a price of `m` is not an amount of money".to_owned()));
    assert_eq!(table(r#"{"m.1":{"input":1},"m-1":{"input":2}}"#), Err("`m-1` is listed twice with different prices".to_owned()));
    assert!(table(r#"{"m":{"inptu":1}}"#).is_err_and(|error| error.contains("inptu")));
    assert!(Table::parse("").is_err());
}
