// What every screen is, and small things that all of them have.

import { Refused } from "./api";
import { button, el } from "./dom";
import type { Deeds, Screen as Name } from "./keys";

export interface Screen {
  name: Name;
  title: string;
  element: HTMLElement;
  deeds: Deeds;
  /** Everything that it began ends. */
  leave(): void;
}

/** Says that something could not be had, and what to do. */
export function failure(error: unknown, again: string | null = null): HTMLElement {
  const refused = error instanceof Refused ? error : null;
  const words = refused?.message ?? "Reload the page to try again.";
  const titles: Record<number, string> = { 0: "No connection", 401: "Not signed in", 403: "This token doesn't allow that", 404: "This run doesn't exist or was deleted" };
  return empty(
    titles[refused?.status ?? -1] ?? "Something went wrong",
    [words, refused?.hint].filter(Boolean).join(" "),
    again === null ? null : button(again, {}, "Try again"),
  );
}

/** A place with nothing in it: what is missing, and what to do next. */
export function empty(title: string, words: string, ...more: (HTMLElement | null)[]): HTMLElement {
  return el("div", { class: "empty" }, el("h2", null, title), words !== "" && el("p", null, words), ...more);
}

let timer = 0;

/** A word that goes away by itself. */
export function toast(words: string): void {
  let box = document.querySelector<HTMLElement>(".toast");
  if (!box) {
    box = el("div", { class: "toast", role: "status" });
    document.body.append(box);
  }
  box.textContent = words;
  box.classList.add("is-shown");
  clearTimeout(timer);
  timer = window.setTimeout(() => box.classList.remove("is-shown"), 2_500);
}
