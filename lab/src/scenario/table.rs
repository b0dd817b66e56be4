//! The scenarios.

use super::{Interrupt, Run, Scenario, Text, Tool, Turn};
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
    Run { prompt: PROMPT, turns, interrupt: None }
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
            calls("I will run a command.", &[Tool::Shell("echo hello-from-the-shell; ls")]),
            answers("The command printed its greeting."),
        ])],
    ),
    one(
        "shell-fails",
        "a command that fails",
        &[run(&[
            calls("I will run a command.", &[Tool::Shell("echo to-the-output; echo to-the-errors >&2; exit 3")]),
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
            calls("Running the check.", &[Tool::Shell("sh check.sh")]),
            answers("Fixed: sum.sh adds, and the check passes."),
        ])],
    ),
    one(
        "parallel-tools",
        "two tool calls in one response",
        &[run(&[
            calls("Two commands at once.", &[Tool::Shell("sleep 0.3; echo first"), Tool::Shell("echo second")]),
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
            calls("I will run a command first.", &[Tool::Shell("echo before-the-error")]),
            Turn::AlwaysFails { status: 400, message: "The request is not valid, and will not be." },
        ])],
    ),
    one(
        "big-output",
        "a command that prints a megabyte",
        &[run(&[calls("Printing a lot.", &[Tool::Shell("seq 1000000 1149999")]), answers("That was a lot of output.")])],
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
                &[Tool::Shell(
                    r"printf 'caf\303\251 \360\237\216\211 \033[32mgreen\033[0m bad:\377\376 end\n'; printf 'one\rtwo\r\n'",
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
        }],
    ),
    one(
        "interrupt-mid-tool",
        "the user stops the run while a command runs",
        &[Run {
            prompt: PROMPT,
            turns: &[
                calls("Starting a long command.", &[Tool::Shell("echo started > started.txt; sleep 300; echo finished")]),
                answers("The long command finished."),
            ],
            interrupt: Some(Interrupt::MidTool),
        }],
    ),
    Scenario {
        name: "resume",
        about: "a second run that continues the session of the first",
        runs: &[
            Run { prompt: "Remember the word BANANA.", turns: &[answers("I will remember the word BANANA.")], interrupt: None },
            Run {
                prompt: "What was the word?",
                turns: &[calls("One moment.", &[Tool::Shell("echo resumed")]), answers("The word was BANANA.")],
                interrupt: None,
            },
        ],
    },
];
