//! What is told about a run: at its beginning, and when nothing more is written.

use sabir_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// What was known when the run began. It holds no secret: see [`crate::meta::without_secrets`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// `sabir.run/1`.
    pub schema: String,
    /// The run.
    pub run_id: String,
    /// The agent's id.
    pub agent: String,
    /// Its version, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The version of Sabir.
    pub sabir_version: String,
    /// What was executed.
    pub program: String,
    /// With which arguments. Where the prompt was one of them, `[prompt]` stands in its place.
    pub arguments: Vec<String>,
    /// Where.
    pub cwd: String,
    /// What the agent was to do.
    pub prompt: String,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
}

impl Meta {
    /// The schema that is written.
    pub const SCHEMA: &str = "sabir.run/1";
}

/// Why nothing more was written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// All that was appended has been written.
    pub complete: bool,
    /// Why not all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How many records were too large to be kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub too_large: u64,
    /// Where the result is, so that a list of many runs need not read them whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Place>,
}

/// Where a record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The segment.
    pub segment: u32,
    /// The byte that it begins at.
    pub offset: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What stands for a secret.
pub const SECRET: &str = "[secret]";
/// What stands for the prompt among the arguments.
pub const PROMPT: &str = "[prompt]";

/// Parts of names that say that a value is secret.
const SECRET_NAMES: &[&str] =
    &["key", "token", "secret", "password", "passwd", "passphrase", "passcode", "credential", "auth", "bearer", "cookie"];
/// Last words of names that say the same: `MYSQL_PWD`, `REDIS_PASS`. Alone, `PWD` is a folder.
const SECRET_LAST_WORDS: &[&str] = &["pwd", "pass", "pw", "sshpass"];
/// Last words of names of files, folders and sockets.
const PATH_LAST_WORDS: &[&str] = &["file", "path", "paths", "dir", "folder", "home", "root", "sock", "socket"];
/// How keys of well-known services begin.
const SECRET_STARTS: &[&str] =
    &["sk-", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA", "AIza", "ya29."];
/// A shorter value is not a secret but a word, and would be found everywhere.
const SHORTEST: usize = 8;

/// Names that say it so clearly that any value counts, a plain word too.
const SURE_NAMES: &[&str] = &["secret", "password", "passwd", "passphrase", "passcode", "credential"];
/// A plain word that is shorter is more likely a setting.
const LONGEST_WORD: usize = 16;

/// Whether a variable or an option of that name holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    // `GIT_AUTHOR_NAME` is no secret; `--max-tokens` is a number.
    let name = name.to_lowercase().replace("author_", "_").replace("author-", "-");
    let has_part = || SECRET_NAMES.iter().any(|part| name.contains(part));
    !name.ends_with("tokens") && !name.ends_with("author") && (has_part() || ends_like_password(&name))
}

/// Whether the last word of a name is short for a password.
fn ends_like_password(name: &str) -> bool {
    let name = name.trim_start_matches('-').to_lowercase();
    name != "pwd" && SECRET_LAST_WORDS.contains(&last_word(&name))
}

fn last_word(name: &str) -> &str {
    name.rsplit(['_', '-', '.']).next().unwrap_or(name)
}

/// Whether a value that begins like a path is one. One in 64 random keys in base64 begins with a slash.
fn is_path(name: &str, value: &str) -> bool {
    let file = match value.strip_prefix('~') {
        Some(rest) => std::env::home_dir().map(|home| home.join(rest.trim_start_matches('/'))),
        None => value.starts_with('/').then(|| value.into()),
    };
    file.is_some_and(|file| PATH_LAST_WORDS.contains(&last_word(&name.to_lowercase())) || file.exists())
}

/// Whether a variable of that name and value holds a secret that can be looked for in texts.
pub fn is_secret(name: &str, value: &str) -> bool {
    let is_word = value.len() < LONGEST_WORD && value.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_sure = || SURE_NAMES.iter().any(|part| name.to_lowercase().contains(part)) || ends_like_password(name);
    is_secret_name(name) && value.len() >= SHORTEST && (!is_word || is_sure()) && !is_path(name, value)
}

/// The variables that hold a secret, those with the longest values first.
pub fn secrets(variables: impl IntoIterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut secrets: Vec<(String, String)> = variables.into_iter().filter(|(name, value)| is_secret(name, value)).collect();
    secrets.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
    secrets
}

/// The values of variables that hold a secret, the longest first.
pub fn secret_values(variables: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
    secrets(variables).into_iter().map(|(_, value)| value).collect()
}

/// A text with these values taken out.
pub fn without_values(text: &str, secrets: &[String]) -> String {
    secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), SECRET))
}

/// A command line with its secrets taken out: the values of secret variables, what follows an option with a secret's name,
/// and what looks like a key.
pub fn without_secrets(arguments: &[String], prompt: &str, secrets: &[String]) -> Vec<String> {
    let mut value_is_secret = false;
    let each = |argument: &String| {
        let is_option = argument.starts_with('-');
        if std::mem::take(&mut value_is_secret) && !is_option {
            return SECRET.to_owned();
        }
        if !prompt.is_empty() && argument == prompt {
            return PROMPT.to_owned();
        }
        let (name, value) = argument.split_once('=').map_or((argument.as_str(), None), |(name, value)| (name, Some(value)));
        if (is_option || value.is_some()) && !name.contains(char::is_whitespace) && is_secret_name(name) {
            value_is_secret = value.is_none();
            return value.map_or_else(|| argument.clone(), |_| format!("{name}={SECRET}"));
        }
        let text = without_values(argument, secrets);
        let is_key = |word: &str| word.len() > 2 * SHORTEST && SECRET_STARTS.iter().any(|start| word.starts_with(start));
        let words = text.split([' ', '=', ':', '"', '\'', ',']).filter(|word| is_key(word)).map(str::to_owned);
        words.collect::<Vec<_>>().iter().fold(text.clone(), |text, word| text.replace(word.as_str(), SECRET))
    };
    arguments.iter().map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::{is_secret, secret_values, without_secrets, without_values};

    #[test]
    fn secrets_are_taken_out_of_a_command_line_and_the_rest_stays() {
        let variables =
            [("MY_TOKEN", "very-long-value"), ("API_KEY", "short"), ("PATH", "/usr/bin:/bin"), ("SSH_AUTH_SOCK", "/tmp/x/y")];
        let secrets = secret_values(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(secrets, ["very-long-value"]);
        for (name, value, want) in [
            ("GIT_AUTHOR_NAME", "Ada Lovelace", false),
            ("USE_AUTH", "disabled", false),
            ("DB_PASSWORD", "disabled", true),
            ("PROXY_AUTHORIZATION", "Basic YTpi", true),
            ("MYSQL_PWD", "opensesame", true),
            ("REDIS_PASS", "opensesame", true),
            ("SSHPASS", "opensesame", true),
            ("GPG_PASSPHRASE", "correct horse", true),
            ("PWD", "/nonexistent/folder", false),
            ("OLDPWD", "/nonexistent/folder", false),
            ("SUDO_ASKPASS", "/nonexistent/askpass", false),
            ("PASS_THROUGH", "something", false),
            // A path says so by its name, or is there. Anything else that begins with a slash or a tilde may be a key.
            ("AWS_SECRET_ACCESS_KEY", "/vC1xLpRkQ0tZsYwUoMnBe8gHd3JfTa9KiXr2SzP", true),
            ("APP_TOKEN", "~vC1xLpRkQ0t", true),
            ("APP_TOKEN", "~/vC1xLpRkQ0t", true),
            ("SECRET_FOLDER_TOKEN", "/usr/bin", false),
            ("TOKEN_FILE", "/nonexistent/token", false),
            ("TOKEN_DIR", "~/nonexistent", false),
        ] {
            assert_eq!(is_secret(name, value), want, "{name}");
        }
        let cases = [
            (&["--model", "x", "say it"][..], &["--model", "x", "[prompt]"][..]),
            (&["--api-key", "abc", "-v"], &["--api-key", "[secret]", "-v"]),
            (&["--api-key=abc", "OPENAI_API_KEY=abc"], &["--api-key=[secret]", "OPENAI_API_KEY=[secret]"]),
            (&["-c", "x=\"very-long-value\""], &["-c", "x=\"[secret]\""]),
            (&["-H", "X: sk-0123456789abcdefgh"], &["-H", "X: [secret]"]),
            (&["--token", "--other", "word"], &["--token", "--other", "word"]),
            (&["--max-tokens", "12"], &["--max-tokens", "12"]),
            (&["a key is a key = yes"], &["a key is a key = yes"]),
        ];
        for (given, want) in cases {
            let given: Vec<String> = given.iter().map(|&argument| argument.to_owned()).collect();
            assert_eq!(without_secrets(&given, "say it", &secrets), want);
        }
        assert_eq!(without_values("use very-long-value", &secrets), "use [secret]");
    }
}
