// The page in a real browser, served by the real program: hub, shell and agent are processes of their own.

import assert from "node:assert/strict";
import { execFile, execFileSync, spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
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

/** A run whose agent says what the test writes. */
async function agent(at, session) {
  const pipe = join(folder, `${session}.pipe`);
  execFileSync("mkfifo", [pipe]);
  const child = spawn(sabir, ["shell", "--hub", `ws://${at}`, "--session", session, "--", "localexec", `cat ${pipe}`], { env: environment(), stdio: "ignore", cwd: folder });
  started.push(child);
  return { child, says: createWriteStream(pipe) };
}

const row = (text) => page.locator(".row", { hasText: text });
const leaves = (origin) => addresses.filter((address) => !address.startsWith(origin) && !address.startsWith("data:"));

test("a live run appears, is followed, and survives the end of the hub without a lost or doubled word", async () => {
  let hub = await hubAt("127.0.0.1:0");
  await page.goto(`http://${hub.at}/`);
  await page.getByText("No runs yet").waitFor();
  const { child, says } = await agent(hub.at, "first");
  says.write("one-of-three\n");
  await page.getByRole("link", { name: /cat/ }).click();
  await page.waitForURL(/#\/run\/first/);
  await row("one-of-three").waitFor();

  await ended(hub.child, "SIGKILL");
  says.write("two-of-three\n");
  hub = await hubAt(hub.at);
  await row("two-of-three").waitFor();
  says.end("three-of-three\n");
  await ended(child);
  await page.locator(".row-end").waitFor();
  const text = await page.locator("main, #app").first().innerText();
  for (const word of ["one-of-three", "two-of-three", "three-of-three"]) {
    // It is said once, and once more where a message is also the answer.
    assert.ok(text.split(word).length - 1 >= 1, word);
  }
  const ids = await page.locator(".row[data-id]").evaluateAll((all) => all.map((one) => one.dataset.id));
  assert.equal(new Set(ids).size, ids.length, "no row twice");
  assert.deepEqual(leaves(`http://${hub.at}`), [], "no request leaves the origin");
});

test("cancel reaches the agent", async () => {
  const hub = await hubAt("127.0.0.1:0");
  const { child, says } = await agent(hub.at, "long");
  says.write("it goes on\n");
  await page.goto(`http://${hub.at}/#/run/long`);
  await row("it goes on").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await ended(child);
  assert.equal(child.exitCode, 4, "the shell says that it was cancelled");
  await row(/cancelled/i).first().waitFor();
  says.destroy();
});

test("what an agent prints is never markup, and words are found in all runs", async () => {
  const hub = await hubAt("127.0.0.1:0");
  const { child, says } = await agent(hub.at, "hostile");
  says.write("<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>\u001b]0;title\u0007\u202e reversed quagga\n");
  says.end(`${"x".repeat(5 << 20)}\n`);
  await ended(child);
  const policy = (await page.goto(`http://${hub.at}/#/run/hostile`)).headers()["content-security-policy"];
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe/);
  await row("onerror").first().waitFor();
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.locator("img[src='x']").count(), 0);
  await page.goto(`http://${hub.at}/#/`);
  await page.keyboard.press("/");
  await page.keyboard.type("quagga");
  await page.getByRole("link", { name: /cat/ }).waitFor();
  assert.deepEqual(leaves(`http://${hub.at}`), []);
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
