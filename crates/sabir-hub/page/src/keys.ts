// Every key of the page, in one table: what hears keys and what explains them both read it.

import { button, el } from "./dom";

export type Screen = "runs" | "run" | "spend";

interface Key {
  keys: string[];
  on: Screen[];
  deed: string;
  words: string;
}

const ALL: Screen[] = ["runs", "run", "spend"];

export const KEYS: Key[] = [
  { keys: ["j", "ArrowDown"], on: ["runs", "run"], deed: "next", words: "Next" },
  { keys: ["k", "ArrowUp"], on: ["runs", "run"], deed: "previous", words: "Previous" },
  { keys: ["Enter"], on: ["runs"], deed: "open", words: "Open the run" },
  { keys: ["Enter"], on: ["run"], deed: "toggle", words: "Open or close the item" },
  { keys: ["/"], on: ["runs", "run"], deed: "search", words: "Search" },
  { keys: ["n"], on: ["run"], deed: "next-error", words: "Next error" },
  { keys: ["N"], on: ["run"], deed: "previous-error", words: "Previous error" },
  { keys: ["t"], on: ["run"], deed: "next-turn", words: "Next turn" },
  { keys: ["T"], on: ["run"], deed: "previous-turn", words: "Previous turn" },
  { keys: ["g", "Home"], on: ["run"], deed: "first", words: "To the beginning" },
  { keys: ["G", "End"], on: ["run"], deed: "last", words: "To the end" },
  { keys: ["f"], on: ["run"], deed: "follow", words: "Follow live" },
  { keys: ["r"], on: ["run"], deed: "raw", words: "View: formatted / event / raw" },
  { keys: ["y"], on: ["run"], deed: "copy-link", words: "Copy link" },
  { keys: ["w"], on: ["run"], deed: "waterfall", words: "Show or hide the waterfall" },
  { keys: ["i"], on: ["run"], deed: "facts", words: "Show or hide details" },
  { keys: [" "], on: ["run"], deed: "play", words: "Play or pause the replay" },
  { keys: ["<"], on: ["run"], deed: "slower", words: "Replay slower" },
  { keys: [">"], on: ["run"], deed: "faster", words: "Replay faster" },
  { keys: ["Escape"], on: ["run"], deed: "leave", words: "Close the search, end the replay" },
  { keys: ["u"], on: ["run", "spend"], deed: "runs", words: "Go to Runs" },
  { keys: ["s"], on: ["runs", "run"], deed: "spend", words: "Go to Spend" },
  { keys: ["d"], on: ALL, deed: "theme", words: "Switch theme" },
  { keys: ["?"], on: ALL, deed: "help", words: "Keyboard shortcuts" },
];

export type Deeds = Record<string, () => void>;

/** What a key does on a screen; nothing while somebody types. */
export function deedOf(event: KeyboardEvent, screen: Screen): string | null {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return null;
  const target = event.target instanceof HTMLElement ? event.target : null;
  const types = target?.closest("input:not([type=range]), textarea, select, [contenteditable]");
  if (types) return null;
  // Buttons and links keep the keys that press them; a slider keeps its arrows.
  const presses = target?.closest("button, a[href], summary, dialog");
  if (presses && (event.key === "Enter" || event.key === " ")) return null;
  if (target?.closest("dialog") && event.key !== "?") return null;
  if (target?.closest("input[type=range]") && /^(Arrow|Home|End)/.test(event.key)) return null;
  return KEYS.find((key) => key.on.includes(screen) && key.keys.includes(event.key))?.deed ?? null;
}

const NAMES: Record<string, string> = { ArrowDown: "↓", ArrowUp: "↑", " ": "Space", Escape: "Esc" };

/** Shows or closes the keys of a screen. */
export function help(screen: Screen): void {
  const open = document.querySelector<HTMLDialogElement>("dialog.help");
  if (open) {
    open.close();
    return;
  }
  const rows = KEYS.filter((key) => key.on.includes(screen)).map((key) =>
    el("div", { class: "help-row" }, el("dt", null, ...key.keys.map((one) => el("kbd", null, NAMES[one] ?? one))), el("dd", null, key.words)),
  );
  const dialog = el(
    "dialog",
    { class: "dialog help", "aria-label": "Keyboard shortcuts" },
    el("div", { class: "help-head" }, el("h2", null, "Keyboard shortcuts"), button("close", { class: "plain", autofocus: true }, "Close")),
    el("dl", null, ...rows),
  );
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || (event.target as HTMLElement).closest("[data-do=close]")) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
}
