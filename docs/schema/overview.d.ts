// Written by `cargo xtask schema` from the Rust types. Do not edit.

/** A session in a few figures. What is not known is `null`. */
export interface Overview {
  /** Id of the agent. */
  agent: string | null;
  /** The agent's own id of the session. */
  agentSessionId: string | null;
  /** Its version. */
  agentVersion: string | null;
  /** What they cost in dollars. */
  costUsd: number | null;
  /** The working folder. */
  cwd: string | null;
  /** How many errors were told. */
  errors: number;
  /** How many changes of files were told. */
  fileChanges: number;
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
  /** The workspace that the shell was started for. */
  workspace: string | null;
}

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
