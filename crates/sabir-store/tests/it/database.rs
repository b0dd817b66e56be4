//! Databases of sessions.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use sabir_core::event::Outcome;
use sabir_core::history::Paid;
use sabir_store::account::{self, Portion};
use sabir_store::history::{Database, Role};

use crate::{read_logs, write};

fn path(home: &Path) -> PathBuf {
    home.join(".local/share/opencode/opencode.db")
}

/// A database in use: its rows are in the file beside it, and the writer is still there.
fn database(home: &Path) -> Connection {
    std::fs::create_dir_all(path(home).parent().expect("a folder")).expect("made");
    let connection = Connection::open(path(home)).expect("opened");
    connection.pragma_update(None, "journal_mode", "wal").expect("a log of writes");
    connection
        .execute_batch(
            r#"CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT NOT NULL, title TEXT NOT NULL,
                                     version TEXT NOT NULL, time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL);
               CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, time_created INTEGER NOT NULL,
                                     data TEXT NOT NULL);
               CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT NOT NULL, session_id TEXT NOT NULL,
                                  time_created INTEGER NOT NULL, data TEXT NOT NULL);
               INSERT INTO session VALUES ('ses_1', NULL, '/home/user/project', 'New session - x', '1.18.33', 1000, 9000);
               INSERT INTO session VALUES ('ses_2', 'ses_1', '/home/user/project', 'Sub', '1.18.33', 2000, 3000);
               INSERT INTO session VALUES ('ses_3', 'ses_2', '/home/user/project', 'Sub of sub', '1.18.33', 2500, 2900);
               INSERT INTO message VALUES ('msg_1', 'ses_1', 1001, '{"role":"user","time":{"created":1001}}');
               INSERT INTO part VALUES ('prt_1', 'msg_1', 'ses_1', 1001, '{"type":"text","text":"fix \"it\""}');"#,
        )
        .expect("made");
    answer(&connection, "ses_1", "msg_2", 1002);
    answer(&connection, "ses_2", "msg_3", 2001);
    answer(&connection, "ses_3", "msg_4", 2501);
    connection
}

/// A message of the model: a call and the end of the step.
fn answer(connection: &Connection, session: &str, message: &str, at: i64) {
    let data = format!(
        r#"{{"role":"assistant","modelID":"model-a","cost":0.25,"finish":"stop","time":{{"created":{at},"completed":{at}}},
            "tokens":{{"input":10,"output":3,"reasoning":1,"cache":{{"read":5,"write":2}}}}}}"#
    );
    connection.execute("INSERT INTO message VALUES (?1, ?2, ?3, ?4)", (message, session, at, data)).expect("a message");
    let parts = [
        r#"{"type":"step-start"}"#,
        r#"{"type":"tool","tool":"bash","callID":"c","state":{"status":"completed","input":{},"output":"x","metadata":{}}}"#,
        r#"{"type":"text","text":"done"}"#,
        r#"{"reason":"stop","type":"step-finish","cost":0.25,
            "tokens":{"input":10,"output":3,"reasoning":1,"cache":{"read":5,"write":2}}}"#,
    ];
    for (number, data) in parts.into_iter().enumerate() {
        let id = format!("prt_{message}_{number}");
        connection.execute("INSERT INTO part VALUES (?1, ?2, ?3, ?4, ?5)", (id, message, session, at, data)).expect("a part");
    }
}

#[test]
fn of_long_rows_as_much_is_read_as_tells() {
    let home = tempfile::tempdir().expect("a folder");
    let writer = database(home.path());
    let calls = || {
        let logs = read_logs(home.path(), "opencode", None);
        assert_eq!(logs.logs.iter().map(|log| log.account.bad_lines()).sum::<u64>(), 0);
        let account = &logs.logs[0].account;
        (account.totals().calls_of_all, account.totals().spent.total())
    };
    let before = calls();
    let output = "long\\n".repeat(10_000);
    let rows = [
        // A call says so at once, or at its end; what is no call is read whole.
        format!(r#"{{"type":"tool","state":{{"output":"{output}"}}}}"#),
        format!(r#"{{"state":{{"output":"{output}"}},"type":"tool"}}"#),
        format!(r#"{{"type":"text","text":"{output}"}}"#),
        format!(r#"{{"snapshot":"{output}","type":"step-finish","tokens":{{"input":100}}}}"#),
    ];
    for (number, data) in rows.iter().enumerate() {
        let part = (format!("prt_z{number}"), "msg_2", "ses_1", 1003, data);
        writer.execute("INSERT INTO part VALUES (?1, ?2, ?3, ?4, ?5)", part).expect("a part");
    }
    assert_eq!(calls(), (before.0 + 2, before.1 + 100));
    // Bytes are as good as text.
    writer.execute("UPDATE part SET data = CAST(data AS BLOB) WHERE id LIKE 'prt_z%'", ()).expect("changed");
    assert_eq!(calls(), (before.0 + 2, before.1 + 100));
    let mut long = 0;
    let take = |line: &[u8]| long += usize::from(line.len() > output.len());
    Database::open(&path(home.path())).and_then(|mut database| database.session_lines("ses_1", take)).expect("read");
    assert_eq!(long, rows.len(), "a session is read whole");
}

#[test]
fn in_whatever_order_rows_lie_they_tell_the_same() {
    let home = tempfile::tempdir().expect("a folder");
    let writer = database(home.path());
    let ledgers = || {
        let logs = read_logs(home.path(), "opencode", None);
        assert!(logs.failures.is_empty(), "{:?}", logs.failures);
        logs.logs.into_iter().map(|log| log.account).collect::<Vec<_>>()
    };
    // A message of many steps, and one of the user that came while the model was at it.
    answer(&writer, "ses_1", "msg_5", 4000);
    writer
        .execute_batch(
            r#"INSERT INTO part SELECT id || 'b', message_id, session_id, time_created, data FROM part WHERE message_id = 'msg_5';
               INSERT INTO message VALUES ('msg_6', 'ses_1', 4001, '{"role":"user","time":{"created":4001}}');
               INSERT INTO part VALUES ('prt_6', 'msg_6', 'ses_1', 4001, '{"type":"text","text":"and that"}');
               INSERT INTO part VALUES ('prt_msg_5_9', 'msg_5', 'ses_1', 4002, '{"type":"tool"}');"#,
        )
        .expect("written");
    answer(&writer, "ses_1", "msg_7", 5000);
    let wanted = ledgers();
    assert_eq!(wanted[0].keys().len(), 4, "a step more than there are answers");
    assert_eq!(wanted[0].responses().map(|response| response.calls).collect::<Vec<_>>(), [1, 2, 1, 1]);
    for order in ["message_id, id", "id DESC", "message_id DESC, id DESC", "substr(id, -1), id", "session_id, message_id, id"] {
        for of_messages in ["id", "id DESC", "session_id, id", "time_created % 7"] {
            let again = format!(
                "CREATE TABLE parts AS SELECT * FROM part; DELETE FROM part;
                 INSERT INTO part SELECT * FROM parts ORDER BY {order}; DROP TABLE parts;
                 CREATE TABLE messages AS SELECT * FROM message; DELETE FROM message;
                 INSERT INTO message SELECT * FROM messages ORDER BY {of_messages}; DROP TABLE messages;"
            );
            writer.execute_batch(&again).expect("written again");
            assert_eq!(ledgers(), wanted, "{order}; {of_messages}");
        }
    }
    // What belongs to nothing is nobody's.
    writer
        .execute_batch(
            r#"INSERT INTO part VALUES ('prt_0', 'msg_0', 'ses_1', 1, '{"type":"tool"}');
               UPDATE part SET rowid = -1 WHERE id = 'prt_0';
               INSERT INTO message VALUES ('msg_8', 'ses_0', 1, '{"role":"user"}');
               INSERT INTO part VALUES ('prt_8', 'msg_8', 'ses_0', 1, '{"type":"tool"}');"#,
        )
        .expect("written");
    assert_eq!(ledgers(), wanted);
}

#[test]
fn a_database_in_use_is_read_by_session() {
    let home = tempfile::tempdir().expect("a folder");
    let writer = database(home.path());
    let logs = read_logs(home.path(), "opencode", None);
    assert!(logs.failures.is_empty(), "{:?}", logs.failures);
    let roles: Vec<&Role> = logs.logs.iter().map(|log| &log.file.role).collect();
    let of = || Role::Of("ses_1".to_owned());
    assert_eq!(roles, [&Role::Session("ses_1".to_owned()), &of(), &of()]);
    let sessions = account::sessions(&logs.logs);
    assert_eq!(sessions.len(), 1);
    let session = &sessions[0];
    assert_eq!((session.account(&logs.logs).title(), session.outcome), (Some("fix \"it\""), Outcome::Completed));
    assert_eq!((session.calls(&logs.logs), session.spent(&logs.logs).total()), (3, 3 * 21));
    let portions = crate::portions(&logs.logs, &sessions);
    let costs: Vec<Option<Paid>> = portions.iter().flat_map(Portion::responses).map(|response| response.cost).collect();
    assert_eq!(costs, [Some(Paid::Reported(0.25)); 3]);
    drop(writer);
}

#[test]
fn the_index_knows_what_was_written_beside_the_database() {
    let home = tempfile::tempdir().expect("a folder");
    let index = home.path().join("index.db");
    let writer = database(home.path());
    assert_eq!(read_logs(home.path(), "opencode", Some(&index)).files_read, 1);
    let known = read_logs(home.path(), "opencode", Some(&index));
    assert_eq!((known.files_read, known.logs.len()), (0, 3));
    answer(&writer, "ses_1", "msg_5", 4000);
    let fresh = read_logs(home.path(), "opencode", Some(&index));
    assert_eq!((fresh.files_read, fresh.logs[0].account.keys().len()), (1, 2));
}

#[test]
fn a_session_comes_whole_with_its_sub_agents() {
    let home = tempfile::tempdir().expect("a folder");
    let writer = database(home.path());
    let mut lines = Vec::new();
    let mut read = Database::open(&path(home.path())).expect("a database");
    read.session_lines("ses_1", |line| lines.push(String::from_utf8(line.to_vec()).expect("text"))).expect("read");
    assert_eq!(lines.len(), 3 + 1 + 1 + 3 * 5);
    assert!(lines[0].starts_with(r#"{"table":"session","id":"ses_1""#), "{}", lines[0]);
    assert!(lines.iter().all(|line| !line.contains('\n')));
    let registry = sabir_agents::builtin();
    let log = registry.find("opencode").and_then(|agent| agent.log.as_ref()).expect("a log");
    assert!(lines.iter().all(|line| log.dialect.detect(line) == sabir_core::agent::Confidence::Certain));
    // What is written while it is open is there the next time: a message, and a session.
    let count = |read: &mut Database, id: &str| {
        let mut count = 0;
        read.session_lines(id, |_| count += 1).expect("read");
        count
    };
    assert_eq!(count(&mut read, "ses_4"), 0);
    answer(&writer, "ses_1", "msg_5", 4000);
    writer.execute("INSERT INTO session VALUES ('ses_4', NULL, '/', 'New', '1', 5000, 5000)", ()).expect("a session");
    answer(&writer, "ses_4", "msg_6", 5001);
    assert_eq!((count(&mut read, "ses_1"), count(&mut read, "ses_4")), (lines.len() + 5, 1 + 5));
}

#[test]
fn a_database_that_nobody_uses_is_read_and_nothing_is_written_beside_it() {
    let home = tempfile::tempdir().expect("a folder");
    // What an address would take for something else.
    let odd = home.path().join("a ?b#c%41");
    drop(database(&odd));
    let folder = path(&odd).parent().expect("a folder").to_path_buf();
    let names =
        || std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect::<Vec<_>>();
    assert_eq!(names(), ["opencode.db"]);
    let logs = read_logs(&odd, "opencode", None);
    assert!(logs.failures.is_empty(), "{:?}", logs.failures);
    assert_eq!(logs.logs.len(), 3);
    let count = |read: &mut Database| {
        let mut count = 0;
        read.session_lines("ses_1", |_| count += 1).expect("read");
        count
    };
    let mut read = Database::open(&path(&odd)).expect("a database");
    let before = count(&mut read);
    assert_eq!(names(), ["opencode.db"]);
    // Somebody opens it and writes.
    let writer = Connection::open(path(&odd)).expect("opened");
    answer(&writer, "ses_1", "msg_9", 4000);
    assert_eq!(count(&mut read), before + 5);
    drop(writer);
    assert_eq!(count(&mut read), before + 5);
    assert_eq!(read_logs(&odd, "opencode", None).logs[0].account.keys().len(), 2);
}

#[test]
fn what_cannot_be_read_is_named() {
    let home = tempfile::tempdir().expect("a folder");
    write(&path(home.path()), "this is no database, whatever its name says");
    let logs = read_logs(home.path(), "opencode", None);
    assert!(logs.logs.is_empty());
    assert_eq!(logs.failures.len(), 1);
    assert_eq!(logs.failures[0].0, path(home.path()));

    std::fs::remove_file(path(home.path())).expect("removed");
    let other = Connection::open(path(home.path())).expect("opened");
    other.execute_batch("CREATE TABLE users (id TEXT)").expect("made");
    let logs = read_logs(home.path(), "opencode", None);
    let told = logs.failures.first().map(|(_, error)| error.to_string()).unwrap_or_default();
    assert!(told.contains("session"), "{told}");
}
