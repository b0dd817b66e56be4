//! Fixtures from what a CLI printed: small, and of no machine and no vendor.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::cli::{self, Recipe};
use crate::scenario::Scenario;
use crate::trial::Seen;

/// The scenarios that are worth a fixture: short, and together they show text, commands and files.
pub const WORTH: [&str; 3] = ["plain", "shell-ok", "create-and-edit"];

/// Lists and texts that say what a CLI has, not what it did.
const FURNITURE: [&str; 18] = [
    "tools",
    "slash_commands",
    "skills",
    "agents",
    "plugins",
    "commands",
    "mcp_servers",
    "memory_paths",
    "capabilities",
    "availableTools",
    "systemPrompt",
    "system_prompt",
    "instructions",
    "transformedContent",
    "sections",
    "toolsAdded",
    "terminal_slash_commands",
    "messaging_socket_path",
];

/// Longer texts are cut; nothing that the scenarios above say is as long.
const LONGEST: usize = 400;

/// The fixtures of this repository.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/sabir-agents/fixtures")
}

/// Writes `input` and `case.toml` of a run; what must come out is for the tests of the core to say, and for people to read.
pub fn write(fixtures: &Path, recipe: &Recipe, scenario: &Scenario, seen: &Seen) -> Result<()> {
    // The newest version has the plain name.
    let newest = cli::named(recipe.id).first().is_some_and(|first| first.version == recipe.version);
    let suffix = if newest { String::new() } else { format!("-{}", recipe.version) };
    let folder = fixtures.join(recipe.id).join(format!("lab-{}{suffix}", scenario.name));
    let input = neutral(&String::from_utf8_lossy(&seen.raw), &seen.place.work, &seen.place.home);
    if let Some(piece) = piece(&seen.place.work).filter(|piece| input.contains(*piece)) {
        // Arguments of a tool call come in pieces, and a path may be cut anywhere.
        bail!("no fixture was made: {piece} is still in what was printed, as a part of a path that came in pieces");
    }
    let mut case = format!("about = \"Version {} in the lab: {}.\"\n", recipe.version, scenario.about);
    if let Some(code) = seen.result.exit_code {
        let _ = writeln!(case, "exit_code = {code}");
    }
    fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
    for (name, content) in [("input", input), ("case.toml", case)] {
        let file = folder.join(name);
        fs::write(&file, content).with_context(|| format!("could not write {}", file.display()))?;
    }
    Ok(())
}

/// The name of the folder in which all runs take place, which is in every path of this machine: it stands above those of CLI,
/// version and scenario.
fn piece(work: &Path) -> Option<&str> {
    work.ancestors().nth(4)?.file_name()?.to_str()
}

/// The text without the machine's paths, without furniture, and without long texts. Whatever else is in a line stays as it is, the
/// order of keys too: a fixture shows what the CLI prints.
pub fn neutral(text: &str, work: &Path, home: &Path) -> String {
    let text = text.replace(&*work.to_string_lossy(), "/home/user/project").replace(&*home.to_string_lossy(), "/home/user");
    // Some CLIs make a name of the path of the folder.
    let flat = |path: &Path| path.to_string_lossy().replace(['/', '.'], "-");
    let text = text.replace(&flat(work), "-home-user-project");
    text.split_inclusive('\n').map(line).collect()
}

/// One line of JSON, or of whatever it is.
fn line(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find('"') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let length = string(rest);
        let text = &rest[..length];
        rest = &rest[length..];
        push_string(&mut out, text);
        let name = text.trim_matches('"');
        if FURNITURE.contains(&name)
            && let Some(value) = rest.strip_prefix(':')
        {
            let (empty, length) = match value.as_bytes().first() {
                Some(b'[') => ("[]", balanced(value)),
                Some(b'{') => ("{}", balanced(value)),
                Some(b'"') => ("\"\"", string(value)),
                _ => continue,
            };
            out.push(':');
            out.push_str(empty);
            rest = &value[length..];
        }
    }
    out.push_str(rest);
    out
}

/// The length of the JSON string at the start of a text, with its quotes.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of the JSON list or object at the start of a text.
fn balanced(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut index = 0;
    while let Some(byte) = text.as_bytes().get(index) {
        match byte {
            b'"' => {
                index += string(&text[index..]);
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        index += 1;
        if depth == 0 {
            return index;
        }
    }
    text.len()
}

/// Appends a JSON string, cut if it is long; an escape is never cut in two.
fn push_string(out: &mut String, text: &str) {
    if text.len() <= LONGEST {
        out.push_str(text);
        return;
    }
    let mut end = LONGEST;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut head = &text[..end];
    // Up to six characters of an escape may stand before the cut.
    if let Some(escape) = head.rfind('\\').filter(|escape| end - escape < 7) {
        head = &head[..escape];
        head = head.trim_end_matches('\\');
    }
    out.push_str(head);
    out.push_str("…\"");
}
