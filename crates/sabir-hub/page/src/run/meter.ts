// Tokens and cost, turn by turn.

import { el, frame } from "../dom";
import { count, dollars, plural } from "../format";
import { surface, themed } from "../paint";
import type { Item } from "../types";

interface Bar {
  id: number;
  turn: number;
  run: number;
  /** Read from the cache, new input (uncached, or written to the cache), output. */
  parts: [number, number, number];
  total: number;
  cost: number | null;
}

export class Meter {
  readonly element: HTMLElement;
  private readonly canvas = el("canvas", { class: "meter-bars", role: "img", "aria-label": "Tokens by turn" });
  private readonly label = el("div", { class: "meter-label figure" });
  private bars: Bar[] = [];
  private hover = -1;
  private readonly ask = frame(() => this.draw());
  private readonly resized = new ResizeObserver(() => this.ask());

  constructor(private readonly pick: (id: number) => void) {
    this.element = el(
      "section",
      { class: "meter", "aria-label": "Tokens by turn" },
      el("h2", null, "Tokens by turn"),
      this.canvas,
      this.label,
      el("div", { class: "legend" }, legend("cache", "cache read"), legend("input", "new input"), legend("output", "output")),
    );
    this.resized.observe(this.canvas);
    this.canvas.addEventListener("pointermove", (event) => this.over(this.at(event.offsetX)));
    this.canvas.addEventListener("pointerleave", () => this.over(-1));
    this.canvas.addEventListener("click", (event) => {
      const bar = this.bars[this.at(event.offsetX)];
      if (bar) this.pick(bar.id);
    });
  }

  destroy(): void {
    this.resized.disconnect();
  }

  /** The turns among items. */
  set(items: Iterable<Item>): void {
    this.bars = [];
    for (const item of items) {
      if (item.what.kind !== "turn" || !item.what.tokens) continue;
      const { uncachedInput, cacheRead, cacheWrite, output, total } = item.what.tokens;
      const parts: Bar["parts"] = [cacheRead ?? 0, (uncachedInput ?? 0) + (cacheWrite ?? 0), output ?? 0];
      const sum = total ?? parts[0] + parts[1] + parts[2];
      this.bars.push({ id: item.id, turn: item.turn ?? 0, run: item.run, parts, total: sum, cost: item.what.costUsd ?? null });
    }
    this.element.hidden = this.bars.length === 0;
    const total = this.bars.reduce((sum, bar) => sum + bar.total, 0);
    this.canvas.setAttribute("aria-label", `Tokens by turn: ${plural(this.bars.length, "turn")}, ${count(total)} tokens`);
    this.ask();
  }

  private at(x: number): number {
    return Math.floor((x / this.canvas.clientWidth) * this.bars.length);
  }

  private over(place: number): void {
    this.hover = place;
    this.ask();
  }

  private draw(): void {
    this.say();
    const got = surface(this.canvas);
    if (!got || this.bars.length === 0) return;
    const { draw, width, height } = got;
    const most = Math.max(...this.bars.map((bar) => bar.total), 1);
    const step = width / this.bars.length;
    const gap = step > 6 ? 2 : step > 3 ? 1 : 0;
    const colours = [themed("meter-cache"), themed("meter-input"), themed("meter-output")];
    this.bars.forEach((bar, place) => {
      let bottom = height;
      const sum = bar.parts[0] + bar.parts[1] + bar.parts[2];
      const parts = sum > 0 ? bar.parts : [0, bar.total, 0];
      draw.globalAlpha = this.hover >= 0 && this.hover !== place ? 0.45 : 1;
      parts.forEach((part, kind) => {
        const high = (part / most) * (height - 2);
        draw.fillStyle = colours[kind] ?? "";
        draw.fillRect(place * step, bottom - high, Math.max(1, Math.min(28, step - gap)), high);
        bottom -= high;
      });
    });
    draw.globalAlpha = 1;
    // The cost so far, as a line over the bars.
    const costs = this.bars.map((bar) => bar.cost);
    if (costs.every((cost) => cost === null)) return;
    const all = costs.reduce<number>((sum, cost) => sum + (cost ?? 0), 0);
    let sum = 0;
    draw.strokeStyle = themed("text");
    draw.lineWidth = 1.2;
    draw.beginPath();
    costs.forEach((cost, place) => {
      sum += cost ?? 0;
      const [x, y] = [Math.min((place + 0.5) * step, place * step + 14), height - 2 - (sum / (all || 1)) * (height - 6)];
      if (place === 0) draw.moveTo(x, y);
      else draw.lineTo(x, y);
    });
    draw.stroke();
  }

  private say(): void {
    const bar = this.bars[this.hover];
    if (bar) {
      this.label.textContent = `Turn ${bar.turn} · ${count(bar.total)} · ${dollars(bar.cost)}`;
      return;
    }
    const known = this.bars.filter((one) => one.cost !== null);
    const cost = known.length === 0 ? null : known.reduce((sum, one) => sum + (one.cost ?? 0), 0);
    const total = this.bars.reduce((sum, one) => sum + one.total, 0);
    this.label.textContent = `${plural(this.bars.length, "turn")} · ${count(total)} · ${dollars(cost)}`;
  }
}

function legend(name: string, words: string): HTMLElement {
  return el("span", { class: "legend-entry" }, el("span", { class: `swatch swatch-${name}`, "aria-hidden": "true" }), words);
}
