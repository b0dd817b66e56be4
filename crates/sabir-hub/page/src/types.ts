// What the hub tells. What runs are made of is written from the Rust types; the rest is the hub's own.

import type { Overview } from "../../../../docs/schema/overview";
import type { Item, What } from "../../../../docs/schema/timeline";

export type { CostSource, Overview, Phase } from "../../../../docs/schema/overview";
export type { Clip, Growth, Item, Step, TimelineChange, TokensReport, What } from "../../../../docs/schema/timeline";

/** What an item of one kind is. */
export type Of<Kind extends What["kind"]> = Extract<What, { kind: Kind }>;

/** A session, as lists have it. */
export interface Session {
  session: string;
  /** Whether its shell is connected now. */
  connected: boolean;
  /** The number of the last message. */
  last: number;
  /** The number of the last message that is in the overview. */
  folded: number;
  overview: Overview;
  shell?: string | null;
  /** The kinds of orders that its shell can deal with. */
  takes: string[];
  created: string;
  updated: string;
}

export interface Sessions {
  sessions: Session[];
  next: string | null;
}

/** Who the hub takes the reader for. */
export interface Me {
  readOnly: boolean;
  scope: string;
  version: string;
  /** Whether the runs are those of this machine's history, and not what shells send. */
  local: boolean;
  /** Whether the browser is signed in by the session cookie, and so can sign out. */
  cookie?: boolean;
}

/** What sessions used in a day. */
export interface UsageRow {
  day: string;
  agent: string | null;
  model: string | null;
  project: string | null;
  sessions: number;
  tokens: { total: number | null; uncachedInput: number | null; cacheRead: number | null; cacheWrite: number | null; output: number | null };
  costUsd: number | null;
}

export interface Usage {
  rows: UsageRow[];
  note?: string | null;
}

/** An order to a session, and what became of it. */
export interface Placed {
  order: { order: number; kind: string };
  taken?: { accepted: boolean; reason?: string };
}

/** A run in a file of its own. */
export interface Exported {
  session: Session;
  items: Item[];
}
