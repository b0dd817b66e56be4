// The session in short, asked for anew while the run goes on: soon after each change, at most once a second.

const PAUSE = 1_000;

export class Fresh {
  private timer = 0;
  private last = -Infinity;

  constructor(private readonly ask: () => void) {}

  /** It may have changed. However soon after the last time that is, it is asked for. */
  want(): void {
    if (this.timer !== 0) return;
    const wait = Math.max(0, this.last + PAUSE - performance.now());
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      this.last = performance.now();
      this.ask();
    }, wait);
  }

  stop(): void {
    clearTimeout(this.timer);
  }
}
