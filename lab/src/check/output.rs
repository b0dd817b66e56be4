//! What tools gave back, against what they did.

use sabir_core::event::{EventKind, ToolEnd};
use sabir_core::fold::ToolCall;

use super::{Aspect, allowed, served};
use crate::place;
use crate::scenario::{Run, Tool};
use crate::trial::Seen;

/// Looks at the output and the exit code of every call that came to its end.
pub(super) fn outputs(run: &Run, seen: &Seen, differs: &mut impl FnMut(Aspect, String)) {
    let tools = served(run, seen);
    // Who was stopped says what it says; and calls that are not those that were served are found elsewhere.
    if run.interrupt.is_some() || tools.len() != seen.result.tool_calls.len() {
        return;
    }
    // Calls that run at once may be told in any order.
    let mut calls: Vec<&ToolCall> = seen.result.tool_calls.iter().collect();
    for tool in tools {
        let call = calls.remove(calls.iter().position(|call| is(call, tool)).unwrap_or(0));
        if !allowed(run, tool) {
            continue;
        }
        let wanted = match tool {
            Tool::Shell(command) => command.prints.texts(),
            Tool::Read(path) => {
                let file = place::FILES.iter().find(|(name, _)| name == path);
                file.into_iter().flat_map(|(_, content)| content.lines()).map(str::to_owned).collect()
            }
            Tool::Write { .. } | Tool::Edit { .. } => continue,
        };
        let told = seen.events.iter().find_map(|event| match &event.kind {
            EventKind::ToolEnd(ToolEnd { tool_call_id, output, .. }) if *tool_call_id == call.id.as_str() => output.as_deref(),
            _ => None,
        });
        let bytes: usize = wanted.iter().map(String::len).sum();
        match told {
            None => differs(Aspect::Output, format!("nothing of {} of {bytes} bytes", call.name)),
            Some(told) if !holds(told, &wanted) => {
                differs(Aspect::Output, format!("{} bytes of {} without all of its {bytes}", told.len(), call.name));
            }
            Some(_) => {}
        }
        if let Tool::Shell(command) = tool
            && call.exit_code != Some(command.code)
        {
            let got = call.exit_code.map_or_else(|| "unknown".to_owned(), |code| code.to_string());
            differs(Aspect::ExitCode, format!("{got} instead of {}", command.code));
        }
    }
}

/// Whether a call is surely of this tool: it has the command among its arguments.
fn is(call: &ToolCall, tool: &Tool) -> bool {
    let Tool::Shell(command) = tool else { return false };
    let line = serde_json::Value::from(command.line).to_string();
    call.args.as_ref().is_some_and(|arguments| arguments.get().contains(line.trim_matches('"')))
}

/// Whether a text holds all of these, in this order.
fn holds(mut text: &str, wanted: &[String]) -> bool {
    wanted.iter().all(|wanted| match text.find(wanted.as_str()) {
        Some(at) => {
            text = &text[at + wanted.len()..];
            true
        }
        None => false,
    })
}
