// Looking for words in a run. All items are looked through; those in sight have the words marked.

import { bare } from "../ansi";
import { button, el } from "../dom";
import { whole } from "../format";
import { icon } from "../icons";
import type { Timeline } from "../timeline";
import type { Clip, Item } from "../types";

/** Everything of an item that words can be found in. */
export function* textsOf(item: Item): Generator<string> {
  const what = item.what;
  const both = function* (clip: Clip | undefined | null): Generator<string> {
    if (clip) {
      yield clip.text;
      if (clip.tail) yield clip.tail;
    }
  };
  switch (what.kind) {
    case "run":
      yield [what.agent, what.model, what.cwd, what.sessionId].filter(Boolean).join(" ");
      break;
    case "prompt":
    case "text":
    case "thinking":
      yield* both(what.text);
      break;
    case "tool":
      yield `${what.name} ${what.title ?? ""}`;
      yield* both(what.input);
      yield* both(what.output);
      break;
    case "file":
      yield what.path;
      yield* both(what.diff);
      break;
    case "edits":
      for (const edit of what.edits) yield `${edit.filePath} ${edit.replacement}`;
      break;
    case "plan":
      for (const step of what.items) yield step.text;
      break;
    case "permission":
      yield what.title;
      break;
    case "retry":
    case "activity":
    case "error":
      yield what.message;
      break;
    case "unrecognized":
      yield* both(what.raw);
      break;
    default:
      break;
  }
}

function has(item: Item, words: string): boolean {
  for (const text of textsOf(item)) if (bare(text).toLowerCase().includes(words)) return true;
  return false;
}

/** So long the page may stand still. */
const SLICE = 8;

export class Find {
  readonly element: HTMLElement;
  readonly input = el("input", { type: "search", placeholder: "Search this run", "aria-label": "Search this run", spellcheck: "false", autocomplete: "off" });
  private readonly label = el("span", { class: "find-label figure", role: "status" });
  private words = "";
  private found: number[] = [];
  /** Items that were looked through. */
  private seen = 0;
  private place = -1;
  private timer = 0;
  /** The first place is not gone to: the list is where it was before. */
  private quiet = false;

  constructor(
    private readonly timeline: Timeline,
    private readonly pick: (id: number) => void,
    private readonly changed: () => void,
  ) {
    this.element = el(
      "div",
      { class: "find", role: "search" },
      icon("search"),
      this.input,
      this.label,
      button("find-previous", { class: "square plain", "aria-label": "Previous match", title: "Previous (Shift Enter)" }, icon("up")),
      button("find-next", { class: "square plain", "aria-label": "Next match", title: "Next (Enter)" }, icon("down")),
    );
    this.input.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = window.setTimeout(() => this.typed(), 120);
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        event.preventDefault();
        if (this.words !== this.input.value.trim().toLowerCase()) this.typed();
        else this.step(event.shiftKey ? -1 : 1);
      } else if (event.key === "Escape") {
        this.clear();
        this.input.blur();
      }
    });
  }

  get active(): boolean {
    return this.words !== "";
  }

  clear(): void {
    this.input.value = "";
    this.typed();
  }

  private typed(): void {
    this.quiet = false;
    this.begin();
  }

  /** Looks for words that the address has. */
  begun(words: string, quiet: boolean): void {
    this.input.value = words;
    this.quiet = quiet;
    this.begin();
  }

  /** More items came. */
  grown(): void {
    if (this.active && this.seen < this.timeline.items.length) this.scan();
  }

  step(by: 1 | -1): void {
    if (this.found.length === 0) return;
    this.place = (this.place + by + this.found.length) % this.found.length;
    this.say();
    this.pick(this.found[this.place] as number);
  }

  private begin(): void {
    clearTimeout(this.timer);
    this.words = this.input.value.trim().toLowerCase();
    [this.found, this.seen, this.place] = [[], 0, -1];
    if (this.active) this.scan();
    else this.say();
    this.changed();
  }

  private scan(): void {
    const until = performance.now() + SLICE;
    const { items } = this.timeline;
    while (this.seen < items.length && performance.now() < until) {
      // Looking at the clock costs more than looking at an item.
      for (let more = 0; more < 64 && this.seen < items.length; more += 1, this.seen += 1) {
        if (has(items[this.seen] as Item, this.words)) this.found.push(this.seen);
      }
      if (this.place < 0 && this.found.length > 0) {
        this.place = 0;
        if (!this.quiet) this.pick(this.found[0] as number);
      }
    }
    this.say();
    if (this.seen < items.length) {
      clearTimeout(this.timer);
      this.timer = window.setTimeout(() => this.scan(), 0);
    }
  }

  private say(): void {
    const total = this.found.length;
    const more = this.seen < this.timeline.items.length ? "…" : "";
    this.label.textContent = !this.active ? "" : total === 0 ? (more === "" ? "No matches" : "…") : `${whole(this.place + 1)} / ${whole(total)}${more}`;
  }

  /** Marks the words in elements. */
  mark(rows: Iterable<HTMLElement>): void {
    const registry = (CSS as unknown as { highlights?: Map<string, unknown> }).highlights;
    if (!registry) return;
    registry.delete("found");
    if (!this.active) return;
    const ranges: Range[] = [];
    for (const row of rows) {
      const body = row.querySelector(".row-body");
      if (!body) continue;
      const walker = document.createTreeWalker(body, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const text = (node.nodeValue ?? "").toLowerCase();
        for (let at = text.indexOf(this.words); at >= 0 && ranges.length < 2_000; at = text.indexOf(this.words, at + this.words.length)) {
          const range = new Range();
          range.setStart(node, at);
          range.setEnd(node, Math.min(at + this.words.length, (node.nodeValue ?? "").length));
          ranges.push(range);
        }
      }
    }
    registry.set("found", new (window as unknown as { Highlight: new (...ranges: Range[]) => unknown }).Highlight(...ranges));
  }
}
