//! What commands did to a repository: the git and pull request commands among them, read with what they printed.

use super::arguments::Options;
use super::shell::{self, Simple};

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Deed {
    Git(Git),
    Pull(Pull),
}

/// `git clone`, `checkout`, `pull`, `commit` or `push`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Git {
    pub(super) action: &'static str,
    pub(super) repo: Option<String>,
    pub(super) branch: Option<String>,
    pub(super) command: String,
    pub(super) folder: Option<String>,
    /// The commit that was made.
    pub(super) commit: Option<String>,
    /// Its subject.
    pub(super) subject: Option<String>,
}

/// `gh pr create`, `edit`, `merge` or `close`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Pull {
    pub(super) action: &'static str,
    pub(super) repo: Option<String>,
    pub(super) number: Option<u64>,
    pub(super) url: Option<String>,
    pub(super) base: Option<String>,
    pub(super) head: Option<String>,
}

/// Whether a command line may do anything that is told here; cheap, so that output need not be kept in vain.
pub(super) fn may_do(line: &str) -> bool {
    ["git", "gh"].iter().any(|name| line.contains(name))
}

/// What a command line that succeeded did.
pub(super) fn deeds(line: &str, output: &str) -> Vec<Deed> {
    if !may_do(line) {
        return Vec::new();
    }
    let mut links = links(output).into_iter();
    shell::commands(line)
        .iter()
        .filter_map(|command| match shell::program(command.words.first()?) {
            "git" => git(command, output).map(Deed::Git),
            "gh" => pull(command, &mut links).map(Deed::Pull),
            _ => None,
        })
        .collect()
}

/// Long commands are told in full elsewhere.
const COMMAND_CHARACTERS: usize = 1_000;

fn git(command: &Simple, output: &str) -> Option<Git> {
    let all = Options::read(&command.words[1..], "-C -c --git-dir --work-tree --namespace --config-env", true);
    let (verb, words) = all.rest.split_first()?;
    let folder = match (all.value(&["-C"]), &command.folder) {
        (Some(folder), Some(from)) if !folder.starts_with('/') => Some(format!("{from}/{folder}")),
        (Some(folder), _) => Some(folder.to_owned()),
        (None, folder) => folder.clone(),
    };
    let text: String = command.words.join(" ").chars().take(COMMAND_CHARACTERS).collect();
    let mut deed = Git { command: text, folder, ..Git::default() };
    match verb.as_str() {
        "clone" => {
            let options = Options::read(words, CLONE, false);
            deed.action = "clone";
            deed.repo = Some(repository(options.places.first()?));
            deed.branch = options.value(&["-b", "--branch"]).map(str::to_owned);
        }
        "checkout" | "switch" => {
            let options = Options::read(words, CHECKOUT, false);
            deed.action = "checkout";
            let new = options.value(&["-b", "-B", "-c", "-C", "--create", "--force-create", "--orphan"]);
            let restored = !options.paths.is_empty() || options.places.len() > 1 || printed(output, "Updated ", " path");
            let known = options.places.first().map(String::as_str).filter(|name| !restored && *name != "-");
            deed.branch = new.or(known).map(str::to_owned);
        }
        "pull" => {
            let options = Options::read(words, "-s --strategy -X --strategy-option --depth -j --jobs", false);
            deed.action = "pull";
            deed.branch = options.places.get(1).map(|name| branch(name));
            deed.repo = line_after(output, "From ").map(repository);
        }
        "commit" => {
            let options = Options::read(words, COMMIT, false);
            if options.has(&["--dry-run"]) {
                return None;
            }
            deed.action = "commit";
            match committed(output) {
                Some((branch, commit, subject)) => {
                    deed.branch = branch.map(str::to_owned);
                    deed.commit = Some(commit.to_owned());
                    deed.subject = Some(subject.to_owned());
                }
                None if printed(output, "nothing to commit", "") || printed(output, "nothing added to commit", "") => {
                    return None;
                }
                None => {
                    let message = options.value(&["-m", "--message"]).filter(|message| !message.starts_with("$("));
                    deed.subject = message.and_then(|message| message.lines().next()).map(str::to_owned);
                }
            }
        }
        "push" => {
            let options = Options::read(words, "-o --push-option --receive-pack --exec --repo", false);
            if options.has(&["-n", "--dry-run"]) {
                return None;
            }
            deed.action = "push";
            let named = options.places.get(1).map(|name| branch(name)).filter(|name| name != "HEAD");
            deed.branch = named.or_else(|| pushed(output).map(branch));
            deed.repo = line_after(output, "To ").map(repository);
        }
        _ => return None,
    }
    Some(deed)
}

const CLONE: &str = "-b --branch -o --origin --depth -u --upload-pack -c --config --reference --separate-git-dir -j --jobs \
    --template --filter --server-option --shallow-since --shallow-exclude --bundle-uri";
const CHECKOUT: &str = "-b -B -c -C --create --force-create --orphan --conflict --pathspec-from-file";
const COMMIT: &str = "-m --message -F --file -C -c --reuse-message --reedit-message --author --date -t --template --cleanup \
    --trailer --fixup --squash";

fn pull(command: &Simple, links: &mut impl Iterator<Item = Link>) -> Option<Pull> {
    let words = command.words[1..].strip_prefix(&["pr".to_owned()])?;
    let (verb, words) = words.split_first()?;
    let (action, with_value) = match verb.as_str() {
        "create" => ("open", CREATE),
        "edit" => ("update", EDIT),
        "ready" => ("update", "-R --repo"),
        "merge" => ("merge", MERGE),
        "close" => ("close", "-R --repo -c --comment"),
        "reopen" => ("open", "-R --repo -c --comment"),
        _ => return None,
    };
    let options = Options::read(words, with_value, false);
    if options.has(&["--dry-run", "--help"]) || verb == "create" && options.has(&["-w", "--web"]) {
        return None;
    }
    let named = options.places.first().filter(|_| verb != "create");
    let link = named.and_then(|name| Link::read(name)).or_else(|| links.next());
    let number = named.and_then(|name| name.trim_start_matches('#').parse().ok());
    // A link that is about another request than the one that was named says nothing of this one.
    let link = link.filter(|link| number.is_none_or(|number| number == link.number));
    Some(Pull {
        action,
        repo: options.value(&["-R", "--repo"]).map(repository).or_else(|| link.as_ref().map(|link| link.repo.clone())),
        number: number.or_else(|| link.as_ref().map(|link| link.number)),
        url: link.map(|link| link.url),
        base: options.value(&["-B", "--base"]).map(str::to_owned),
        head: options.value(&["-H", "--head"]).map(str::to_owned),
    })
}

const MERGE: &str = "-R --repo -b --body -F --body-file -t --subject -A --author-email --match-head-commit";
const CREATE: &str = "-R --repo -B --base -H --head -t --title -b --body -F --body-file -a --assignee -r --reviewer -l --label -m \
    --milestone -p --project -T --template --recover";
const EDIT: &str = "-R --repo -B --base -t --title -b --body -F --body-file -m --milestone --add-assignee --add-label \
    --add-project --add-reviewer --remove-assignee --remove-label --remove-project --remove-reviewer";

/// A pull request's address.
struct Link {
    url: String,
    repo: String,
    number: u64,
}

impl Link {
    fn read(text: &str) -> Option<Self> {
        let (address, after) = text.split_once("/pull/")?;
        let (_, path) = address.split_once("://")?;
        let (_, repo) = path.split_once('/')?;
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let number = after[..digits].parse().ok()?;
        Some(Self { url: format!("{address}/pull/{number}"), repo: repo.to_owned(), number })
    }
}

/// The pull requests that an output names, in order, each once.
fn links(output: &str) -> Vec<Link> {
    let mut found: Vec<Link> = Vec::new();
    let words = output.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '(' | ')'));
    for link in words.filter(|word| word.starts_with("http")).filter_map(Link::read) {
        if found.iter().all(|known| known.url != link.url) {
            found.push(link);
        }
    }
    found
}

/// `owner/name` of an address, and anything else as it is. Logins in addresses are left out.
fn repository(address: &str) -> String {
    let address = address.trim();
    let path = match address.split_once("://") {
        Some(("file", _)) => return address.to_owned(),
        Some((_, path)) => path.split_once('/').map(|(_, path)| path),
        None => address.split_once(':').filter(|(host, _)| host.contains('@') || host.contains('.')).map(|(_, path)| path),
    };
    let path = path.unwrap_or(address).trim_matches('/');
    path.strip_suffix(".git").unwrap_or(path).to_owned()
}

/// The branch that a refspec names at the other end.
fn branch(refspec: &str) -> String {
    let name = refspec.rsplit(':').next().unwrap_or(refspec).trim_start_matches('+');
    name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()
}

fn line_after<'o>(output: &'o str, start: &str) -> Option<&'o str> {
    let address = output.lines().find_map(|line| line.strip_prefix(start))?.trim();
    (address.contains('/') && !address.contains(' ')).then_some(address)
}

fn printed(output: &str, start: &str, then: &str) -> bool {
    output.lines().any(|line| line.trim_start().starts_with(start) && line.contains(then))
}

/// `[branch abc1234] subject`.
fn committed(output: &str) -> Option<(Option<&str>, &str, &str)> {
    output.lines().find_map(|line| {
        let (head, subject) = line.strip_prefix('[')?.split_once("] ")?;
        let (branch, commit) = head.rsplit_once(' ')?;
        let is_commit = commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        let branch = branch.strip_suffix(" (root-commit)").unwrap_or(branch);
        is_commit.then_some(((branch != "detached HEAD").then_some(branch), commit, subject))
    })
}

/// The branch in `abc..def  main -> main`.
fn pushed(output: &str) -> Option<&str> {
    let line = output.lines().find(|line| line.contains(" -> ") && (line.contains("..") || line.contains('[')))?;
    line.rsplit_once(" -> ")?.1.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::{Deed, Git, Pull, deeds, repository};

    fn git(line: &str, output: &str) -> Vec<(&'static str, Option<String>, Option<String>)> {
        let deeds = deeds(line, output).into_iter();
        deeds.filter_map(|deed| if let Deed::Git(git) = deed { Some((git.action, git.repo, git.branch)) } else { None }).collect()
    }

    #[test]
    fn git_commands_in_all_their_forms() {
        for (line, output, want) in [
            ("git clone https://token@example.com/org/app.git work", "", &[("clone", Some("org/app"), None)][..]),
            ("git clone -b dev git@example.com:org/app.git", "", &[("clone", Some("org/app"), Some("dev"))]),
            ("git -C sub --no-pager checkout -b feature", "", &[("checkout", None, Some("feature"))]),
            ("git checkout main && git pull origin main", "", &[("checkout", None, Some("main")), ("pull", None, Some("main"))]),
            ("git switch -c topic", "", &[("checkout", None, Some("topic"))]),
            ("git checkout -- a.txt", "", &[("checkout", None, None)]),
            ("git checkout a.txt", "Updated 1 path from the index", &[("checkout", None, None)]),
            ("GIT_EDITOR=true git commit -am 'x && git push'", "[main 1a2b3c4] x", &[("commit", None, Some("main"))]),
            ("git commit --dry-run; git push -n", "", &[]),
            ("git commit -m x || true", "nothing to commit, working tree clean", &[]),
            (
                "git push -u origin HEAD",
                "To github.com:org/app.git\n * [new branch]      HEAD -> topic\n",
                &[("push", Some("org/app"), Some("topic"))],
            ),
            ("git push origin +a:refs/heads/b", "", &[("push", None, Some("b"))]),
            ("git status; git log; echo git push", "", &[]),
        ] {
            let want: Vec<_> = want.iter().map(|(a, r, b)| (*a, r.map(str::to_owned), b.map(str::to_owned))).collect();
            assert_eq!(git(line, output), want, "{line}");
        }
    }

    #[test]
    fn a_commit_says_what_it_made() {
        let found =
            deeds("cd app && git commit -m \"$(cat <<'EOF'\nFix\nEOF\n)\"", "[main (root-commit) 0123abc] Fix\n 1 file changed");
        let want = Git {
            action: "commit",
            repo: None,
            branch: Some("main".into()),
            command: "git commit -m $(cat <<'EOF'\nFix\nEOF\n)".into(),
            folder: Some("app".into()),
            commit: Some("0123abc".into()),
            subject: Some("Fix".into()),
        };
        assert_eq!(found, [Deed::Git(want)]);
    }

    #[test]
    fn pull_requests_have_their_number_and_address() {
        let url = "https://github.com/org/umbrella/pull/42";
        let found = deeds("git push && gh pr create -B main --head=user:topic -t 'A' --body 'b'", &format!("remote: x\n{url}\n"));
        let want = Pull {
            action: "open",
            repo: Some("org/umbrella".into()),
            number: Some(42),
            url: Some(url.into()),
            base: Some("main".into()),
            head: Some("user:topic".into()),
        };
        assert_eq!(found.last(), Some(&Deed::Pull(want)));
        for (line, action, number) in [
            ("gh pr merge 42 --squash -d", "merge", Some(42)),
            ("gh pr edit 7 --add-label bug", "update", Some(7)),
            ("gh pr close https://github.com/org/app/pull/9 -c done", "close", Some(9)),
            ("gh pr merge -m", "merge", None),
        ] {
            let found = deeds(line, "");
            let told = found.iter().map(|deed| if let Deed::Pull(pull) = deed { Some((pull.action, pull.number)) } else { None });
            assert_eq!(told.collect::<Vec<_>>(), [Some((action, number))], "{line}");
        }
        assert_eq!(deeds("gh pr view 42; gh pr create --dry-run; gh issue create", ""), []);
    }

    #[test]
    fn addresses_become_owner_and_name() {
        for (address, want) in [
            ("https://user:secret@github.com/org/app.git", "org/app"),
            ("ssh://git@host:22/org/app", "org/app"),
            ("git@github.com:org/app.git", "org/app"),
            ("github.com:org/app.git", "org/app"),
            ("org/app", "org/app"),
            ("../local.git", "../local"),
            ("file:///srv/app.git", "file:///srv/app.git"),
        ] {
            assert_eq!(repository(address), want);
        }
    }
}
