// Scrolling, and following what comes: who scrolls up wants to read, who comes to the end wants to follow.

export interface Following {
  atEnd(): boolean;
  leave(): void;
  /** The end was reached; it may follow again. */
  reach(): void;
}

export function scrolls(feed: HTMLElement, following: Following): void {
  feed.addEventListener("wheel", (event) => event.deltaY < 0 && following.leave(), { passive: true });
  feed.addEventListener("touchmove", () => !following.atEnd() && following.leave(), { passive: true });
  feed.addEventListener("keydown", (event) => ["PageUp", "ArrowUp", "Home"].includes(event.key) && following.leave());
  feed.addEventListener("scroll", () => following.atEnd() && following.reach(), { passive: true });
}
