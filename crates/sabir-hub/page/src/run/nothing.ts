// What stands where rows would be, when there are none.

import type { Refused } from "../api";
import { button, say } from "../dom";
import type { Show } from "../rows";
import { empty, failure } from "../screen";

export function nothing(feed: HTMLElement, rows: number, show: Show, live: boolean): void {
  const box = feed.parentElement;
  const old = box?.querySelector(".empty");
  if (rows > 0 || feed.getAttribute("aria-busy") === "true") {
    old?.remove();
    return;
  }
  if (old || !box) return;
  const words = live ? "Events appear here as they happen" : "The log of this session has no events";
  box.append(
    show === "all" ? empty("No events yet", words) : empty("No matching events", "", button("show-all", {}, "Show all")),
  );
}

/** Of a run that can't be had there is nothing to search, to play or to draw. */
export function missing(screen: HTMLElement, heading: HTMLElement, feed: HTMLElement, error: Refused): void {
  screen.classList.add("is-missing");
  say(heading, "Run");
  feed.parentElement?.replaceChildren(failure(error));
}
