//! `--output-format json`: one object at the end, with the answer and detailed counters but none of the steps.
//!
//! On failure standard output stays empty and an object with the error goes to standard error; it is read here all the
//! same, for who has the two in one file.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::agent::Confidence;
use sabir_core::dialect::{End, Facts, Verdict};
use sabir_core::event::{Activity, ErrorEvent, Final, Outcome, Session, TextDelta, Unrecognized};
use sabir_core::json::{self, Str};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::ending::{self, Failure};
use super::tokens::{Detailed, Tokens};
use crate::family::multiline_json::ObjectReader;

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Wire<'a> {
    session_id: Option<Str<'a>>,
    response: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    error: Option<Failure<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    stats: Option<Stats<'a>>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Stats<'a> {
    #[serde(default, deserialize_with = "json::lenient")]
    models: Option<BTreeMap<Str<'a>, Model>>,
    #[serde(default, deserialize_with = "json::lenient")]
    tools: Option<Tools<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Model {
    tokens: Option<Detailed>,
    #[serde(default, deserialize_with = "json::lenient")]
    api: Option<Requests>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Requests {
    total_latency_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
struct Tools<'a> {
    by_name: BTreeMap<Str<'a>, Calls>,
}

#[derive(Deserialize)]
struct Calls {
    count: u64,
}

/// Reads the object.
#[derive(Default)]
pub(super) struct Object {
    ended: Option<Verdict>,
}

impl ObjectReader for Object {
    fn object(&mut self, text: &str, facts: &mut Facts<'_>) {
        let own = |text: &Str<'_>| -> Cow<'static, str> { Cow::Owned(text.0.clone().into_owned()) };
        let wire = json::parse::<Wire<'_>>(text).filter(|wire| wire.response.is_some() || wire.error.is_some());
        let Some(wire) = wire else {
            facts.push(Unrecognized::new(text.to_owned()));
            return;
        };
        let models = wire.stats.as_ref().and_then(|stats| stats.models.as_ref());
        let model = models.filter(|models| models.len() == 1).and_then(|models| models.keys().next());
        facts.push(Session::default().session_id(wire.session_id.as_ref().map(own)).model(model.map(own)));
        if let Some(tools) = wire.stats.as_ref().and_then(|stats| stats.tools.as_ref()).filter(|tools| !tools.by_name.is_empty())
        {
            let calls: Vec<String> = tools.by_name.iter().map(|(name, calls)| format!("{} ×{}", &**name, calls.count)).collect();
            facts.push(Activity::new(format!("tool calls: {}", calls.join(", "))));
        }
        let mut verdict = Verdict::of(Outcome::Completed);
        if let Some(response) = wire.response.as_ref().filter(|response| !response.is_empty()) {
            facts.push(TextDelta::new(own(response)));
        }
        if let Some(failure) = &wire.error {
            let (outcome, cause) = failure.ending();
            verdict = Verdict { cause: Some(cause), ..Verdict::of(outcome) };
            let message = failure.message.as_ref().map(own).unwrap_or_default();
            facts.push(ErrorEvent::new(message).class(cause).fatal(true));
        } else if let Some(response) = wire.response.as_ref().filter(|response| !response.trim().is_empty()) {
            facts.push(Final::new(own(response)));
        }
        let latencies = models.into_iter().flat_map(BTreeMap::values).filter_map(|model| model.api.as_ref()?.total_latency_ms);
        verdict.api_duration_ms = latencies.reduce(u64::saturating_add);
        for (name, counters) in models.into_iter().flatten() {
            if let Some(tokens) = counters.tokens {
                Tokens::from(tokens).report(Some(own(name)), facts);
            }
        }
        self.ended = Some(verdict);
    }

    fn end(&mut self, end: &End, _: &mut Facts<'static>) -> Verdict {
        let verdict = self.ended.take().unwrap_or_else(|| Verdict::of(Outcome::Incomplete));
        ending::with_exit_code(verdict, end)
    }
}

/// The lines of an indented object that breaks off are known by their indentation.
pub(super) fn detect(line: &str) -> Confidence {
    let key = |name: &str| {
        line.strip_prefix("  \"").and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with("\": "))
    };
    if line.starts_with('{') {
        return json::parse::<Probe<'_>>(line).map_or(Confidence::None, |probe| probe.judge());
    }
    if line.starts_with("      \"gemini-") && line.ends_with("\": {") {
        return Confidence::Certain;
    }
    if ["session_id", "response", "stats", "error"].into_iter().any(key) { Confidence::Possible } else { Confidence::None }
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Probe<'a> {
    r#type: Option<IgnoredAny>,
    session_id: Option<IgnoredAny>,
    response: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "json::lenient")]
    stats: Option<ProbeStats<'a>>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct ProbeStats<'a> {
    #[serde(default, deserialize_with = "json::lenient")]
    models: Option<BTreeMap<Str<'a>, &'a RawValue>>,
    session_costs: Option<IgnoredAny>,
}

impl Probe<'_> {
    /// Bob prints the same object, with coins and a model of its own.
    fn judge(&self) -> Confidence {
        let Some(stats) = self.stats.as_ref().filter(|_| self.r#type.is_none()) else {
            let failed = self.r#type.is_none() && self.session_id.is_some() && self.error.is_some();
            return if failed { Confidence::Possible } else { Confidence::None };
        };
        let models = || stats.models.iter().flat_map(BTreeMap::keys);
        match self.response {
            _ if models().any(|model| model.starts_with("gemini-")) => Confidence::Certain,
            Some(_) if stats.session_costs.is_none() && models().all(|model| &**model != "premium") => Confidence::Likely,
            _ => Confidence::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::detect;
    use sabir_core::agent::Confidence;

    #[test]
    fn the_models_tell() {
        for (line, want) in [
            (r#"{"response":"a","stats":{"models":{"gemini-2.5-pro":{}}}}"#, Confidence::Certain),
            (r#"{"response":"a","stats":{"models":{"other":{}}}}"#, Confidence::Likely),
            (r#"{"response":"a","stats":{"models":{"premium":{}}}}"#, Confidence::None),
            (r#"{"response":"a","stats":{"models":{},"session_costs":0.1}}"#, Confidence::None),
            (r#"{"session_id":"s","error":{"message":"no"}}"#, Confidence::Possible),
            (r#"{"type":"result","response":"a","stats":{}}"#, Confidence::None),
            ("  \"response\": \"a\",", Confidence::Possible),
            ("      \"gemini-2.5-pro\": {", Confidence::Certain),
        ] {
            assert_eq!(detect(line), want, "{line}");
        }
    }
}
