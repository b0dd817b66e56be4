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
/** Heights are added up in blocks of so many rows. */
const BLOCK = 256;
/** Room below the last row. */
const FOOT = 24;

interface Made {
  element: HTMLElement;
  version: string | number;
}

export class VirtualList {
  private rows: readonly number[] = [];
  /** Heights by key: measured, or guessed. */
  private readonly heights: number[] = [];
  /** Heights of blocks of rows, how far down each is, and which of them are right. */
  private readonly blocks: number[] = [];
  private readonly tops: number[] = [];
  private readonly clean = new Set<number>();
  private height = 0;
  private readonly made = new Map<number, Made>();
  private readonly sizer = document.createElement("div");
  private readonly layer = document.createElement("div");
  private readonly resized: ResizeObserver;
  private wanted: { key: number; where: "center" | "near" | number } | null = null;
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
    const right = Math.floor(same / BLOCK);
    for (const block of this.clean) if (block >= right) this.clean.delete(block);
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

  /** Brings a row into sight; a number is how far down in the row the upper edge is to be. */
  reveal(key: number, where: "center" | "near" | number): void {
    this.wanted = { key, where };
    this.ask();
  }

  element(key: number): HTMLElement | null {
    return this.made.get(key)?.element ?? null;
  }

  drawnRows(): IterableIterator<[number, Made]> {
    return this.made.entries();
  }

  /** The row at the upper edge, and how far down in it the edge is. */
  position(): [key: number, into: number] | null {
    const place = this.placeAt(this.scroller.scrollTop);
    const key = this.rows[place];
    return key === undefined ? null : [key, Math.round(this.scroller.scrollTop - this.offset(place))];
  }

  /** Keys of the rows in sight. */
  inSight(): [first: number, last: number] {
    const top = this.scroller.scrollTop;
    const first = this.placeAt(top);
    const last = this.placeAt(top + this.scroller.clientHeight);
    return [this.rows[first] ?? 0, this.rows[last] ?? 0];
  }

  private heightOf(key: number): number {
    return (this.heights[key] ??= this.source.guess(key));
  }

  /** Adds up the heights of blocks that changed, and how far down each block is. */
  private sum(): void {
    const blocks = Math.ceil(this.rows.length / BLOCK);
    for (let block = 0; block < blocks; block += 1) {
      if (this.clean.has(block)) continue;
      let height = 0;
      const until = Math.min(this.rows.length, (block + 1) * BLOCK);
      for (let place = block * BLOCK; place < until; place += 1) height += this.heightOf(this.rows[place] as number);
      this.blocks[block] = height;
      this.clean.add(block);
    }
    this.tops.length = this.blocks.length = blocks;
    let top = 0;
    for (let block = 0; block < blocks; block += 1) {
      this.tops[block] = top;
      top += this.blocks[block] as number;
    }
    this.height = top;
  }

  /** How far down a row is. */
  private offset(place: number): number {
    if (place >= this.rows.length) return this.height;
    const block = Math.floor(place / BLOCK);
    let top = this.tops[block] ?? 0;
    for (let before = block * BLOCK; before < place; before += 1) top += this.heightOf(this.rows[before] as number);
    return top;
  }

  /** The row at a height. */
  private placeAt(top: number): number {
    let [low, high] = [0, this.tops.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.tops[middle] as number) <= top) low = middle;
      else high = middle - 1;
    }
    let place = low * BLOCK;
    let at = this.tops[low] ?? 0;
    const until = Math.min(this.rows.length, place + BLOCK) - 1;
    for (; place < until; place += 1) {
      at += this.heightOf(this.rows[place] as number);
      if (at > top) break;
    }
    return Math.max(0, place);
  }

  private draw(): void {
    const { scroller } = this;
    // Both are read before anything is written: each reading after a change makes the browser lay out at once.
    const room = scroller.clientHeight;
    let top = scroller.scrollTop;
    if (room === 0) return;
    for (let round = 0; round < 5; round += 1) {
      this.sum();
      const end = this.height + FOOT;
      const aimed = Math.max(0, Math.min(this.aim(top, room, end), end - room));
      const first = this.placeAt(aimed - BEYOND);
      const last = this.rows.length === 0 ? -1 : this.placeAt(aimed + room + BEYOND);
      this.place(first, last);
      this.sizer.style.height = `${end}px`;
      this.layer.style.transform = `translateY(${this.offset(first)}px)`;
      if (Math.abs(aimed - top) > 0.5) scroller.scrollTop = aimed;
      top = aimed;
      const anchor = this.placeAt(top);
      const into = top - this.offset(anchor);
      if (!this.measure(first, last)) break;
      this.sum();
      this.sizer.style.height = `${this.height + FOOT}px`;
      if (this.wanted !== null || this.stuck) continue;
      // Heights were not as guessed: what is read stays where it is.
      const now = this.offset(anchor) + into;
      if (Math.abs(now - top) > 0.5) {
        scroller.scrollTop = now;
        top = now;
      }
      const filled = last === this.rows.length - 1 || this.offset(last + 1) >= top + room;
      if (filled && this.offset(first) <= top) break;
    }
    this.wanted = null;
    this.source.drawn?.();
  }

  /** Where the scroll position should be. */
  private aim(top: number, room: number, end: number): number {
    if (this.wanted !== null) {
      const place = this.rows.indexOf(this.wanted.key);
      if (place < 0) return top;
      const [from, until] = [this.offset(place), this.offset(place + 1)];
      if (typeof this.wanted.where === "number") return from + this.wanted.where;
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
        this.clean.delete(Math.floor(place / BLOCK));
        this.heights[key] = height;
        changed = true;
      }
    }
    return changed;
  }
}
