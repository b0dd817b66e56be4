//! Tool calls. Whether a call failed is in its result, not in the status around it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::Facts;
use sabir_core::event::{Plan, PlanItem, PlanStatus, ToolEnd, ToolKind, ToolStart, ToolStatus};
use sabir_core::json::{self, Str};

use super::wire::{Attempt, Call};

/// The calls that run.
#[derive(Default)]
pub(super) struct Tools {
    /// With the plan that a call will have made.
    open: BTreeMap<String, Option<Vec<PlanItem<'static>>>>,
}

/// How the answers to calls begin that Goose did not make, and how those that were interrupted.
const DENIED: &[&str] = &["Let the user know the tool call was skipped in", "The user has declined to run this tool"];
const INTERRUPTED: &str = "Interrupted by the user";

/// The extensions whose tools Goose has itself; all others are MCP servers.
const OWN_EXTENSIONS: &[&str] = &["developer", "todo", "summon"];

impl Tools {
    /// Whether a call of that id runs.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.contains_key(id)
    }

    /// Whether nothing runs.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// A call begins.
    pub(super) fn begin<'a>(&mut self, id: Str<'a>, attempt: &Attempt<'a>, facts: &mut Facts<'a>) {
        let call = attempt.value.and_then(|value| json::parse::<Call<'a>>(value.get()));
        let (name, arguments) = call.map_or((Cow::Borrowed("unknown"), None), |call| (call.name.0, call.arguments));
        let (extension, tool) = name.rsplit_once("__").map_or((None, &*name), |(extension, tool)| (Some(extension), tool));
        let tool_kind = match extension {
            Some(extension) if !OWN_EXTENSIONS.contains(&extension) => ToolKind::Mcp,
            _ => ToolKind::of_name(tool),
        };
        let plan = arguments.filter(|_| tool_kind == ToolKind::Plan).and_then(|arguments| plan(arguments.get()));
        self.open.insert((*id).to_owned(), plan);
        let input = arguments.map(|arguments| Cow::Borrowed(arguments.get()));
        facts.push(ToolStart::of_kind(tool_kind, id.0, name).input(input));
    }

    /// A call ended.
    pub(super) fn end<'a>(&mut self, id: Str<'a>, attempt: Attempt<'a>, facts: &mut Facts<'a>) {
        let plan = self.open.remove(&*id).flatten();
        let (result, error) = attempt.into_result();
        let exit_code = result.structured_content.as_ref().and_then(|structured| structured.exit_code);
        let failed = result.is_error == Some(true) || exit_code.is_some_and(|code| code != 0);
        let output = result.into_text().or(error.map(Cow::from));
        let says = |start: &str| output.as_deref().is_some_and(|output| output.starts_with(start));
        let status = match failed {
            _ if DENIED.iter().any(|start| says(start)) => ToolStatus::Denied,
            true if output.as_deref().is_some_and(|output| output.contains(INTERRUPTED)) => ToolStatus::Cancelled,
            true => ToolStatus::Error,
            false => ToolStatus::Ok,
        };
        if let Some(items) = plan.filter(|_| status == ToolStatus::Ok) {
            facts.push(Plan::new(items));
        }
        facts.push(ToolEnd::new(id.0, status).output(output).exit_code(exit_code));
    }
}

/// The plan that is written as a list of boxes; other lines of it are left out.
fn plan(arguments: &str) -> Option<Vec<PlanItem<'static>>> {
    #[derive(serde::Deserialize)]
    struct Arguments<'a> {
        #[serde(borrow)]
        content: Str<'a>,
    }
    let arguments = json::parse::<Arguments<'_>>(arguments)?;
    let item = |line: &str| {
        let rest = line.trim_start().strip_prefix(['-', '*'])?.trim_start();
        let (status, text) = match rest.strip_prefix("[ ]") {
            Some(text) => (PlanStatus::Pending, text),
            None => (PlanStatus::Completed, rest.strip_prefix("[x]").or_else(|| rest.strip_prefix("[X]"))?),
        };
        Some(PlanItem { text: Cow::Owned(text.trim().to_owned()), status })
    };
    let items: Vec<_> = arguments.content.lines().filter_map(item).collect();
    (!items.is_empty()).then_some(items)
}

#[cfg(test)]
mod tests {
    use super::{PlanStatus, plan};

    #[test]
    fn a_list_of_boxes_is_a_plan() {
        let items = plan(r#"{"content":"Steps:\n- [x] Read\n  - [ ] Fix"}"#).expect("a plan");
        let items: Vec<_> = items.iter().map(|item| (&*item.text, item.status)).collect();
        assert_eq!(items, [("Read", PlanStatus::Completed), ("Fix", PlanStatus::Pending)]);
        assert!(plan(r#"{"content":"no boxes"}"#).is_none());
        assert!(plan(r#"{"text":"- [ ] a"}"#).is_none());
    }
}
