// The page in a real browser, served by the real program: hub, shell and agent are processes of their own.

import assert from "node:assert/strict";
import { execFile, execFileSync, spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

const sabir = process.env.SABIR_BINARY;
assert.ok(sabir, "SABIR_BINARY names the program; `cargo xtask page --test` builds it");
let browser;
let folder;
let page;
let complaints;
let addresses;
/** Processes that this test started, to be ended with it. */
let started;

before(async () => {
  browser = await chromium.launch({ executablePath: process.env.SABIR_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
});
after(() => browser.close());

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sabir-page-"));
  page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  page.setDefaultTimeout(60_000);
  [complaints, addresses, started] = [[], [], []];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => message.type() === "error" && /Content Security Policy/i.test(message.text()) && complaints.push(message.text()));
  page.on("request", (request) => addresses.push(request.url()));
});
afterEach(async () => {
  await page.close();
  for (const child of started) if (child.exitCode === null && child.signalCode === null) await ended(child, "SIGKILL");
  await rm(folder, { recursive: true, force: true });
  assert.deepEqual(complaints, [], "nothing went wrong in the page");
});

const environment = () => ({ ...process.env, HOME: folder, SABIR_HOME: join(folder, "sabir"), TZ: "UTC", DISPLAY: "", WAYLAND_DISPLAY: "" });

/** Starts the program, and waits until it says something that fits. */
function start(args, fits) {
  const child = spawn(sabir, args, { env: environment(), stdio: ["ignore", "ignore", "pipe"] });
  started.push(child);
  return new Promise((resolve, reject) => {
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (text) => {
      said += text;
      const found = fits.exec(said);
      if (found) resolve({ child, found });
    });
    child.on("close", (code) => reject(new Error(`sabir ${args.join(" ")} ended with ${code}: ${said}`)));
  });
}

async function ended(child, signal) {
  const over = new Promise((resolve) => child.once("close", resolve));
  if (child.exitCode !== null || child.signalCode !== null) return;
  if (signal) child.kill(signal);
  await over;
}

const hubAt = async (listen) => {
  const { child, found } = await start(["hub", "--open", "--listen", listen, "--data", join(folder, "hub")], /listens on http:\/\/(\S+)/);
  return { child, at: found[1] };
};

/** A run of an agent that says what the test writes, in the words of Claude Code. */
async function agent(at, session) {
  const [bin, pipe, pid] = ["bin", "pipe", "pid"].map((name) => join(folder, `${session}.${name}`));
  execFileSync("mkfifo", [pipe]);
  await mkdir(bin);
  const script = `#!/bin/sh\nif [ "$1" = --version ]; then echo '2.1.325 (Claude Code)'; exit; fi\necho $$ > '${pid}'\nexec cat '${pipe}'\n`;
  await writeFile(join(bin, "claude"), script, { mode: 0o755 });
  const env = { ...environment(), PATH: `${bin}:${process.env.PATH}` };
  const child = spawn(sabir, ["shell", "--hub", `ws://${at}`, "--session", session, "--", "claude", "Count the herd"], { env, stdio: "ignore", cwd: folder });
  started.push(child);
  const stream = createWriteStream(pipe);
  const tell = (...lines) => stream.write(lines.map((line) => `${JSON.stringify({ session_id: "s", ...line })}\n`).join(""));
  tell({ type: "system", subtype: "init", cwd: folder, tools: [], model: "some-model", permissionMode: "default" });
  return { child, stream, tell, isThere: async () => isThere(Number(await readFile(pid, "utf8"))) };
}

function isThere(pid) {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

let messages = 0;
const message = (...content) => ({ type: "assistant", message: { id: `msg_${++messages}`, type: "message", role: "assistant", model: "some-model", content, usage: { input_tokens: 1, output_tokens: 1 } } });
const says = (text) => message({ type: "text", text });
const uses = (id, name, input) => message({ type: "tool_use", id, name, input });
const gives = (id, content, more = {}) => ({ type: "user", message: { role: "user", content: [{ type: "tool_result", tool_use_id: id, content }] }, ...more });
const result = (text) => ({ type: "result", subtype: "success", is_error: false, result: text, num_turns: 1, duration_ms: 1, total_cost_usd: 0.25, usage: { input_tokens: 1, output_tokens: 1 } });

const row = (text) => page.locator(".row", { hasText: text });
const leaves = (origin) => addresses.filter((address) => !address.startsWith(origin) && !address.startsWith("data:"));
const steps = (from, until) => Array.from({ length: until - from + 1 }, (_, place) => `step ${from + place} of many`);

test("a hub that wants a token asks for one, and again for the right one", async () => {
  const data = join(folder, "hub");
  const { found } = await start(["hub", "--listen", "127.0.0.1:0", "--data", data], /listens on http:\/\/(\S+)/);
  const { stdout } = await promisify(execFile)(sabir, ["hub", "token", "new", "--scope", "watch", "--data", data], { env: environment() });
  await page.goto(`http://${found[1]}/`);
  for (const token of ["not-a-token", stdout.trim()]) {
    await page.getByRole("heading", { name: "A token is needed" }).waitFor();
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Enter" }).click();
  }
  await page.getByText("No runs yet").waitFor();
  await page.getByText("read-only").waitFor();
  await page.reload();
  await page.getByText("No runs yet").waitFor();
});

test("a live run appears, is followed, and survives two deaths of the hub without a lost or doubled event", async () => {
  let hub = await hubAt("127.0.0.1:0");
  const again = async () => {
    await ended(hub.child, "SIGKILL");
    hub = await hubAt(hub.at);
  };
  await page.goto(`http://${hub.at}/`);
  await page.getByText("No runs yet").waitFor();
  const { child, stream, tell } = await agent(hub.at, "first");
  await page.getByRole("link", { name: "Count the herd" }).click();
  await page.waitForURL(/#\/run\/first/);
  tell(...steps(1, 60).map(says));
  await row("step 60 of many").waitFor();
  const feed = page.locator(".feed");
  await page.waitForFunction(() => {
    const { scrollTop, clientHeight, scrollHeight } = document.querySelector(".feed");
    return scrollTop > 0 && scrollHeight - scrollTop - clientHeight < 4;
  });

  // It is said while nobody listens, and while nobody listens any more.
  await ended(hub.child, "SIGKILL");
  await page.getByText("connection lost").waitFor();
  tell(...steps(61, 90).map(says));
  hub = await hubAt(hub.at);
  await row("step 90 of many").waitFor();
  tell(...steps(91, 120).map(says));
  await again();
  await row("step 120 of many").waitFor();
  tell(result("step 120 of many"));
  stream.end();
  await ended(child);
  assert.equal(child.exitCode, 0, "the shell delivered everything");
  await page.locator(".row-end").waitFor();

  // In a window in which every row exists.
  await page.setViewportSize({ width: 1280, height: 12_000 });
  await page.waitForFunction(() => document.querySelectorAll(".row").length === Number(document.querySelector(".row").getAttribute("aria-setsize")));
  assert.deepEqual(await feed.locator(".said:not(.said-prompt)").allInnerTexts(), steps(1, 120));
  const ids = await page.locator(".row[data-id]").evaluateAll((all) => all.map((one) => Number(one.dataset.id)));
  assert.deepEqual(ids, ids.map((_, place) => place), "every item once, in order");
  // The head and the facts are those of the end, too.
  await page.locator(".status.is-done", { hasText: "done" }).waitFor();
  await page.locator("dt:text-is('Cost') + dd", { hasText: "$0.25 reported" }).waitFor();
  assert.deepEqual(leaves(`http://${hub.at}`), [], "no request leaves the origin");
});

test("cancel reaches the agent", async () => {
  const hub = await hubAt("127.0.0.1:0");
  const { child, stream, tell, isThere } = await agent(hub.at, "long");
  tell(says("it goes on"));
  await page.goto(`http://${hub.at}/#/run/long`);
  await row("it goes on").waitFor();
  assert.ok(await isThere(), "the agent runs");
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("Cancel: taken.").waitFor();
  await ended(child);
  assert.equal(child.exitCode, 4, "the shell says that it was cancelled");
  assert.ok(!(await isThere()), "the agent is gone");
  await row(/cancelled/i).first().waitFor();
  stream.destroy();
});

test("what an agent prints is never markup, and words are found in all runs", async () => {
  const hub = await hubAt("127.0.0.1:0");
  const { child, stream, tell } = await agent(hub.at, "hostile");
  const evil = "<img src=x onerror=\"window.hit=1\"><script>window.hit=1</script>";
  const path = `${folder}/${evil.replaceAll("/", "")}\u202egpj.exe`;
  tell(
    says(`${evil} [x](javascript:window.hit=1)`),
    uses("t1", "Bash", { command: `cat ${evil}` }),
    gives("t1", `${evil}\u001b[31mred\u001b]0;title\u0007\u001b]8;;javascript:window.hit=1\u0007link\u001b]8;;\u0007 \u202e reversed quagga`),
    uses("t2", "Write", { file_path: path, content: evil }),
    gives("t2", "written", { tool_use_result: { type: "create", filePath: path, content: evil, structuredPatch: [], originalFile: null } }),
    uses("t3", "Bash", { command: "cat wide" }),
    gives("t3", "x".repeat(5 << 20)),
    result("all of it is said"),
  );
  stream.end();
  await ended(child);
  const policy = (await page.goto(`http://${hub.at}/#/run/hostile`)).headers()["content-security-policy"];
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe/);
  await page.locator(".row").first().waitFor();
  for (const one of await page.locator(".head").all()) await one.click();
  await page.locator(".hidden-mark", { hasText: "U+202E" }).first().waitFor();
  assert.ok((await page.locator(".hidden-mark", { hasText: "U+202E" }).count()) >= 2, "what turns the direction is shown, in names of files too");
  assert.equal(await page.locator(".ansi-fg-1", { hasText: "red" }).count(), 1, "colours are shown");
  assert.equal(await page.evaluate(() => window.hit), undefined);
  assert.equal(await page.locator("#app img, #app script, #app a[href^='javascript']").count(), 0);

  await page.goto(`http://${hub.at}/#/`);
  const found = page.getByRole("link", { name: "Count the herd" });
  await page.keyboard.press("/");
  await page.keyboard.type("nowhere");
  await page.getByText("No run fits").waitFor();
  await page.getByRole("searchbox").fill("quagga");
  await found.waitFor();
  assert.deepEqual(leaves(`http://${hub.at}`), []);
});

test("runs of this machine are filtered, linked to and played again", async () => {
  for (const [agent, name, at] of [
    ["claude-code", "history-sub-agent", ".claude/projects/-home-user-project/6f0c1f8e-0000-4000-8000-000000000001.jsonl"],
    ["codex", "history-failed", ".codex/sessions/2026/11/15/rollout-2026-11-15T10-00-00-01a1e068-9f5a-7c42-a2eb-a56fcf173ab2.jsonl"],
  ]) {
    await mkdir(dirname(join(folder, at)), { recursive: true });
    await copyFile(new URL(`../../../../sabir-core/fixtures/${agent}/${name}/input`, import.meta.url), join(folder, at));
  }
  const { found } = await start(["serve", "--no-open", "--port", "0"], /the page is at (http:\S+)/);
  await page.goto(found[1]);
  const rows = page.locator("tbody tr");
  await rows.nth(1).waitFor();
  await page.getByLabel("Agent").selectOption("codex");
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);
  assert.match(await rows.first().innerText(), /codex/);
  await page.getByLabel("Status").selectOption("cancelled");
  await page.getByText("No run fits").waitFor();
  await page.getByRole("button", { name: "Clear the filters" }).click();
  await rows.nth(1).waitFor();

  await page.goto(`${new URL(found[1]).origin}/#/run/6f0c1f8e-0000-4000-8000-000000000001/9`);
  const selected = page.locator(".row.is-selected");
  await selected.waitFor();
  assert.match(await selected.locator("a.row-time").getAttribute("href"), /\/run\/6f0c1f8e[^/]*\/[1-9]$/);
  const items = () => page.locator(".row").first().getAttribute("aria-setsize").then(Number);
  const fewer = (than) => page.waitForFunction((than) => Number(document.querySelector(".row")?.getAttribute("aria-setsize")) < than, than);
  const all = await items();
  const slider = page.getByRole("slider");
  await slider.fill("4");
  await fewer(all);
  await slider.fill(await slider.getAttribute("max"));
  await page.waitForFunction((all) => Number(document.querySelector(".row")?.getAttribute("aria-setsize")) === all, all);
  assert.deepEqual(leaves(new URL(found[1]).origin), []);
});

test("what agents logged on this machine is shown, and a run fits in one file", async () => {
  const session = "6f0c1f8e-0000-4000-8000-000000000001";
  const logs = join(folder, ".claude/projects/-home-user-project");
  await mkdir(logs, { recursive: true });
  const fixture = new URL("../../../../sabir-core/fixtures/claude-code/history-sub-agent/input", import.meta.url);
  await copyFile(fixture, join(logs, `${session}.jsonl`));
  const { found } = await start(["serve", "--no-open", "--port", "0"], /the page is at (http:\S+)/);
  await page.goto(found[1]);
  await page.locator("tbody tr").first().waitFor();
  assert.doesNotMatch(page.url(), /token/, "the token does not stay in the address");
  await page.goto(`${new URL(found[1]).origin}/#/run/${session}`);
  const first = page.locator(".row[data-id='0'], .row[data-id='1']");
  await first.nth(1).waitFor();
  const shown = await first.allInnerTexts();
  const other = await browser.newPage();
  await other.goto(found[1]);
  assert.equal(await other.locator("tbody tr").count(), 0, "an address is good once");
  await other.close();

  const { stdout } = await promisify(execFile)(sabir, ["export", session, "--to", "html"], { env: environment(), maxBuffer: 64 << 20 });
  const file = join(folder, "run.html");
  await writeFile(file, stdout);
  addresses.length = 0;
  await page.goto(pathToFileURL(file).href);
  await first.nth(1).waitFor();
  assert.deepEqual(await first.allInnerTexts(), shown, "the same rows");
  assert.deepEqual(leaves("file:"), []);
});
