// The page in a real browser, served by the real program: hub, shell and agent are processes of their own.

import assert from "node:assert/strict";
import { execFile, execFileSync, spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import http from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

const sabir = process.env.SABIR_BINARY;
assert.ok(sabir, "SABIR_BINARY names the program; `cargo xtask page --test` builds it");
let browser;
let context;
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
  context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  page = await context.newPage();
  page.setDefaultTimeout(60_000);
  [complaints, addresses, started] = [[], [], []];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => message.type() === "error" && /Content Security Policy/i.test(message.text()) && complaints.push(message.text()));
  page.on("request", (request) => addresses.push(request.url()));
});
afterEach(async () => {
  await context.close();
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
    const waiting = [];
    /** The first group of the first line that fits, once there is one. */
    const printed = (fits) => new Promise((resolve, reject) => {
      child.on("close", (code) => reject(new Error(`sabir ${args.join(" ")} ended with ${code}: ${said}`)));
      waiting.push(() => {
        const found = fits.exec(said);
        if (found) resolve(found[1] ?? found[0]);
      });
      waiting.at(-1)();
    });
    child.stderr.setEncoding("utf8").on("data", (text) => {
      said += text;
      const found = fits.exec(said);
      if (found) resolve({ child, found, printed });
      for (const look of waiting) look();
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

const second = async (address) => {
  const tab = await context.newPage();
  tab.setDefaultTimeout(60_000);
  await tab.goto(address);
  return tab;
};
const signIn = () => page.getByRole("heading", { name: "Sign in" }).waitFor();

test("signing in with a token is for all tabs, until one logs out", async () => {
  const data = join(folder, "hub");
  const { found } = await start(["hub", "--listen", "127.0.0.1:0", "--data", data], /listens on http:\/\/(\S+)/);
  const origin = `http://${found[1]}`;
  const { stdout } = await promisify(execFile)(sabir, ["hub", "token", "new", "--scope", "watch", "--data", data], { env: environment() });
  const token = stdout.trim();
  await page.goto(`${origin}/#/spend`);
  await signIn();
  for (const wrong of ["not-a-token", `${token.slice(0, -1)}${token.endsWith("0") ? 1 : 0}`]) {
    await page.getByLabel("Token").fill(wrong);
    await page.keyboard.press("Enter");
    await page.getByRole("alert").filter({ hasText: "Wrong token" }).waitFor();
    await page.getByLabel("Token").fill("");
  }
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  // One comes to what was wanted.
  await page.getByText("No usage yet").waitFor();
  await page.getByText("Read-only").waitFor();
  await page.reload();
  await page.getByText("No usage yet").waitFor();
  const tab = await second(`${origin}/#/`);
  await tab.getByText("No runs yet").waitFor();
  const readable = () => page.evaluate(() => JSON.stringify([document.cookie, { ...sessionStorage }, { ...localStorage }]));
  assert.ok(!(await readable()).includes("sabir_"), "no script can read the token");
  const [cookie] = await context.cookies();
  assert.deepEqual([cookie.name, cookie.httpOnly, cookie.sameSite, cookie.secure], [`sabir-${new URL(origin).port}`, true, "Strict", false]);
  assert.equal((await fetch(`${origin}/v1/sessions`, { headers: { Authorization: `Bearer ${token}` } })).status, 200, "API clients send their token");

  // A page of another port of the same host gets the cookie sent along, and nothing by that.
  const foreign = http.createServer((_, answer) => answer.setHeader("content-type", "text/html").end("<title>other</title>"));
  await new Promise((resolve) => foreign.listen(0, "127.0.0.1", resolve));
  const other = await second(`http://127.0.0.1:${foreign.address().port}/`);
  await other.evaluate((hub) => fetch(`${hub}/v1/logout`, { method: "POST", mode: "no-cors", credentials: "include" }).catch(() => null), origin);
  const opened = (where) => where.evaluate((hub) => new Promise((resolve) => {
    const socket = new WebSocket(`${hub.replace("http", "ws")}/v1/sessions/nobody/watch`);
    socket.onopen = () => resolve("open");
    socket.onerror = () => resolve("refused");
  }), origin);
  assert.equal(await opened(other), "refused");
  await other.close();
  await new Promise((resolve) => foreign.close(resolve));
  await page.reload();
  await page.getByText("No usage yet").waitFor();

  await page.getByRole("button", { name: "Log out" }).click();
  await signIn();
  assert.deepEqual(await context.cookies(), []);
  await tab.reload();
  await tab.getByRole("heading", { name: "Sign in" }).waitFor();

  // What an older version stored in the tab is taken up once.
  await page.evaluate((token) => sessionStorage.setItem("sabir-token", token), token);
  await page.reload();
  await page.getByText("No usage yet").waitFor();
  assert.ok(!(await readable()).includes("sabir_"));
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
  await page.goto(`http://${hub.at}/#/`);
  await page.getByRole("link", { name: "Count the herd" }).click();
  await row("it goes on").waitFor();
  assert.ok(await isThere(), "the agent runs");
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.keyboard.press("Escape");
  assert.ok(await isThere(), "nothing was cancelled");
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByRole("button", { name: "Cancel run" }).click();
  await page.locator(".told", { hasText: "Cancelled" }).waitFor();
  await ended(child);
  assert.equal(child.exitCode, 4, "the shell says that it was cancelled");
  assert.ok(!(await isThere()), "the agent is gone");
  await row(/cancelled/i).first().waitFor();
  // That somebody cancelled it is no error, and its axis is one of time.
  await page.locator("dt:text-is('Errors') + dd", { hasText: /^0$/ }).waitFor();
  assert.ok(!(await page.locator("button.errors").isVisible()));
  assert.equal(await page.locator(".row.is-trouble").count(), 0);
  await page.goto(`http://${hub.at}/#/`);
  await page.locator("tr .status.is-off", { hasText: "Cancelled" }).waitFor();
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
  await page.getByText("No matching runs").waitFor();
  await page.getByRole("searchbox").fill("quagga");
  await found.waitFor();
  assert.match(await found.getAttribute("href"), /#\/run\/hostile\?q=quagga$/);
  await found.click();
  await page.locator(".row.is-selected", { hasText: "reversed quagga" }).waitFor();
  await page.goBack();
  await found.waitFor();
  assert.equal(await page.getByRole("searchbox").inputValue(), "quagga");
  assert.deepEqual(leaves(`http://${hub.at}`), []);
});

test("runs of this machine are filtered, linked to and played again", async () => {
  for (const [agent, name, at] of [
    ["claude-code", "history-sub-agent", ".claude/projects/-home-user-project/6f0c1f8e-0000-4000-8000-000000000001.jsonl"],
    ["codex", "history-failed", ".codex/sessions/2026/11/15/rollout-2026-11-15T10-00-00-01a1e068-9f5a-7c42-a2eb-a56fcf173ab2.jsonl"],
  ]) {
    await mkdir(dirname(join(folder, at)), { recursive: true });
    await copyFile(new URL(`../../../../sabir-agents/fixtures/${agent}/${name}/input`, import.meta.url), join(folder, at));
  }
  const { found } = await start(["serve", "--no-open", "--port", "0"], /the page is at (http:\S+)/);
  await page.goto(found[1]);
  const rows = page.locator("tbody tr");
  await rows.nth(1).waitFor();
  await page.getByLabel("Agent").selectOption("codex");
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);
  assert.match(await rows.first().innerText(), /codex/);
  await page.getByLabel("Status").selectOption("cancelled");
  await page.getByText("No matching runs").waitFor();
  await page.getByRole("button", { name: "Clear filters" }).click();
  await rows.nth(1).waitFor();

  // Every event that the command line prints has the same number here; the beginning of an id is enough.
  const { stdout } = await promisify(execFile)(sabir, ["show", "6f0c1f8e", "--json"], { env: environment(), maxBuffer: 64 << 20 });
  const events = stdout.trim().split("\n").map((line) => JSON.parse(line));
  const starts = new Map(events.filter(({ kind }) => kind === "toolStart").map(({ toolCallId, seq }) => [toolCallId, seq]));
  const selected = page.locator(".row.is-selected");
  let opened = 0;
  for (const { kind, seq, toolCallId, delta, path } of events) {
    if (!["toolStart", "toolEnd", "text", "fileChange", "turnStart"].includes(kind)) continue;
    opened += 1;
    await page.goto(`${new URL(found[1]).origin}/#/run/6f0c1f8e?event=${seq}`);
    const begins = kind === "toolEnd" ? starts.get(toolCallId) : seq;
    const one = page.locator(`.row.is-selected:has([title^="Event ${begins} "])`);
    await one.waitFor();
    assert.match(await one.locator("a.row-time").getAttribute("href"), new RegExp(`/run/6f0c1f8e-0000-4000-8000-000000000001\\?event=${begins}$`));
    if (kind === "text") assert.ok((await one.innerText()).includes(delta.trim().split(/[\n*`#]/)[0]));
    if (kind === "fileChange") assert.ok((await one.innerText()).includes(path.split("/").at(-1)));
    await page.goto("about:blank");
  }
  assert.ok(opened > 5, `${opened} events`);
  // So has every hit of a search.
  const search = await promisify(execFile)(sabir, ["search", "files", "--json"], { env: environment() });
  const hits = search.stdout.trim().split("\n").map((line) => JSON.parse(line)).filter(({ session, seq }) => session.startsWith("6f0c") && seq);
  assert.ok(hits.length > 2, search.stdout);
  for (const { session, seq } of hits) {
    await page.goto(`${new URL(found[1]).origin}/#/run/${session}?event=${seq}`);
    await page.locator(".row.is-selected", { hasText: "files" }).waitFor();
    await page.goto("about:blank");
  }
  await page.goto(`${new URL(found[1]).origin}/#/run/6f0c1f8e`);
  await page.locator(".row").first().waitFor();
  assert.equal(await selected.count(), 0);
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
  const fixture = new URL("../../../../sabir-agents/fixtures/claude-code/history-sub-agent/input", import.meta.url);
  await copyFile(fixture, join(logs, `${session}.jsonl`));
  const served = await start(["serve", "--no-open", "--port", "0"], /the page is at (http:\S+)/);
  const { found } = served;
  await page.goto(found[1]);
  await page.locator("tbody tr").first().waitFor();
  assert.doesNotMatch(page.url(), /token/, "the token does not stay in the address");
  await page.goto(`${new URL(found[1]).origin}/#/run/${session}`);
  const first = page.locator(".row[data-id='0'], .row[data-id='1']");
  await first.nth(1).waitFor();
  const shown = await first.allInnerTexts();
  // Another tab is signed in, also with a link to a run or with the address that was used.
  for (const address of [`${new URL(found[1]).origin}/#/run/${session}`, found[1]]) {
    const tab = await second(address);
    await tab.locator(address === found[1] ? "tbody tr" : ".row").first().waitFor();
    await tab.close();
  }
  // Another browser is not, and can be by the address that was printed since.
  const { printed } = served;
  const other = await browser.newPage();
  await other.goto(found[1]);
  await other.getByRole("alert").filter({ hasText: "already used" }).waitFor();
  assert.equal(await other.locator("tbody tr").count(), 0, "an address is good once");
  await other.getByLabel("Address").fill(await printed(/for another browser: (http:\S+)/));
  await other.getByRole("button", { name: "Sign in" }).click();
  await other.locator("tbody tr").first().waitFor();
  await other.getByRole("button", { name: "Log out" }).click();
  await other.getByRole("heading", { name: "Sign in" }).waitFor();
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

test("the demo serves until it is interrupted once the page was opened", async () => {
  const { child, found, printed } = await start(["demo", "--speed", "0.5", "--no-open"], /the page is at (http:\S+)/);
  await page.goto(found[1]);
  await page.locator("tbody tr").nth(2).waitFor();
  await printed(/all runs ended/);
  await page.locator("tbody tr .status.is-done").nth(2).waitFor();
  await page.getByRole("link", { name: /stats\.py/ }).click();
  await page.locator(".row-end", { hasText: "Completed" }).waitFor();
  child.kill("SIGINT");
  await ended(child);
  assert.equal(child.exitCode, 0);
});
