// Light, dark, or as the system says.

import { button } from "./dom";
import { icon, type Icon } from "./icons";

const KEPT = "sabir-theme";
const THEMES: [name: string, picture: Icon, words: string][] = [
  ["auto", "auto", "Colours: as the system"],
  ["light", "sun", "Colours: light"],
  ["dark", "moon", "Colours: dark"],
];

function kept(): number {
  let name: string | null = null;
  try {
    name = localStorage.getItem(KEPT);
  } catch {
    // A file from disk may have no storage.
  }
  return Math.max(0, THEMES.findIndex(([one]) => one === name));
}

let place = kept();
const heard: (() => void)[] = [];

function apply(): void {
  const [name] = THEMES[place] as (typeof THEMES)[number];
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  heard.forEach((hear) => hear());
}

/** The next theme. */
export function nextTheme(): void {
  place = (place + 1) % THEMES.length;
  try {
    localStorage.setItem(KEPT, (THEMES[place] as (typeof THEMES)[number])[0]);
  } catch {
    // Then it holds while the page is open.
  }
  apply();
}

/** Calls when colours change: drawings must be drawn again. */
export function onTheme(hear: () => void): () => void {
  heard.push(hear);
  return () => void heard.splice(heard.indexOf(hear), 1);
}

export function themeButton(): HTMLButtonElement {
  const element = button("theme", { class: "square plain" });
  const say = () => {
    const [, picture, words] = THEMES[place] as (typeof THEMES)[number];
    element.replaceChildren(icon(picture));
    element.title = words;
    element.setAttribute("aria-label", words);
  };
  heard.push(say);
  say();
  return element;
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => heard.forEach((hear) => hear()));
apply();
