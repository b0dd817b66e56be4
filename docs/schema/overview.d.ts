// Written by `cargo xtask schema` from the Rust types. Do not edit.

/** A session in a few figures. What is not known is `null`. */
export interface Overview {
  /** Id of the agent. */
  agent: string | null;
  /** The agent's own id of the session. */
  agentSessionId: string | null;
  /** Its version. */
  agentVersion: string | null;
  /** Whether the agent says so or the price table does; of a sum, the table as soon as it has a part in it. */
  costSource: CostSource;
  /** What they cost in dollars. */
  costUsd: number | null;
  /** The working folder. */
  cwd: string | null;
  /** How many errors were told. */
  errors: number;
  /** How many changes of files were told. */
  fileChanges: number;
  /** How many messages of the log are damaged where it is kept: what they said is in none of these figures. */
  gaps?: number;
  /** When the last thing happened. */
  last: string | null;
  /** The main model. */
  model: string | null;
  /** What it does now, or how the last run ended. */
  phase: Phase;
  /** How many runs began. */
  runs: number;
  /** When the first thing happened. */
  started: string | null;
  /** The beginning of the first prompt. */
  title: string | null;
  /** All tokens, each once. */
  tokens: number | null;
  /** The tool that runs now; of several the one that began last. */
  tool: string | null;
  /** How many tool calls began. */
  toolCalls: number;
  /** How many turns began. */
  turns: number;
  /** The same by class. */
  usage: TokensReport | null;
  /** The workspace that the shell was started for. */
  workspace: string | null;
}

/**
 * Where a cost comes from.
 * - `reported`: The agent says so.
 * - `computed`: Tokens times the price table.
 * - `unknown`: It cannot be known.
 */
export type CostSource = "reported" | "computed" | "unknown";

/**
 * What a session does now, or how its last run ended.
 * - `starting`: Nothing was heard of a run yet.
 * - `running`: The agent works.
 * - `asking`: The agent asks whether it may.
 * - `success`: The agent finished and said so.
 * - `error`: It failed, refused, reached a limit or crashed.
 * - `cancelled`: Somebody stopped it.
 * - `timeout`: A time limit stopped it.
 * - `incomplete`: The stream ended with no sign that the agent was done.
 */
export type Phase = "starting" | "running" | "asking" | "success" | "error" | "cancelled" | "timeout" | "incomplete";

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
