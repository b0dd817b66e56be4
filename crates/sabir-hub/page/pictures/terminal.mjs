// The terminal program in a real terminal (tmux), and its screen as a picture.

import { execFile } from "node:child_process";
import { promisify } from "node:util";

const run = promisify(execFile);

const DARK = { ground: "#16181b", text: "#d8dbde", colours: ["#16181b", "#ef8279", "#74c78f", "#e0b15c", "#82b4ec", "#d69ad6", "#5cc8cf", "#c9cdd2", "#7d848c", "#f5a29b", "#93d9a8", "#efca83", "#a5caf3", "#e4b8e4", "#86dbe0", "#ffffff"] };
const LIGHT = { ground: "#fdfdfc", text: "#24272a", colours: ["#24272a", "#b3261e", "#1f7a3d", "#8a5a00", "#1d5fa8", "#8a2f8a", "#0a6a72", "#8d939a", "#6c7178", "#c8372d", "#2c8f4d", "#a06c0a", "#2f74c0", "#a045a0", "#17838c", "#000000"] };

/** A terminal of this size with a program in it. */
export class Terminal {
  #socket;

  constructor(socket) {
    this.#socket = socket;
  }

  async start(command, { columns, rows, environment, folder }) {
    const given = Object.entries(environment).flatMap(([name, value]) => ["-e", `${name}=${value}`]);
    await this.#tmux("-f", "/dev/null", "new-session", "-d", "-x", String(columns), "-y", String(rows), "-c", folder, ...given, ...command);
    await this.#tmux("set-option", "-g", "status", "off");
  }

  async press(...keys) {
    for (const key of keys) await this.#tmux("send-keys", key);
  }

  /** The screen with its colours, once a text is on it. */
  async screen(text) {
    for (let tries = 0; tries < 200; tries += 1) {
      const { stdout } = await this.#tmux("capture-pane", "-p", "-e");
      if (stdout.replaceAll(/\u001b\[[0-9;]*m/g, "").includes(text)) return stdout.replace(/\n$/, "");
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`“${text}” does not come on the screen`);
  }

  async end() {
    await this.#tmux("kill-server").catch(() => undefined);
  }

  #tmux(...args) {
    return run("tmux", ["-L", this.#socket, ...args]);
  }
}

/** A screen as a page that shows it. */
export function asPage(screen, scheme, title) {
  const look = scheme === "dark" ? DARK : LIGHT;
  const lines = cells(screen, look);
  const [bar, edge] = scheme === "dark" ? ["#212429", "#2f3339"] : ["#f1f1ee", "#dcdcd7"];
  return `<!doctype html><meta charset="utf-8"><style>
    body { margin: 0; background: ${look.ground}; }
    .window { display: inline-block; border: 1px solid ${edge}; background: ${look.ground}; color: ${look.text}; }
    .bar { display: flex; align-items: center; gap: 7px; height: 30px; padding: 0 12px; background: ${bar}; border-bottom: 1px solid ${edge}; font: 12px system-ui, sans-serif; opacity: 0.95; }
    .bar i { width: 11px; height: 11px; border-radius: 50%; background: ${edge}; }
    .bar span { margin-left: 8px; color: ${look.colours[8]}; }
    pre { margin: 0; padding: 10px 12px; font: 13.5px/18px "JetBrains Mono", "DejaVu Sans Mono", monospace; font-variant-ligatures: none; }
  </style><div class="window"><div class="bar"><i></i><i></i><i></i><span>${safe(title)}</span></div><pre>${lines}</pre></div>`;
}

/** A screen as pieces that look alike. How one ends is how the next line begins. */
function cells(screen, look) {
  let [state, out] = [{}, ""];
  for (const [, codes, text] of `\u001b[m${screen}`.matchAll(/\u001b\[([0-9;]*)m([^\u001b]*)/g)) {
    // The sixteen colours may be told by their numbers in the table of 256.
    const told = codes.replace(/\b([34])8;5;(\d+)/g, (_, which, number) => String(Number(number) + (number > 7 ? Number(which) * 10 + 52 : Number(which) * 10)));
    state = told.split(";").map(Number).reduce((now, code) => changed(now, code), state);
    if (text === "") continue;
    let [front, back] = [look.colours[state.front] ?? look.text, look.colours[state.back] ?? null];
    if (state.turned) [front, back] = [back ?? look.ground, front];
    const style = [`color:${front}`, back && `background:${back}`, state.bold && "font-weight:700", state.dim && "opacity:.65", state.italic && "font-style:italic", state.under && "text-decoration:underline"];
    out += `<span style="${style.filter(Boolean).join(";")}">${safe(text)}</span>`;
  }
  return out;
}

function changed(state, code) {
  if (code === 0) return {};
  if (code === 22) return { ...state, bold: false, dim: false };
  const names = { 1: "bold", 2: "dim", 3: "italic", 4: "under", 7: "turned" };
  if (names[code]) return { ...state, [names[code]]: true };
  if (names[code - 20]) return { ...state, [names[code - 20]]: false };
  const [tens, ones] = [Math.floor(code / 10), code % 10];
  if (code === 39 || code === 49) return { ...state, [code === 39 ? "front" : "back"]: undefined };
  if (tens === 3 || tens === 9) return { ...state, front: ones + (tens === 9 ? 8 : 0) };
  if (tens === 4 || tens === 10) return { ...state, back: ones + (tens === 10 ? 8 : 0) };
  return state;
}

const safe = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
