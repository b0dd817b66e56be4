//! The laws hold for any bytes: random ones, and recordings that were damaged in every way we know.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use sabir_core::dialect::End;
use serde_json::Value;

use crate::common::fixture;
use crate::common::invariants::check_all;

/// One way to damage a stream; the numbers choose where.
#[derive(Debug, Clone)]
enum Damage {
    CutStream(u16),
    CutLine(u16, u16),
    DropLine(u16),
    RepeatLine(u16),
    SwapLines(u16, u16),
    FlipByte(u16, u8),
    InsertBytes(u16, Vec<u8>),
    RemoveKey(u16, u16),
    ReplaceValue(u16, u16, u8),
    /// A line of another recording.
    InsertLine(u16, u16, u16),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        1 => any::<u16>().prop_map(Damage::CutStream),
        2 => any::<(u16, u16)>().prop_map(|(line, at)| Damage::CutLine(line, at)),
        2 => any::<u16>().prop_map(Damage::DropLine),
        2 => any::<u16>().prop_map(Damage::RepeatLine),
        2 => any::<(u16, u16)>().prop_map(|(a, b)| Damage::SwapLines(a, b)),
        2 => any::<(u16, u8)>().prop_map(|(at, bits)| Damage::FlipByte(at, bits)),
        1 => (any::<u16>(), proptest::collection::vec(any::<u8>(), 1..4)).prop_map(|(at, bytes)| Damage::InsertBytes(at, bytes)),
        4 => any::<(u16, u16)>().prop_map(|(line, key)| Damage::RemoveKey(line, key)),
        6 => any::<(u16, u16, u8)>().prop_map(|(line, at, value)| Damage::ReplaceValue(line, at, value)),
        2 => any::<(u16, u16, u16)>().prop_map(|(at, recording, line)| Damage::InsertLine(at, recording, line)),
    ]
}

impl Damage {
    fn apply(&self, stream: Vec<u8>, recordings: &[Vec<u8>]) -> Vec<u8> {
        let mut lines: Vec<Vec<u8>> = stream.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
        let count = lines.len();
        if count == 0 {
            return stream;
        }
        let pick = |number: u16| usize::from(number) % count;
        let at_byte = |number: u16| stream.len() * usize::from(number) / (usize::from(u16::MAX) + 1);
        match self {
            Self::CutStream(at) => return stream[..at_byte(*at)].to_vec(),
            Self::CutLine(line, at) => {
                let line = &mut lines[pick(*line)];
                line.truncate(usize::from(*at) % line.len());
                line.push(b'\n');
            }
            Self::DropLine(line) => drop(lines.remove(pick(*line))),
            Self::RepeatLine(line) => lines.insert(pick(*line), lines[pick(*line)].clone()),
            Self::SwapLines(a, b) => lines.swap(pick(*a), pick(*b)),
            Self::FlipByte(at, bits) => {
                let mut stream = stream.clone();
                stream[at_byte(*at)] ^= bits.max(&1);
                return stream;
            }
            Self::InsertBytes(at, bytes) => {
                let mut stream = stream.clone();
                let at = at_byte(*at);
                stream.splice(at..at, bytes.iter().copied());
                return stream;
            }
            Self::RemoveKey(line, key) => change_value(&mut lines[pick(*line)], *key, None),
            Self::ReplaceValue(line, at, value) => {
                let values =
                    ["null", "true", "-1", "18446744073709551616", "1.5e300", r#""""#, r#""x\ud800y""#, "[]", "{}", "[[{}]]"];
                let value = values[usize::from(*value) % values.len()];
                change_value(&mut lines[pick(*line)], *at, Some(value));
            }
            Self::InsertLine(at, recording, line) => {
                let other = &recordings[usize::from(*recording) % recordings.len()];
                let other: Vec<&[u8]> = other.split_inclusive(|&byte| byte == b'\n').collect();
                if !other.is_empty() {
                    lines.insert(pick(*at), other[usize::from(*line) % other.len()].to_vec());
                }
            }
        }
        lines.concat()
    }
}

/// Removes or replaces a value somewhere in a line of JSON; other lines stay as they are.
fn change_value(line: &mut Vec<u8>, number: u16, new: Option<&str>) {
    /// Stands for a value that `serde_json::Value` cannot hold.
    const MARK: &str = "\u{1}mark\u{1}";
    fn members(value: &Value) -> usize {
        match value {
            Value::Array(items) => items.iter().map(|item| 1 + members(item)).sum(),
            Value::Object(fields) => fields.values().map(|field| 1 + members(field)).sum(),
            _ => 0,
        }
    }
    fn change(value: &mut Value, number: &mut usize, remove: bool) -> bool {
        let mut hit = |value: &mut Value| {
            if *number == 0 {
                if !remove {
                    *value = Value::from(MARK);
                }
                return Some(true);
            }
            *number -= 1;
            change(value, number, remove).then_some(false)
        };
        match value {
            Value::Array(items) => match items.iter_mut().enumerate().find_map(|(index, item)| Some((index, hit(item)?))) {
                Some((index, true)) if remove => drop(items.remove(index)),
                Some(_) => {}
                None => return false,
            },
            Value::Object(fields) => match fields.iter_mut().find_map(|(key, field)| Some((key.clone(), hit(field)?))) {
                Some((key, true)) if remove => drop(fields.remove(&key)),
                Some(_) => {}
                None => return false,
            },
            _ => return false,
        }
        true
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(line) else { return };
    let count = members(&value);
    if count == 0 {
        return;
    }
    change(&mut value, &mut (usize::from(number) % count), new.is_none());
    let mark = serde_json::to_string(MARK).expect("JSON");
    *line = value.to_string().replace(&mark, new.unwrap_or_default()).into_bytes();
    line.push(b'\n');
}

fn an_end() -> impl Strategy<Value = End> {
    (proptest::option::of(0..3_i32), any::<bool>()).prop_map(|(exit_code, cancelled)| End {
        exit_code,
        cancelled,
        ..End::default()
    })
}

fn chunk_sizes() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(1..200_usize, 1..6)
}

/// Cases print themselves when they fail; nothing is kept between runs.
///
/// The same code gives the same answer: the cases are the same ones each time. Who sets `PROPTEST_CASES` explores, with
/// other cases in each run.
fn config(cases: u32) -> ProptestConfig {
    let asked_for = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let rng_seed = if asked_for.is_some() { RngSeed::Random } else { RngSeed::Fixed(1) };
    let cases = asked_for.unwrap_or(cases);
    ProptestConfig { cases, rng_seed, failure_persistence: None, max_shrink_iters: 5_000, ..ProptestConfig::default() }
}

/// What the properties found once.
#[test]
fn hold_for_regressions() {
    let total_of_its_own = r#"{"kind":"usage","inputTokens":3,"outputTokens":4,"totalTokens":1284,"scope":"message"}"#;
    check_all(total_of_its_own.as_bytes(), &[1], &End::default());
}

#[test]
fn hold_for_damaged_recordings() {
    let recordings: Vec<Vec<u8>> =
        fixture::all().into_iter().map(|fixture| fixture.input).filter(|input| !input.is_empty()).collect();
    if recordings.is_empty() {
        return;
    }
    let recording = 0..recordings.len();
    proptest!(config(2_000), |(recording in recording, damage in proptest::collection::vec(damage(), 1..6), sizes in chunk_sizes(), end in an_end())| {
        let stream = damage.iter().fold(recordings[recording].clone(), |stream, damage| damage.apply(stream, &recordings));
        check_all(&stream, &sizes, &end);
    });
}

proptest! {
    #![proptest_config(config(2_000))]

    #[test]
    fn hold_for_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400), sizes in chunk_sizes(), end in an_end()) {
        check_all(&bytes, &sizes, &end);
    }

    #[test]
    fn hold_for_any_text(text in "([a-z<>/:{}\\[\\]\",0-9é\u{2028} \\\\]|\r?\n|___|\"type\":){0,200}", sizes in chunk_sizes(), end in an_end()) {
        check_all(text.as_bytes(), &sizes, &end);
    }

    /// Lines that are JSON with the words that agents use, in no order that any agent prints.
    #[test]
    fn hold_for_any_json(lines in proptest::collection::vec(json(), 0..12), sizes in chunk_sizes(), end in an_end()) {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        check_all(lines.join("\n").as_bytes(), &sizes, &end);
    }
}

/// JSON values from the keys and words of the recordings' formats.
fn json() -> impl Strategy<Value = Value> {
    const KEYS: &[&str] = &[
        "type",
        "subtype",
        "message",
        "content",
        "id",
        "item",
        "msg",
        "event",
        "delta",
        "text",
        "tool_use_id",
        "tool_call_id",
        "callID",
        "name",
        "input",
        "usage",
        "result",
        "session_id",
        "parent_tool_use_id",
        "part",
        "state",
        "properties",
        "role",
        "index",
        "error",
        "status",
        "input_tokens",
        "output_tokens",
        "content_block",
        "toolCallId",
        "args",
        "is_error",
        "model",
        "stats",
    ];
    const WORDS: &[&str] = &[
        "assistant",
        "user",
        "system",
        "init",
        "result",
        "text",
        "tool_use",
        "tool_result",
        "thinking",
        "message",
        "item.started",
        "item.completed",
        "turn.started",
        "turn.completed",
        "turn.failed",
        "thread.started",
        "agent_message",
        "command_execution",
        "file_change",
        "stream_event",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_start",
        "message_delta",
        "text_delta",
        "input_json_delta",
        "step_start",
        "step_finish",
        "session.idle",
        "message.part.updated",
        "success",
        "error",
        "agent_start",
        "agent_end",
        "turn_start",
        "turn_end",
        "message_end",
        "message_update",
        "tool_execution_start",
        "tool_execution_end",
        "toolCall",
        "completed",
        "a",
        "b",
        "Bash",
        "Write",
    ];
    let leaf = prop_oneof![
        4 => proptest::sample::select(WORDS).prop_map(Value::from),
        1 => any::<u8>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    let tree = leaf.prop_recursive(4, 24, 5, |inner| {
        let object = proptest::collection::vec((proptest::sample::select(KEYS), inner.clone()), 0..6);
        prop_oneof![
            3 => object.prop_map(|fields| fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Value>()),
            1 => proptest::collection::vec(inner, 0..4).prop_map(Value::from),
        ]
    });
    (proptest::sample::select(WORDS), proptest::collection::vec((proptest::sample::select(KEYS), tree), 0..6)).prop_map(
        |(r#type, fields)| {
            let fields = fields.into_iter().map(|(key, value)| (key.to_owned(), value));
            fields.chain([("type".to_owned(), Value::from(r#type))]).collect()
        },
    )
}
