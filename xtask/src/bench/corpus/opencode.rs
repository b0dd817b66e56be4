//! OpenCode's database: a message has the figures of its last step, the cost of all of them, and steps of its own; a fork
//! has copies of messages under new ids.

use std::fs;

use anyhow::{Context as _, Result};
use rusqlite::{Connection, params};

use super::{BEGIN, Figures, SPAN, Writer};

const MODEL: &str = "claude-haiku-4-5-20251001";
const FILE: &str = ".local/share/opencode/opencode.db";

pub(super) fn write(writer: &mut Writer, bytes: u64) -> Result<()> {
    let path = writer.home.join(FILE);
    fs::create_dir_all(path.parent().context("a database is in a folder")?)?;
    let mut connection = Connection::open(&path)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.execute_batch(
        "CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT NOT NULL, title TEXT NOT NULL,
                               version TEXT NOT NULL, time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL);
         CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, time_created INTEGER NOT NULL, data TEXT NOT NULL);
         CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT NOT NULL, session_id TEXT NOT NULL,
                            time_created INTEGER NOT NULL, data TEXT NOT NULL);
         CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id);
         CREATE INDEX part_message_id_id_idx ON part (message_id, id);
         CREATE INDEX part_session_idx ON part (session_id);",
    )?;
    let transaction = connection.transaction()?;
    let (mut written, mut parent) = (0, None);
    while written < bytes {
        let begin = BEGIN + writer.random.range(0, SPAN).cast_signed();
        let mut session = Session { id: format!("ses_{}", writer.random.hex(20)), at: begin, number: 0, messages: Vec::new() };
        let most = (writer.random.size() * 30).min(bytes - written + 20_000);
        let mut size = 0;
        while size < most {
            size += session.exchange(writer);
        }
        session.insert(&transaction, parent.as_deref(), begin)?;
        written += size;
        writer.truth.sessions += 1;
        if writer.random.one_in(12) {
            // The same messages again, under other ids.
            session.rename(writer);
            session.insert(&transaction, None, begin)?;
            written += size;
        }
        // Some of the sessions that follow are sub-agents of this one.
        parent = writer.random.one_in(4).then_some(session.id);
    }
    transaction.commit()?;
    connection.close().map_err(|(_, error)| error)?;
    writer.truth.files += 1;
    writer.truth.bytes += fs::metadata(&path)?.len();
    Ok(())
}

struct Session {
    id: String,
    at: i64,
    /// Ids are in the order of time.
    number: u64,
    messages: Vec<Message>,
}

struct Message {
    id: String,
    at: i64,
    data: String,
    parts: Vec<(String, String)>,
}

impl Session {
    /// A prompt and its answer; how many bytes they have.
    fn exchange(&mut self, writer: &mut Writer) -> u64 {
        let asked = writer.random.range(60, 2000);
        let prompt = format!(r#"{{"type":"text","text":"{}"}}"#, writer.random.text(asked));
        let data = format!(r#"{{"role":"user","time":{{"created":{}}},"agent":"build"}}"#, self.at);
        let mut size = prompt.len() as u64;
        self.message(writer, data, vec![prompt]);
        self.at += writer.random.range(300, 9000).cast_signed();
        let (mut parts, mut cost, mut last) = (Vec::new(), 0.0, String::new());
        let steps = writer.random.range(1, 6);
        for step in 0..steps {
            let figures = Figures {
                input: writer.random.range(5, 900),
                cache_read: writer.random.range(5000, 90_000),
                cache_write: writer.random.range(0, 3000),
                output: writer.random.range(20, 900),
                ..Figures::default()
            };
            let priced = figures.priced(MODEL).cost;
            cost += priced;
            last = format!(
                r#"{{"input":{},"output":{},"reasoning":0,"cache":{{"read":{},"write":{}}}}}"#,
                figures.input, figures.output, figures.cache_read, figures.cache_write
            );
            let is_last = step + 1 == steps;
            parts.push(r#"{"type":"step-start"}"#.to_owned());
            let long = writer.random.size();
            parts.push(if is_last {
                format!(r#"{{"type":"text","text":"{}"}}"#, writer.random.text(400))
            } else {
                writer.truth.tool_calls += 1;
                format!(
                    r#"{{"type":"tool","callID":"call_{}","tool":"bash","state":{{"status":"completed","input":{{"command":"ls"}},"output":"{}"}}}}"#,
                    writer.random.hex(16),
                    writer.random.text(long)
                )
            });
            let reason = if is_last { "stop" } else { "tool-calls" };
            parts.push(format!(r#"{{"type":"step-finish","reason":"{reason}","cost":{priced},"tokens":{last}}}"#));
            writer.truth.count(MODEL, self.at, figures);
        }
        size += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let data = format!(
            r#"{{"role":"assistant","time":{{"created":{},"completed":{}}},"modelID":"{MODEL}","providerID":"anthropic","cost":{cost},"tokens":{last},"finish":"stop"}}"#,
            self.at,
            self.at + 5000
        );
        self.message(writer, data, parts);
        self.at += writer.random.range(20_000, 400_000).cast_signed();
        size
    }

    fn message(&mut self, writer: &mut Writer, data: String, parts: Vec<String>) {
        let mut id = |kind: &str| {
            self.number += 1;
            format!("{kind}_{:08}{}", self.number, writer.random.hex(16))
        };
        let (message, parts) = (id("msg"), parts.into_iter().map(|part| (id("prt"), part)).collect());
        self.messages.push(Message { id: message, at: self.at, data, parts });
    }

    fn rename(&mut self, writer: &mut Writer) {
        self.id = format!("ses_{}", writer.random.hex(20));
        for message in &mut self.messages {
            message.id.push('f');
            message.parts.iter_mut().for_each(|(id, _)| id.push('f'));
        }
    }

    fn insert(&self, connection: &Connection, parent: Option<&str>, begin: i64) -> Result<()> {
        let mut session =
            connection.prepare_cached("INSERT INTO session VALUES (?1, ?2, '/home/dev/open', 'work', '1.18.33', ?3, ?4)")?;
        session.execute(params![self.id, parent, begin, self.at])?;
        let mut message = connection.prepare_cached("INSERT INTO message VALUES (?1, ?2, ?3, ?4)")?;
        let mut part = connection.prepare_cached("INSERT INTO part VALUES (?1, ?2, ?3, ?4, ?5)")?;
        for one in &self.messages {
            message.execute(params![one.id, self.id, one.at, one.data])?;
            for (id, data) in &one.parts {
                part.execute(params![id, one.id, self.id, one.at, data])?;
            }
        }
        Ok(())
    }
}
