// Figures for people. What is not known is a dash, never a nought.

import type { CostSource } from "./types";

export const UNKNOWN = "—";

// To make one of these takes as long as to use it a hundred times.
const FIGURE = new Intl.NumberFormat("en-US");
const MONEY = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const DAY_OF_YEAR = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const TIME = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

/** 0.4 s, 12 s, 3:05, 1:02:45. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return UNKNOWN;
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  // As clocks do: a second counts when it is over.
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  return clock(seconds);
}

function clock(seconds: number): string {
  const two = (value: number) => String(value).padStart(2, "0");
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  if (h >= 48) return `${Math.floor(h / 24)} d ${h % 24} h`;
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** A moment of a run, counted from its beginning: 0:07, 1:02:45. */
export function moment(ms: number): string {
  return clock(Math.max(0, Math.floor(ms / 1000)));
}

/** A moment with as many decimals as tell moments that are `step` milliseconds apart: 0:07.2, 1:05.25. */
export function offset(ms: number, step: number): string {
  const decimals = step >= 100 ? 1 : step >= 10 ? 2 : 3;
  const rounded = Math.round(Math.max(0, ms) / 10 ** (3 - decimals));
  const unit = 10 ** decimals;
  return `${clock(Math.floor(rounded / unit))}.${String(rounded % unit).padStart(decimals, "0")}`;
}

/** 950, 12.3k, 4.56M. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  if (value < 1_000) return String(value);
  if (value < 100_000) return `${(value / 1_000).toFixed(1)}k`;
  if (value < 1_000_000) return `${Math.round(value / 1_000)}k`;
  if (value < 1_000_000_000) return `${(value / 1_000_000).toFixed(2)}M`;
  return `${(value / 1_000_000_000).toFixed(2)}G`;
}

/** 12,345. */
export function whole(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : FIGURE.format(value);
}

/** $0.0042, $1.23. */
export function dollars(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  if (value !== 0 && Math.abs(value) < 0.01) return `$${value.toFixed(4)}`;
  return `$${MONEY.format(value)}`;
}

/** A cost where there is room for a figure alone: one that nobody reported, but prices say, is about so much. */
export function about(value: number | null | undefined, source: CostSource): string {
  return value != null && source === "computed" ? `≈${dollars(value)}` : dollars(value);
}

/** The same in words. */
export function fromWhere(source: CostSource): string {
  return { reported: "as the agent reports it", computed: "computed from list prices", unknown: "" }[source];
}

export function bytes(size: number): string {
  if (size < 1024) return `${size} B`;
  if (size < 1024 * 1024) return `${(size / 1024).toFixed(size < 10_240 ? 1 : 0)} KB`;
  return `${(size / 1024 / 1024).toFixed(1)} MB`;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${whole(value)} ${value === 1 ? one : many}`;
}

/** How long ago, in a word: now, 5 min ago, 3 h ago, then the day. */
export function ago(time: string | null | undefined, now: number): string {
  const at = millis(time);
  if (at === null) return UNKNOWN;
  const minutes = Math.floor((now - at) / 60_000);
  if (minutes < 1) return "now";
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ago`;
  const date = new Date(at);
  return (date.getFullYear() === new Date(now).getFullYear() ? DAY : DAY_OF_YEAR).format(date);
}

/** The whole time, for a tooltip. */
export function exact(time: string | null | undefined): string {
  const at = millis(time);
  return at === null ? "" : TIME.format(at);
}

export function millis(time: string | null | undefined): number | null {
  if (!time) return null;
  const at = Date.parse(time);
  return Number.isNaN(at) ? null : at;
}

/** A model without the day of its release, which only says more where it is told apart by it. */
export function modelName(model: string | null | undefined): string | null {
  return model?.replace(/-20\d{6}$/, "") ?? null;
}

/** A name of a program in words: `rateLimited` is rate limited. */
export function spaced(name: string): string {
  return name.replace(/[_-]+/g, " ").replace(/([a-z])([A-Z])/g, (_, end: string, begin: string) => `${end} ${begin.toLowerCase()}`);
}

/** A path as one says it who is in a folder: what lies beneath it without the folder. */
export function beneath(folder: string | null, path: string): string {
  return folder !== null && folder !== "" && path.startsWith(`${folder.replace(/[/\\]$/, "")}/`) ? path.slice(folder.replace(/[/\\]$/, "").length + 1) : path;
}

/** The last part of a path. */
export function base(path: string | null | undefined): string {
  const parts = (path ?? "").split(/[/\\]/).filter(Boolean);
  return parts.at(-1) ?? path ?? "";
}
