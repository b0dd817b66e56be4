// A long list of which only what is in sight exists as elements.
//
//   sizer (as high as all rows)
//   └ layer, moved down to the first row in sight
//     └ rows, in the normal flow, measured after they are made
//
// Heights that nobody has seen are guessed. When a row above turns out higher or lower, the scroll position moves with it, so
// that what one reads stays where it is.

import { frame } from "./dom";

export interface Source {
  /** Makes the element of a row. */
  make(key: number, place: number): HTMLElement;
  /** Changes when the element must be made again. */
  version(key: number): string | number;
  /** A guess of the height. */
  guess(key: number): number;
  /** After rows were drawn. */
  drawn?(): void;
}

/** So far beyond the edges rows are made. */
const BEYOND = 500;
/** Room below the last row. */
const FOOT = 24;

interface Made {
  element: HTMLElement;
  version: string | number;
}

export class VirtualList {
  private rows: readonly number[] = [];
  private offsets = new Float64Array(1);
  private dirty = 0;
  private readonly heights: number[] = [];
  private readonly made = new Map<number, Made>();
  private readonly sizer = document.createElement("div");
  private readonly layer = document.createElement("div");
  private readonly resized: ResizeObserver;
  private wanted: { key: number; where: "start" | "center" | "near" } | null = null;
  private stuck = false;
  /** Drawn at the next frame. */
  readonly ask: () => void;

  constructor(
    readonly scroller: HTMLElement,
    private readonly source: Source,
  ) {
    this.sizer.className = "virtual-sizer";
    this.layer.className = "virtual-layer";
    // The two carry no meaning, so that rows stay children of the list for a screen reader.
    this.sizer.setAttribute("role", "presentation");
    this.layer.setAttribute("role", "presentation");
    this.sizer.append(this.layer);
    scroller.append(this.sizer);
    this.ask = frame(() => this.draw());
    this.resized = new ResizeObserver(() => this.ask());
    this.resized.observe(scroller);
    scroller.addEventListener("scroll", this.ask, { passive: true });
  }

  destroy(): void {
    this.resized.disconnect();
    this.scroller.removeEventListener("scroll", this.ask);
  }

  /** Other rows. `same` are the same as before, from the first. */
  set(rows: readonly number[], same = 0): void {
    this.rows = rows;
    this.dirty = Math.min(this.dirty, same);
    this.ask();
  }

  /** Whether the end is kept in sight while rows come. */
  stick(on: boolean): void {
    this.stuck = on;
    if (on) this.ask();
  }

  atEnd(): boolean {
    const { scrollTop, clientHeight, scrollHeight } = this.scroller;
    return scrollTop + clientHeight >= scrollHeight - 24;
  }

  /** Brings a row into sight. */
  reveal(key: number, where: "start" | "center" | "near"): void {
    this.wanted = { key, where };
    this.ask();
  }

  element(key: number): HTMLElement | null {
    return this.made.get(key)?.element ?? null;
  }

  drawnRows(): IterableIterator<[number, Made]> {
    return this.made.entries();
  }

  /** Keys of the rows in sight. */
  inSight(): [first: number, last: number] {
    const top = this.scroller.scrollTop;
    const first = this.placeAt(top);
    const last = this.placeAt(top + this.scroller.clientHeight);
    return [this.rows[first] ?? 0, this.rows[last] ?? 0];
  }

  private heightOf(key: number): number {
    return this.heights[key] ?? this.source.guess(key);
  }

  private sum(): void {
    const total = this.rows.length;
    if (this.offsets.length < total + 1) {
      const more = new Float64Array(Math.max(total + 1, this.offsets.length * 2));
      more.set(this.offsets);
      this.offsets = more;
    }
    for (let place = this.dirty; place < total; place += 1) {
      this.offsets[place + 1] = (this.offsets[place] as number) + this.heightOf(this.rows[place] as number);
    }
    this.dirty = total;
  }

  /** The row at a height. */
  private placeAt(top: number): number {
    let [low, high] = [0, this.rows.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.offsets[middle] as number) <= top) low = middle;
      else high = middle - 1;
    }
    return Math.max(0, low);
  }

  private draw(): void {
    const { scroller } = this;
    const room = scroller.clientHeight;
    if (room === 0) return;
    // Drawing shows heights, and heights may change what is in sight; twice is nearly always enough.
    for (let round = 0; round < 4; round += 1) {
      this.sum();
      const end = (this.offsets[this.rows.length] as number) + FOOT;
      let top = this.aim(scroller.scrollTop, room, end);
      top = Math.max(0, Math.min(top, end - room));
      const first = this.placeAt(top - BEYOND);
      const last = this.rows.length === 0 ? -1 : this.placeAt(top + room + BEYOND);
      this.place(first, last);
      this.sizer.style.height = `${end}px`;
      this.layer.style.transform = `translateY(${this.offsets[first] ?? 0}px)`;
      if (Math.abs(scroller.scrollTop - top) > 0.5) scroller.scrollTop = top;
      const anchor = this.placeAt(top);
      const into = top - (this.offsets[anchor] as number);
      if (!this.measure(first, last)) break;
      this.sum();
      if (this.wanted === null && !this.stuck) {
        const now = (this.offsets[anchor] as number) + into;
        if (Math.abs(now - top) > 0.5) {
          this.sizer.style.height = `${(this.offsets[this.rows.length] as number) + FOOT}px`;
          scroller.scrollTop = now;
        }
      }
    }
    this.wanted = null;
    this.source.drawn?.();
  }

  /** Where the scroll position should be. */
  private aim(top: number, room: number, end: number): number {
    if (this.wanted !== null) {
      const place = this.rows.indexOf(this.wanted.key);
      if (place < 0) return top;
      const [from, until] = [this.offsets[place] as number, this.offsets[place + 1] as number];
      if (this.wanted.where === "start") return from - 8;
      if (this.wanted.where === "center") return from - Math.max(24, (room - (until - from)) / 2);
      if (from < top + 8) return from - 8;
      if (until > top + room - 8) return Math.min(from - 8, until - room + 8);
      return top;
    }
    return this.stuck ? end - room : top;
  }

  /** Makes the elements of some rows, keeps those that are still right, and removes the others. */
  private place(first: number, last: number): void {
    const keep = new Set<number>();
    let next = this.layer.firstElementChild;
    for (let place = first; place <= last; place += 1) {
      const key = this.rows[place] as number;
      keep.add(key);
      const version = this.source.version(key);
      let made = this.made.get(key);
      if (!made || made.version !== version) {
        const element = this.source.make(key, place);
        if (made) {
          if (next === made.element) next = element;
          this.resized.unobserve(made.element);
          made.element.replaceWith(element);
        }
        made = { element, version };
        this.made.set(key, made);
        this.resized.observe(element);
      }
      if (next === made.element) next = next.nextElementSibling;
      else this.layer.insertBefore(made.element, next);
    }
    for (const [key, { element }] of this.made) {
      if (keep.has(key)) continue;
      this.resized.unobserve(element);
      element.remove();
      this.made.delete(key);
    }
  }

  /** Takes the heights of rows that exist; says whether one was not as expected. */
  private measure(first: number, last: number): boolean {
    let changed = false;
    for (let place = first; place <= last; place += 1) {
      const key = this.rows[place] as number;
      const height = this.made.get(key)?.element.getBoundingClientRect().height ?? 0;
      if (height > 0 && Math.abs(height - this.heightOf(key)) > 0.25) {
        this.dirty = Math.min(this.dirty, place);
        changed = true;
      }
      if (height > 0) this.heights[key] = height;
    }
    return changed;
  }
}
