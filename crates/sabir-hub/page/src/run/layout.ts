// The frame of a run's screen.

import { button, el } from "../dom";
import { icon } from "../icons";

export interface Parts {
  /** Whether there is a list to go back to. */
  back: boolean;
  title: [heading: HTMLElement, status: HTMLElement, link: HTMLElement, cancel: HTMLElement];
  tools: HTMLElement[];
  body: HTMLElement[];
  foot: HTMLElement[];
}

export function layout({ back, title: [heading, status, link, cancel], tools, body, foot }: Parts): HTMLElement {
  const head = el(
    "header",
    { class: "run-bar" },
    back && el("a", { class: "button square plain", href: "#/", "aria-label": "All runs", title: "All runs (u)" }, icon("back")),
    el("div", { class: "run-title" }, heading, status, link),
    cancel,
    el("div", { class: "run-tools" }, ...tools, button("facts", { class: "square", "aria-label": "Facts", title: "Facts (i)" }, icon("facts"))),
  );
  return el("main", { class: "run" }, head, ...body, el("footer", { class: "run-foot" }, ...foot));
}
