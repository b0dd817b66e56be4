// Takes the pictures of the documents: the program serves a made-up machine, a real browser and a real terminal show it.
//
//   stories ──► logs of agents, in a temporary home ──► sabir serve ──► chromium ──► runs, run, spend
//                                                  └──► sabir tui in tmux ──► its screen ──► chromium
//
// `cargo xtask screenshots` runs it: SABIR_BINARY, SABIR_CHROMIUM and the folder to write to come from there.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { furnish } from "./home.mjs";
import { small } from "./png.mjs";
import { LIVE } from "./stories.mjs";
import { asPage, Terminal } from "./terminal.mjs";

const [sabir, out] = [process.env.SABIR_BINARY, process.argv[2]];
const home = await mkdtemp(join(tmpdir(), "sabir-pictures-"));
/** Nobody's own agents, settings or colours. */
const environment = { PATH: `${join(home, "bin")}:${process.env.PATH}`, HOME: home, SABIR_HOME: join(home, "sabir"), TZ: "UTC", LANG: "C.UTF-8", DISPLAY: "", WAYLAND_DISPLAY: "" };
const started = [];
const terminal = new Terminal(`sabir-pictures-${process.pid}`);
let browser;

try {
  await mkdir(out, { recursive: true });
  const featured = await furnish(home, Date.now());
  start(["run", "claude", LIVE.prompt], join(home, LIVE.project));
  const address = await said(start(["serve", "--no-open", "--port", "0"], home), /(http:\S+)/);
  browser = await chromium.launch({ executablePath: process.env.SABIR_CHROMIUM, args: ["--no-sandbox", "--hide-scrollbars"], env: { ...process.env, ...(await fonts()) } });
  await pages(address, featured);
  await terminals(featured);
} finally {
  await browser?.close();
  await terminal.end();
  for (const child of started) await ended(child);
  await rm(home, { recursive: true, force: true });
}

function start(args, cwd) {
  const child = spawn(sabir, args, { env: environment, cwd, stdio: ["ignore", "ignore", "pipe"] });
  started.push(child);
  return child;
}

function said(child, fits) {
  return new Promise((resolve, reject) => {
    let text = "";
    child.stderr.setEncoding("utf8").on("data", (piece) => {
      text += piece;
      const found = fits.exec(text);
      if (found) resolve(found[1]);
    });
    child.on("close", () => reject(new Error(`the program ended: ${text}`)));
  });
}

async function ended(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const over = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  await over;
}

/** Where Inter is installed it is the system's font, as on many desktops. */
async function fonts() {
  const system = "/etc/fonts/fonts.conf";
  if (!existsSync(system)) return {};
  const rule = (family) => `<match target="pattern"><test name="family"><string>${family}</string></test><edit name="family" mode="prepend" binding="strong"><string>Inter</string></edit></match>`;
  const file = join(home, "fonts.conf");
  await writeFile(file, `<?xml version="1.0"?><fontconfig><include>${system}</include>${rule("system-ui")}${rule("sans-serif")}</fontconfig>`);
  return { FONTCONFIG_FILE: file };
}

async function keep(name, png) {
  const bytes = small(png);
  await writeFile(join(out, `${name}.png`), bytes);
  console.log(`${name}.png ${Math.ceil(bytes.length / 1024)} KB`);
}

async function pages(address, featured) {
  const { origin } = new URL(address);
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, deviceScaleFactor: 1.25, reducedMotion: "reduce" });
  const page = await context.newPage();
  await page.goto(address);
  await page.locator("tbody tr", { hasText: "running" }).waitFor();
  const calm = () => page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 900)));
  const run = async () => {
    await page.goto(`${origin}/#/run/${featured}`);
    await page.locator(".row-prompt").waitFor();
  };
  const screens = {
    runs: async () => {
      await page.goto(`${origin}/#/`);
      await page.locator("tbody tr").first().waitFor();
    },
    run: async () => {
      await run();
      await page.keyboard.press("n");
    },
    diff: async () => {
      await run();
      await page.locator(".facts-file").first().evaluate((file) => file.click());
      await page.locator(".diff").first().waitFor();
    },
    spend: async () => {
      await page.goto(`${origin}/#/spend`);
      await page.locator(".spend-chart canvas").waitFor();
    },
  };
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const [name, go] of Object.entries(screens)) {
      await page.goto("about:blank");
      await go();
      await calm();
      await keep(`${name}-${scheme}`, await page.screenshot());
    }
  }
  await page.setViewportSize({ width: 390, height: 780 });
  await page.emulateMedia({ colorScheme: "light" });
  await run();
  await page.keyboard.press("n");
  await calm();
  await keep("narrow", await page.screenshot());
  await context.close();
}

async function terminals(featured) {
  const { PATH, HOME, SABIR_HOME, TZ, LANG } = environment;
  await terminal.start(["env", "-u", "NO_COLOR", sabir, "tui"], { columns: 120, rows: 32, folder: home, environment: { PATH, HOME, SABIR_HOME, TZ, LANG } });
  await terminal.screen("Search times out");
  await terminal.press("Down");
  const list = await terminal.screen("add a test");
  await terminal.press("Enter");
  await terminal.screen("TOKENS");
  await terminal.press("g", "e");
  const run = await terminal.screen("fifty_at_once");
  const page = await browser.newPage({ viewport: { width: 1200, height: 800 }, deviceScaleFactor: 1.25 });
  for (const scheme of ["light", "dark"]) {
    for (const [name, screen] of Object.entries({ "tui-runs": list, "tui-run": run })) {
      await page.setContent(asPage(screen, scheme, name === "tui-run" ? `sabir tui ${featured.slice(0, 4)}` : "sabir tui"));
      await keep(`${name}-${scheme}`, await page.locator(".window").screenshot());
    }
  }
  await page.close();
}
