// Items as spans on an axis: of time, or of event numbers where a recording has no times.

import { millis } from "../format";
import type { Timeline } from "../timeline";
import type { Item } from "../types";

/** Model, tools that read, tools that run or change something, sub-agents, trouble. */
export type Colour = "model" | "look" | "act" | "agent" | "bad" | "ask";

export interface Span {
  id: number;
  from: number;
  until: number;
  lane: number;
  colour: Colour;
}

export interface Spans {
  spans: Span[];
  /** Where turns begin. */
  turns: { id: number; at: number; number: number }[];
  lanes: number;
  from: number;
  until: number;
  timed: boolean;
}

/** Lane 0 is the model; calls share the lanes below it. */
const MOST_LANES = 7;
const LOOKS = new Set(["read", "search", "fetch", "think", "plan"]);

export function spansOf(timeline: Timeline, live: boolean, now: number): Spans {
  // Times that are all the same, as of a recording that was read at once, order nothing.
  const times = new Set<string>();
  const timed = timeline.items.some((item) => [item.at, item.until].some((time) => time != null && times.add(time).size > 1));
  // The numbers that rows show; those of later runs begin anew, and then the order in the log is the axis.
  const number = (seq: number | null | undefined, message: number) => (timeline.items.at(-1)?.run === 1 ? (seq ?? message) : message);
  const spans: Span[] = [];
  const turns: Spans["turns"] = [];
  const busy: number[] = [];
  let [from, until] = [Infinity, -Infinity];
  // Until when somebody else than the model was at work: what comes after it is the model's time.
  let free: number | null = null;
  for (const item of timeline.items) {
    const begins = timed ? millis(item.at) : number(item.seq, item.first);
    if (begins === null) continue;
    let ends = timed ? (millis(item.until) ?? begins) : Math.max(begins, number(item.lastSeq ?? item.seq, item.last));
    const what = item.what;
    if (what.kind === "tool" && what.status == null && live && timed) ends = Math.max(ends, now);
    else if (what.kind === "tool" && timed && what.durationMs != null) ends = Math.max(ends, begins + what.durationMs);
    from = Math.min(from, begins);
    until = Math.max(until, ends);
    if (what.kind === "turn") turns.push({ id: item.id, at: begins, number: item.turn ?? 0 });
    const colour = timeline.isTrouble(item.id) ? "bad" : colourOf(item);
    if (colour === null) continue;
    if (timed && item.parent == null) {
      // A log has one time for a message. The model wrote it since what was before.
      const waited = free !== null && free < begins && what.kind !== "prompt" && what.kind !== "permission" ? free : null;
      if (waited !== null && begins === ends && what.kind !== "tool") {
        spans.push({ id: item.id, from: waited, until: begins, lane: 0, colour });
        free = ends;
        continue;
      }
      if (waited !== null && what.kind === "tool") spans.push({ id: item.id, from: waited, until: begins, lane: 0, colour: "model" });
      free = Math.max(free ?? ends, ends);
    }
    let lane = 0;
    if (what.kind === "tool") {
      const idle = busy.findIndex((end) => end <= begins);
      const place = idle >= 0 ? idle : Math.min(busy.length, MOST_LANES - 2);
      busy[place] = Math.max(busy[place] ?? 0, ends);
      lane = place + 1;
    }
    spans.push({ id: item.id, from: begins, until: ends, lane, colour });
  }
  if (!(from < Infinity)) [from, until] = [0, 1];
  return { spans, turns, lanes: Math.max(2, busy.length + 1), from, until: until > from ? until : from + 1, timed };
}

function colourOf(item: Item): Colour | null {
  const what = item.what;
  switch (what.kind) {
    case "text":
    case "thinking":
      return "model";
    case "tool":
      return what.toolKind === "delegate" ? "agent" : LOOKS.has(what.toolKind) ? "look" : "act";
    case "permission":
    case "prompt":
      return "ask";
    default:
      return null;
  }
}
