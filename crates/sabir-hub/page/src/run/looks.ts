// How items are looked at: opened, as an event, as a raw line; and what was fetched for it.

import { hub, Refused } from "../api";
import type { Mode } from "../card";
import type { Timeline } from "../timeline";
import type { Item } from "../types";

/** More of a text than this is for a file, not for a page. */
const MOST = 2 << 20;

export class Looks {
  private readonly open_ = new Map<string, boolean>();
  private readonly wholes = new Map<string, string>();
  private readonly modes = new Map<number, Mode>();
  private readonly got = new Map<number, { text: string; failed: boolean }>();
  private readonly versions = new Map<number, number>();

  constructor(
    private readonly session: string,
    private readonly timeline: Timeline,
    private readonly changed: () => void,
  ) {}

  version(id: number): number {
    return this.versions.get(id) ?? 0;
  }

  /** The card must be made again. */
  touch(id: number): void {
    this.versions.set(id, this.version(id) + 1);
    this.changed();
  }

  opened(id: number, part: string): boolean | null {
    return this.open_.get(`${id}.${part}`) ?? null;
  }

  open(id: number): void {
    this.open_.set(`${id}.body`, true);
    this.touch(id);
  }

  toggle(id: number): void {
    this.open_.set(`${id}.body`, this.opened(id, "body") !== true);
    this.touch(id);
  }

  whole(id: number, part: string): string | null {
    return this.wholes.get(`${id}.${part}`) ?? null;
  }

  mode(id: number): Mode {
    return this.modes.get(id) ?? "shown";
  }

  fetched(id: number): { text: string; failed: boolean } | null {
    return this.got.get(id) ?? null;
  }

  /** Looks at an item in another way: the one that is named, or the next. */
  turn(id: number, to: Mode | null, online: boolean): void {
    const order: Mode[] = ["shown", "event", "raw"];
    const mode = to ?? (order[(order.indexOf(this.mode(id)) + 1) % 3] as Mode);
    this.modes.set(id, mode);
    this.got.delete(id);
    this.touch(id);
    if (mode === "shown") return;
    if (!online) {
      const text = mode === "event" ? JSON.stringify(this.timeline.items[id], null, 2) : "A file of its own has no raw lines.";
      this.got.set(id, { text, failed: mode === "raw" });
      return;
    }
    void this.fetch(id, mode);
  }

  private async fetch(id: number, mode: Mode): Promise<void> {
    const item = this.timeline.items[id] as Item;
    let result: { text: string; failed: boolean };
    try {
      if (mode === "raw") {
        const text = item.line == null ? null : await hub.line(this.session, item.line);
        result = text === null ? { text: "This item was not made from a line of the agent.", failed: true } : { text: pretty(text), failed: false };
      } else {
        const numbers = item.last === item.first ? [item.first] : [item.first, item.last];
        const events = await Promise.all(numbers.map((number) => hub.event(this.session, number)));
        result = { text: events.map((event) => JSON.stringify(event, null, 2)).join("\n"), failed: false };
      }
    } catch (error) {
      result = { text: error instanceof Refused ? [error.message, error.hint].filter(Boolean).join(" ") : "It could not be loaded.", failed: true };
    }
    if (this.mode(id) !== mode) return;
    this.got.set(id, { ...result, text: short(result.text) });
    this.touch(id);
  }

  /** Fetches all of a text of which the item has only the two ends. */
  async load(id: number, part: string): Promise<void> {
    const item = this.timeline.items[id] as Item;
    const names: Record<string, [number: number, field: string]> = {
      output: [item.last, "output"],
      input: [item.first, "input"],
      diff: [item.first, "diff"],
      text: [item.last, "text"],
    };
    const [number, field] = names[part] ?? [item.last, part];
    let text: string;
    try {
      const event = await hub.event(this.session, number);
      const value = event[field] ?? event.delta;
      text = typeof value === "string" ? value : value === undefined ? "The log does not have it in one piece." : JSON.stringify(value, null, 2);
    } catch (error) {
      text = error instanceof Refused ? error.message : "It could not be loaded.";
    }
    this.wholes.set(`${id}.${part}`, short(text));
    this.open_.set(`${id}.body`, true);
    this.touch(id);
  }
}

function short(text: string): string {
  return text.length > MOST ? `${text.slice(0, MOST)}\n… the rest is in the log, which can be downloaded` : text;
}

/** A line that is JSON is easier to read with its fields below each other. */
function pretty(line: string): string {
  if (line.length > 200_000) return line;
  try {
    return JSON.stringify(JSON.parse(line), null, 2);
  } catch {
    return line;
  }
}
