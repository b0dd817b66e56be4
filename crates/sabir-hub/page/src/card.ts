// One item of a run as a row: when, what, and what belongs to it.

import { answerable, plan, question } from "./card/ask";
import { edits, file } from "./card/file";
import { end, runHead, turn } from "./card/frame";
import { raw } from "./card/raw";
import { speech, thinking } from "./card/speech";
import { tool } from "./card/tool";
import { add, el, type Child } from "./dom";
import { exact, moment, plural, spaced } from "./format";
import { icon, type Icon } from "./icons";
import { plain, show } from "./invisible";
import type { Item } from "./types";

/** How an item is looked at. */
export type Mode = "shown" | "event" | "raw";

/** What a card must know besides its item. */
export interface Context {
  /** The address of an item; nothing in a file of its own. */
  link(item: Item): string | null;
  /** Whether something went wrong in an item. */
  trouble(id: number): boolean;
  start: number | null;
  /** When an item was; null where nobody knows. */
  when(item: Item): number | null;
  /** The folder of the run: what lies in it is named without it. */
  folder: string | null;
  selected: number;
  /** Whether somebody opened or closed a part; null when nobody did. */
  opened(id: number, part: string): boolean | null;
  /** A text that was fetched because the item has only its two ends. */
  whole(id: number, part: string): string | null;
  mode(id: number): Mode;
  /** What was fetched for that way of looking. */
  fetched(id: number): { text: string; failed: boolean } | null;
  /** Whether whole texts can be fetched. */
  online: boolean;
  /** Whether questions can be answered here. */
  mayAnswer: boolean;
  folded: ReadonlySet<number>;
  beneath(id: number): number;
  depth(id: number): number;
  /** Whether the run goes on; an open call of one that is over does not run. */
  live: boolean;
  sent(request: string): string | null;
}

const ICONS: Record<string, Icon> = {
  run: "run", prompt: "prompt", text: "text", thinking: "thinking", file: "edit", edits: "edit", plan: "plan",
  permission: "question", retry: "retry", activity: "activity", error: "warning", unrecognized: "warning", end: "end", turn: "turn",
};

const TOOL_ICONS: Record<string, Icon> = {
  read: "read", edit: "edit", delete: "edit", move: "edit", search: "search", execute: "execute", think: "thinking",
  fetch: "fetch", delegate: "agent", plan: "plan",
};

/** The picture of an item. */
export function iconOf(item: Item): Icon {
  const what = item.what;
  if (what.kind === "tool") return TOOL_ICONS[what.toolKind] ?? "other";
  return what.kind === "text" && what.answer ? "answer" : (ICONS[what.kind] ?? "other");
}

/** An item in a few words: for screen readers, and where only a line fits. */
export function nameOf(item: Item): string {
  const what = item.what;
  switch (what.kind) {
    case "run":
      return `Run of ${what.agent}`;
    case "prompt":
      return "Prompt";
    case "turn":
      return `Turn ${item.turn ?? ""}`;
    case "text":
      return what.answer ? "Answer" : "Message";
    case "thinking":
      return "Reasoning";
    case "tool":
      return `Tool ${what.name}${what.status == null ? "" : `, ${what.status}`}`;
    case "file":
      return `File ${what.path}`;
    case "edits":
      return "Proposed edits";
    case "plan":
      return "Plan";
    case "permission":
      return `Question: ${what.title}`;
    case "retry":
      return "Retry";
    case "activity":
      return "Activity";
    case "error":
      return "Error";
    case "unrecognized":
      return "Unrecognized line";
    case "end":
      return `End: ${what.outcome}`;
  }
}

/** The row of an item. */
export function card(item: Item, place: number, total: number, context: Context): HTMLElement {
  const depth = context.depth(item.id);
  const classes = ["row", `row-${item.what.kind}`, `depth-${depth}`];
  if (context.trouble(item.id)) classes.push("is-trouble");
  if (item.what.kind === "text" && item.what.answer) classes.push("is-answer");
  if (item.id === context.selected) classes.push("is-selected");
  const row = el("article", {
    class: classes.join(" "),
    id: `item-${item.id}`,
    "data-id": item.id,
    "aria-posinset": place + 1,
    "aria-setsize": total,
    "aria-label": plain(nameOf(item)).slice(0, 200),
    "aria-current": item.id === context.selected ? "true" : null,
  });
  const at = context.when(item);
  const time = at !== null && context.start !== null ? moment(at - context.start) : item.seq == null ? "" : `#${item.seq}`;
  const title = [item.seq == null ? "" : `Event ${item.seq}`, item.at == null ? "" : exact(item.at)].filter(Boolean).join(" · ");
  const link = context.link(item);
  row.append(
    link === null
      ? el("span", { class: "row-time", title }, time)
      : el("a", { class: "row-time", href: link, title, tabindex: -1 }, time),
    el("span", { class: "row-icon" }, icon(iconOf(item))),
  );
  const body = el("div", { class: "row-body" });
  row.append(body);
  const mode = context.mode(item.id);
  if (mode === "shown") fill(body, item, context);
  else add(body, ...raw(item, mode, context));
  const below = context.beneath(item.id);
  if (below > 0 && item.what.kind === "tool") {
    const folded = context.folded.has(item.id);
    const fold = el("button", { type: "button", class: "fold", "data-do": "fold", "aria-expanded": folded ? "false" : "true" });
    fold.append(icon("open"), plural(below, "item"), folded ? " hidden beneath" : " beneath");
    body.append(fold);
  }
  return row;
}

function fill(body: HTMLElement, item: Item, context: Context): void {
  const what = item.what;
  const put = (...children: Child[]) => add(body, ...children);
  switch (what.kind) {
    case "run":
      return put(runHead(what));
    case "turn":
      return put(turn(item, what));
    case "prompt":
      return put(...speech(item, what.text, "prompt", context));
    case "text":
      return put(...speech(item, what.text, what.answer ? "answer" : "text", context));
    case "thinking":
      return put(...thinking(item, what.text, context));
    case "tool":
      return put(...tool(item, what, context));
    case "file":
      return put(...file(item, what, context));
    case "edits":
      return put(...edits(what));
    case "plan":
      return put(plan(what.items));
    case "permission":
      return put(question(item, what, answerable(what, context), context));
    case "retry":
      return put(line("Retry", `${what.message}`, `attempt ${what.attempt}${what.maxAttempts == null ? "" : ` of ${what.maxAttempts}`}`));
    case "activity":
      return put(line(null, what.message, null));
    case "error":
      return put(line(what.fatal ? "Fatal error" : "Error", what.message, what.class && what.class !== "unknown" ? spaced(what.class) : null));
    case "unrecognized":
      return put(...raw(item, "shown", context));
    case "end":
      return put(end(what));
  }
}

/** A line with a word before it and a fact behind it. */
function line(word: string | null, text: string, fact: string | null): HTMLElement {
  const said = el("span", { class: "line-text" });
  show(said, text);
  return el("div", { class: "line" }, word !== null && el("strong", null, word), said, fact !== null && el("span", { class: "fact" }, fact));
}
