// The frame of a run's screen.

import { button, el } from "../dom";
import { icon } from "../icons";

export interface Parts {
  /** The address of the list, where there is one. */
  back: string | null;
  title: [heading: HTMLElement, status: HTMLElement, link: HTMLElement, cancel: HTMLElement];
  tools: HTMLElement[];
  body: HTMLElement[];
  foot: HTMLElement[];
}

export function layout({ back, title: [heading, status, link, cancel], tools, body, foot }: Parts): HTMLElement {
  const head = el(
    "header",
    { class: "run-bar" },
    back !== null && el("a", { class: "button square plain", href: back, "aria-label": "All runs", title: "All runs (u)" }, icon("back")),
    el("div", { class: "run-title" }, heading, status, link),
    cancel,
    el("div", { class: "run-tools" }, ...tools, button("facts", { class: "square", "aria-label": "Details", title: "Details (i)" }, icon("facts"))),
  );
  const skip = button("timeline", { class: "skip" }, "Skip to timeline");
  return el("main", { class: "run" }, skip, head, ...body, el("footer", { class: "run-foot" }, ...foot));
}
