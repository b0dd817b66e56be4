//! The `json` result of 1.x: one indented object with the answer and counters by model.

use sabir_core::agent::Confidence;
use sabir_core::dialect::{End, Facts, Verdict};
use sabir_core::event::{ErrorEvent, Final, Outcome, Session, Unrecognized};
use sabir_core::json::{self, Str};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::narration::{Narration, Part};
use super::usage::{self, Problem, Stats};
use crate::family::multiline_json::ObjectReader;

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Wire<'a> {
    session_id: Option<Str<'a>>,
    response: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    error: Option<Problem<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    stats: Option<Stats<'a>>,
}

/// Reads the object.
#[derive(Default)]
pub(super) struct Object {
    ended: Option<Verdict>,
}

impl ObjectReader for Object {
    fn object(&mut self, text: &str, facts: &mut Facts<'_>) {
        let wire = json::parse::<Wire<'_>>(text).filter(|wire| wire.response.is_some() || wire.error.is_some());
        let Some(wire) = wire else {
            facts.push(Unrecognized::new(text.to_owned()));
            return;
        };
        let mut told = Facts::default();
        if let Some(id) = wire.session_id {
            told.push(Session::default().session_id(id));
        }
        let mut parts = Vec::new();
        if let Some(Str(response)) = wire.response {
            let mut narration = Narration::default();
            narration.piece(response, &mut parts);
            narration.end(&mut parts);
        }
        let answer: String =
            parts.iter().filter_map(|part| if let Part::Text(text) = part { Some(&**text) } else { None }).collect();
        for part in parts {
            part.push(&mut told);
        }
        let status = if wire.error.is_some() { "error" } else { "success" };
        let verdict = usage::verdict(status, wire.error.as_ref().map(|error| &*error.message));
        if let Some(Problem { message }) = wire.error {
            told.push(ErrorEvent::new(message).class(verdict.cause).fatal(true));
        } else if !answer.trim().is_empty() {
            told.push(Final::new(answer.trim().to_owned()));
        }
        if let Some(stats) = &wire.stats {
            stats.report(&mut told);
        }
        // The object's text does not outlive this line.
        for fact in told.drain() {
            facts.push_fact(fact.into_owned());
        }
        self.ended = Some(verdict);
    }

    fn end(&mut self, _: &End, _: &mut Facts<'static>) -> Verdict {
        self.ended.take().unwrap_or_else(|| Verdict::of(Outcome::Incomplete))
    }
}

/// The object is that of Gemini CLI but for the coins and the name of the model. The lines of one that breaks off are known by
/// their indentation.
pub(super) fn detect(line: &str) -> Confidence {
    #[derive(Deserialize)]
    struct Probe {
        r#type: Option<IgnoredAny>,
        response: Option<IgnoredAny>,
        #[serde(default, deserialize_with = "json::lenient")]
        stats: Option<ProbeStats>,
    }
    #[derive(Deserialize)]
    struct ProbeStats {
        session_costs: Option<IgnoredAny>,
        #[serde(default, deserialize_with = "json::lenient")]
        models: Option<Models>,
    }
    #[derive(Deserialize)]
    struct Models {
        premium: Option<IgnoredAny>,
    }
    if line.starts_with('{') {
        let probe = json::parse::<Probe>(line).filter(|probe| probe.r#type.is_none() && probe.response.is_some());
        return match probe.and_then(|probe| probe.stats) {
            Some(stats)
                if stats.session_costs.is_some() || stats.models.as_ref().is_some_and(|models| models.premium.is_some()) =>
            {
                Confidence::Certain
            }
            Some(_) => Confidence::Possible,
            None => Confidence::None,
        };
    }
    let key = |name: &str| {
        line.trim_start().strip_prefix('"').and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with("\": "))
    };
    if line.starts_with(' ') && (key("session_costs") || (key("premium") && line.ends_with('{'))) {
        return Confidence::Certain;
    }
    if line.starts_with("  \"") && (key("response") || key("stats")) { Confidence::Possible } else { Confidence::None }
}

#[cfg(test)]
mod tests {
    use super::detect;
    use sabir_core::agent::Confidence;

    #[test]
    fn coins_and_the_model_tell() {
        assert_eq!(detect(r#"{"response":"a","stats":{"session_costs":0.1}}"#), Confidence::Certain);
        assert_eq!(detect(r#"{"response":"a","stats":{"models":{"premium":{}}}}"#), Confidence::Certain);
        assert_eq!(detect(r#"{"response":"a","stats":{"models":{"gemini-2.5-pro":{}}}}"#), Confidence::Possible);
        assert_eq!(detect(r#"{"response":"a"}"#), Confidence::None);
        assert_eq!(detect("    \"session_costs\": 0.08"), Confidence::Certain);
    }
}
