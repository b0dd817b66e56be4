// Written by `cargo xtask schema` from the Rust types. Do not edit.

/** One thing that happened in a run. */
export type RunEvent =
  | StartedEvent
  | SessionEvent
  | PromptEvent
  | TurnStartEvent
  | TurnEndEvent
  | TextEvent
  | ThinkingEvent
  | ToolStartEvent
  | ToolUpdateEvent
  | ToolEndEvent
  | FileChangeEvent
  | SuggestedEditsEvent
  | PlanEvent
  | PermissionEvent
  | RetryEvent
  | ActivityEvent
  | UsageEvent
  | FinalEvent
  | ErrorEvent
  | UnrecognizedEvent
  | ExitedEvent;

/** The first event of every run. */
export interface StartedEvent extends EventHead {
  kind: "started";
  /**
   * How the agent composes the token counts that it shows itself; absent when its input excludes cached tokens and its
   * output includes reasoning, as here.
   */
  accounting?: Accounting;
  /** Id of the agent, e.g. `claude-code`. */
  agent: string;
  /** Its version, where it is known before the agent says anything. */
  agentVersion?: string;
  /** How the agent was found in the stream; absent when it is certain, or was given. */
  detection?: Detection;
}

/** The agent says who it is and what it runs with. May come again when something of it changes. */
export interface SessionEvent extends EventHead {
  kind: "session";
  /** The agent's version. */
  agentVersion?: string;
  /** The working folder. */
  cwd?: string;
  /** The model that answers. */
  model?: string;
  /** The agent's own word for what it may do unasked. */
  permissionMode?: string;
  /** The agent's own id of the session, good for resuming it. */
  sessionId?: string;
  /** Names of the tools it has. */
  tools?: string[];
}

/** What the user asks. Logs on disk tell it; what an agent prints does not repeat it. */
export interface PromptEvent extends EventHead {
  kind: "prompt";
  /** The whole prompt. */
  text: string;
}

/** A model round-trip of the main agent begins. */
export interface TurnStartEvent extends EventHead {
  kind: "turnStart";
  /** 1-based. */
  turn: number;
}

/** It is over: the answer and its tool calls are done. */
export interface TurnEndEvent extends EventHead {
  kind: "turnEnd";
  /** Why the model stopped, in the agent's word. */
  stopReason?: string;
  /** 1-based. */
  turn: number;
}

/** A piece of what the agent says. The pieces of one message joined are its text, byte for byte. */
export interface TextEvent extends EventHead {
  kind: "text";
  /** The next piece. */
  delta: string;
  /** The message it belongs to, where the agent names its messages. */
  messageId?: string;
}

/** A piece of the model's reasoning. */
export interface ThinkingEvent extends EventHead {
  kind: "thinking";
  /** The next piece. */
  delta: string;
  /** The message it belongs to. */
  messageId?: string;
}

/** A tool call begins. */
export interface ToolStartEvent extends EventHead {
  kind: "toolStart";
  /** The arguments as JSON text, where they are known at the start. */
  input?: string;
  /** The tool's name as the agent says it. */
  name: string;
  /** A line for people. */
  title?: string;
  /** Names the call; no two calls of a run share it. */
  toolCallId: string;
  /** What the tool does. */
  toolKind: ToolKind;
}

/** More is known of a tool call that is open. */
export interface ToolUpdateEvent extends EventHead {
  kind: "toolUpdate";
  /** The arguments, whole, when they came after the start. */
  input?: string;
  /** The next piece of its output. */
  outputDelta?: string;
  /** The call. */
  toolCallId: string;
}

/** A tool call ended. */
export interface ToolEndEvent extends EventHead {
  kind: "toolEnd";
  /** How long it took. */
  durationMs?: number;
  /** Exit code of a command. */
  exitCode?: number;
  /** True exactly when `status` is `ok`. */
  ok: boolean;
  /** What it gave back, whole. */
  output?: string;
  /** How it ended. */
  status: ToolStatus;
  /** The call. */
  toolCallId: string;
}

/** A file changed. */
export interface FileChangeEvent extends EventHead {
  kind: "fileChange";
  /** Lines added. */
  added?: number;
  /** What happened to it. */
  change: Change;
  /** Unified diff. */
  diff?: string;
  /** The old path of a renamed file. */
  from?: string;
  /** The path as the agent gives it. */
  path: string;
  /** Lines removed. */
  removed?: number;
  /** How we know. */
  source: ChangeSource;
  /** The call that changed it. */
  toolCallId?: string;
}

/** Edits that the agent proposes and has not made. */
export interface SuggestedEditsEvent extends EventHead {
  kind: "suggestedEdits";
  /** The edits. */
  edits: SuggestedEdit[];
}

/** The agent's list of steps, whole, as it is now. */
export interface PlanEvent extends EventHead {
  kind: "plan";
  /** The steps in order. */
  items: PlanItem[];
}

/** The agent asks whether it may, or says how that was decided. */
export interface PermissionEvent extends EventHead {
  kind: "permission";
  /** The answer, once there is one. */
  decision?: string;
  /** The answers that can be given. */
  options?: PermissionOption[];
  /** Names the question. */
  requestId: string;
  /** The question in a line. */
  title: string;
  /** The call it is about. */
  toolCallId?: string;
}

/** A request failed and is tried again. */
export interface RetryEvent extends EventHead {
  kind: "retry";
  /** Which attempt failed, from 1. */
  attempt: number;
  /** The wait before the next. */
  delayMs?: number;
  /** How many will be made. */
  maxAttempts?: number;
  /** What went wrong. */
  message: string;
}

/** One line for people: progress, a warning, a line of standard error. */
export interface ActivityEvent extends EventHead {
  kind: "activity";
  /** The line. */
  message: string;
}

/**
 * Tokens and cost. Classes are the same for all agents: input is what was not cached, and input, cache reads,
 * cache writes and output are disjoint.
 */
export interface UsageEvent extends EventHead {
  kind: "usage";
  /** Input tokens read from the cache. */
  cacheReadTokens?: number;
  /** The part of `cacheWriteTokens` that is kept for an hour. */
  cacheWrite1hTokens?: number;
  /** Input tokens written to the cache. */
  cacheWriteTokens?: number;
  /** The reported cost by class, where the agent gives it. */
  costParts?: CostParts;
  /** Cost in US dollars as the agent reports it. */
  costUsd?: number;
  /** Input tokens that were neither read from nor written to the cache. */
  inputTokens?: number;
  /** The model that used them. */
  model?: string;
  /** Output tokens, reasoning included. */
  outputTokens?: number;
  /** The part of `outputTokens` that was reasoning. */
  reasoningTokens?: number;
  /** What the figures cover. */
  scope: UsageScope;
  /** The four disjoint classes together. */
  totalTokens?: number;
}

/** The agent's answer. At most one in a run. */
export interface FinalEvent extends EventHead {
  kind: "final";
  /** The whole answer. */
  text: string;
}

/** Something failed. */
export interface ErrorEvent extends EventHead {
  kind: "error";
  /** What kind of failure it is. */
  class?: Cause;
  /** Whether it ends the run. */
  fatal: boolean;
  /** What the agent says of it. */
  message: string;
}

/** A line that no rule knows, kept as it was. */
export interface UnrecognizedEvent extends EventHead {
  kind: "unrecognized";
  /** The line. */
  raw: string;
  /** The type that the line gives itself. */
  type?: string;
}

/** The last event of every run. */
export interface ExitedEvent extends EventHead {
  kind: "exited";
  /** The part of it that was spent waiting for the model. */
  apiDurationMs?: number;
  /** Whether somebody asked it to stop. */
  cancelled: boolean;
  /** Why, when it ended badly. */
  cause?: Cause;
  /** Duration of the run as the agent measured it. */
  durationMs?: number;
  /** Exit code of the process. */
  exitCode?: number;
  /** How the run ended. */
  outcome: Outcome;
  /** True when no process of the run is left. */
  quiescent?: boolean;
  /** The signal that ended it, e.g. `SIGTERM`. */
  signal?: string;
  /** Why the model stopped last, in the agent's word. */
  stopReason?: string;
  /** Which time limit it was, when the cause is `timeout`. */
  timeout?: Timeout;
  /** Number of turns as the agent counts them. */
  turns?: number;
}

/** How an agent composes the token counts that it shows, so that they can be shown the same way. */
export interface Accounting {
  /** Its input count includes cached tokens. */
  inputIncludesCache: boolean;
  /** Its output count excludes reasoning tokens. */
  outputExcludesReasoning: boolean;
}

/** A range of UTF-8 bytes in a file. */
export interface ByteRange {
  /** One past the last byte. */
  end: number;
  /** First byte. */
  start: number;
}

/**
 * Why a run ended badly, or what class an error is of.
 * - `auth`: Key or login missing or refused.
 * - `rateLimited`: Too many requests, or a quota is used up.
 * - `overloaded`: The provider has no capacity.
 * - `contextExhausted`: The conversation does not fit the model.
 * - `maxTurns`: The turn limit was reached.
 * - `budget`: The money limit was reached.
 * - `modelNotFound`: No such model.
 * - `permission`: Something was not allowed.
 * - `network`: The provider could not be reached, or the connection broke.
 * - `invalidRequest`: The provider did not accept the request.
 * - `refusal`: The model refused to answer.
 * - `agentNotFound`: The agent's program was not found.
 * - `badUsage`: The agent did not accept its arguments.
 * - `timeout`: A time limit; `timeout` says which.
 * - `signal`: A signal.
 * - `unknown`: None of these.
 */
export type Cause = "auth" | "rateLimited" | "overloaded" | "contextExhausted" | "maxTurns" | "budget" | "modelNotFound" | "permission" | "network" | "invalidRequest" | "refusal" | "agentNotFound" | "badUsage" | "timeout" | "signal" | "unknown";

/**
 * What happened to a file.
 * - `create`: It is new.
 * - `update`: Its content changed.
 * - `delete`: It is gone.
 * - `rename`: It has another path.
 */
export type Change = "create" | "update" | "delete" | "rename";

/**
 * How we know of a file change.
 * - `reported`: The agent said so.
 * - `inferred`: The arguments of a successful tool call say so.
 */
export type ChangeSource = "reported" | "inferred";

/** A cost in US dollars, by class of token. */
export interface CostParts {
  /** Cache reads. */
  cacheRead: number;
  /** Cache writes. */
  cacheWrite: number;
  /** Uncached input. */
  input: number;
  /** Output. */
  output: number;
}

/**
 * How certain the agent of a stream is.
 * - `guess`: Only lines that several agents print have come, so this is the most likely of them.
 */
export type Detection = "guess";

/** The head as it is in JSON. */
export interface EventHead {
  /** When: the agent's own time where it gives one, else when the line was read, else absent. */
  at?: string;
  /** 1-based number of the raw line that caused it. */
  line?: number;
  /** The tool call that started the sub-agent which this happened in. */
  parentToolCallId?: string;
  /** The run it belongs to. */
  runId: string;
  /** Its place in the run: dense, from 1. */
  seq: number;
}

/**
 * How a run ended.
 * - `completed`: The agent finished and said so.
 * - `failed`: It reported an error, or its exit code did.
 * - `limited`: A limit stopped it: turns, budget or context.
 * - `refused`: The model refused.
 * - `cancelled`: Somebody stopped it.
 * - `timedOut`: A time limit stopped it.
 * - `crashed`: A signal that we did not ask for ended it.
 * - `incomplete`: The stream ended with no sign that the agent was done.
 * - `startFailed`: The agent never ran.
 */
export type Outcome = "completed" | "failed" | "limited" | "refused" | "cancelled" | "timedOut" | "crashed" | "incomplete" | "startFailed";

/** One answer that a permission question can be given. */
export interface PermissionOption {
  /** What to send back. */
  id: string;
  /** What it means. */
  label: string;
}

/** One step of a plan. */
export interface PlanItem {
  /** How far it is. */
  status: PlanStatus;
  /** The step. */
  text: string;
}

/**
 * State of one step of a plan.
 * - `pending`: Not begun.
 * - `inProgress`: Being worked on.
 * - `completed`: Done.
 * - `cancelled`: Given up.
 */
export type PlanStatus = "pending" | "inProgress" | "completed" | "cancelled";

/** An edit that the agent proposes. */
export interface SuggestedEdit {
  /** The file. */
  filePath: string;
  /** What to replace. */
  range: ByteRange;
  /** What to put there. */
  replacement: string;
  /** A line for people. */
  title?: string;
}

/**
 * Which time limit ended a run.
 * - `run`: The whole run.
 * - `firstOutput`: The time until the first output.
 * - `inactivity`: Silence while no tool was open.
 * - `tool`: A single tool.
 * - `afterResult`: The time between the agent's result and its exit.
 */
export type Timeout = "run" | "firstOutput" | "inactivity" | "tool" | "afterResult";

/**
 * What a tool does, whatever its name.
 * - `read`: Reads a file.
 * - `edit`: Creates or changes a file.
 * - `delete`: Removes a file.
 * - `move`: Renames a file.
 * - `search`: Looks for files or text.
 * - `execute`: Runs a command.
 * - `think`: Thinks aloud.
 * - `fetch`: Gets something from the network.
 * - `delegate`: Hands work to a sub-agent.
 * - `plan`: Keeps a list of steps.
 * - `mcp`: Calls a tool of an MCP server.
 * - `other`: Anything else.
 */
export type ToolKind = "read" | "edit" | "delete" | "move" | "search" | "execute" | "think" | "fetch" | "delegate" | "plan" | "mcp" | "other";

/**
 * How a tool call ended.
 * - `ok`: It did what was asked.
 * - `error`: It ran and failed.
 * - `denied`: It was not allowed to run.
 * - `cancelled`: It was stopped.
 * - `unfinished`: The stream ended before the tool did.
 */
export type ToolStatus = "ok" | "error" | "denied" | "cancelled" | "unfinished";

/**
 * What a usage figure covers. A wider scope replaces the narrower figures before it.
 * - `message`: One model response.
 * - `turn`: One turn: all responses since the last turn-wide figure.
 * - `run`: All of the run since the last run-wide figure, sub-agents included.
 */
export type UsageScope = "message" | "turn" | "run";
