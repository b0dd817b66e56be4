// Going through a run again. The axis is the number of the message in the log; how long to wait between two is what their times say,
// but never long.

import { button, el, options } from "../dom";
import { millis, moment, whole } from "../format";
import { icon } from "../icons";
import type { Timeline } from "../timeline";

const SPEEDS = [0.5, 1, 2, 5, 10, 50, 200];
/** A pause of the run is at most so long. */
const LONGEST = 2_000;
/** Between two events without a time. */
const UNTIMED = 150;

export class Replay {
  readonly element: HTMLElement;
  private readonly slider = el("input", { type: "range", min: 0, max: 1, step: 1, value: 1, "aria-label": "Position" });
  private readonly label = el("span", { class: "replay-label figure" });
  private readonly toggle = button("play", { class: "square", "aria-label": "Play", title: "Play (Space)" }, icon("play"));
  private readonly speed = el("select", { "aria-label": "Replay speed" });
  /** Numbers of events that change something, and when they were. */
  private stops: { number: number; at: number | null }[] = [];
  private timer: number | null = null;
  /** Up to which event the run is shown; null is all of it. */
  until: number | null = null;

  constructor(
    private readonly timeline: Timeline,
    private readonly moved: (until: number | null) => void,
  ) {
    options(this.speed, SPEEDS.map((speed) => [String(speed), `${speed}×`]), "5");
    this.element = el(
      "div",
      { class: "replay", role: "group", "aria-label": "Replay" },
      button("replay-first", { class: "square", "aria-label": "To the beginning", title: "To the beginning" }, icon("first")),
      this.toggle,
      this.slider,
      this.label,
      this.speed,
    );
    this.slider.addEventListener("input", () => {
      const value = Number(this.slider.value);
      this.go(value >= this.timeline.last ? null : value);
    });
  }

  get playing(): boolean {
    return this.timer !== null;
  }

  /** More of the run is known. */
  grown(): void {
    this.slider.max = String(Math.max(1, this.timeline.last));
    if (this.until === null) this.slider.value = this.slider.max;
    this.stops = [];
    this.say();
  }

  play(): void {
    if (this.playing) return this.pause();
    this.find();
    if (this.until === null || this.until >= this.timeline.last) this.go(this.stops[0]?.number ?? 0, false);
    this.paused(false);
    this.step();
  }

  pause(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    this.paused(true);
  }

  end(): void {
    this.pause();
    this.go(null);
  }

  first(): void {
    this.find();
    this.go(this.stops[0]?.number ?? 0, false);
  }

  faster(by: 1 | -1): void {
    const place = SPEEDS.indexOf(Number(this.speed.value)) + by;
    const speed = SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, place))];
    this.speed.value = String(speed);
  }

  private paused(is: boolean): void {
    this.toggle.replaceChildren(icon(is ? "play" : "pause"));
    this.toggle.setAttribute("aria-label", is ? "Play" : "Pause");
    this.toggle.title = is ? "Play (Space)" : "Pause (Space)";
  }

  private go(until: number | null, stop = true): void {
    if (stop && this.playing) this.pause();
    this.until = until;
    this.slider.value = String(until ?? this.timeline.last);
    this.say();
    this.moved(until);
  }

  private step(): void {
    const here = this.until ?? 0;
    const next = this.stops.find((stop) => stop.number > here);
    if (!next) {
      this.pause();
      this.go(null);
      return;
    }
    const before = this.stops.findLast((stop) => stop.number <= here)?.at ?? null;
    const gap = before !== null && next.at !== null ? Math.min(LONGEST, Math.max(0, next.at - before)) : UNTIMED;
    const speed = Number(this.speed.value);
    this.timer = window.setTimeout(() => {
      // At a high speed many events fall into one frame.
      const after = this.skip(next.number, speed);
      this.until = after;
      this.slider.value = String(after);
      this.say();
      this.moved(after);
      if (this.timer !== null) this.step();
    }, Math.max(16, gap / speed));
  }

  /** The last event that happens within a frame after this one. */
  private skip(from: number, speed: number): number {
    let place = this.stops.findIndex((stop) => stop.number === from);
    const at = this.stops[place]?.at ?? null;
    let taken = 0;
    while (place + 1 < this.stops.length) {
      const next = this.stops[place + 1] as { number: number; at: number | null };
      taken += at !== null && next.at !== null ? Math.min(LONGEST, Math.max(0, next.at - (this.stops[place]?.at ?? at))) : UNTIMED;
      if (taken / speed > 16) break;
      place += 1;
    }
    return this.stops[place]?.number ?? from;
  }

  private find(): void {
    if (this.stops.length > 0) return;
    const known = new Map<number, number | null>();
    for (const item of this.timeline.items) {
      known.set(item.first, millis(item.at));
      if (item.last === item.first) continue;
      const [from, until] = [millis(item.at), millis(item.until)];
      known.set(item.last, until ?? from);
      // Words that grew are shown growing.
      if (item.what.kind !== "text" && item.what.kind !== "thinking") continue;
      const steps = Math.min(60, item.last - item.first);
      for (let step = 1; step < steps; step += 1) {
        const part = step / steps;
        const number = item.first + Math.round((item.last - item.first) * part);
        if (!known.has(number)) known.set(number, from !== null && until !== null ? from + (until - from) * part : null);
      }
    }
    this.stops = [...known].map(([number, at]) => ({ number, at })).sort((a, b) => a.number - b.number);
  }

  private say(): void {
    const number = this.until ?? this.timeline.last;
    const start = this.timeline.start();
    const id = this.timeline.of(number);
    const item = this.timeline.items[id];
    const at = this.until === null ? millis(this.timeline.latest) : item ? this.timeline.when(item) : null;
    const time = start !== null && at !== null ? `${moment(at - start)} · ` : "";
    const [event, events] = [this.timeline.eventCount(this.until), this.timeline.eventCount()];
    this.label.textContent = `${time}${whole(event)} / ${whole(events)}`;
    this.slider.setAttribute("aria-valuetext", `event ${event} of ${events}`);
  }
}
