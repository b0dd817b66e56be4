// When things happened: each call a bar, the model's words above them. The strip below is the whole run; the window in it is
// what the bars above show.

import { button, el, frame } from "../dom";
import { duration, moment, offset } from "../format";
import { surface, themed } from "../paint";
import type { Timeline } from "../timeline";
import { spansOf, type Colour, type Span, type Spans } from "./spans";

const LANE = 13;
const AXIS = 16;
const COLOURS: Colour[] = ["model", "look", "act", "agent", "ask", "bad"];

export class Waterfall {
  readonly element: HTMLElement;
  private readonly bars = el("canvas", { class: "waterfall-bars", role: "img", "aria-label": "Waterfall" });
  private readonly map = el("canvas", { class: "waterfall-map", role: "img", "aria-label": "Minimap of the run" });
  /** What the list has in sight: an element of its own, so that scrolling draws nothing anew. */
  private readonly seen = el("div", { class: "waterfall-seen", hidden: true });
  private readonly tip = el("div", { class: "waterfall-tip", hidden: true });
  private spans: Spans = { spans: [], turns: [], lanes: 2, from: 0, until: 1, timed: true };
  /** What the bars show; null is everything. */
  private view: [from: number, until: number] | null = null;
  /** The items in sight, and the one that is chosen. */
  private sight: [number, number] = [0, 0];
  private chosen = -1;
  private hover = -1;
  /** The moment of the replay. */
  private head: number | null = null;
  private readonly resized: ResizeObserver;
  readonly ask = frame(() => this.draw());

  constructor(
    private readonly name: (id: number) => string,
    private readonly pick: (id: number) => void,
  ) {
    const whole = button("whole", { class: "plain waterfall-whole", hidden: true }, "Whole run");
    this.element = el("section", { class: "waterfall", "aria-label": "Waterfall" }, el("div", { class: "waterfall-box" }, this.bars, this.tip, whole), el("div", { class: "waterfall-box" }, this.map, this.seen));
    this.resized = new ResizeObserver(this.ask);
    this.resized.observe(this.element);
    this.hears(whole);
  }

  destroy(): void {
    this.resized.disconnect();
  }

  set(timeline: Timeline, live: boolean): void {
    this.spans = spansOf(timeline, live, Date.now());
    const { spans, turns } = this.spans;
    const bad = spans.filter((span) => span.colour === "bad").length;
    this.bars.setAttribute("aria-label", `Waterfall: ${turns.length} turns, ${spans.filter((span) => span.lane > 0).length} tool calls, ${bad} ${bad === 1 ? "error" : "errors"}`);
    this.element.style.setProperty("--lanes", String(this.spans.lanes));
    this.markSight();
    this.ask();
  }

  look(sight: [number, number], chosen: number): void {
    this.sight = sight;
    this.markSight();
    if (this.chosen === chosen) return;
    this.chosen = chosen;
    this.ask();
  }

  private markSight(): void {
    const { spans, from, until } = this.spans;
    const first = spans[placeOf(spans, this.sight[0])];
    const last = spans[Math.max(0, placeOf(spans, this.sight[1] + 1) - 1)];
    this.seen.hidden = !first || !last;
    if (!first || !last) return;
    const part = (value: number) => ((value - from) / (until - from)) * 100;
    const left = Math.min(part(first.from), part(last.from));
    this.seen.style.left = `${left}%`;
    this.seen.style.width = `${Math.max(part(last.from), part(first.from)) - left}%`;
  }

  /** Shows the moment of a replay, by the item that it is at. */
  at(id: number | null): void {
    const span = id === null ? null : this.spans.spans.findLast((one) => one.id <= id);
    this.head = span ? span.from : null;
    this.ask();
  }

  private range(): [number, number] {
    return this.view ?? [this.spans.from, this.spans.until];
  }

  private draw(): void {
    const colours = Object.fromEntries(COLOURS.map((colour) => [colour, themed(`span-${colour}`)])) as Record<Colour, string>;
    this.drawBars(colours);
    this.drawMap(colours);
  }

  private drawBars(colours: Record<Colour, string>): void {
    const got = surface(this.bars);
    if (!got) return;
    const { draw, width, height } = got;
    const [from, until] = this.range();
    const scale = width / (until - from);
    const x = (value: number) => (value - from) * scale;
    draw.font = `10px ${getComputedStyle(this.element).fontFamily}`;
    // Turns as bands, so that a bar is read against the turn it is in.
    const band = themed("band");
    this.spans.turns.forEach((turn, place) => {
      const next = this.spans.turns[place + 1]?.at ?? this.spans.until;
      if (place % 2 === 0 || next < from || turn.at > until) return;
      draw.fillStyle = band;
      draw.fillRect(x(turn.at), 0, Math.max(1, x(next) - x(turn.at)), height - AXIS);
    });
    this.ticks(draw, width, height, from, until, x);
    // Of many bars in one column of pixels one is enough.
    const drawn = new Map<string, number>();
    for (const span of this.spans.spans) {
      if (span.until < from || span.from > until) continue;
      const left = Math.round(x(span.from));
      const right = Math.max(left + 2, Math.round(x(span.until)));
      const key = `${span.lane}${span.colour}`;
      if (right <= (drawn.get(key) ?? -1)) continue;
      drawn.set(key, right);
      const top = 3 + span.lane * LANE;
      const isChosen = span.id === this.chosen || span.id === this.hover;
      draw.globalAlpha = span.lane === 0 && !isChosen ? 0.75 : 1;
      draw.fillStyle = colours[span.colour];
      if (right - left < 6) {
        draw.fillRect(left, top, right - left, LANE - 4);
      } else {
        draw.beginPath();
        draw.roundRect(left, top, right - left, LANE - 4, 2);
        draw.fill();
      }
      if (isChosen) {
        draw.strokeStyle = themed("text");
        draw.strokeRect(left - 1, top - 1, right - left + 2, LANE - 2);
      }
    }
    draw.globalAlpha = 1;
    if (this.head !== null) line(draw, x(this.head), height - AXIS, themed("accent"));
  }

  private ticks(draw: CanvasRenderingContext2D, width: number, height: number, from: number, until: number, x: (value: number) => number): void {
    const step = stepOf((until - from) / Math.max(2, Math.floor(width / 90)), this.spans.timed);
    draw.fillStyle = themed("faint");
    draw.strokeStyle = themed("line");
    draw.beginPath();
    const zero = this.spans.timed ? this.spans.from : 0;
    for (let value = zero + Math.ceil((from - zero) / step) * step; value <= until; value += step) {
      const left = Math.round(x(value)) + 0.5;
      draw.moveTo(left, 0);
      draw.lineTo(left, height - AXIS + 3);
      const words = !this.spans.timed ? `#${Math.round(value)}` : step < 1000 ? offset(value - zero, step) : moment(value - zero);
      if (left + 28 < width) draw.fillText(words, left + 3, height - 4);
    }
    draw.stroke();
  }

  private drawMap(colours: Record<Colour, string>): void {
    const got = surface(this.map);
    if (!got) return;
    const { draw, width, height } = got;
    const { from, until } = this.spans;
    const scale = width / (until - from);
    const columns = Math.ceil(width);
    const full = new Float32Array(columns);
    const bad = new Uint8Array(columns);
    for (const span of this.spans.spans) {
      // The model is at work most of the time. What stands out is what it had done.
      const weight = span.colour === "model" ? 0.1 : 1;
      const left = Math.max(0, Math.floor((span.from - from) * scale));
      const right = Math.min(columns - 1, Math.floor((span.until - from) * scale));
      for (let column = left; column <= right; column += 1) full[column] = (full[column] ?? 0) + weight;
      if (span.colour === "bad") bad[Math.min(left, columns - 1)] = 1;
    }
    // Roots, so that one call is seen beside a hundred.
    const most = Math.sqrt(full.reduce((high, value) => Math.max(high, value), 1));
    draw.fillStyle = colours.look;
    // Columns that are alike are one bar: side by side they would show seams where a pixel of the page is not one of the screen.
    for (let column = 0; column < columns; ) {
      const begin = column;
      const here = full[begin] ?? 0;
      while (column < columns && full[column] === here) column += 1;
      const value = (Math.sqrt(here) / most) * (height - 4);
      if (value > 0) draw.fillRect(begin, height - value, column - begin, value);
    }
    draw.fillStyle = colours.bad;
    bad.forEach((is, column) => is && draw.fillRect(column - 0.5, 0, 2, height));
    if (this.view) {
      const [a, b] = [(this.view[0] - from) * scale, (this.view[1] - from) * scale];
      draw.fillStyle = themed("veil");
      draw.fillRect(0, 0, a, height);
      draw.fillRect(b, 0, width - b, height);
      draw.strokeStyle = themed("accent");
      draw.strokeRect(a + 0.5, 0.5, Math.max(2, b - a - 1), height - 1);
    }
    if (this.head !== null) line(draw, (this.head - from) * scale, height, themed("accent"));
  }

  private hit(event: MouseEvent): Span | null {
    const [from, until] = this.range();
    const scale = this.bars.clientWidth / (until - from);
    const lane = Math.floor((event.offsetY - 2) / LANE);
    let best: Span | null = null;
    let near = 6;
    for (const span of this.spans.spans) {
      if (span.lane !== lane) continue;
      const left = (span.from - from) * scale;
      const right = Math.max(left + 2, (span.until - from) * scale);
      const away = Math.max(left - event.offsetX, event.offsetX - right, 0);
      if (away < near) [best, near] = [span, away];
    }
    return best;
  }

  private hears(whole: HTMLButtonElement): void {
    const show = (view: [number, number] | null) => {
      this.view = view;
      whole.hidden = view === null;
      this.ask();
    };
    whole.addEventListener("click", () => show(null));
    this.bars.addEventListener("click", (event) => {
      const span = this.hit(event);
      if (span) this.pick(span.id);
    });
    this.bars.addEventListener("pointermove", (event) => {
      const span = this.hit(event);
      this.hover = span?.id ?? -1;
      this.tip.hidden = span === null;
      if (span) {
        this.tip.textContent = `${this.name(span.id)}${this.spans.timed ? ` · ${duration(span.until - span.from)}` : ""}`;
        this.tip.style.left = `${Math.max(0, Math.min(event.offsetX + 10, this.bars.clientWidth - this.tip.offsetWidth - 8))}px`;
      }
      this.ask();
    });
    this.bars.addEventListener("pointerleave", () => {
      this.hover = -1;
      this.tip.hidden = true;
      this.ask();
    });
    this.bars.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const [from, until] = this.range();
        const size = until - from;
        if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
          const by = ((event.deltaX || event.deltaY) / this.bars.clientWidth) * size;
          show(this.clamp(from + by, until + by));
          return;
        }
        const middle = from + (event.offsetX / this.bars.clientWidth) * size;
        const factor = Math.exp(Math.max(-50, Math.min(50, event.deltaY)) / 150);
        show(this.clamp(middle - (middle - from) * factor, middle + (until - middle) * factor));
      },
      { passive: false },
    );
    let began: number | null = null;
    const value = (event: PointerEvent) => {
      const { from, until } = this.spans;
      return from + Math.max(0, Math.min(1, event.offsetX / this.map.clientWidth)) * (until - from);
    };
    this.map.addEventListener("pointerdown", (event) => {
      began = value(event);
      this.map.setPointerCapture(event.pointerId);
    });
    this.map.addEventListener("pointermove", (event) => {
      if (began === null) return;
      const now = value(event);
      if (Math.abs(now - began) * this.map.clientWidth > 3 * (this.spans.until - this.spans.from)) show(this.clamp(Math.min(began, now), Math.max(began, now)));
    });
    this.map.addEventListener("pointerup", (event) => {
      const now = value(event);
      const dragged = began !== null && Math.abs(now - began) * this.map.clientWidth > 3 * (this.spans.until - this.spans.from);
      began = null;
      if (dragged) return;
      const near = this.spans.spans.reduce<Span | null>((best, span) => (best === null || Math.abs(span.from - now) < Math.abs(best.from - now) ? span : best), null);
      if (near) this.pick(near.id);
    });
  }

  private clamp(from: number, until: number): [number, number] | null {
    const whole = this.spans.until - this.spans.from;
    const size = Math.max(until - from, whole / 20_000);
    if (size >= whole) return null;
    const begins = Math.max(this.spans.from, Math.min(from, this.spans.until - size));
    return [begins, begins + size];
  }
}

function line(draw: CanvasRenderingContext2D, x: number, height: number, colour: string): void {
  draw.fillStyle = colour;
  draw.fillRect(Math.round(x), 0, 1.5, height);
}

/** The place of the first span of this item, or of the next that there is. */
function placeOf(spans: Span[], id: number): number {
  let [low, high] = [0, spans.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((spans[middle] as Span).id < id) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A round step that is at least so large. */
function stepOf(least: number, timed: boolean): number {
  const minutes = 60_000;
  const steps = timed
    ? [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, minutes, 2 * minutes, 5 * minutes, 10 * minutes, 15 * minutes, 30 * minutes, 60 * minutes, 120 * minutes, 360 * minutes, 720 * minutes]
    : [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000];
  return steps.find((step) => step >= least) ?? 1440 * minutes * Math.ceil(least / (1440 * minutes));
}
