// Which items are shown, and in which order: what happened in a sub-agent is beneath the call that started it.

import type { Timeline } from "./timeline";
import type { Item } from "./types";

export type Show = "all" | "talk" | "tools" | "files" | "errors";

export const SHOWS: [Show, string][] = [
  ["all", "Everything"],
  ["talk", "Conversation"],
  ["tools", "Tools"],
  ["files", "Files"],
  ["errors", "Errors"],
];

const KINDS: Record<Exclude<Show, "all" | "errors">, Set<string>> = {
  talk: new Set(["run", "prompt", "text", "permission", "end"]),
  tools: new Set(["tool", "permission"]),
  files: new Set(["file", "edits"]),
};

function shown(timeline: Timeline, item: Item, show: Show): boolean {
  if (show === "all") return true;
  return show === "errors" ? timeline.isTrouble(item.id) || item.what.kind === "retry" : KINDS[show].has(item.what.kind);
}

/** The ids of the items that are shown, up to an event. */
export function rowsOf(timeline: Timeline, show: Show, folded: ReadonlySet<number>, until: number): number[] {
  const rows: number[] = [];
  const { items, beneath } = timeline;
  const isBelow = new Uint8Array(items.length);
  for (const ids of beneath.values()) for (const id of ids) isBelow[id] = 1;
  const visit = (id: number) => {
    const item = items[id] as Item;
    if (item.first > until) return;
    if (shown(timeline, item, show)) rows.push(id);
    if (!folded.has(id)) beneath.get(id)?.forEach(visit);
  };
  for (let id = 0; id < items.length; id += 1) {
    if ((items[id] as Item).first > until) break;
    if (isBelow[id] === 0) visit(id);
  }
  return rows;
}

/** Adds rows for items that are new at the end, where that is all that changed. */
export function moreRows(timeline: Timeline, show: Show, rows: number[], from: number): void {
  for (let id = from; id < timeline.items.length; id += 1) {
    if (shown(timeline, timeline.items[id] as Item, show)) rows.push(id);
  }
}
