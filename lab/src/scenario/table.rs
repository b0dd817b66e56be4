//! The scenarios.

use sabir_core::launch::Permission;

use super::{Command, Interrupt, Prints, Run, Scenario, Text, Tool, Turn};
use crate::script::Pace;

const PROMPT: &str = "Please do the task of this folder.";

const UNICODE: &str = "Unicode: h\u{e9}llo w\u{f6}rld \u{2014} \u{65e5}\u{672c}\u{8a9e} \u{1f469}\u{200d}\u{1f469}\u{200d}\u{1f467} \
    \u{1f389} e\u{301} \u{5e9}\u{5dc}\u{5d5}\u{5dd} nbsp\u{a0} ls\u{2028}ps\u{2029} tab\there \"quoted\" back\\slash </script> end.";

/// Says a text and nothing else.
const fn answers(text: &'static str) -> Turn {
    Turn::Says { thinking: "", text: Text::Is(text), tools: &[], pace: Pace::Free }
}

/// Says a text and calls tools.
const fn calls(text: &'static str, tools: &'static [Tool]) -> Turn {
    Turn::Says { thinking: "", text: Text::Is(text), tools, pace: Pace::Free }
}

/// A scenario of one run that is left alone.
const fn one(name: &'static str, about: &'static str, runs: &'static [Run; 1]) -> Scenario {
    Scenario { name, about, runs }
}

const fn run(turns: &'static [Turn]) -> Run {
    Run { prompt: PROMPT, turns, interrupt: None, permission: Permission::Full }
}

/// A command that succeeds.
const fn shell(line: &'static str, prints: &'static [&'static str]) -> Tool {
    Tool::Shell(Command { line, prints: Prints::Texts(prints), code: 0 })
}

const FIXED: Tool = Tool::Edit { path: "sum.sh", old: "$1 - $2", new: "$1 + $2" };

/// All scenarios.
pub const ALL: &[Scenario] = &[
    one("plain", "a text", &[run(&[answers("The answer is 42.")])]),
    one(
        "thinking",
        "reasoning before a text",
        &[run(&[Turn::Says {
            thinking: "Two and two are to be added. That makes four.",
            text: Text::Is("Two plus two is four."),
            tools: &[],
            pace: Pace::Free,
        }])],
    ),
    one(
        "shell-ok",
        "a command that succeeds",
        &[run(&[
            calls(
                "I will run a command.",
                &[shell("echo hello-from-the-shell; ls", &["hello-from-the-shell\nREADME.md\ncheck.sh\nsum.sh"])],
            ),
            answers("The command printed its greeting."),
        ])],
    ),
    one(
        "shell-fails",
        "a command that fails",
        &[run(&[
            calls(
                "I will run a command.",
                &[Tool::Shell(Command {
                    line: "echo to-the-output; echo to-the-errors >&2; exit 3",
                    prints: Prints::Texts(&["to-the-output", "to-the-errors"]),
                    code: 3,
                })],
            ),
            answers("The command failed with exit code 3."),
        ])],
    ),
    one(
        "create-and-edit",
        "a new file, and a change of one that was there",
        &[run(&[
            calls("Creating a file.", &[Tool::Write { path: "notes.txt", content: "alpha\nbeta\ngamma\n" }]),
            calls("", &[Tool::Read("sum.sh")]),
            calls("Editing a file.", &[FIXED]),
            answers("Created notes.txt and fixed sum.sh."),
        ])],
    ),
    one(
        "multi-turn",
        "thinking, reading, editing, testing, answering",
        &[run(&[
            Turn::Says {
                thinking: "The file should be read first.",
                text: Text::Is("Reading sum.sh."),
                tools: &[Tool::Read("sum.sh")],
                pace: Pace::Free,
            },
            calls("Found the mistake; correcting it.", &[FIXED]),
            calls("Running the check.", &[shell("sh check.sh", &["passed"])]),
            answers("Fixed: sum.sh adds, and the check passes."),
        ])],
    ),
    one(
        "parallel-tools",
        "two tool calls in one response",
        &[run(&[
            calls("Two commands at once.", &[shell("sleep 0.3; echo first", &["first"]), shell("echo second", &["second"])]),
            answers("Both commands ran."),
        ])],
    ),
    one(
        "retry",
        "one server error, then an answer",
        &[run(&[
            Turn::Fails { status: 500, message: "The server had an error while it processed the request." },
            answers("Recovered after one server error."),
        ])],
    ),
    one(
        "cut",
        "a stream that breaks, then an answer",
        &[run(&[
            Turn::Says {
                thinking: "",
                text: Text::Is("This answer never comes to its end, because the connection breaks in the middle of it."),
                tools: &[],
                pace: Pace::Cut { after: 2 },
            },
            answers("This answer came through in one piece."),
        ])],
    ),
    one(
        "fatal-error",
        "a request that the server will never accept",
        &[run(&[Turn::AlwaysFails { status: 400, message: "The request is not valid, and will not be." }])],
    ),
    one(
        "fatal-error-later",
        "work that is done, then a request that the server will never accept",
        &[run(&[
            calls("I will run a command first.", &[shell("echo before-the-error", &["before-the-error"])]),
            Turn::AlwaysFails { status: 400, message: "The request is not valid, and will not be." },
        ])],
    ),
    one(
        "big-output",
        "a command that prints a megabyte",
        &[run(&[
            calls(
                "Printing a lot.",
                &[Tool::Shell(Command { line: "seq 1000000 1149999", prints: Prints::Numbers(1_000_000, 1_149_999), code: 0 })],
            ),
            answers("That was a lot of output."),
        ])],
    ),
    one(
        "big-answer",
        "an answer of a megabyte",
        &[run(&[Turn::Says { thinking: "", text: Text::Long(1 << 20), tools: &[], pace: Pace::Free }])],
    ),
    one(
        "unicode",
        "characters of all kinds, in the answer and in the output of a command",
        &[run(&[
            calls(
                UNICODE,
                &[shell(
                    r"printf 'caf\303\251 \360\237\216\211 \033[32mgreen\033[0m bad:\377\376 end\n'; printf 'one\rtwo\r\n'",
                    &["caf\u{e9} \u{1f389} ", "green", " bad:", " end", "one", "two"],
                )],
            ),
            answers(UNICODE),
        ])],
    ),
    one(
        "interrupt-mid-stream",
        "the user stops the run while the answer comes",
        &[Run {
            prompt: PROMPT,
            turns: &[Turn::Says {
                thinking: "",
                text: Text::Is(
                    "This answer stops after some words, and the stream stays open until the client goes away for good.",
                ),
                tools: &[],
                pace: Pace::Hold { after: 2 },
            }],
            interrupt: Some(Interrupt::MidStream),
            permission: Permission::Full,
        }],
    ),
    one(
        "interrupt-mid-tool",
        "the user stops the run while a command runs",
        &[Run {
            prompt: PROMPT,
            turns: &[
                calls("Starting a long command.", &[shell("echo started > started.txt; sleep 300; echo finished", &[])]),
                answers("The long command finished."),
            ],
            interrupt: Some(Interrupt::MidTool),
            permission: Permission::Full,
        }],
    ),
    Scenario {
        name: "resume",
        about: "a second run that continues the session of the first",
        runs: &[
            Run { prompt: "Remember the word BANANA.", ..run(&[answers("I will remember the word BANANA.")]) },
            Run {
                prompt: "What was the word?",
                ..run(&[calls("One moment.", &[shell("echo resumed", &["resumed"])]), answers("The word was BANANA.")])
            },
        ],
    },
    one(
        "read-only",
        "a run that may not change anything, and a model that tries to",
        &[Run {
            permission: Permission::ReadOnly,
            ..run(&[
                calls("Reading a file.", &[Tool::Read("sum.sh")]),
                calls("Writing a file.", &[Tool::Write { path: "by-tool.txt", content: "written\n" }]),
                calls("Changing a file.", &[FIXED]),
                calls("Writing a file by a command.", &[shell("echo written > by-command.txt", &[])]),
                answers("I was not allowed to."),
            ])
        }],
    ),
    one(
        "edit",
        "a run that may change files of its folder, and a model that tries more",
        &[Run {
            permission: Permission::Edit,
            ..run(&[
                calls("Reading a file.", &[Tool::Read("sum.sh")]),
                calls("Changing a file.", &[FIXED]),
                calls("Writing a file outside.", &[Tool::Write { path: "../by-tool.txt", content: "written\n" }]),
                calls("Writing a file outside by a command.", &[shell("echo written > ../by-command.txt", &[])]),
                answers("I could do only a part of it."),
            ])
        }],
    ),
];
