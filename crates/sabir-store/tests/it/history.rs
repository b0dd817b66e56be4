//! Logs of agents: found, read in short, kept in the index, counted once.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use sabir_agents::builtin;
use sabir_core::event::{EventKind, Final, Outcome};
use sabir_core::history::Spent;
use sabir_core::price::Table;
use sabir_store::account::{self, Portion, Session};
use sabir_store::history::{self, LINE_CAP, Places, Role};
use sabir_store::index::{self, Index, Logs};
use sabir_store::usage::{self, By, Question};
use sabir_store::whole;
use tempfile::TempDir;

/// A home folder with logs of Claude Code in it.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn log(&self, name: &str) -> PathBuf {
        self.path().join(".claude/projects/-home-user-a").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.log(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn append(&self, name: &str, text: &str) {
        let mut file = OpenOptions::new().append(true).open(self.log(name)).expect("opened");
        file.write_all(text.as_bytes()).expect("written");
    }

    fn index(&self) -> PathBuf {
        self.path().join("kept/history.index")
    }

    fn read(&self, with_index: bool) -> Logs {
        let places = Places { home: Some(self.path().to_path_buf()), registry: builtin(), ..Places::default() };
        let mut index = if with_index { Index::open(&self.index()) } else { Index::default() };
        let found = history::find_in(&mut index, &places, |_| true);
        assert!(found.failures.is_empty(), "{:?}", found.failures);
        index::read(found.files, index, &mut |_, _| {})
    }
}

fn prompt(session: &str, second: u32) -> String {
    format!(
        "{}\n",
        r#"{"parentUuid":null,"isSidechain":false,"type":"user","message":{"role":"user","content":"Do it"},"uuid":"u","timestamp":"2026-11-15T10:00:SSZ","userType":"external","cwd":"/home/user/a","sessionId":"ID","version":"2.1.1"}"#
            .replace("SSZ", &format!("{second:02}.000Z"))
            .replace("ID", session)
    )
}

fn answer(session: &str, id: &str, second: u32, output: u32) -> String {
    format!(
        "{}\n",
        r#"{"parentUuid":"u","isSidechain":false,"message":{"model":"claude-sonnet-4-5-20250929","id":"MSG","role":"assistant","content":[{"type":"tool_use","id":"call-MSG","name":"Bash","input":{}}],"stop_reason":"end_turn","usage":{"input_tokens":10,"cache_read_input_tokens":1000,"cache_creation_input_tokens":0,"output_tokens":OUT}},"type":"assistant","timestamp":"2026-11-15T10:00:SSZ","userType":"external","cwd":"/home/user/a","sessionId":"ID","version":"2.1.1"}"#
            .replace("SSZ", &format!("{second:02}.000Z"))
            .replace("ID", session)
            .replace("MSG", id)
            .replace("OUT", &output.to_string())
    )
}

fn counted(logs: &Logs) -> (Vec<Session>, u64, u64) {
    let sessions = account::sessions(&logs.logs);
    let portions = crate::portions(&logs.logs, &sessions);
    let output = portions.iter().map(|portion| portion.stretch.spent.output).sum();
    let calls = portions.iter().map(|portion| portion.stretch.calls).sum();
    (sessions, output, calls)
}

#[test]
fn only_what_is_new_is_read_and_the_answer_is_the_same() {
    let home = Home::new();
    home.write("one.jsonl", &(prompt("one", 1) + &answer("one", "m1", 2, 40)));
    home.write("two.jsonl", &(prompt("two", 1) + &answer("two", "m2", 3, 50)));
    assert_eq!(home.read(true).files_read, 2);
    assert_eq!(home.read(true).files_read, 0);
    home.append("one.jsonl", &answer("one", "m3", 4, 7));
    let logs = home.read(true);
    assert_eq!((logs.files_read, counted(&logs).1, counted(&logs).2), (1, 97, 3));
    let (with, without) = (home.read(true), home.read(false));
    assert_eq!(with.files_read, 0);
    for (a, b) in with.logs.iter().zip(&without.logs) {
        assert_eq!(a.account, b.account, "{}", a.file.path.display());
        assert_eq!(a.progress, b.progress);
    }
}

#[test]
fn a_file_that_was_replaced_or_cut_is_read_anew() {
    let home = Home::new();
    home.write("one.jsonl", &(prompt("one", 1) + &answer("one", "m1", 2, 40) + &answer("one", "m2", 3, 5)));
    home.read(true);
    // The same beginning, another end, and longer.
    home.write(
        "one.jsonl",
        &(prompt("one", 1) + &answer("one", "m1", 2, 40) + &answer("one", "m9", 3, 600) + &answer("one", "m8", 4, 1)),
    );
    assert_eq!(counted(&home.read(true)).1, 641);
    home.write("one.jsonl", &(prompt("one", 1) + &answer("one", "m1", 2, 40)));
    assert_eq!(counted(&home.read(true)).1, 40);
    // Cut, and longer again before anybody looked.
    let file = OpenOptions::new().write(true).open(home.log("one.jsonl")).expect("opened");
    file.set_len(prompt("one", 1).len() as u64).expect("cut");
    home.append("one.jsonl", &(answer("one", "m5", 2, 9) + &answer("one", "m6", 3, 1)));
    let (with, without) = (home.read(true), home.read(false));
    assert_eq!((counted(&with).1, &with.logs[0].account), (10, &without.logs[0].account));
    fs::remove_file(home.log("one.jsonl")).expect("removed");
    assert_eq!(counted(&home.read(true)).1, 0);
}

#[test]
fn a_wrong_index_is_made_anew() {
    let home = Home::new();
    home.write("one.jsonl", &(prompt("one", 1) + &answer("one", "m1", 2, 40)));
    home.read(true);
    let sound = fs::read(home.index()).expect("an index");
    let mut broken_rows = sound.clone();
    // The digest of each row notices any byte of it that is another one.
    let end = broken_rows.len();
    broken_rows[end - 200..end - 60].iter_mut().for_each(|byte| *byte ^= 0x55);
    for wrong in [b"not a database at all".to_vec(), Vec::new(), sound[..sound.len() / 2].to_vec(), broken_rows] {
        fs::write(home.index(), &wrong).expect("written");
        assert_eq!(counted(&home.read(true)).1, 40);
        let again = home.read(true);
        assert_eq!(counted(&again).1, 40);
    }
    // Any byte, as a bad disk has them, and any end, as a full one leaves them.
    for place in 0..sound.len() {
        let mut wrong = sound.clone();
        wrong[place] ^= 0xff;
        for wrong in [&wrong, &sound[..place]] {
            fs::write(home.index(), wrong).expect("written");
            assert_eq!(counted(&home.read(true)).1, 40, "byte {place}");
            assert_eq!(home.read(true).files_read, 0, "byte {place}");
        }
    }
    // A folder in its place can't be removed as a file: the logs are read without an index.
    let _ = fs::remove_file(home.index());
    fs::create_dir(home.index()).expect("made");
    assert_eq!(counted(&home.read(true)).1, 40);
    // There is no folder for it, and none can be made.
    fs::remove_dir_all(home.path().join("kept")).expect("removed");
    fs::write(home.path().join("kept"), "a file is no folder").expect("written");
    assert_eq!(counted(&home.read(true)).1, 40);
}

#[test]
fn an_index_does_not_outgrow_what_it_knows() {
    let home = Home::new();
    let name = |number: u32| format!("{number}.jsonl");
    (0..20).for_each(|number| home.write(&name(number), &(prompt("s", 1) + &answer("s", &name(number), 2, 1))));
    home.read(true);
    let size = || fs::metadata(home.index()).expect("an index").len();
    let first = size();
    for turn in 0..100 {
        home.append(&name(turn % 20), &prompt("s", 3));
        assert_eq!(home.read(true).files_read, 1);
        assert!(size() <= 3 * first, "{} after {turn} changes, {first} at first", size());
    }
    // Logs that are gone leave it too.
    (1..20).for_each(|number| fs::remove_file(home.log(&name(number))).expect("removed"));
    home.append(&name(0), &prompt("s", 4));
    assert_eq!(home.read(true).files_read, 1);
    assert!(size() <= first / 5, "{} of {first}", size());
    assert_eq!(home.read(true).files_read, 0);
}

#[test]
fn many_write_an_index_at_once() {
    let home = Home::new();
    let name = |number: u32| format!("{number}.jsonl");
    (0..20).for_each(|number| home.write(&name(number), &prompt("s", 1)));
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let home = &home;
            scope.spawn(move || {
                for turn in 0..25 {
                    let id = format!("{reader}-{turn}");
                    home.append(&name((reader * 7 + turn) % 20), &answer("s", &id, 2, 1));
                    let logs = home.read(true);
                    assert!(counted(&logs).1 > u64::from(turn), "its own lines are there");
                }
            });
        }
    });
    let (with, without) = (home.read(true), home.read(false));
    assert_eq!((counted(&with).1, counted(&without).1), (100, 100));
    assert!(with.logs.iter().zip(&without.logs).all(|(one, other)| one.account == other.account));
    assert_eq!(home.read(true).files_read, 0);
}

#[test]
fn lines_that_nobody_should_write_cost_no_others() {
    let home = Home::new();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let hostile = [
        format!(r#"{{"type":"assistant","message":{{"content":{deep}}}}}"#),
        "{\"a\":".repeat(100_000),
        r#"{"type":"telepathy","sessionId":"one"}"#.to_owned(),
        r#"{"type":"assistant","message":"words"}"#.to_owned(),
        r#"{"type":7,"message":[],"timestamp":{}}"#.to_owned(),
        "\u{0} not JSON \u{feff}".to_owned(),
        String::new(),
    ];
    let twice = answer("one", "m2", 3, 5).replace("\"usage\":{", "\"usage\":{\"output_tokens\":999,");
    // The clock goes backwards, says nothing, and is set to before its beginning.
    let clock = answer("one", "m3", 1, 7)
        + &answer("one", "m4", 1, 8).replace("2026-11-15T10:00:01.000Z", "soon")
        + &answer("one", "m5", 1, 9).replace("2026-11-15", "1969-11-15");
    let mut text = (prompt("one", 1) + &answer("one", "m1", 50, 40)).into_bytes();
    hostile.iter().for_each(|line| text.extend_from_slice(format!("{line}\n").as_bytes()));
    text.extend_from_slice((twice + &clock).as_bytes());
    text.extend_from_slice(b"{\"type\":\"user\",\"x\":\"\xff\xfe\"}\r\n\xff\n");
    home.write("one.jsonl", "");
    fs::write(home.log("one.jsonl"), &text).expect("written");
    home.read(true);
    let (with, without) = (home.read(true), home.read(false));
    assert_eq!((with.files_read, &with.logs[0].account), (0, &without.logs[0].account));
    assert_eq!((counted(&with).1, with.logs[0].account.bad_lines()), (40 + 5 + 7 + 8 + 9, 3));
    let sessions = account::sessions(&with.logs);
    let question = Question { by: By::Day, since: None, until: None, zone: TimeZone::UTC, breakdown: false };
    let days = usage::usage(&with.logs, &sessions, &|_| true, &question, Table::embedded()).rows;
    let days: Vec<(&str, u64)> = days.iter().map(|(day, row)| (day.as_str(), row.sum.spent.output)).collect();
    assert_eq!(days, [("1969-11-15", 9), ("2026-11-15", 60)], "what has no time was when the line before it was");
}

#[test]
fn logs_of_two_machines_count_once_and_are_one_session_unless_they_went_apart() {
    let home = Home::new();
    let text = prompt("one", 1) + &answer("one", "m1", 2, 40);
    home.write("one.jsonl", &text);
    home.write("../-home-other-a/one.jsonl", &(text.clone() + &answer("one", "m2", 3, 5)));
    let logs = home.read(false);
    let (sessions, output, calls) = counted(&logs);
    assert_eq!((sessions.len(), output, calls), (1, 45, 2));
    assert!(logs.logs[sessions[0].logs[0]].file.path.to_string_lossy().contains("-home-other-a"), "the one that goes further");
    home.append("one.jsonl", &answer("one", "m3", 4, 6));
    let (sessions, output, calls) = counted(&home.read(false));
    assert_eq!((sessions.len(), output, calls), (2, 51, 3));
}

#[test]
fn half_a_line_waits_for_its_other_half() {
    let home = Home::new();
    let last = answer("one", "m2", 3, 5);
    let (head, tail) = last.split_at(300);
    home.write("one.jsonl", &(prompt("one", 1) + &answer("one", "m1", 2, 40) + head));
    let logs = home.read(true);
    assert_eq!((counted(&logs).1, logs.logs[0].progress.unfinished, logs.logs[0].account.bad_lines()), (40, true, 0));
    home.append("one.jsonl", tail);
    let logs = home.read(true);
    assert_eq!((counted(&logs).1, logs.logs[0].progress.unfinished), (45, false));
    // A whole line whose end has not come counts, and counts once when it has.
    home.append("one.jsonl", answer("one", "m3", 4, 1).trim_end());
    assert_eq!(counted(&home.read(true)).1, 46);
    home.append("one.jsonl", &format!("\n{}", answer("one", "m4", 5, 2)));
    assert_eq!(counted(&home.read(true)).1, 48);
}

#[test]
fn copies_count_once_and_belong_to_the_first() {
    let home = Home::new();
    let text = prompt("one", 1) + &answer("one", "m1", 2, 40) + &answer("one", "m2", 3, 50);
    home.write("one.jsonl", &text);
    // A fork, and a side question about the last response.
    home.write("two.jsonl", &(text.replace("\"one\"", "\"two\"") + &answer("two", "m3", 9, 5)));
    let side = answer("one", "m2", 3, 50).replace("\"isSidechain\":false", "\"isSidechain\":true,\"agentId\":\"q\"");
    home.write("one/subagents/agent-q.jsonl", &side);
    let logs = home.read(false);
    let (sessions, output, calls) = counted(&logs);
    assert_eq!((sessions.len(), output, calls), (2, 95, 3));
    let portions = crate::portions(&logs.logs, &sessions);
    let of = |id: &str| {
        let of_session = portions.iter().filter(|portion| sessions[portion.session].id == id);
        of_session.flat_map(Portion::responses).count()
    };
    assert_eq!((of("one"), of("two")), (2, 1));
    let sums = usage::by_session(&logs.logs, &sessions, Table::embedded());
    let output: Vec<(&str, u64)> =
        sessions.iter().zip(&sums).map(|(session, sum)| (session.id.as_str(), sum.spent.output)).collect();
    assert_eq!(output, [("one", 90), ("two", 5)]);
    assert!(sums.iter().all(|sum| sum.cost().0.is_some_and(|cost| cost > 0.0)));
}

#[test]
fn what_only_the_agents_sum_knows_counts_too() {
    let home = Home::new();
    let sum = r#"{"type":"cost-state","sessionId":"one","modelUsage":{"claude-sonnet-4-5-20250929":{"inputTokens":30,"outputTokens":45,"cacheReadInputTokens":1000,"cacheCreationInputTokens":0}}}"#;
    home.write("one.jsonl", &format!("{}{}{sum}\n", prompt("one", 1), answer("one", "m1", 2, 40)));
    let logs = home.read(false);
    let sessions = account::sessions(&logs.logs);
    let mut spent = Spent::default();
    crate::portions(&logs.logs, &sessions).iter().for_each(|portion| spent.add(&portion.stretch.spent));
    assert_eq!((spent.input, spent.output, spent.cache_read), (30, 45, 1000));
}

#[test]
fn a_line_that_is_too_long_is_counted_and_the_rest_is_read() {
    let home = Home::new();
    home.write("one.jsonl", &(prompt("one", 1) + &"x".repeat(LINE_CAP + 10) + "\n" + &answer("one", "m1", 2, 40)));
    let logs = home.read(false);
    assert_eq!((counted(&logs).1, logs.logs[0].progress.long_lines), (40, 1));
}

#[test]
fn an_older_chat_of_gemini_is_read_message_by_message() {
    let home = Home::new();
    let chats = home.path().join(".gemini/tmp/work/chats");
    fs::create_dir_all(&chats).expect("made");
    let answer = |number: usize| {
        let text = format!("answer {number} {}", "é\n".repeat(200_000));
        serde_json::json!({"id": format!("m{number}"), "timestamp": "2026-11-15T18:00:02.000Z", "type": "gemini", "content": text,
            "tokens": {"input": 100, "output": 5, "cached": 40, "thoughts": 1, "tool": 0, "total": 106}, "model": "gemini-2.5-pro"})
    };
    let asked = |number: usize| {
        let (id, time) = (format!("u{number}"), "2026-11-15T18:00:01.000Z");
        serde_json::json!({"id": id, "timestamp": time, "type": "user", "content": "Do it"})
    };
    let messages: Vec<_> = (0..45).flat_map(|number| [asked(number), answer(number)]).collect();
    let chat = serde_json::json!({"sessionId": "0a1b2c3d-1", "projectHash": "h", "startTime": "2026-11-15T18:00:00.000Z",
        "lastUpdated": "2026-11-15T18:00:02.000Z", "messages": messages});
    let pretty = serde_json::to_string_pretty(&chat).expect("JSON");
    assert!(pretty.len() > LINE_CAP, "the whole is longer than a line may be");
    let file = chats.join("session-2026-11-15T18-00-0a1b2c3d.json");
    // One that is being written, too: what is whole of it counts.
    let cut = pretty.find("\"u30\"").expect("a prompt");
    for (text, answers) in [(&pretty[..], 45), (&pretty[..cut], 30)] {
        fs::write(&file, text).expect("written");
        let logs = home.read(false);
        let (sessions, output, _) = counted(&logs);
        let session = &sessions[0];
        assert_eq!((sessions.len(), output, session.account(&logs.logs).title()), (1, answers * 6, Some("Do it")));
        assert_eq!(session.outcome, Outcome::Completed);
        let (mut texts, mut last) = (0, None);
        whole::events(session, &logs.logs, &mut |event| match &event.kind {
            EventKind::Text(_) => texts += 1,
            EventKind::Final(Final { text, .. }) => last = Some(text.clone().into_owned()),
            _ => {}
        })
        .expect("read");
        assert_eq!(texts, answers);
        let start: String = last.unwrap_or_default().chars().take(15).collect();
        assert!(start.starts_with(&format!("answer {} ", answers - 1)), "{start:?}");
    }
}

#[test]
fn variables_move_the_folders_and_strays_find_their_session() {
    let home = Home::new();
    let elsewhere = home.path().join("elsewhere/projects/-p");
    fs::create_dir_all(&elsewhere).expect("made");
    fs::write(elsewhere.join("one.jsonl"), prompt("one", 1)).expect("written");
    let side = answer("one", "m7", 3, 50).replace("\"isSidechain\":false", "\"isSidechain\":true,\"agentId\":\"q\"");
    fs::write(elsewhere.join("agent-q.jsonl"), side).expect("written");
    let value = home.path().join("elsewhere").into_os_string();
    let variables = [("CLAUDE_CONFIG_DIR".to_owned(), value)].into();
    let found = history::find(&Places { home: Some(home.path().to_path_buf()), variables, registry: builtin() }, |_| true);
    assert_eq!(found.files.iter().filter(|file| file.role == Role::Stray).count(), 1);
    let logs = index::read(found.files, Index::default(), &mut |_, _| {});
    let sessions = account::sessions(&logs.logs);
    assert_eq!((sessions.len(), sessions[0].spent(&logs.logs).output), (1, 50));
}

#[cfg(unix)]
#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_read() {
    use std::os::unix::fs::symlink;
    let home = Home::new();
    home.write("one.jsonl", &(prompt("one", 1) + &answer("one", "m1", 2, 40)));
    // A link to nowhere is a file that can't be read, also for the superuser.
    symlink("/nowhere/at/all", home.log("two.jsonl")).expect("linked");
    let found =
        history::find(&Places { home: Some(home.path().to_path_buf()), registry: builtin(), ..Places::default() }, |_| true);
    assert_eq!((found.files.len(), found.failures.len()), (1, 1));
    assert!(found.failures[0].0.ends_with("two.jsonl"));
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_not_opened() {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    let home = Home::new();
    home.write("one.jsonl", &(prompt("one", 1) + &answer("one", "m1", 2, 40)));
    // Reading a pipe that nobody writes to would never end.
    let made = std::process::Command::new("mkfifo").arg(home.log("pipe.jsonl")).status().expect("it starts");
    assert!(made.success());
    let _socket = UnixListener::bind(home.log("s.jsonl")).expect("bound");
    fs::create_dir(home.log("folder.jsonl")).expect("made");
    symlink("..", home.log("up")).expect("linked");
    symlink("loop.jsonl", home.log("loop.jsonl")).expect("linked");
    let found =
        history::find(&Places { home: Some(home.path().to_path_buf()), registry: builtin(), ..Places::default() }, |_| true);
    assert_eq!(found.files.len(), 1, "{:?}", found.files);
    assert_eq!(found.failures.iter().filter(|(path, _)| path.ends_with("loop.jsonl")).count(), found.failures.len());
    assert_eq!(counted(&index::read(found.files, Index::default(), &mut |_, _| {})).1, 40);
}

#[test]
fn rows_are_made_by_day_in_the_zone_of_the_question() {
    let home = Home::new();
    let late = answer("one", "m2", 3, 50).replace("2026-11-15T10", "2026-11-15T23");
    home.write("one.jsonl", &(prompt("one", 1) + &answer("one", "m1", 2, 40) + &late));
    let logs = home.read(false);
    let sessions = account::sessions(&logs.logs);
    let rows = |by: By, zone: &str, since: Option<i64>| {
        let zone = TimeZone::posix(zone).expect("a zone");
        let question = Question { by, since, until: None, zone, breakdown: false };
        let answer = usage::usage(&logs.logs, &sessions, &|_| true, &question, Table::embedded());
        answer.rows.into_iter().map(|(key, row)| (key, row.sum.spent.output)).collect::<Vec<_>>()
    };
    let row = |key: &str, output: u64| (key.to_owned(), output);
    assert_eq!(rows(By::Day, "UTC0", None), [row("2026-11-15", 90)]);
    assert_eq!(rows(By::Day, "CET-1", None), [row("2026-11-15", 40), row("2026-11-16", 50)]);
    assert_eq!(rows(By::Week, "CET-1", None), [row("2026-11-09", 40), row("2026-11-16", 50)]);
    assert_eq!(rows(By::Project, "UTC0", None), [row("/home/user/a", 90)]);
    assert_eq!(rows(By::Agent, "UTC0", Some(1_794_740_000_000)), [row("claude-code", 50)]);
}
