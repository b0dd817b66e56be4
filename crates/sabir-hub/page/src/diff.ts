// Unified diffs.

import { el } from "./dom";
import { show } from "./invisible";
import { code, familyOf, NOWHERE } from "./syntax";

export type Line = { sign: "+" | "-" | " " | "@" | "\\"; text: string; old: number | null; now: number | null };

/** Lines before the first hunk that only name the files. */
const NAMES = /^(---|\+\+\+|diff |index |Index: |={20,}$|new file|deleted file|similarity|rename |old mode|new mode)/;

/** The lines of a diff, with their numbers. The two lines that name the files are left out. */
export function lines(diff: string): Line[] {
  const found: Line[] = [];
  let [old, now] = [0, 0];
  let inHunk = false;
  for (const text of diff.replace(/\n$/, "").split("\n")) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(text);
    if (hunk) {
      [old, now, inHunk] = [Number(hunk[1]), Number(hunk[2]), true];
      found.push({ sign: "@", text, old: null, now: null });
    } else if (text.startsWith("@@")) {
      // A hunk that only says after which line it is, or not even that: it has no numbers.
      inHunk = false;
      found.push({ sign: "@", text, old: null, now: null });
    } else if (!inHunk) {
      if (!NAMES.test(text)) {
        found.push({ sign: text.startsWith("+") ? "+" : text.startsWith("-") ? "-" : " ", text: text.slice(1), old: null, now: null });
      }
    } else if (text.startsWith("+")) {
      found.push({ sign: "+", text: text.slice(1), old: null, now });
      now += 1;
    } else if (text.startsWith("-")) {
      found.push({ sign: "-", text: text.slice(1), old, now: null });
      old += 1;
    } else if (text.startsWith("\\")) {
      found.push({ sign: "\\", text, old: null, now: null });
    } else {
      found.push({ sign: " ", text: text.slice(1), old, now });
      old += 1;
      now += 1;
    }
  }
  return found;
}

const CLASSES = { "+": "add", "-": "del", " ": "same", "@": "hunk", "\\": "note" };

/** A diff of a file; no more than `most` lines of it. */
export function showDiff(diff: string, path: string, most: number): HTMLElement {
  const all = lines(diff);
  const name = familyOf(path);
  // The two sides of a diff end their comments on their own.
  const left = { "+": NOWHERE, "-": NOWHERE };
  const table = el("div", { class: "diff", role: "group", "aria-label": "Diff" });
  for (const line of all.slice(0, most)) {
    const text = el("span", { class: "diff-text" });
    if (line.sign === "@") {
      left["+"] = left["-"] = NOWHERE;
      show(text, line.text);
    } else if (line.sign === "\\") {
      show(text, line.text);
    } else if (line.sign === " ") {
      left["+"] = left["-"] = code(text, line.text, name, left["+"]);
    } else {
      left[line.sign] = code(text, line.text, name, left[line.sign]);
    }
    const sign = line.sign === "+" || line.sign === "-" ? line.sign : "";
    table.append(
      el(
        "div",
        { class: `diff-line diff-${CLASSES[line.sign]}` },
        el("span", { class: "diff-number" }, line.old ?? ""),
        el("span", { class: "diff-number" }, line.now ?? ""),
        el("span", { class: "diff-sign" }, sign),
        text,
      ),
    );
  }
  return table;
}

export function countLines(diff: string): number {
  return lines(diff).length;
}
