// What people and models say.

import { colour, hasColours } from "../ansi";
import type { Context } from "../card";
import { button, el, type Child } from "../dom";
import { bytes, plural } from "../format";
import { icon } from "../icons";
import { plain, show } from "../invisible";
import { markdown } from "../markdown";
import { leftOut } from "../timeline";
import type { Clip, Item } from "../types";

const LONG = 120;

/** A message. A long one shows its beginning until somebody opens it. */
export function speech(item: Item, clip: Clip, kind: "prompt" | "text" | "answer", context: Context): Child[] {
  const whole = context.whole(item.id, "text");
  const text = whole ?? clip.text;
  const lines = text.split("\n");
  const open = context.opened(item.id, "body") === true;
  const most = kind === "prompt" ? 24 : LONG;
  const long = lines.length > most + 20;
  const body = el("div", { class: `said said-${kind}` });
  const shownText = long && !open ? lines.slice(0, most).join("\n") : text;
  if (kind === "prompt") show(body, shownText);
  else if (hasColours(shownText)) terminal(body, shownText);
  else markdown(body, shownText);
  const out: Child[] = [body];
  if (whole === null && clip.tail && (open || !long)) out.push(...tail(item, clip, "text", context));
  if (long) out.push(more(open, plural(lines.length, "line")));
  return out;
}

/** What was written for a terminal is shown as one shows it. */
function terminal(body: HTMLElement, text: string): void {
  const shown = el("pre", { class: "output-text" });
  colour(shown, text.replace(/\n+$/, ""));
  body.append(shown);
}

/** What was left out between the two ends of a text, and its end. */
export function tail(item: Item, clip: Clip, part: string, context: Context): Child[] {
  const missing = leftOut(clip);
  const end = el("div", { class: "said" });
  show(end, clip.tail ?? "");
  const gap = missing === 0 ? null : gapOf(missing, part, context.online && (part !== "text" || item.first === item.last || context.live === false));
  return [gap, end];
}

export function gapOf(missing: number, part: string, canLoad: boolean): HTMLElement {
  return canLoad
    ? button("load", { class: "gap", "data-part": part }, `Load ${bytes(missing)} more`)
    : el("div", { class: "gap" }, `${bytes(missing)} left out`);
}

export function more(open: boolean, words: string): HTMLElement {
  return button("toggle", { class: "more", "aria-expanded": open ? "true" : "false" }, icon("open"), open ? "Show less" : `Show all: ${words}`);
}

/** Reasoning is folded to its first line. */
export function thinking(item: Item, clip: Clip, context: Context): Child[] {
  const open = context.opened(item.id, "body") === true;
  const first = clip.text.split("\n").find((line) => line.trim() !== "") ?? "";
  const head = button("toggle", { class: "head thinking-head", "aria-expanded": open ? "true" : "false" });
  const line = el("span", { class: "head-title" });
  line.append(open ? "" : plain(first.replace(/[*_#`]/g, "")).slice(0, 240));
  head.append(icon("open"), el("span", { class: "head-name" }, "Reasoning"), line, clip.size >= 1024 ? el("span", { class: "fact" }, bytes(clip.size)) : "");
  if (!open) return [head];
  const body = el("div", { class: "said said-thinking" });
  markdown(body, context.whole(item.id, "text") ?? clip.text);
  return [head, body, ...(clip.tail && context.whole(item.id, "text") === null ? tail(item, clip, "text", context) : [])];
}
