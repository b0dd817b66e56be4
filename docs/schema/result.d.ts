// Written by `cargo xtask schema` from the Rust types. Do not edit.

import type { Cause, Change, ChangeSource, Detection, Outcome, ToolKind, ToolStatus } from "./events";

/** One run as one value. */
export interface SessionResult {
  /** Id of the agent. */
  agent: string;
  /** Its version. */
  agentVersion: string | null;
  /** The part of it that was spent waiting for the model. */
  apiDurationMs: number | null;
  /** Why, when it ended badly. */
  cause: Cause | null;
  /** What it cost. */
  cost: Cost;
  /** How the agent was found in the stream; absent when it is certain, or was given. */
  detection?: Detection | null;
  /** How long it took. */
  durationMs: number | null;
  /** What failed. */
  errors: Reported[];
  /** Exit code of the process. */
  exitCode: number | null;
  /** The files it changed. */
  fileChanges: FileChange[];
  /** The main model. */
  model: string | null;
  /** Tokens and cost by model. */
  models: ModelUse[];
  /** How the run ended. */
  outcome: Outcome;
  /** `sabir.result/1`. */
  schema: string;
  /** The agent's own id of the session. */
  sessionId: string | null;
  /** The signal that ended it. */
  signal: string | null;
  /** The outcome in one of five words. */
  status: Status;
  /** Why the model stopped last, in the agent's word. */
  stopReason: string | null;
  /** The answer. */
  text: string | null;
  /** Tokens in classes that mean the same for every agent. */
  tokens: TokensReport;
  /** The tool calls, those of sub-agents included. */
  toolCalls: ToolCall[];
  /** The turns of the main agent. */
  turnDetails: Turn[];
  /** Number of turns. */
  turns: number | null;
  /** What this version could not read. */
  unrecognized: Unrecognized;
  /** Tokens as the runtime itself counts them. */
  usage: NativeUsage;
}

/** What a run cost, in US dollars. */
export interface Cost {
  /** Cache reads. */
  cacheRead: number | null;
  /** Cache writes. */
  cacheWrite: number | null;
  /** What the price table says. */
  computedUsd: number | null;
  /** Uncached input. */
  input: number | null;
  /** Output. */
  output: number | null;
  /** Why there is no computed cost. */
  reason: string | null;
  /** What the agent says. */
  reportedUsd: number | null;
  /** Where `total` comes from. */
  source: CostSource;
  /** The reported cost where there is one, else the computed one. */
  total: number | null;
}

/**
 * Where a cost comes from.
 * - `reported`: The agent says so.
 * - `computed`: Tokens times the price table.
 * - `unknown`: It cannot be known.
 */
export type CostSource = "reported" | "computed" | "unknown";

/** One changed file. */
export interface FileChange {
  /** Lines added. */
  added: number | null;
  /** What happened to it. */
  change: Change;
  /** The old path of a renamed file. */
  from?: string | null;
  /** The path as the agent gives it. */
  path: string;
  /** Lines removed. */
  removed: number | null;
  /** How we know. */
  source: ChangeSource;
  /** The call that changed it. */
  toolCallId: string | null;
}

/** Tokens and cost of one model. */
export interface ModelUse {
  /** Its cost, reported or computed. */
  costUsd: number | null;
  /** The model, where it is known. */
  model: string | null;
  /** Its tokens. */
  tokens: TokensReport;
}

/** What the runtime itself counts as input and output. */
export interface NativeUsage {
  /** Cache reads. */
  cacheRead: number | null;
  /** Cache writes. */
  cacheWrite: number | null;
  /** Input as the agent counts it; for some that includes the cached tokens. */
  input: number | null;
  /** Output as the agent counts it; for some that leaves reasoning out. */
  output: number | null;
  /** Reasoning. */
  reasoning: number | null;
  /** All tokens, each once. */
  total: number | null;
}

/** One error that the agent reported. */
export interface Reported {
  /** What kind of failure it is. */
  class: Cause | null;
  /** What it says. */
  message: string;
}

/**
 * The outcome in one of five words.
 * - `success`: The agent finished and said so.
 * - `error`: It failed, refused, reached a limit or crashed.
 * - `cancelled`: Somebody stopped it.
 * - `timeout`: A time limit stopped it.
 * - `incomplete`: The stream ended with no sign that the agent was done.
 */
export type Status = "success" | "error" | "cancelled" | "timeout" | "incomplete";

/** Comparable tokens: `uncachedInput`, `cacheRead`, `cacheWrite` and `output` are disjoint and sum to `total`. */
export interface TokensReport {
  /** Input read from the cache. */
  cacheRead: number | null;
  /** Input written to the cache. */
  cacheWrite: number | null;
  /** Output, reasoning included. */
  output: number | null;
  /** The part of `output` that was reasoning. */
  reasoning: number | null;
  /** Where the figures come from. */
  source: TokensSource;
  /** All tokens, each once. */
  total: number | null;
  /** Input that was neither read from nor written to the cache. */
  uncachedInput: number | null;
}

/**
 * Where token figures come from.
 * - `reported`: The agent gave a total.
 * - `summed`: The sum of what it gave per response or turn.
 * - `estimated`: A floor: the run broke off before the agent could give all of it.
 * - `unknown`: The agent gives none.
 */
export type TokensSource = "reported" | "summed" | "estimated" | "unknown";

/** One tool call. */
export interface ToolCall {
  /** The arguments; a JSON string where they are not valid JSON. */
  args: unknown;
  /** How long it took. */
  durationMs: number | null;
  /** Exit code of a command. */
  exitCode: number | null;
  /** Its id. */
  id: string;
  /** What the tool does. */
  kind: ToolKind;
  /** The tool's name. */
  name: string;
  /** The call that started the sub-agent which made this one. */
  parentId: string | null;
  /** What it gave back, at most its first 64 KiB. */
  result: string | null;
  /** The true size of what it gave back. */
  resultBytes: number | null;
  /** How it ended. */
  status: ToolStatus;
}

/** One model round-trip of the main agent. */
export interface Turn {
  /** Why the model stopped, in the agent's word. */
  stopReason: string | null;
  /** Ids of the calls that it made. */
  toolCalls: string[];
  /** 1-based. */
  turn: number;
  /** Its tokens as the runtime counts them. */
  usage: NativeUsage;
}

/** What this version could not read. */
export interface Unrecognized {
  /** How many lines. */
  lines: number;
  /** How many of each type. */
  types: Record<string, number>;
}
