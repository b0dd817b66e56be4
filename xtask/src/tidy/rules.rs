//! The layering rules, as data. ARCHITECTURE.md gives the reasons.

/// Which packages of this workspace a package is built from; what only its tests need is not listed.
pub(super) const CRATES: &[(&str, &[&str])] = &[
    ("sabir-core", &[]),
    ("sabir-agents", &["sabir-core"]),
    ("sabir-protocol", &["sabir-core"]),
    ("sabir-export", &["sabir-core", "sabir-protocol"]),
    ("sabir-run", &["sabir-core"]),
    ("sabir-store", &["sabir-core"]),
    ("sabir-openai", &["sabir-core"]),
    ("sabir-shell", &["sabir-core", "sabir-protocol", "sabir-run", "sabir-store"]),
    ("sabir-hub", &["sabir-core", "sabir-protocol", "sabir-store"]),
    ("sabir-tui", &["sabir-core", "sabir-protocol", "sabir-store"]),
    (
        "sabir",
        &[
            "sabir-agents",
            "sabir-core",
            "sabir-export",
            "sabir-hub",
            "sabir-openai",
            "sabir-protocol",
            "sabir-run",
            "sabir-shell",
            "sabir-store",
            "sabir-tui",
        ],
    ),
    ("sabir-test-support", &[]),
    ("sabir-lab", &["sabir-agents", "sabir-core", "sabir-test-support"]),
    ("xtask", &["sabir-agents", "sabir-core", "sabir-protocol", "sabir-store", "sabir-test-support"]),
];

/// What the modules inside a module may see of their own crate, besides that module's own items and what is inside them.
pub(super) struct Layer {
    /// Each of its modules is a unit, and sees no other unit.
    pub(super) parent: &'static str,
    /// Modules inside it that all may see; they see no unit either.
    pub(super) shared: &'static [&'static str],
    /// Modules and items at the root of the crate.
    pub(super) sees: &'static [&'static str],
}

pub(super) const LAYERS: &[Layer] = &[Layer { parent: "sabir_agents", shared: &["family"], sees: &[] }];

/// Code that may stand in some files only.
pub(super) struct Reserved {
    /// See [`Pattern`](super::pattern::Pattern).
    pub(super) names: &'static [&'static str],
    /// The rule holds in files whose path starts with one of these.
    pub(super) inside: &'static [&'static str],
    /// It does not hold in files whose path starts with one of these.
    pub(super) except: &'static [&'static str],
    pub(super) why: &'static str,
}

/// Crates whose results depend on their arguments alone.
const PURE: &[&str] =
    &["crates/sabir-agents/src/", "crates/sabir-core/src/", "crates/sabir-export/src/", "crates/sabir-protocol/src/"];

/// Rules for libraries and programs, their inline tests left out.
pub(super) const PRODUCT: &[Reserved] = &[
    Reserved {
        names: &[
            "std::fs",
            "std::net",
            "std::env",
            "std::thread",
            "std::process",
            "io::stdin",
            "io::stdout",
            "io::stderr",
            "Instant",
            "SystemTime",
            "Timestamp::now",
            "Zoned::now",
            "async",
        ],
        inside: PURE,
        except: &[],
        why: "a pure crate has no I/O, clock, environment, threads or async",
    },
    Reserved {
        names: &["HashMap", "HashSet", "RandomState"],
        inside: PURE,
        except: &[],
        why: "the same lines give the same events; these have a random order",
    },
    Reserved {
        names: &["sabir_core::decode", "sabir_core::export", "sabir_core::fold", "sabir_core::price"],
        inside: &["crates/sabir-agents/src/"],
        except: &["crates/sabir-agents/src/lib.rs"],
        why: "an agent decodes lines; numbering, reports and exports are not its business",
    },
    Reserved {
        names: &["println!", "print!", "eprintln!", "eprint!"],
        inside: &["crates/"],
        except: &["crates/sabir/src/print", "crates/sabir-test-support/"],
        why: "only `print` of the command prints",
    },
    Reserved {
        names: &["Command::new"],
        inside: &["crates/"],
        except: &["crates/sabir-run/src/spawn.rs", "crates/sabir-openai/src/shell.rs", "crates/sabir-test-support/"],
        why: "processes are started in one place of each crate that starts any",
    },
    Reserved { names: &["tokio", "async"], inside: &["crates/sabir-store/src/"], except: &[], why: "the store has no async" },
    Reserved {
        names: &["\"runs\"", "\"*.seg\""],
        inside: &["crates/sabir-store/src/"],
        except: &["crates/sabir-store/src/layout.rs"],
        why: "the layout alone knows the names of files",
    },
    Reserved {
        names: &["EventKind"],
        inside: &["crates/sabir-hub/src/", "crates/sabir-tui/src/"],
        except: &[],
        why: "the hub and the terminal UI show what folds and views of the core tell, and look at no event",
    },
    Reserved {
        names: &["crossterm::terminal", "stdout"],
        inside: &["crates/sabir-tui/src/"],
        except: &["crates/sabir-tui/src/terminal.rs"],
        why: "one module has the terminal, and gives it back",
    },
    Reserved {
        names: &["rusqlite", "SqliteStore", "MemoryStore"],
        inside: &["crates/sabir-hub/src/"],
        except: &["crates/sabir-hub/src/store/sqlite", "crates/sabir-hub/src/store/memory"],
        why: "nothing but a log itself knows which log it is",
    },
    Reserved {
        names: &["Box<RawValue>", "to_raw_value", "RawValue::from_string"],
        inside: &["crates/"],
        except: &["crates/sabir-core/src/json/raw.rs"],
        why: "foreign JSON is embedded in records as `RawJson`, which has no line breaks",
    },
    Reserved { names: &["todo!", "unimplemented!", "dbg!"], inside: &[""], except: &[], why: "what is not done is not merged" },
];

/// Rules for the tests beside the source: they are compiled from, and read, nothing outside their crate.
pub(super) const TESTS: &[Reserved] = &[
    Reserved {
        names: &[
            "path = \"../../../*\"",
            "env!(\"CARGO_MANIFEST_DIR\")).join(\"../*\"",
            "env!(\"CARGO_MANIFEST_DIR\"), \"/..*\"",
            "env!(\"CARGO_MANIFEST_DIR\")).parent",
            "env!(\"CARGO_MANIFEST_DIR\")).ancestors",
        ],
        inside: &["crates/"],
        except: &[],
        why: "a test stays inside its crate: share code in sabir-test-support, read the repository in xtask",
    },
    Reserved {
        names: &["\"SABIR_UPDATE\"", "\"SABIR_ALLOW_SKIP\""],
        inside: &[""],
        except: &[],
        why: "sabir-test-support alone reads it",
    },
];
