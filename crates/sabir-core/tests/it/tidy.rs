//! The rules of the rooms, read from the source: which file may say what. ARCHITECTURE.md gives the reasons.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use sabir_core::agent;

/// What an agent may use of this crate.
const AGENT_SEES: &[&str] = &["agent", "cut", "dialect", "diff", "event", "history", "json", "launch", "line", "time"];

/// What may be said in some places only.
struct Reserved {
    words: &'static [&'static str],
    /// The rule holds in files whose path starts with this.
    inside: &'static str,
    /// It does not hold in files whose path starts with one of these.
    except: &'static [&'static str],
    why: &'static str,
}

const RESERVED: &[Reserved] = &[
    Reserved {
        words: &["std::fs", "std::net", "std::env", "std::thread", "std::process", "Instant", "SystemTime"],
        inside: "crates/sabir-core/src/",
        except: &[],
        why: "the core does no I/O and has no clock, environment or threads",
    },
    Reserved {
        words: &["HashMap", "HashSet", "RandomState"],
        inside: "crates/sabir-core/src/",
        except: &[],
        why: "the same lines give the same events; these have a random order",
    },
    Reserved {
        words: &["println!", "print!", "eprintln!", "eprint!"],
        inside: "crates/",
        except: &["crates/sabir/src/print"],
        why: "only the printing room prints",
    },
    Reserved {
        words: &["Command::new"],
        inside: "crates/",
        except: &["crates/sabir-run/src/spawn.rs", "crates/sabir-openai/src/shell.rs"],
        why: "processes are started in one place of each crate that starts any",
    },
    Reserved {
        words: &["\"runs\"", ".seg\"", "tokio"],
        inside: "crates/sabir-store/src/",
        except: &["crates/sabir-store/src/layout.rs"],
        why: "the store has no async, and its layout alone knows names of files",
    },
    Reserved {
        words: &["EventKind"],
        inside: "crates/sabir-hub/src/",
        except: &[],
        why: "the hub decodes nothing: folds and views of the core tell it what it needs",
    },
    Reserved {
        words: &["EventKind"],
        inside: "crates/sabir-tui/src/",
        except: &[],
        why: "the terminal program shows what the timeline fold tells",
    },
    Reserved {
        words: &["crossterm::terminal", "stdout"],
        inside: "crates/sabir-tui/src/",
        except: &["crates/sabir-tui/src/terminal.rs"],
        why: "one module has the terminal, and gives it back",
    },
    Reserved {
        words: &["rusqlite", "SqliteStore", "MemoryStore"],
        inside: "crates/sabir-hub/src/",
        except: &["crates/sabir-hub/src/store/sqlite", "crates/sabir-hub/src/store/memory"],
        why: "only a backend knows which backend it is",
    },
    Reserved {
        words: &["Box<RawValue>", "to_raw_value", "RawValue::from_string"],
        inside: "crates/",
        except: &["crates/sabir-core/src/json/raw.rs"],
        why: "foreign JSON is embedded in records as `RawJson`, which has no line breaks",
    },
    Reserved { words: &["todo!", "unimplemented!", "dbg!"], inside: "", except: &[], why: "what is not done is not merged" },
];

/// One source file.
struct Source {
    /// From the root of the repository, with slashes.
    path: String,
    text: String,
}

impl Source {
    /// The lines of code with their numbers: no comments, and nothing after the tests begin.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
        lines
            .map(|line| line.find("//").map_or(line, |comment| &line[..comment]))
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate is in crates/").to_path_buf()
}

/// Every source file of the product and of the tooling, tests left out.
fn sources() -> Vec<Source> {
    let root = root();
    let crates = fs::read_dir(root.join("crates")).expect("crates/").map(|entry| entry.expect("an entry").path());
    let mut folders: Vec<PathBuf> =
        crates.chain([root.join("lab"), root.join("xtask")]).map(|folder| folder.join("src")).collect();
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("source is UTF-8");
                let path = path.strip_prefix(&root).expect("inside").to_string_lossy().replace('\\', "/");
                sources.push(Source { path, text });
            }
        }
    }
    assert!(sources.len() > 20, "the source is where it was");
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

/// Fails with everything that is wrong at once.
fn assert_none(wrong: &str) {
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Whether a line says a word, and not as a part of a longer one.
fn says(line: &str, word: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let inside = before.is_some_and(is_word) || (word.ends_with(char::is_alphanumeric) && after.is_some_and(is_word));
        !inside
    })
}

#[test]
fn words_stay_in_their_rooms() {
    let mut wrong = String::new();
    for source in sources() {
        if source.path.ends_with("tests.rs") {
            continue;
        }
        for rule in RESERVED.iter().filter(|rule| {
            source.path.starts_with(rule.inside) && !rule.except.iter().any(|exception| source.path.starts_with(exception))
        }) {
            for (number, line) in source.code() {
                for word in rule.words.iter().filter(|word| says(line, word)) {
                    let _ = writeln!(wrong, "{}:{number}: `{word}`: {}", source.path, rule.why);
                }
            }
        }
    }
    assert_none(&wrong);
}

/// Shapes that several agents print are in the same folder, and see no agent at all.
#[test]
fn an_agent_sees_the_vocabulary_and_no_other_agent() {
    const FOLDER: &str = "crates/sabir-core/src/agent/";
    let modules: Vec<String> = agent::ALL.iter().map(|agent| agent.id.0.replace('-', "_")).collect();
    let mut wrong = String::new();
    for source in sources().iter().filter(|source| source.path.starts_with(FOLDER)) {
        let own = source.path[FOLDER.len()..].split(['/', '.']).next().unwrap_or_default();
        for (number, line) in source.code() {
            for (at, _) in line.match_indices("crate::") {
                let path = &line[at + "crate::".len()..];
                let room = path.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
                if !AGENT_SEES.contains(&room) {
                    let _ = writeln!(wrong, "{}:{number}: an agent does not see `crate::{room}`", source.path);
                }
            }
            let other = |module: &&String| {
                let paths = [format!("super::{module}"), format!("agent::{module}")];
                *module != own && paths.iter().any(|path| says(line, path))
            };
            // A module of its own may have another agent's name only if it is spelled without `super` and `agent`.
            for module in modules.iter().filter(other) {
                let _ = writeln!(wrong, "{}:{number}: an agent does not see the agent `{module}`", source.path);
            }
        }
    }
    assert_none(&wrong);
}

#[test]
fn every_agent_has_a_file_and_fixtures() {
    let mut wrong = String::new();
    let core = Path::new(env!("CARGO_MANIFEST_DIR"));
    for agent in agent::ALL {
        let id = agent.id.0;
        if !core.join(format!("src/agent/{}.rs", id.replace('-', "_"))).is_file() {
            let _ = writeln!(wrong, "{id}: no file in src/agent/");
        }
        let cases = fs::read_dir(core.join("fixtures").join(id)).into_iter().flatten().count();
        if cases == 0 {
            let _ = writeln!(wrong, "{id}: no fixture in fixtures/{id}/");
        }
        if agent.dialects.is_empty() || agent.title.is_empty() {
            let _ = writeln!(wrong, "{id}: no dialect or no title");
        }
        for dialect in agent.dialects {
            if agent.dialects.iter().filter(|other| other.name == dialect.name).count() > 1 {
                let _ = writeln!(wrong, "{id}: two dialects are called {}", dialect.name);
            }
        }
    }
    assert_none(&wrong);
}

#[test]
fn no_two_agents_share_a_name() {
    let names: Vec<&str> = agent::ALL.iter().flat_map(|agent| agent.aliases.iter().copied().chain([agent.id.0])).collect();
    for name in &names {
        assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
    }
}
