//! Tool calls in the shell protocol: commands, what they did to a repository, and all other tools.

use std::borrow::Cow;

use sabir_core::cut::head;
use sabir_core::event::{Event, EventKind, ToolEnd, ToolKind, ToolStatus, ToolUpdate};
use sabir_core::export::calls::Call;
use sabir_core::json::RawJson;

use super::Envelope;
use super::deeds::{self, Deed};
use super::message::{Details, Known, Level, Meta, Payload};

/// A call that began and has not ended.
#[derive(Debug)]
pub(super) struct OpenCall {
    name: String,
    /// The command line, when it is told as a command.
    cmd: Option<String>,
    has_input: bool,
    streamed: Streamed,
}

/// The output that was sent piece by piece.
#[derive(Debug, Default)]
struct Streamed {
    bytes: usize,
    hash: Fnv,
    /// Its beginning, kept only for commands whose output is read.
    head: Option<String>,
}

/// So much of a command's output is read for what it did.
const READ_BYTES: usize = 64 * 1024;

impl Envelope {
    pub(super) fn begin_call(&mut self, call: &Call, out: &mut Vec<u8>) {
        let cmd = (call.kind == ToolKind::Execute).then(|| call.command()).flatten();
        let meta = Some(Meta {
            tool_call_id: Some(Cow::Borrowed(&call.id)),
            parent_tool_call_id: call.parent.as_deref().map(Cow::Borrowed),
            ..Meta::default()
        });
        if let Some(cmd) = &cmd {
            let cwd = call.folder().or_else(|| self.cwd.clone()).map(Cow::Owned);
            let payload = Payload { cmd: Some(Cow::Borrowed(cmd)), cwd, meta, ..Payload::default() };
            self.send("command_start", Level::Info, &payload, out);
        } else {
            let name = Some(Cow::Borrowed(call.name.as_str()));
            let args = call.input.as_deref().map(RawJson::from_text);
            let payload = Payload { name, action: Some("start"), args, meta, ..Payload::default() };
            self.send("tool_event", Level::Info, &payload, out);
        }
        let head = cmd.as_deref().filter(|cmd| deeds::may_do(cmd)).map(|_| String::new());
        let streamed = Streamed { head, ..Streamed::default() };
        let has_input = call.input.is_some();
        self.open.insert(call.id.clone(), OpenCall { name: call.name.clone(), cmd, has_input, streamed });
    }

    pub(super) fn update_call(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let EventKind::ToolUpdate(ToolUpdate { tool_call_id, input, output_delta, .. }) = &event.kind else { return };
        let call = self.open.get_mut(tool_call_id.as_ref());
        let late_input = match (input, &call) {
            (Some(_), Some(call)) => !call.has_input,
            (input, _) => input.is_some(),
        };
        match (call, output_delta) {
            (Some(call), Some(delta)) if call.cmd.is_some() && !late_input => {
                call.streamed.push(delta);
                let meta = Meta {
                    tool_call_id: Some(Cow::Borrowed(tool_call_id)),
                    parent_tool_call_id: event.parent_tool_call_id.as_deref().map(Cow::Borrowed),
                    ..Meta::default()
                };
                self.chunk(delta, meta, out);
            }
            // The arguments that the call waited for are in its start.
            (_, None) if !late_input => {}
            _ => self.other(event, out),
        }
    }

    fn chunk(&mut self, chunk: &str, meta: Meta<'_>, out: &mut Vec<u8>) {
        // Agents print both streams as one.
        let payload =
            Payload { stream: Some("stdout"), chunk: Some(Cow::Borrowed(chunk)), meta: Some(meta), ..Payload::default() };
        self.send("command_output", Level::Info, &payload, out);
    }

    pub(super) fn end_call(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let EventKind::ToolEnd(ToolEnd { tool_call_id, output, status, exit_code, duration_ms, .. }) = &event.kind else {
            return;
        };
        self.flush_lane(Some(tool_call_id), out);
        let Some(call) = self.open.remove(tool_call_id.as_ref()) else { return };
        let meta = Meta {
            tool_call_id: Some(Cow::Borrowed(tool_call_id)),
            parent_tool_call_id: event.parent_tool_call_id.as_deref().map(Cow::Borrowed),
            ..Meta::default()
        };
        let level = if *status == ToolStatus::Ok { Level::Info } else { Level::Warn };
        let output = output.as_deref().filter(|output| !output.is_empty());
        let Some(cmd) = &call.cmd else {
            let payload = Payload {
                name: Some(Cow::Borrowed(&call.name)),
                action: Some("end"),
                result: output.map(Cow::Borrowed),
                meta: Some(Meta { status: Some(*status), duration_ms: *duration_ms, ..meta }),
                ..Payload::default()
            };
            self.send("tool_event", level, &payload, out);
            return;
        };
        if let Some(output) = output {
            match call.streamed.rest_of(output) {
                Some("") => {}
                Some(rest) => self.chunk(rest, meta.clone(), out),
                None => self.chunk(output, Meta { whole: true, ..meta.clone() }, out),
            }
        }
        let payload = Payload {
            cmd: Some(Cow::Borrowed(cmd)),
            exit_code: Some(Known(*exit_code)),
            duration_ms: Some(Known(*duration_ms)),
            meta: Some(Meta { status: Some(*status), ..meta.clone() }),
            ..Payload::default()
        };
        self.send("command_end", level, &payload, out);
        if *status == ToolStatus::Ok {
            let printed = output.or(call.streamed.head.as_deref()).unwrap_or("");
            for deed in deeds::deeds(cmd, head(printed, READ_BYTES)) {
                self.deed(deed, meta.clone(), out);
            }
        }
    }

    fn deed(&mut self, deed: Deed, meta: Meta<'_>, out: &mut Vec<u8>) {
        let repo = |own: Option<String>| own.or_else(|| self.options.repo.clone()).map(Cow::Owned);
        let (r#type, payload) = match deed {
            Deed::Git(git) => {
                let details = Details {
                    command: Cow::Owned(git.command),
                    cwd: git.folder.map(Cow::Owned),
                    commit: git.commit.map(Cow::Owned),
                    subject: git.subject.map(Cow::Owned),
                };
                let branch = git.branch.map(Cow::Owned);
                let (action, repo) = (Some(git.action), repo(git.repo));
                ("git_event", Payload { action, repo, branch, details: Some(details), meta: Some(meta), ..Payload::default() })
            }
            Deed::Pull(pull) => (
                "pr_event",
                Payload {
                    action: Some(pull.action),
                    repo: repo(pull.repo),
                    number: Some(Known(pull.number)),
                    url: Some(Known(pull.url.map(Cow::Owned))),
                    base: pull.base.map(Cow::Owned),
                    head: pull.head.map(Cow::Owned),
                    meta: Some(meta),
                    ..Payload::default()
                },
            ),
        };
        self.send(r#type, Level::Info, &payload, out);
    }
}

impl Streamed {
    fn push(&mut self, delta: &str) {
        self.bytes += delta.len();
        self.hash.write(delta.as_bytes());
        if let Some(kept) = &mut self.head {
            kept.push_str(head(delta, READ_BYTES.saturating_sub(kept.len())));
        }
    }

    /// What of the whole output was not sent yet; `None` when the whole does not go on where the pieces ended.
    fn rest_of<'o>(&self, output: &'o str) -> Option<&'o str> {
        let sent = output.get(..self.bytes)?;
        let mut hash = Fnv::default();
        hash.write(sent.as_bytes());
        (hash == self.hash).then(|| &output[self.bytes..])
    }
}

/// A hash (FNV-1a) of bytes that come in pieces: it does not matter where they are cut.
#[derive(Debug, PartialEq, Eq)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    }
}
