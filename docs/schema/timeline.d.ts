// Written by `cargo xtask schema` from the Rust types. Do not edit.

import type { ByteRange, Cause, Change, ChangeSource, Outcome, PlanStatus, ToolKind, ToolStatus } from "./events";

/** What happens to a timeline. */
export type TimelineChange =
  /** The next item, or what an item is now. */
  | {
    put: Item;
  }
  /** More of the text of an item, or of the output of a tool call. */
  | {
    grow: Growth;
  };

/** One answer that a question can be given. */
export interface Choice {
  /** What to send back. */
  id: string;
  /** What it means. */
  label: string;
}

/** A text, or its beginning and its end when it is long. */
export interface Clip {
  /** How many bytes it has in all. */
  size: number;
  /** Its end, when something between was left out. */
  tail?: string;
  /** The text, or its beginning. */
  text: string;
}

/** An edit that the agent proposes. */
export interface Edit {
  /** The file. */
  filePath: string;
  /** What to replace. */
  range: ByteRange;
  /** What to put there. */
  replacement: string;
  /** A line for people. */
  title?: string | null;
}

/** More of a text. */
export interface Growth {
  /** The item. */
  id: number;
  /** The number of the event. */
  last: number;
  /** The `seq` of the event. */
  seq?: number | null;
  /** The next piece. */
  text: string;
  /** When. */
  until?: string | null;
}

/** One thing that a person sees: a message, a tool call, a changed file, a turn. */
export interface Item {
  /** When it began. */
  at?: string | null;
  /** The number of the event that it began with: the number of its message in a log. */
  first: number;
  /** Its place in the timeline, from 0. Items never move. */
  id: number;
  /** The number of the event that changed it last. Of a tool call that is over it is the one that has all of the output. */
  last: number;
  /** The `seq` of the event that changed it last. */
  lastSeq?: number | null;
  /** The raw line of the agent that it began with. */
  line?: number | null;
  /** The item of the tool call that started the sub-agent which this happened in. */
  parent?: number | null;
  /** Which run of the session, from 1. */
  run: number;
  /** The `seq` of the event that it began with. Missing where it was not made from an event. */
  seq?: number | null;
  /** In which turn of the run, from 1. */
  turn?: number | null;
  /** When it last changed, if that is later. */
  until?: string | null;
  /** What it is. */
  what: What;
}

/** One step of a plan. */
export interface Step {
  /** How far it is. */
  status: PlanStatus;
  /** The step. */
  text: string;
}

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

/** What an item is, with what only such an item has. */
export type What =
  /** A run begins. */
  | {
    kind: "run";
    /** Id of the agent. */
    agent: string;
    /** Its version. */
    agentVersion?: string | null;
    /** The working folder. */
    cwd?: string | null;
    /** The model. */
    model?: string | null;
    /** The agent's own id of the session. */
    sessionId?: string | null;
  }
  /** What the user asks. */
  | {
    kind: "prompt";
    /** The prompt. */
    text: Clip;
  }
  /** A turn of the main agent. */
  | {
    kind: "turn";
    /** What that costs in dollars. */
    costUsd?: number | null;
    /** Why the model stopped, once the turn is over. */
    stopReason?: string | null;
    /** What it used; several responses of one turn together. */
    tokens?: TokensReport | null;
  }
  /** What the agent says. */
  | {
    kind: "text";
    /** Whether it is the answer of the run. */
    answer: boolean;
    /** The text so far. */
    text: Clip;
  }
  /** The model's reasoning. */
  | {
    kind: "thinking";
    /** The text so far. */
    text: Clip;
  }
  /** A tool call. */
  | {
    kind: "tool";
    /** The agent's id of the call. */
    call: string;
    /** How long it took. */
    durationMs?: number | null;
    /** Exit code of a command. */
    exitCode?: number | null;
    /** The arguments as JSON text. */
    input?: Clip | null;
    /** The tool's name. */
    name: string;
    /** What it gave back so far. */
    output?: Clip | null;
    /** How it ended; nothing while it runs. */
    status?: ToolStatus | null;
    /** A line for people. */
    title?: string | null;
    /** What it does. */
    toolKind: ToolKind;
  }
  /** A file changed. */
  | {
    kind: "file";
    /** Lines added. */
    added?: number | null;
    /** What happened to it. */
    change: Change;
    /** Unified diff. */
    diff?: Clip | null;
    /** The old path of a renamed file. */
    from?: string | null;
    /** The path as the agent gives it. */
    path: string;
    /** Lines removed. */
    removed?: number | null;
    /** How it is known. */
    source: ChangeSource;
    /** The item of the call that changed it. */
    tool?: number | null;
  }
  /** Edits that the agent proposes. */
  | {
    kind: "edits";
    /** The edits. */
    edits: Edit[];
  }
  /** The agent's list of steps. One item in a run, which changes. */
  | {
    kind: "plan";
    /** The steps in order. */
    items: Step[];
  }
  /** The agent asks whether it may. */
  | {
    kind: "permission";
    /** The answer, once there is one. */
    decision?: string | null;
    /** The answers that can be given. */
    options?: Choice[];
    /** Names the question. */
    request: string;
    /** The question in a line. */
    title: string;
    /** The item of the call that it is about. */
    tool?: number | null;
  }
  /** A request failed and is tried again. */
  | {
    kind: "retry";
    /** Which attempt failed, from 1. */
    attempt: number;
    /** The wait before the next. */
    delayMs?: number | null;
    /** How many will be made. */
    maxAttempts?: number | null;
    /** What went wrong. */
    message: string;
  }
  /** One line for people. */
  | {
    kind: "activity";
    /** The line. */
    message: string;
  }
  /** Something failed. */
  | {
    kind: "error";
    /** What kind of failure it is. */
    class?: Cause | null;
    /** Whether it ends the run. */
    fatal: boolean;
    /** What the agent says of it. */
    message: string;
  }
  /** A line that no rule knows. */
  | {
    kind: "unrecognized";
    /** The line. */
    raw: Clip;
    /** The type that the line gives itself. */
    type?: string | null;
  }
  /** A run is over. */
  | {
    kind: "end";
    /** Why, when it ended badly. */
    cause?: Cause | null;
    /** What that costs in dollars. */
    costUsd?: number | null;
    /** Duration of the run as the agent measured it. */
    durationMs?: number | null;
    /** Exit code of the process. */
    exitCode?: number | null;
    /** How. */
    outcome: Outcome;
    /** The signal that ended it. */
    signal?: string | null;
    /** What the run used. */
    tokens?: TokensReport | null;
  };
