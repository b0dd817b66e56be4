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
  /** The highest `seq` of each run. */
  private readonly seqs = new Map<number, number>();

  /** Applies a change; gives the id of the item, or -1 where it names none. */
  apply(change: TimelineChange): number {
    if ("put" in change) return this.put(change.put);
    const { id, last, seq, until, text } = change.grow;
    const item = this.items[id];
    if (!item) return -1;
    item.last = last;
    item.lastSeq = seq ?? item.lastSeq ?? null;
    if (until) this.see((item.until = until));
    const what = item.what;
    if (what.kind === "text" || what.kind === "thinking") push(what.text, text, SPEECH);
    else if (what.kind === "tool") push((what.output ??= { text: "", size: 0 }), text, OUTPUT);
    this.touch(item);
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
    if (item.what.kind === "end" && item.what.outcome === "cancelled") this.forgive(item.run);
    this.touch(item);
    return id;
  }

  /** The item that an item is shown beneath. */
  private above(item: Item): number | null {
    if (item.parent != null && item.parent < item.id) return item.parent;
    const what = item.what;
    const tool = what.kind === "file" || what.kind === "permission" ? what.tool : null;
    return tool != null && tool < item.id ? tool : null;
  }

  private touch({ id, last, run, seq, lastSeq }: Item): void {
    this.versions[id] = (this.versions[id] ?? 0) + 1;
    if (last > this.last) this.last = last;
    this.seqs.set(run, Math.max(this.seqs.get(run) ?? 0, lastSeq ?? seq ?? 0));
  }

  /** What a cancelled run left unfinished did not go wrong. */
  private forgive(run: number): void {
    for (const id of this.troubles) {
      const item = this.items[id];
      if (item?.run !== run || item.what.kind !== "tool" || item.what.status !== "unfinished") continue;
      this.troubles.delete(id);
      this.versions[id] = (this.versions[id] ?? 0) + 1;
    }
  }

  /** The highest `seq` of a run so far. */
  seqOf(run: number): number {
    return this.seqs.get(run) ?? 0;
  }

  isTrouble(id: number): boolean {
    return this.troubles.has(id);
  }

  /** How many events there are; up to a message of the log where one is named. */
  eventCount(until: number | null = null): number {
    const item = until === null ? undefined : this.items[this.of(until)];
    let count = 0;
    for (const [run, seq] of this.seqs) if (!item || run < item.run) count += seq;
    if (until === null || !item) return until === null ? count : 0;
    return count + (item.last <= until ? (item.lastSeq ?? item.seq ?? 0) : (item.seq ?? 0));
  }

  /** The item of the event with this `seq` in one of the runs: what it began, what it changed, or what went on then. */
  withEvent(seq: number, run: number): number {
    let [best, rank] = [-1, 0];
    for (const item of this.items) {
      if (item.run !== run || item.seq == null || item.seq > seq) continue;
      const last = item.lastSeq ?? item.seq;
      const goesOn = last > seq && (item.what.kind === "text" || item.what.kind === "thinking" || item.what.kind === "tool");
      const fits = item.seq === seq ? 4 : last === seq ? 3 : goesOn ? 2 : 1;
      if (fits >= rank) [best, rank] = [item.id, fits];
    }
    return best;
  }

  /** Where something went wrong. That a run failed is no trouble of its own where its reason is one. */
  trouble(): number[] {
    const all = [...this.troubles].sort((a, b) => a - b);
    const why = all.filter((id) => this.items[id]?.what.kind !== "end");
    return why.length > 0 ? why : all;
  }

  /** The same as it was at a message of the log. */
  troubleAt(until: number | null): number[] {
    const all = this.trouble();
    return until === null ? all : all.filter((id) => (this.items[id]?.last ?? 0) <= until);
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

/** Whether something went wrong here, in a run that was not cancelled. What somebody stopped on purpose did not go wrong. */
function isTrouble({ what }: Item): boolean {
  if (what.kind === "error" || what.kind === "unrecognized") return true;
  if (what.kind === "tool") return what.status != null && what.status !== "ok" && what.status !== "cancelled";
  return what.kind === "end" && what.outcome !== "completed" && what.outcome !== "cancelled";
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
