//! A run that is not told as it was served is found out, whatever it is that differs.

use sabir_core::event::{
    Event, EventKind, Exited, Final, Outcome, RunId, Session, Started, TextDelta, ToolEnd, ToolKind, ToolStart, ToolStatus,
    Unrecognized, Usage, UsageScope,
};
use sabir_core::fold::SessionResult;
use sabir_lab::check::{Aspect, Difference, check};
use sabir_lab::cli::{self, Exception, Recipe};
use sabir_lab::left::{self, Left};
use sabir_lab::news::{self, News};
use sabir_lab::place::{FILES, Place};
use sabir_lab::report::{self, Cell, Verdict, judge};
use sabir_lab::scenario::{self, Run};
use sabir_lab::trial::Seen;
use sabir_lab::truth::{Lanes, ServedCall, Tokens, Truth};
use std::io::{Read as _, Write as _};

fn recipe() -> &'static Recipe {
    cli::named("claude-code")[0]
}

fn run() -> &'static Run {
    &scenario::named("shell-ok").unwrap().runs[0]
}

/// The events of a run of `shell-ok` that is told as it was served.
fn told() -> Vec<EventKind<'static>> {
    vec![
        EventKind::Started(Started::new("claude-code")),
        EventKind::Session(Session::default().session_id("s-1")),
        EventKind::Text(TextDelta::new("I will run ")),
        EventKind::Text(TextDelta::new("a command.")),
        EventKind::ToolStart(ToolStart::of_kind(ToolKind::Execute, "call_1_1", "Bash")),
        EventKind::ToolEnd(
            ToolEnd::new("call_1_1", ToolStatus::Ok).output("hello-from-the-shell\nREADME.md\ncheck.sh\nsum.sh\n").exit_code(0),
        ),
        EventKind::Text(TextDelta::new("The command printed its greeting.")),
        EventKind::Usage(
            Usage::new(UsageScope::Run)
                .input_tokens(10)
                .output_tokens(4)
                .total_tokens(64)
                .cache_read_tokens(20)
                .cache_write_tokens(30),
        ),
        EventKind::Final(Final::new("The command printed its greeting.")),
        exited(Outcome::Completed),
    ]
}

fn exited(outcome: Outcome) -> EventKind<'static> {
    EventKind::Exited(Exited::new(outcome).exit_code(0).cancelled(false).quiescent(true))
}

fn seen(kinds: Vec<EventKind<'static>>) -> Seen {
    let number = |(index, kind)| Event {
        run_id: RunId::from("run"),
        seq: index as u64 + 1,
        at: None,
        line: None,
        parent_tool_call_id: None,
        kind,
    };
    let events: Vec<Event<'static>> = kinds.into_iter().enumerate().map(number).collect();
    let mut fold = SessionResult::fold();
    events.iter().for_each(|event| fold.event(event));
    let answer = "The command printed its greeting.";
    let truth = Truth {
        final_text: Some(answer.to_owned()),
        texts: vec!["I will run a command.".to_owned(), answer.to_owned()],
        tool_calls: vec![ServedCall { id: "call_1_1".to_owned(), name: "Bash".to_owned(), arguments: serde_json::json!({}) }],
        usage: Lanes {
            main: Tokens { uncached_input: 10, cache_read: 20, cache_write: 30, output: 4, reasoning: 0, replies: 2 },
            ..Lanes::default()
        },
        last_request: "Remember the word BANANA.".to_owned(),
        ..Truth::default()
    };
    Seen {
        events,
        garbage: Vec::new(),
        result: fold.finish(),
        code: Some(0),
        left: Some(Vec::new()),
        truth,
        raw: Vec::new(),
        place: Place { home: "/lab/home".into(), work: "/lab/work".into(), address: ([127, 0, 0, 1], 1).into() },
    }
}

/// What is found when one thing is changed.
fn found(change: impl FnOnce(&mut Seen)) -> Vec<Aspect> {
    let mut seen = seen(told());
    change(&mut seen);
    check(recipe(), run(), &seen, None).into_iter().map(|difference| difference.aspect).collect()
}

/// What is found when one event is told otherwise.
fn found_when(change: impl Fn(&mut EventKind<'static>)) -> Vec<Aspect> {
    let mut kinds = told();
    kinds.iter_mut().for_each(change);
    check(recipe(), run(), &seen(kinds), None).into_iter().map(|difference| difference.aspect).collect()
}

#[test]
fn a_run_that_is_told_as_it_was_served_passes() {
    assert_eq!(check(recipe(), run(), &seen(told()), Some("BANANA")), []);
}

#[test]
fn every_aspect_is_looked_at() {
    assert_eq!(found(|seen| seen.code = Some(1)), [Aspect::Outcome]);
    assert_eq!(found(|seen| seen.code = None), [Aspect::Outcome]);
    assert_eq!(found(|seen| seen.truth.after_the_script = 1), [Aspect::Outcome]);
    assert_eq!(found(|seen| seen.truth.final_text = Some("Another answer.".to_owned())), [Aspect::Answer]);
    assert_eq!(found(|seen| seen.truth.thinking.push("Hm.".to_owned())), [Aspect::Thinking]);
    assert_eq!(found(|seen| seen.truth.usage.main.cache_write += 1), [Aspect::Tokens]);
    assert_eq!(found(|seen| seen.truth.usage.main.reasoning = 3), [Aspect::Tokens]);
    assert_eq!(found(|seen| seen.truth.tool_calls.clear()), [Aspect::Tools]);
    assert_eq!(found(|seen| seen.garbage.push("hello".to_owned())), [Aspect::Stream]);
    assert_eq!(found(|seen| seen.result.session_id = None), [Aspect::Session]);
    let left = Left { process: 7, command: "sleep 300".to_owned() };
    assert_eq!(found(|seen| seen.left = Some(vec![left])), [Aspect::Processes]);
    let forgotten = check(recipe(), run(), &seen(told()), Some("CHERRY"));
    assert_eq!(forgotten.len(), 1);
    assert_eq!(forgotten[0].aspect, Aspect::Session);
}

#[test]
fn events_are_compared_with_the_truth() {
    let failed = found_when(|kind| {
        if let EventKind::ToolEnd(ToolEnd { ok, status, .. }) = kind {
            (*ok, *status) = (false, ToolStatus::Error);
        }
    });
    assert_eq!(failed, [Aspect::Tools]);
    let cut = found_when(|kind| {
        if let EventKind::ToolEnd(ToolEnd { output, .. }) = kind {
            *output = Some("hello-from-the-shell\n".into());
        }
    });
    assert_eq!(cut, [Aspect::Output]);
    let wrong = found_when(|kind| {
        if let EventKind::ToolEnd(ToolEnd { exit_code, .. }) = kind {
            *exit_code = Some(1);
        }
    });
    assert_eq!(wrong, [Aspect::ExitCode]);
    let silent = found_when(|kind| {
        if let EventKind::Text(TextDelta { delta, .. }) = kind {
            *delta = "Something else.".into();
        }
    });
    assert_eq!(silent, [Aspect::Texts]);
    let unclear = found_when(|kind| {
        if let EventKind::Exited(Exited { quiescent, .. }) = kind {
            *quiescent = None;
        }
    });
    assert_eq!(unclear, [Aspect::Processes]);
    let strange = found_when(|kind| {
        if let EventKind::Session(_) = kind {
            *kind = EventKind::Unrecognized(Unrecognized::new("{}"));
        }
    });
    assert_eq!(strange, [Aspect::Session, Aspect::Stream]);
}

#[test]
fn a_file_that_was_not_written_is_found() {
    let run = &scenario::named("create-and-edit").unwrap().runs[0];
    let seen = seen(told());
    let differences = check(recipe(), run, &seen, None);
    // The first call that was served is the one that writes notes.txt.
    let files: Vec<&Difference> = differences.iter().filter(|difference| difference.aspect == Aspect::Files).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(files[0].what.starts_with("notes.txt holds"), "{}", files[0].what);
}

#[test]
fn what_a_run_may_not_do_is_looked_for_on_the_disk() {
    let folder = std::env::temp_dir().join(format!("sabir-lab-forbidden-{}", std::process::id()));
    let work = folder.join("work");
    std::fs::create_dir_all(&work).unwrap();
    for (name, content) in FILES {
        std::fs::write(work.join(name), content).unwrap();
    }
    let files = |scenario: &str| -> Vec<String> {
        let mut seen = seen(told());
        seen.place.work.clone_from(&work);
        seen.truth.tool_calls.clear();
        let differences = check(recipe(), &scenario::named(scenario).unwrap().runs[0], &seen, None);
        differences.into_iter().filter(|found| found.aspect == Aspect::Files).map(|found| found.what).collect()
    };
    assert_eq!([files("read-only"), files("edit")], [const { Vec::<String>::new() }; 2]);
    std::fs::write(folder.join("by-command.txt"), "written").unwrap();
    assert_eq!(files("edit"), ["by-command.txt was written, which was not allowed"]);
    assert_eq!(files("plain"), [""; 0]);
    std::fs::write(work.join("sum.sh"), "").unwrap();
    assert_eq!(files("read-only"), ["by-command.txt was written, which was not allowed", "sum.sh holds \"\""]);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_is_new_is_counted() {
    let mut kinds = told();
    kinds[1] = EventKind::Unrecognized(Unrecognized::new("{}").r#type("brand_new"));
    let mut seen = seen(kinds);
    let line = r#"{"type":"result","subtype":"success","is_error":false,"never_seen":1}"#;
    seen.raw = format!("{line}\n{line}\n").into_bytes();
    let news = news::find("claude-code", &seen);
    assert_eq!(news.types.into_iter().collect::<Vec<_>>(), [("brand_new".to_owned(), 1)]);
    assert_eq!(news.fields.get("<result:success>.never_seen"), Some(&2), "{:?}", news.fields);
    let cell = Cell {
        recipe: recipe(),
        scenario: scenario::named("plain").unwrap(),
        verdict: Verdict::Passed(Vec::new()),
        news: News { types: [("brand_new".to_owned(), 2)].into(), ..News::default() },
        time: std::time::Duration::ZERO,
    };
    let text = report::drift(&[recipe()], &[cell]);
    assert!(text.ends_with(" | `brand_new` (2) | none |\n"), "{text}");
}

const WHY: &str = "It does not say.";

fn exception(aspect: Aspect, what: &'static [&'static str]) -> Exception {
    Exception { scenarios: &["plain"], aspect, what, always: true, why: WHY }
}

#[test]
fn an_exception_excuses_what_it_names_and_nothing_else() {
    let differences = [Difference { aspect: Aspect::Tokens, what: "output unknown instead of 79".to_owned() }];
    let known = [exception(Aspect::Tokens, &["output unknown"])];
    assert_eq!(judge(&known, "plain", &differences), Verdict::Passed(vec![WHY]));
    assert!(matches!(judge(&known, "unicode", &differences), Verdict::Differs(_)));
    assert!(matches!(judge(&[exception(Aspect::Tokens, &["output 0"])], "plain", &differences), Verdict::Differs(_)));
    assert!(matches!(judge(&[exception(Aspect::Answer, &[""])], "plain", &differences), Verdict::Differs(_)));
    assert_eq!(judge(&[], "plain", &[]), Verdict::Passed(Vec::new()));
}

#[test]
fn an_exception_that_does_not_hold_any_more_is_found() {
    let mut known = exception(Aspect::Tokens, &["output unknown"]);
    assert!(matches!(judge(&[known], "plain", &[]), Verdict::Differs(_)));
    known.always = false;
    assert_eq!(judge(&[known], "plain", &[]), Verdict::Passed(Vec::new()));
}

#[test]
fn the_table_says_what_differs_and_why() {
    let scenarios: Vec<_> = ["plain", "unicode", "resume"].map(|name| scenario::named(name).unwrap()).into();
    let cell = |index: usize, verdict| Cell {
        recipe: recipe(),
        scenario: scenarios[index],
        verdict,
        news: News::default(),
        time: std::time::Duration::ZERO,
    };
    let cells = [cell(1, Verdict::Differs(vec!["answer: nothing".to_owned()])), cell(0, Verdict::Passed(vec![WHY]))];
    let text = report::markdown(&[recipe()], &scenarios, &cells);
    assert!(text.contains("| plain | passed (1) |\n| unicode | **differs** |\n| resume | not run |\n"), "{text}");
    assert!(text.contains(", unicode: answer: nothing\n") && text.ends_with("\n1. It does not say.\n"), "{text}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_is_left_is_seen_by_its_variable_and_by_its_folder() {
    let folder = std::env::temp_dir().join(format!("sabir-lab-left-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mark = format!("SABIR_RUN_ID=lab-test-{}", std::process::id());
    let (name, value) = mark.split_once('=').unwrap();
    // It waits until its input ends, and its input ends when we let go of it.
    let mut child = std::process::Command::new("cat")
        .env(name, value)
        .current_dir(&folder)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Only when it answers is it surely the program, with its variables, and no longer who starts it.
    child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let by_variable = left::find(std::slice::from_ref(&mark), "/nowhere".as_ref()).unwrap();
    let by_folder = left::find(&[], &folder).unwrap();
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(by_variable, [Left { process: child.id(), command: "cat".to_owned() }]);
    assert_eq!(by_folder, by_variable);
    assert_eq!(left::find(&[mark], &folder).unwrap(), []);
    std::fs::remove_dir_all(&folder).unwrap();
}
