// Terminal colours as classes. Everything else that a terminal would obey is dropped: cursor moves, titles, links, screens.

import { show } from "./invisible";

interface Look {
  fg: string | null;
  bg: string | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  under: boolean;
  strike: boolean;
  inverse: boolean;
}

const NORMAL: Look = { fg: null, bg: null, bold: false, dim: false, italic: false, under: false, strike: false, inverse: false };

export type Run = { text: string; look: Look };

// CSI; OSC, DCS, SOS, PM and APC up to their end or the end of the text; two-character sequences.
const SEQUENCE =
  /(?:\u001b\[|\u009b)([0-?]*)([ -/]*)([@-~])?|(?:\u001b[\]PX^_]|[\u0090\u0098\u009d-\u009f])[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c|$)|\u001b[ -/]*[0-~]?/g;

/** A text in runs of one look. */
export function runs(text: string): Run[] {
  const found: Run[] = [];
  let look = NORMAL;
  let from = 0;
  const put = (piece: string) => {
    if (piece === "") return;
    const last = found.at(-1);
    if (last && last.look === look) last.text += piece;
    else found.push({ text: piece, look });
  };
  const clean = text.includes("\r") ? overwrite(text) : text;
  for (const match of clean.matchAll(SEQUENCE)) {
    put(clean.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[3] === "m" && match[2] === "") look = sgr(look, match[1] ?? "");
  }
  put(clean.slice(from));
  return found;
}

/** A line that a program wrote over is shown as it stood at the end, as a terminal would. */
function overwrite(text: string): string {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  return lines.map((line) => (line.includes("\r") ? line.slice(line.replace(/\r+$/, "").lastIndexOf("\r") + 1) : line)).join("\n");
}

function sgr(before: Look, parameters: string): Look {
  const look = { ...before };
  const numbers = parameters.split(/[;:]/).map((part) => (part === "" ? 0 : Number(part)));
  for (let place = 0; place < numbers.length; place += 1) {
    const code = numbers[place] ?? 0;
    if (code === 0) Object.assign(look, NORMAL);
    else if (code === 1) look.bold = true;
    else if (code === 2) look.dim = true;
    else if (code === 3) look.italic = true;
    else if (code === 4) look.under = true;
    else if (code === 7) look.inverse = true;
    else if (code === 9) look.strike = true;
    else if (code === 22) look.bold = look.dim = false;
    else if (code === 23) look.italic = false;
    else if (code === 24) look.under = false;
    else if (code === 27) look.inverse = false;
    else if (code === 29) look.strike = false;
    else if (code >= 30 && code <= 37) look.fg = String(code - 30);
    else if (code === 39) look.fg = null;
    else if (code >= 40 && code <= 47) look.bg = String(code - 40);
    else if (code === 49) look.bg = null;
    else if (code >= 90 && code <= 97) look.fg = String(code - 82);
    else if (code >= 100 && code <= 107) look.bg = String(code - 92);
    else if (code === 38 || code === 48) {
      const [colour, taken] = wide(numbers, place + 1);
      if (code === 38) look.fg = colour ?? look.fg;
      else look.bg = colour ?? look.bg;
      place += taken;
    }
  }
  return look;
}

/** A colour of 256, or of all. */
function wide(numbers: number[], place: number): [colour: string | null, taken: number] {
  const at = (offset: number) => Math.min(255, Math.max(0, Math.trunc(numbers[place + offset] ?? 0) || 0));
  if (numbers[place] === 5) {
    const index = at(1);
    if (index < 16) return [String(index), 2];
    if (index >= 232) return [rgb(8 + (index - 232) * 10, 8 + (index - 232) * 10, 8 + (index - 232) * 10), 2];
    const part = (value: number) => (value === 0 ? 0 : 55 + value * 40);
    const cube = index - 16;
    return [rgb(part(Math.floor(cube / 36)), part(Math.floor(cube / 6) % 6), part(cube % 6)), 2];
  }
  if (numbers[place] === 2) return [rgb(at(1), at(2), at(3)), 4];
  return [null, 1];
}

function rgb(r: number, g: number, b: number): string {
  return `rgb(${r} ${g} ${b})`;
}

/** Adds a coloured text to an element. The sixteen colours are classes, so that they fit the theme. */
export function colour(parent: HTMLElement, text: string): void {
  for (const { text: piece, look } of runs(text)) {
    if (look === NORMAL || isNormal(look)) {
      show(parent, piece);
      continue;
    }
    const span = document.createElement("span");
    const [fg, bg] = look.inverse ? [look.bg ?? "bg", look.fg ?? "fg"] : [look.fg, look.bg];
    paint(span, "fg", fg);
    paint(span, "bg", bg);
    for (const flag of ["bold", "dim", "italic", "under", "strike"] as const) {
      if (look[flag]) span.classList.add(`ansi-${flag}`);
    }
    show(span, piece);
    parent.appendChild(span);
  }
}

function isNormal(look: Look): boolean {
  return !look.fg && !look.bg && !look.bold && !look.dim && !look.italic && !look.under && !look.strike && !look.inverse;
}

function paint(span: HTMLElement, what: "fg" | "bg", value: string | null): void {
  if (value === null) return;
  if (!value.startsWith("rgb")) span.classList.add(`ansi-${what}-${value}`);
  else if (what === "fg") span.style.color = value;
  else span.style.backgroundColor = value;
}

/** Whether a text has something for a terminal in it. */
export function hasColours(text: string): boolean {
  return text.includes("\u001b[") || text.includes("\u009b");
}

/** The text alone. */
export function bare(text: string): string {
  return text.includes("\u001b") || text.includes("\u009b") ? runs(text).map((run) => run.text).join("") : text;
}
