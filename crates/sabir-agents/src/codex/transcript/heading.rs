//! The lines that begin a section.

use std::borrow::Cow;

use crate::codex::trouble::millis_of;
use sabir_core::time::Timestamp;

/// What a section is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Heading<'t> {
    /// `OpenAI Codex v0.36.0 (research preview)`
    Banner {
        version: &'t str,
    },
    /// The words of the user follow.
    Prompt,
    /// A message follows.
    Message,
    /// Reasoning follows.
    Thinking,
    /// A command and its folder, or nothing when they are on the next line.
    Command(&'t str),
    /// `server.tool({"argument":1})`
    Tool(&'t str),
    /// The patch follows.
    Patch,
    /// The diff of the whole turn follows; the patches have said it.
    Diff,
    /// A command, tool or patch ended; its output follows.
    End(End<'t>),
    /// The steps of a plan follow.
    Plan,
    /// `tokens used: 1,410`, or the figure is on the next line.
    Tokens(Option<&'t str>),
    Search(&'t str),
    Error(&'t str),
    Aborted(&'t str),
    /// Anything else with a time of its own.
    Notice(&'t str),
}

/// `bash -lc 'exit 3' exited 3 in 26ms:`
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct End<'t> {
    /// What ended, as its beginning was printed.
    pub(super) label: &'t str,
    pub(super) ok: bool,
    pub(super) exit_code: Option<i32>,
    pub(super) duration_ms: Option<u64>,
}

/// The time and the rest of a line that begins with a time: `[2026-11-15T18:00:43] codex`. The clock is UTC.
pub(super) fn stamped(line: &str) -> Option<(Option<Timestamp>, &str)> {
    let (time, rest) = line.strip_prefix('[')?.split_once(']')?;
    let shape = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b'T',
        13 | 16 => byte == b':',
        _ => byte.is_ascii_digit(),
    };
    if time.len() != 19 || !time.bytes().enumerate().all(shape) {
        return None;
    }
    Some((Timestamp::parse(&format!("{time}Z")), rest.strip_prefix(' ').unwrap_or(rest)))
}

/// The heading in a line that had a time: every such line is one.
pub(super) fn with_time(rest: &str) -> Heading<'_> {
    if let Some(heading) = word(rest).or_else(|| phrase(rest)) {
        return heading;
    }
    if let Some(command) = rest.strip_prefix("exec ") {
        return Heading::Command(command);
    }
    match rest {
        _ if rest.starts_with("apply_patch auto_approved=") => Heading::Patch,
        _ => end(rest).map_or(Heading::Notice(rest), Heading::End),
    }
}

/// The heading in a line of a transcript without times, where a heading is a line of one word or a phrase that hardly
/// anything else begins with. `is_open` tells whether a command or tool of that label has not ended.
pub(super) fn without_time(line: &str, is_open: impl Fn(&str) -> bool) -> Option<Heading<'_>> {
    if line == "exec" {
        return Some(Heading::Command(""));
    }
    word(line).or_else(|| phrase(line)).or_else(|| end(line).filter(|end| is_open(end.label)).map(Heading::End))
}

fn word(line: &str) -> Option<Heading<'_>> {
    match line {
        "user" | "User instructions:" => Some(Heading::Prompt),
        "codex" => Some(Heading::Message),
        "thinking" => Some(Heading::Thinking),
        "apply patch" | "file update" => Some(Heading::Patch),
        "turn diff:" | "file update:" => Some(Heading::Diff),
        "Plan update" => Some(Heading::Plan),
        "tokens used" => Some(Heading::Tokens(None)),
        "task interrupted" => Some(Heading::Aborted(line)),
        _ => None,
    }
}

fn phrase(line: &str) -> Option<Heading<'_>> {
    if let Some(banner) = line.strip_prefix("OpenAI Codex v") {
        return banner.split_whitespace().next().map(|version| Heading::Banner { version });
    }
    if let Some(figure) = line.strip_prefix("tokens used: ") {
        return Some(Heading::Tokens(Some(figure)));
    }
    if let Some(invocation) = line.strip_prefix("tool ").filter(|call| call.ends_with(')') && call.contains('(')) {
        return Some(Heading::Tool(invocation));
    }
    if line.starts_with("task aborted") {
        return Some(Heading::Aborted(line));
    }
    if line.starts_with("Reconnecting... ") || line.starts_with("stream error: ") {
        return Some(Heading::Notice(line));
    }
    let search = line.strip_prefix("🌐 Searched: ").map(Heading::Search);
    search.or_else(|| line.strip_prefix("ERROR: ").map(Heading::Error))
}

/// Reads `LABEL succeeded in 8ms:`, `LABEL exited 3 in 26ms:`, `LABEL success in 0ms:` and `LABEL failed in 0ms:`.
pub(super) fn end(line: &str) -> Option<End<'_>> {
    let (what, duration) = line.strip_suffix(':')?.rsplit_once(" in ")?;
    let duration_ms = Some(duration.split(' ').map(millis_of).try_fold(0, |sum: u64, part| sum.checked_add(part?))?);
    for (word, ok) in [("succeeded", true), ("success", true), ("failed", false)] {
        if let Some(label) = what.strip_suffix(word) {
            let exit_code = (word == "succeeded").then_some(0);
            return Some(End { label: label.trim_end(), ok, exit_code, duration_ms });
        }
    }
    let (label, code) = what.rsplit_once("exited ")?;
    let exit_code: i32 = code.parse().ok()?;
    Some(End { label: label.trim_end(), ok: exit_code == 0, exit_code: Some(exit_code), duration_ms })
}

/// A command and the folder it runs in, once both are there: commands may have several lines.
pub(super) fn command_and_folder(text: &str) -> Option<(&str, &str)> {
    let (command, folder) = text.rsplit_once(" in ")?;
    let absolute = folder.starts_with('/') || folder.as_bytes().get(1) == Some(&b':');
    (absolute && !folder.contains(['\'', '"', '\n'])).then_some((command, folder))
}

/// The line without colours.
pub(super) fn plain(line: &str) -> Cow<'_, str> {
    if !line.contains('\u{1b}') {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, escape)) = rest.split_once('\u{1b}') {
        out.push_str(before);
        let code = escape.strip_prefix('[').and_then(|code| code.split_once('m'));
        let colour = code.filter(|(numbers, _)| numbers.bytes().all(|byte| byte.is_ascii_digit() || byte == b';'));
        if colour.is_none() {
            out.push('\u{1b}');
        }
        rest = colour.map_or(escape, |(_, after)| after);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::{End, Heading, command_and_folder, end, plain, stamped, with_time, without_time};
    use sabir_core::time::Timestamp;

    #[test]
    fn a_time_begins_a_section() {
        let at = Timestamp::parse("2026-11-15T18:00:43Z");
        assert_eq!(stamped("[2026-11-15T18:00:43] tokens used: 1,410"), Some((at, "tokens used: 1,410")));
        assert_eq!(with_time("tokens used: 1,410"), Heading::Tokens(Some("1,410")));
        assert_eq!(stamped("[1, 2] is a list"), None);
    }

    #[test]
    fn endings_say_how_and_how_long() {
        let failed = End { label: "bash -lc 'exit 3'", ok: false, exit_code: Some(3), duration_ms: Some(26) };
        assert_eq!(end("bash -lc 'exit 3' exited 3 in 26ms:"), Some(failed));
        let tool = End { label: "lab.echo({})", ok: true, exit_code: None, duration_ms: Some(1_500) };
        assert_eq!(end("lab.echo({}) success in 1.50s:"), Some(tool));
        let long = End { label: "", ok: true, exit_code: Some(0), duration_ms: Some(125_000) };
        assert_eq!(end(" succeeded in 2m 05s:"), Some(long));
        assert_eq!(end("what happened in 1999:"), None);
    }

    #[test]
    fn a_command_is_whole_when_its_folder_is_there() {
        assert_eq!(command_and_folder("bash -lc 'grep x in y' in /home/user"), Some(("bash -lc 'grep x in y'", "/home/user")));
        assert_eq!(command_and_folder("bash -lc 'cat <<EOF"), None);
    }

    #[test]
    fn without_times_only_known_lines_are_headings() {
        assert_eq!(without_time("codex", |_| false), Some(Heading::Message));
        assert_eq!(without_time("codex is here", |_| false), None);
        assert_eq!(without_time("a succeeded in 1ms:", |_| false), None);
    }

    #[test]
    fn colours_are_taken_off_and_other_escapes_stay() {
        assert_eq!(plain("\u{1b}[35m\u{1b}[3mcodex\u{1b}[0m\u{1b}[0m"), "codex");
        assert_eq!(plain("a\u{1b}[2Kb"), "a\u{1b}[2Kb");
    }
}
