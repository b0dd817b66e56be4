//! Enums of fields that hold one of a fixed set of strings.

use serde::{Deserialize, Serialize};

/// Declares an enum whose variants are strings in JSON.
macro_rules! string_enum {
    ($(#[$doc:meta])* $Name:ident { $($(#[$variant_doc:meta])* $Variant:ident $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[non_exhaustive]
        pub enum $Name { $($(#[$variant_doc])* #[serde(rename = $text)] $Variant),* }

        impl $Name {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$Variant),*];

            /// The value in JSON.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$Variant => $text),* }
            }
        }

        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

string_enum! {
    /// How certain the agent of a stream is.
    Detection {
        /// Only lines that several agents print have come, so this is the most likely of them.
        Guess "guess",
    }
}

string_enum! {
    /// What a tool does, whatever its name.
    ToolKind {
        /// Reads a file.
        Read "read",
        /// Creates or changes a file.
        Edit "edit",
        /// Removes a file.
        Delete "delete",
        /// Renames a file.
        Move "move",
        /// Looks for files or text.
        Search "search",
        /// Runs a command.
        Execute "execute",
        /// Thinks aloud.
        Think "think",
        /// Gets something from the network.
        Fetch "fetch",
        /// Hands work to a sub-agent.
        Delegate "delegate",
        /// Keeps a list of steps.
        Plan "plan",
        /// Calls a tool of an MCP server.
        Mcp "mcp",
        /// Anything else.
        Other "other",
    }
}

string_enum! {
    /// How a tool call ended.
    ToolStatus {
        /// It did what was asked.
        Ok "ok",
        /// It ran and failed.
        Error "error",
        /// It was not allowed to run.
        Denied "denied",
        /// It was stopped.
        Cancelled "cancelled",
        /// The stream ended before the tool did.
        Unfinished "unfinished",
    }
}

string_enum! {
    /// What happened to a file.
    Change {
        /// It is new.
        Create "create",
        /// Its content changed.
        Update "update",
        /// It is gone.
        Delete "delete",
        /// It has another path.
        Rename "rename",
    }
}

string_enum! {
    /// How we know of a file change.
    ChangeSource {
        /// The agent said so.
        Reported "reported",
        /// The arguments of a successful tool call say so.
        Inferred "inferred",
    }
}

string_enum! {
    /// What a usage figure covers. A wider scope replaces the narrower figures before it.
    UsageScope {
        /// One model response.
        Message "message",
        /// One turn: all responses since the last turn-wide figure.
        Turn "turn",
        /// All of the run since the last run-wide figure, sub-agents included.
        Run "run",
    }
}

string_enum! {
    /// State of one step of a plan.
    PlanStatus {
        /// Not begun.
        Pending "pending",
        /// Being worked on.
        InProgress "inProgress",
        /// Done.
        Completed "completed",
        /// Given up.
        Cancelled "cancelled",
    }
}

string_enum! {
    /// How a run ended.
    Outcome {
        /// The agent finished and said so.
        Completed "completed",
        /// It reported an error, or its exit code did.
        Failed "failed",
        /// A limit stopped it: turns, budget or context.
        Limited "limited",
        /// The model refused.
        Refused "refused",
        /// Somebody stopped it.
        Cancelled "cancelled",
        /// A time limit stopped it.
        TimedOut "timedOut",
        /// A signal that we did not ask for ended it.
        Crashed "crashed",
        /// The stream ended with no sign that the agent was done.
        Incomplete "incomplete",
        /// The agent never ran.
        StartFailed "startFailed",
    }
}

string_enum! {
    /// Why a run ended badly, or what class an error is of.
    Cause {
        /// Key or login missing or refused.
        Auth "auth",
        /// Too many requests, or a quota is used up.
        RateLimited "rateLimited",
        /// The provider has no capacity.
        Overloaded "overloaded",
        /// The conversation does not fit the model.
        ContextExhausted "contextExhausted",
        /// The turn limit was reached.
        MaxTurns "maxTurns",
        /// The money limit was reached.
        Budget "budget",
        /// No such model.
        ModelNotFound "modelNotFound",
        /// Something was not allowed.
        Permission "permission",
        /// The provider could not be reached, or the connection broke.
        Network "network",
        /// The provider did not accept the request.
        InvalidRequest "invalidRequest",
        /// The model refused to answer.
        Refusal "refusal",
        /// The agent's program was not found.
        AgentNotFound "agentNotFound",
        /// The agent did not accept its arguments.
        BadUsage "badUsage",
        /// A time limit; `timeout` says which.
        Timeout "timeout",
        /// A signal.
        Signal "signal",
        /// None of these.
        Unknown "unknown",
    }
}

string_enum! {
    /// Which time limit ended a run.
    Timeout {
        /// The whole run.
        Run "run",
        /// The time until the first output.
        FirstOutput "firstOutput",
        /// Silence while no tool was open.
        Inactivity "inactivity",
        /// A single tool.
        Tool "tool",
        /// The time between the agent's result and its exit.
        AfterResult "afterResult",
    }
}

/// Phrases of error messages by class; the first class with a match wins.
const ERROR_PHRASES: &[(Cause, &[&str])] = &[
    (
        Cause::Auth,
        &[
            "api key",
            "api_key",
            "apikey",
            "unauthorized",
            "authentication",
            "not logged in",
            "login",
            "credential",
            "401",
            "auth method",
        ],
    ),
    (
        Cause::RateLimited,
        &["rate limit", "rate_limit", "ratelimit", "too many requests", "quota", "429", "usage limit", "resource_exhausted"],
    ),
    (Cause::Overloaded, &["overloaded", "529", "503", "capacity", "service unavailable"]),
    (
        Cause::ModelNotFound,
        &["model not found", "unknown model", "model_not_found", "no such model", "invalid model", "does not exist"],
    ),
    (
        Cause::Network,
        &[
            "econnrefused",
            "econnreset",
            "enotfound",
            "connection",
            "network",
            "socket",
            "fetch failed",
            "stream disconnected",
            "unable to connect",
            "timed out",
        ],
    ),
    (Cause::Permission, &["permission", "not allowed", "forbidden"]),
    (Cause::InvalidRequest, &["invalid request", "invalid_request", "bad request", "400"]),
];

impl Cause {
    /// Classifies an error by HTTP status and message. Agents pass on the messages of their providers, so the phrases are
    /// the providers', not any agent's.
    pub fn of_error(status: Option<u16>, message: &str) -> Self {
        let message = message.to_ascii_lowercase();
        let contains_any = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
        if contains_any(&[
            "context length",
            "context window",
            "context_length",
            "prompt is too long",
            "maximum context",
            "input is too long",
        ]) {
            return Self::ContextExhausted;
        }
        match status {
            Some(401) => return Self::Auth,
            Some(429) => return Self::RateLimited,
            Some(529 | 503) => return Self::Overloaded,
            Some(403) if !contains_any(&["model"]) => return Self::Auth,
            Some(404) if contains_any(&["model"]) => return Self::ModelNotFound,
            Some(400 | 404 | 413 | 422) if !contains_any(&["api key", "api_key", "model not found", "unknown model"]) => {
                return Self::InvalidRequest;
            }
            _ => {}
        }
        ERROR_PHRASES.iter().find(|(_, phrases)| contains_any(phrases)).map_or(Self::Unknown, |(cause, _)| *cause)
    }
}

impl ToolKind {
    /// The kind of a tool with this name. One list serves all agents, because they copy names from each other; an agent
    /// in which a name means something else sets the kind itself.
    pub fn of_name(name: &str) -> Self {
        if name.starts_with("mcp__") || name.starts_with("mcp_") || name.starts_with("mcp.") {
            return Self::Mcp;
        }
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
        match plain.as_str() {
            "bash" | "shell" | "exec" | "execute" | "command" | "execcommand" | "executecommand" | "runshellcommand"
            | "runcommand" | "runterminalcmd" | "localshell" | "commandexecution" | "bashoutput" | "killshell" | "terminal" => {
                Self::Execute
            }
            "read" | "readfile" | "readmanyfiles" | "view" | "viewimage" | "viewfile" | "notebookread" | "readlints"
            | "openfile" => Self::Read,
            "edit" | "multiedit" | "write" | "writefile" | "createfile" | "replace" | "replaceinfile" | "strreplace"
            | "strreplaceeditor" | "notebookedit" | "applypatch" | "patch" | "filechange" | "applydiff" | "writetofile"
            | "insertcontent" | "searchandreplace" | "editfile" | "create" | "insert" => Self::Edit,
            "delete" | "deletefile" | "removefile" | "rm" => Self::Delete,
            "move" | "movefile" | "rename" | "renamefile" => Self::Move,
            "grep"
            | "glob"
            | "ls"
            | "list"
            | "listdir"
            | "listdirectory"
            | "listfiles"
            | "search"
            | "searchfiles"
            | "searchfilecontent"
            | "grepsearch"
            | "find"
            | "semsearch"
            | "codebasesearch"
            | "toolsearch"
            | "filesearch"
            | "globfiles"
            | "listcodedefinitionnames" => Self::Search,
            "webfetch" | "websearch" | "fetch" | "fetchurl" | "googlewebsearch" | "browseraction" | "urlfetch" => Self::Fetch,
            "task"
            | "agent"
            | "subagent"
            | "spawnagent"
            | "spawnsubagent"
            | "delegate"
            | "wait"
            | "collabtoolcall"
            | "newtask"
            | "codebaseinvestigator"
            | "invokeagent"
            | "delegatetoagent" => Self::Delegate,
            "todowrite" | "todoread" | "todo" | "updateplan" | "updatetodolist" | "updatetodos" | "writetodos" | "taskcreate"
            | "taskupdate" | "tasklist" | "taskget" | "plan" | "exitplanmode" | "enterplanmode" => Self::Plan,
            "think" | "thinking" | "sequentialthinking" => Self::Think,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cause, ToolKind};

    #[test]
    fn tool_kind_follows_from_name() {
        for (name, kind) in [
            ("Bash", ToolKind::Execute),
            ("run_shell_command", ToolKind::Execute),
            ("str_replace", ToolKind::Edit),
            ("mcp__lab__echo", ToolKind::Mcp),
            ("Agent", ToolKind::Delegate),
            ("whatever", ToolKind::Other),
        ] {
            assert_eq!(ToolKind::of_name(name), kind, "{name}");
        }
    }

    #[test]
    fn errors_are_classified_by_status_before_message() {
        assert_eq!(Cause::of_error(Some(401), "whatever"), Cause::Auth);
        assert_eq!(Cause::of_error(None, "Invalid API key · Fix external API key"), Cause::Auth);
        assert_eq!(Cause::of_error(Some(400), "prompt is too long: 210000 tokens"), Cause::ContextExhausted);
        assert_eq!(Cause::of_error(None, "connect ECONNREFUSED 127.0.0.1:1"), Cause::Network);
        assert_eq!(Cause::of_error(None, "it broke"), Cause::Unknown);
    }
}
