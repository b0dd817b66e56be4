//! Commands as text, the way a shell reads them.

use std::borrow::Cow;

/// Joins words to the one line that a shell splits into the same words.
pub(super) fn join<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&quoted(word));
    }
    line
}

fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-./:=@_,%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    if !word.contains('\'') {
        return Cow::Owned(format!("'{word}'"));
    }
    let mut quoted = String::from("\"");
    for c in word.chars() {
        if matches!(c, '"' | '\\' | '$' | '`') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    Cow::Owned(quoted)
}

/// What people want to see of a command: the script, without the shell that Codex wraps around it.
pub(super) fn script(command: &str) -> &str {
    let Some((shell, rest)) = command.split_once(" -lc ").or_else(|| command.split_once(" -c ")) else { return command };
    let name = shell.rsplit('/').next().unwrap_or(shell);
    if !matches!(name, "bash" | "sh" | "zsh") {
        return command;
    }
    let inside = |quote: char| rest.strip_prefix(quote)?.strip_suffix(quote).filter(|inner| !inner.contains([quote, '\\']));
    let bare = || Some(rest).filter(|word| !word.contains(['\'', '"', '\\', ' ']));
    inside('\'').or_else(|| inside('"')).or_else(bare).unwrap_or(command)
}

#[cfg(test)]
mod tests {
    use super::{join, script};

    #[test]
    fn words_are_quoted_as_they_need_it() {
        assert_eq!(join(["bash", "-lc", "echo a; ls"]), "bash -lc 'echo a; ls'");
        assert_eq!(join(["sh", "-c", "sed -n '1p' $f"]), "sh -c \"sed -n '1p' \\$f\"");
        assert_eq!(join(["true", ""]), "true ''");
    }

    #[test]
    fn the_script_is_what_the_shell_runs() {
        assert_eq!(script("/bin/bash -lc 'echo a; ls'"), "echo a; ls");
        assert_eq!(script("bash -lc \"sed -n '1,200p' calc.py\""), "sed -n '1,200p' calc.py");
        assert_eq!(script("bash -lc ls"), "ls");
        assert_eq!(script("python3 -c 'print(1)'"), "python3 -c 'print(1)'");
        assert_eq!(script("bash -lc 'it'\\''s'"), "bash -lc 'it'\\''s'");
    }
}
