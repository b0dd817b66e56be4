// An item as the event that it is made of, or as the line that the agent printed.

import type { Context, Mode } from "../card";
import { button, el, type Child } from "../dom";
import { show } from "../invisible";
import type { Item } from "../types";
import { chunks } from "./tool";

export const MODES: [Mode, string][] = [
  ["shown", "Formatted"],
  ["event", "Event"],
  ["raw", "Raw"],
];

/** The numbers of the events that an item is made of. */
function numbersOf(item: Item): string {
  if (item.seq == null) return "";
  return `event ${item.seq}${item.lastSeq == null || item.lastSeq === item.seq ? "" : ` … ${item.lastSeq}`}`;
}

export function raw(item: Item, mode: Mode, context: Context): Child[] {
  const what = item.what;
  if (mode === "shown") {
    if (what.kind !== "unrecognized") return [];
    const text = el("pre", { class: "output-text" });
    show(text, what.raw.text.slice(0, 2_000));
    const of = el("span", { class: "line-text" });
    show(of, what.type ?? "");
    return [el("div", { class: "line" }, el("strong", null, "Unrecognized line"), of), el("div", { class: "output" }, text)];
  }
  const tabs = el("div", { class: "modes", role: "group", "aria-label": "Look at it" });
  for (const [name, words] of MODES) {
    tabs.append(button("mode", { "data-mode": name, "aria-pressed": name === mode ? "true" : "false" }, words));
  }
  const number = mode === "event" ? numbersOf(item) : item.line == null ? "" : `line ${item.line}`;
  tabs.append(el("span", { class: "fact" }, number));
  const fetched = context.fetched(item.id);
  if (fetched === null) return [tabs, el("div", { class: "fact" }, "Loading…")];
  if (fetched.failed) return [tabs, el("div", { class: "notice" }, fetched.text)];
  const box = el("div", { class: "output is-raw", role: "group", "aria-label": mode === "event" ? "Event" : "Raw line" });
  chunks(box, fetched.text);
  return [tabs, box];
}
