// A tool call: what it was given, what it gave back, how it ended.

import { colour } from "../ansi";
import type { Context } from "../card";
import { el, type Child } from "../dom";
import { beneath, bytes, duration, plural } from "../format";
import { icon } from "../icons";
import { plain, show } from "../invisible";
import { leftOut } from "../timeline";
import type { Clip, Item, Of } from "../types";
import { gapOf } from "./speech";

/** Lines of output that a closed card shows. */
const PEEK = 6;
const PEEK_TROUBLE = 14;
/** Nobody reads more lines than this in a card. */
const MOST_LINES = 5_000;
/** A piece of a long text that is laid out on its own. */
const CHUNK = 16 << 10;

/** A smaller size says nothing. */
export const WORTH_TELLING = 1024;

/** Output of these is what the agent wanted to know, not what one looks for. */
const QUIET = new Set(["read", "search", "edit", "delete", "move", "plan", "think"]);

export function tool(item: Item, what: Of<"tool">, context: Context): Child[] {
  const open = context.opened(item.id, "body") === true;
  const given = readInput(what.input);
  const bad = context.trouble(item.id);
  const out: Child[] = [head(what, given, open, bad, context)];
  const command = what.toolKind === "execute" ? commandOf(given) : null;
  if (open && what.input) out.push(args(item, what, given, command, context));
  else if (command !== null && command.includes("\n")) out.push(pre(command.split("\n").slice(0, 4).join("\n"), "command"));
  if (what.output) {
    const peek = bad ? PEEK_TROUBLE : QUIET.has(what.toolKind) ? 0 : PEEK;
    const result = output(item, what.output, open ? MOST_LINES : peek, context);
    out.push(...result);
  }
  return out;
}

function head(what: Of<"tool">, given: Given, open: boolean, bad: boolean, context: Context): HTMLElement {
  const line = beneath(context.folder, titleOf(what, given));
  const title = el("span", { class: what.toolKind === "execute" ? "head-title is-command" : "head-title" });
  show(title, line.slice(0, 400));
  return el(
    "button",
    { type: "button", class: "head", "data-do": "toggle", "aria-expanded": open ? "true" : "false" },
    icon("open"),
    el("span", { class: "head-name" }, plain(what.name)),
    title,
    el("span", { class: "head-facts" }, ...facts(what, bad, context)),
  );
}

function facts(what: Of<"tool">, bad: boolean, context: Context): HTMLElement[] {
  const found: HTMLElement[] = [];
  if (what.status == null) {
    found.push(context.live ? el("span", { class: "badge is-running" }, "running") : el("span", { class: "badge" }, "no result"));
  } else if (what.status !== "ok") {
    const words = what.status === "error" ? "failed" : what.status;
    found.push(el("span", { class: bad ? "badge is-bad" : "badge" }, words));
  }
  if (what.exitCode != null && what.exitCode !== 0) found.push(el("span", { class: "fact is-bad" }, `exit ${what.exitCode}`));
  else if (what.exitCode === 0) found.push(el("span", { class: "fact" }, "exit 0"));
  if (QUIET.has(what.toolKind) && what.status === "ok" && (what.output?.size ?? 0) >= WORTH_TELLING) found.push(el("span", { class: "fact" }, bytes(what.output?.size ?? 0)));
  if (what.durationMs != null) found.push(el("span", { class: "fact figure" }, duration(what.durationMs)));
  return found;
}

type Given = { fields: Record<string, unknown> | null; text: string };

/** The arguments, where they are whole and an object. */
function readInput(input: Clip | null | undefined): Given {
  const text = input?.text ?? "";
  if (!input || leftOut(input) > 0 || input.tail) return { fields: null, text };
  try {
    const value: unknown = JSON.parse(text);
    return { fields: typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : null, text };
  } catch {
    return { fields: null, text };
  }
}

function field(given: Given, ...names: string[]): string | null {
  for (const name of names) {
    const value = given.fields?.[name];
    if (typeof value === "string" && value !== "") return value;
    if (Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === "string")) return value.join(" ");
  }
  return null;
}

const SHELL = /^(?:\/\S*\/)?(?:ba|z|da)?sh$/;
const HANDED = /^(?:\/\S*\/)?(?:ba|z|da)?sh -l?c (?:'([^']*)'|"([^"]*)")$/;

/** The command, without the shell that it is handed to. */
export function commandOf(given: Given): string | null {
  const said = given.fields?.command;
  if (Array.isArray(said) && said.length === 3 && SHELL.test(String(said[0])) && /^-l?c$/.test(String(said[1]))) return String(said[2]);
  const whole = field(given, "command", "cmd", "script", "code");
  const handed = HANDED.exec(whole ?? "");
  return handed ? (handed[1] ?? handed[2] ?? null) : whole;
}

const PATHS = ["file_path", "filePath", "path", "absolute_path"];
/** Calls that are about a file. */
const OF_FILES = new Set(["read", "edit", "delete"]);

/** A line that says what a call is about. */
export function titleOf(what: Of<"tool">, given: Given): string {
  const command = what.toolKind === "execute" ? commandOf(given) : null;
  if (command !== null) return command.split("\n")[0] ?? "";
  // Which file it is says more than that there is one.
  const path = OF_FILES.has(what.toolKind) ? field(given, ...PATHS) : null;
  if (path !== null) return path;
  if (what.title && what.title !== what.name) return what.title;
  const about = what.toolKind === "search" ? field(given, "pattern", "query", "regex") : null;
  const found = about ?? field(given, ...PATHS, "pattern", "query", "url", "description", "prompt", "name");
  return found?.split("\n")[0] ?? (given.fields === null ? given.text.slice(0, 200) : "");
}

/** The arguments: a command as a command, the rest by name. */
function args(item: Item, what: Of<"tool">, given: Given, command: string | null, context: Context): HTMLElement {
  const list = el("div", { class: "arguments" });
  const loaded = context.whole(item.id, "input");
  if (given.fields === null || loaded !== null) {
    list.append(pre(loaded ?? given.text, "argument-text"));
    const missing = what.input && loaded === null ? leftOut(what.input) : 0;
    if (missing > 0) list.append(gapOf(missing, "input", context.online), pre(what.input?.tail ?? "", "argument-text"));
    return list;
  }
  for (const [name, value] of Object.entries(given.fields)) {
    const text = typeof value === "string" ? value : (JSON.stringify(value, null, 1) ?? "");
    const isCommand = command !== null && (value === command || ["command", "cmd", "script", "code"].includes(name));
    const key = el("span", { class: "argument-name" });
    show(key, name);
    list.append(el("div", { class: "argument" }, key, pre(isCommand ? (command ?? text) : text, isCommand ? "command" : "argument-text")));
  }
  return list;
}

function pre(text: string, className: string): HTMLElement {
  const element = el("pre", { class: className });
  show(element, text);
  return element;
}

/** What a call gave back: so many lines of it. */
function output(item: Item, clip: Clip, most: number, context: Context): Child[] {
  const loaded = context.whole(item.id, "output");
  const text = (loaded ?? clip.text).replace(/\n+$/, "");
  if (most === 0 || (text === "" && !clip.tail)) return [];
  const lines = text.split("\n");
  const cut = lines.length > most;
  const box = el("div", { class: "output", role: "group", "aria-label": "Output" });
  chunks(box, cut ? lines.slice(0, most).join("\n") : most <= PEEK_TROUBLE ? text.slice(0, 4_000) : text);
  const out: Child[] = [box];
  const missing = loaded === null ? leftOut(clip) : 0;
  if (cut) {
    const rest = missing > 0 || clip.tail ? bytes(clip.size) : plural(lines.length - most, "more line");
    box.append(el("div", { class: "output-more" }, most < MOST_LINES ? `… ${rest}` : `… ${plural(lines.length - most, "more line")} not shown`));
  } else if (loaded === null && clip.tail) {
    if (missing > 0) box.append(gapOf(missing, "output", context.online));
    chunks(box, clip.tail.replace(/\n+$/, ""));
  }
  return out;
}

/** A long text in pieces that the browser lays out only when they come into sight. */
export function chunks(box: HTMLElement, text: string): void {
  for (let from = 0; from < text.length; ) {
    let until = Math.min(text.length, from + CHUNK);
    if (until < text.length) {
      const line = text.lastIndexOf("\n", until);
      // A line that is longer than a piece is cut, but not within a character.
      if (line > from) until = line + 1;
      else if (text.charCodeAt(until) >= 0xdc00 && text.charCodeAt(until) <= 0xdfff) until -= 1;
    }
    const piece = el("pre", { class: from === 0 && until === text.length ? "output-text" : "output-text output-chunk" });
    colour(piece, text.slice(from, until).replace(/\n$/, ""));
    box.append(piece);
    from = until;
  }
}
