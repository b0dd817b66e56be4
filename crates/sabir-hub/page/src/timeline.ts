// The items of a run, as the changes make them. The same as `Timeline` in sabir-core, with what a page needs besides: which
// items changed, what is beneath what, where something went wrong.

import { millis } from "./format";
import type { Clip, Item, TimelineChange } from "./types";

/** So many characters of the beginning of a growing text are kept, and as many of its end. */
const SPEECH = 64 << 10;
const OUTPUT = 8 << 10;

export class Timeline {
  items: Item[] = [];
  /** Grows with each change of an item. */
  readonly versions: number[] = [];
  readonly depths: number[] = [];
  /** Items beneath an item, in order. */
  readonly beneath = new Map<number, number[]>();
  /** Earlier states of items that are not just longer later: for the replay. */
  readonly earlier = new Map<number, Item[]>();
  /** Whether the order of rows is no longer the order of items plus what is new at its end. */
  reordered = false;
  /** The number of the last event. */
  last = 0;
  /** When the latest thing happened. Logs of sub-agents come last, and tell of times before. */
  latest: string | null = null;
  /** The folder that the agent works in. */
  folder: string | null = null;
  private readonly troubles = new Set<number>();

  /** Applies a change; gives the id of the item, or -1 where it names none. */
  apply(change: TimelineChange): number {
    if ("put" in change) return this.put(change.put);
    const { id, last, until, text } = change.grow;
    const item = this.items[id];
    if (!item) return -1;
    item.last = last;
    if (until) this.see((item.until = until));
    const what = item.what;
    if (what.kind === "text" || what.kind === "thinking") push(what.text, text, SPEECH);
    else if (what.kind === "tool") push((what.output ??= { text: "", size: 0 }), text, OUTPUT);
    this.touch(id, last);
    return id;
  }

  private put(item: Item): number {
    const { id } = item;
    if (id > this.items.length) return -1;
    const before = this.items[id];
    if (!before) {
      this.items.push(item);
      this.versions.push(0);
      const above = this.above(item);
      this.depths.push(above === null ? 0 : Math.min(6, (this.depths[above] ?? 0) + (item.parent == null ? 0 : 1)));
      if (above !== null) {
        const others = this.beneath.get(above);
        if (others) others.push(id);
        else this.beneath.set(above, [id]);
        this.reordered = true;
      }
    } else {
      if (before.what.kind === "plan" || before.what.kind === "permission") {
        this.earlier.set(id, [...(this.earlier.get(id) ?? []), before]);
      }
      this.items[id] = item;
    }
    if (item.what.kind === "run" && item.what.cwd) this.folder = item.what.cwd;
    this.see(item.until ?? item.at);
    if (isTrouble(item)) this.troubles.add(id);
    else this.troubles.delete(id);
    this.touch(id, item.last);
    return id;
  }

  /** The item that an item is shown beneath. */
  private above(item: Item): number | null {
    if (item.parent != null && item.parent < item.id) return item.parent;
    const what = item.what;
    const tool = what.kind === "file" || what.kind === "permission" ? what.tool : null;
    return tool != null && tool < item.id ? tool : null;
  }

  private touch(id: number, number: number): void {
    this.versions[id] = (this.versions[id] ?? 0) + 1;
    if (number > this.last) this.last = number;
  }

  /** Where something went wrong. That a run failed is no trouble of its own where its reason is one. */
  trouble(): number[] {
    const all = [...this.troubles].sort((a, b) => a - b);
    const why = all.filter((id) => this.items[id]?.what.kind !== "end");
    return why.length > 0 ? why : all;
  }

  turnCount(): number {
    return this.items.reduce((count, item) => count + (item.what.kind === "turn" ? 1 : 0), 0);
  }

  /** When an item was: as it says, or the time around it. */
  when(item: Item): number | null {
    const said = millis(item.at);
    if (said !== null) return said;
    if (item.what.kind === "end") return millis(this.latest);
    for (let id = item.id - 1; id >= Math.max(0, item.id - 50); id -= 1) {
      const before = millis(this.items[id]?.until ?? this.items[id]?.at);
      if (before !== null) return before;
    }
    return item.what.kind === "run" && item.id < 2 ? this.start() : null;
  }

  private see(time: string | null | undefined): void {
    if (time && (this.latest === null || time > this.latest)) this.latest = time;
  }

  /** Where a turn begins, or somebody asks. */
  turns(): number[] {
    return this.items.filter((item) => item.what.kind === "turn" || item.what.kind === "prompt").map((item) => item.id);
  }

  /** The item that an event belongs to: the last one that had begun by then, or one that the event changed. */
  of(number: number): number {
    let [low, high] = [0, this.items.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.items[middle] as Item).first <= number) low = middle + 1;
      else high = middle;
    }
    const begun = low - 1;
    if (begun >= 0 && this.items[begun]?.first !== number) {
      for (let id = begun; id >= Math.max(0, begun - 500); id -= 1) if (this.items[id]?.last === number) return id;
    }
    return begun;
  }

  /** When the first thing happened. */
  start(): number | null {
    for (const item of this.items) {
      const at = millis(item.at);
      if (at !== null) return at;
    }
    return null;
  }
}

/** Whether something went wrong here: what "next error" looks for. */
export function isTrouble(item: Item): boolean {
  const what = item.what;
  if (what.kind === "error" || what.kind === "unrecognized") return true;
  if (what.kind === "tool") return what.status != null && what.status !== "ok";
  return what.kind === "end" && what.outcome !== "completed";
}

/** Adds the next piece of a text. */
function push(clip: Clip, piece: string, head: number): void {
  clip.size += byteLength(piece);
  if (!clip.tail && clip.text.length < head && !isCut(clip, piece)) {
    const room = safe(piece, head - clip.text.length);
    clip.text += piece.slice(0, room);
    piece = piece.slice(room);
    if (piece === "") return;
  }
  clip.tail = (clip.tail ?? "") + piece;
  // Cut now and then, not at every piece.
  if (clip.tail.length > 2 * head) clip.tail = clip.tail.slice(safe(clip.tail, clip.tail.length - head));
}

function isCut(clip: Clip, piece: string): boolean {
  return clip.size - byteLength(piece) > byteLength(clip.text);
}

/** A place that is not within a character. */
function safe(text: string, place: number): number {
  const code = text.charCodeAt(place);
  return place < text.length && code >= 0xdc00 && code <= 0xdfff ? place - 1 : Math.min(place, text.length);
}

const encoder = new TextEncoder();

export function byteLength(text: string): number {
  return encoder.encode(text).length;
}

/** How much was left out. */
export function leftOut(clip: Clip): number {
  // Whole texts are most of them, and counting is what takes time.
  if (clip.size <= clip.text.length) return 0;
  return Math.max(0, clip.size - byteLength(clip.text) - byteLength(clip.tail ?? ""));
}

/** An item as it stood after an event; null when it had not begun. */
export function asOf(timeline: Timeline, id: number, number: number): Item | null {
  const item = timeline.items[id];
  if (!item || item.first > number) return null;
  if (item.last <= number) return item;
  const before = timeline.earlier.get(id)?.findLast((one) => one.last <= number);
  if (before) return before;
  const part = (number - item.first + 1) / (item.last - item.first + 1);
  const { until: _, ...rest } = item;
  const what = item.what;
  switch (what.kind) {
    case "text":
    case "thinking":
      return { ...rest, last: number, what: { ...what, text: begun(what.text, part) } };
    case "tool": {
      const { status: _status, exitCode: _code, durationMs: _took, output: _output, ...open } = what;
      return { ...rest, last: number, what: open };
    }
    case "turn":
      return { ...rest, last: number, what: { kind: "turn" } };
    case "permission": {
      const { decision: _decision, ...asked } = what;
      return { ...rest, last: number, what: asked };
    }
    default:
      return item;
  }
}

function begun(clip: Clip, part: number): Clip {
  const text = clip.text.slice(0, safe(clip.text, Math.ceil(clip.text.length * part)));
  return { text, size: byteLength(text) };
}
