//! Command lines into the simple commands that they run.
//!
//! This is not a shell: it expands nothing and knows only as much grammar as is needed not to take the inside of a
//! quotation, a here-document or a substitution for a command. Anything it cannot read ends the reading, never the
//! program.

mod scan;

use scan::{Scanner, Token};

/// One program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Simple {
    /// Without quotes, variable assignments, redirections and wrappers such as `sudo`.
    pub(super) words: Vec<String>,
    /// The last folder that a `cd` before it went to.
    pub(super) folder: Option<String>,
}

/// The commands that a command line runs when all goes well, in order: what follows `||` is left out.
pub(super) fn commands(line: &str) -> Vec<Simple> {
    let mut found = Vec::new();
    collect(line, None, 0, &mut found);
    found
}

/// How deep scripts in scripts are looked into.
const DEPTH: usize = 4;

fn collect(line: &str, folder: Option<&str>, depth: usize, found: &mut Vec<Simple>) {
    let mut folder = folder.map(str::to_owned);
    let mut words = Vec::new();
    let mut otherwise = false;
    let tokens = Scanner::new(line).chain([Token::End]);
    for token in tokens {
        let Token::Word(word) = token else {
            if let Some(words) = unwrapped(&std::mem::take(&mut words))
                && !otherwise
            {
                match script(&words).filter(|_| depth < DEPTH) {
                    Some(script) => collect(script, folder.as_deref(), depth + 1, found),
                    None if words.first().is_some_and(|word| word == "cd") => {
                        folder = words.get(1).map(|to| beneath(folder.as_deref(), to));
                    }
                    None => found.push(Simple { words, folder: folder.clone() }),
                }
            }
            otherwise = token == Token::Or || (otherwise && token == Token::Pipe);
            continue;
        };
        words.push(word);
    }
}

/// Where `cd to` goes from a folder.
fn beneath(folder: Option<&str>, to: &str) -> String {
    match folder {
        Some(folder) if !to.starts_with(['/', '~']) => format!("{}/{to}", folder.trim_end_matches('/')),
        _ => to.to_owned(),
    }
}

/// The script of `bash -c SCRIPT`.
fn script(words: &[String]) -> Option<&str> {
    let (shell, arguments) = words.split_first()?;
    if !matches!(program(shell), "bash" | "sh" | "zsh" | "dash") {
        return None;
    }
    let flag = arguments.iter().position(|word| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c'))?;
    arguments.get(flag + 1).map(String::as_str)
}

/// The name of a program without its folder.
pub(super) fn program(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// The command behind assignments, keywords and programs that run another one; `None` when there is none.
fn unwrapped(words: &[String]) -> Option<Vec<String>> {
    let mut rest = words;
    loop {
        let first = rest.first()?;
        let after = &rest[1..];
        rest = match program(first) {
            _ if is_assignment(first) => after,
            "{" | "}" | "!" | "if" | "then" | "else" | "elif" | "fi" | "do" | "done" | "while" | "until" | "command" | "exec"
            | "nohup" | "time" | "builtin" => after,
            "sudo" | "doas" => skip_options(after, &["-u", "-g", "-C", "-D", "-h", "-p", "-U"]),
            "env" => skip_options(after, &["-u", "-C", "-S"]),
            "nice" | "ionice" => skip_options(after, &["-n", "-c"]),
            "stdbuf" => skip_options(after, &["-i", "-o", "-e"]),
            "timeout" => skip_options(after, &["-k", "-s"]).get(1..)?,
            _ => return Some(rest.to_vec()),
        };
    }
}

fn skip_options<'w>(mut words: &'w [String], with_value: &[&str]) -> &'w [String] {
    while let Some((word, rest)) = words.split_first() {
        if !word.starts_with('-') {
            break;
        }
        words = if with_value.contains(&word.as_str()) { rest.get(1..).unwrap_or_default() } else { rest };
    }
    words
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

#[cfg(test)]
mod tests {
    use super::commands;

    fn words(line: &str) -> Vec<String> {
        commands(line).into_iter().map(|command| command.words.join("|")).collect()
    }

    #[test]
    fn quotes_are_taken_off_and_operators_split() {
        for (line, want) in [
            ("git push origin main", &["git|push|origin|main"][..]),
            ("cd a && git commit -m 'it''s; done' && ls | wc -l", &["git|commit|-m|its; done", "ls", "wc|-l"]),
            (r#"git commit -m "a \"b\" $x \n" # git push"#, &[r#"git|commit|-m|a "b" $x \n"#]),
            ("a; b & c\nd", &["a", "b", "c", "d"]),
            ("a || b && c", &["a", "c"]),
            ("a || b | c; d", &["a", "d"]),
            ("A=1 B='2 3' sudo -u me env C=4 timeout -k 5 60 git pull", &["git|pull"]),
            ("git log 2>&1 > out.txt <in && git pull &>/dev/null", &["git|log", "git|pull"]),
            ("(cd x; if true; then git pull; fi)", &["true", "git|pull"]),
            ("git commit -m $'one\\ntwo'", &["git|commit|-m|one\ntwo"]),
            ("echo a\\ b \\\n c", &["echo|a b|c"]),
            ("bash -lc \"cd /w && git push\"", &["git|push"]),
            ("echo $((1<<2)) && git pull", &["echo|$((1<<2))", "git|pull"]),
            ("diff <(git pull) <(b) && c", &["diff", "c"]),
        ] {
            assert_eq!(words(line), want, "{line}");
        }
    }

    #[test]
    fn here_documents_and_substitutions_are_not_commands() {
        let line = "git commit -m \"$(cat <<'EOF'\nIt's (done\n\ngit push\nEOF\n)\" && git push";
        let found = commands(line);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[1].words, ["git", "push"]);
        assert_eq!(words("cat > f <<EOF\ngit push\nEOF\ngit pull"), ["cat", "git|pull"]);
        assert_eq!(words("cat <<-A <<B\n\tx\n\tA\ngit push\nB\nls"), ["cat", "ls"]);
        assert_eq!(words("x=$(git pull) && y `git push`"), ["y|`git push`"]);
    }

    #[test]
    fn folders_are_followed() {
        let folders: Vec<_> = commands("cd /a; git pull; cd b && git pull").into_iter().map(|command| command.folder).collect();
        assert_eq!(folders, [Some("/a".to_owned()), Some("/a/b".to_owned())]);
    }

    #[test]
    fn nothing_makes_it_fail() {
        for opening in ["\"$(", "$(<", "<(", "`", "<<$(", "(", "$(<<"] {
            commands(&opening.repeat(100_000));
        }
        for line in ["", "'", "\"", "$(", "`", "\\", "<<", "<<<", "a <<E", "$((", ">", "&", "||", "2>", "bash -c", "é'ü"] {
            commands(line);
        }
        let nested = (0..6).fold("git push".to_owned(), |line, _| format!("bash -c '{}'", line.replace('\'', "'\\''")));
        commands(&nested);
    }
}
