// The pictures of the page: a stroke each, on a grid of sixteen.

import { shape } from "./dom";

const PATHS = {
  run: "M3 2.5v11M3 3h8.5l-2 3 2 3H3",
  prompt: "M8 8a2.8 2.8 0 1 0 0-5.6A2.8 2.8 0 0 0 8 8ZM2.8 14c.4-2.6 2.4-4 5.2-4s4.8 1.4 5.2 4",
  text: "M2.5 3.5h11v7h-6l-3 3v-3h-2z",
  answer: "M2.5 3.5h11v7h-6l-3 3v-3h-2zM5.5 7l1.8 1.7L10.7 5.5",
  thinking: "M5.5 12.5h5M6.5 14.5h3M8 1.5a4.5 4.5 0 0 1 2.5 8.2v1.3h-5V9.7A4.5 4.5 0 0 1 8 1.5Z",
  execute: "M2 3h12v10H2zM4.5 6l2 2-2 2M8.5 10.5h3",
  read: "M4 1.5h5.5L12.5 4.5v10H4zM9.5 1.5v3h3M6 8h4.5M6 11h4.5",
  edit: "M10.5 2.5l3 3-7.5 7.5-3.7.7.7-3.7zM9 4l3 3",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9ZM10.4 10.4 14 14",
  fetch: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM2 8h12M8 2c2 1.8 2.7 3.8 2.7 6S10 12.2 8 14c-2-1.8-2.7-3.8-2.7-6S6 3.8 8 2Z",
  agent: "M4 2.5v5a3 3 0 0 0 3 3h5M9.5 7.5l3 3-3 3M4 2.5v11",
  plan: "M6 4h8M6 8h8M6 12h8M2 4l1 1 1.5-2M2 8l1 1 1.5-2M2.5 12h1.5",
  other: "M9.8 2.3a3.5 3.5 0 0 0-3.6 4.9L2 11.4 4.6 14l4.2-4.2a3.5 3.5 0 0 0 4.9-3.6L11.5 8 8 4.5z",
  question: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM6.2 6.3c.1-1 .8-1.6 1.8-1.6s1.8.6 1.8 1.5c0 1.4-1.8 1.4-1.8 2.8M8 11.2v.2",
  retry: "M13 8a5 5 0 1 1-1.5-3.5M13 2v3h-3",
  warning: "M8 2 14.5 13.5h-13zM8 6.5v3.5M8 11.8v.2",
  activity: "M1.5 8h3l2-4.5 3 9 2-4.5h3",
  end: "M4 2.5v11M4 3h8v5.5H4",
  turn: "M2.5 8h11M9.5 4l4 4-4 4",
  link: "M6.5 9.5l3-3M7 4.5l1.5-1.5a2.7 2.7 0 0 1 4 4L11 8.5M9 11.5 7.5 13a2.7 2.7 0 0 1-4-4L5 7.5",
  play: "M4.5 2.5v11l9-5.5z",
  pause: "M5 3v10M11 3v10",
  first: "M4 3v10M13 3v10L6 8z",
  down: "M8 2.5v11M3.5 9 8 13.5 12.5 9",
  up: "M8 13.5v-11M3.5 7 8 2.5 12.5 7",
  stop: "M3.5 3.5h9v9h-9z",
  back: "M13.5 8h-11M6.5 4l-4 4 4 4",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1.1 1.1M11.9 11.9 13 13M3 13l1.1-1.1M11.9 4.1 13 3",
  moon: "M13 9.8A5.5 5.5 0 0 1 6.2 3 5.5 5.5 0 1 0 13 9.8Z",
  auto: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 2v12M8 5h4.5M8 8h6M8 11h4.5",
  open: "M5.5 3.5 10 8l-4.5 4.5",
  chart: "M2.5 2v12h11.5M5.5 11V8M8.5 11V4.5M11.5 11V6.5",
  facts: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 7.5v3.5M8 5v.2",
};

export type Icon = keyof typeof PATHS;

/** A picture beside words: screen readers pass over it. */
export function icon(name: Icon): SVGElement {
  return shape(
    "svg",
    { class: "icon", viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true", focusable: "false" },
    shape("path", { d: PATHS[name], fill: "none", stroke: "currentColor", "stroke-width": 1.3, "stroke-linecap": "round", "stroke-linejoin": "round" }),
  );
}
