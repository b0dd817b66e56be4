// The page in a real browser, before a hub that tells what each test wants.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { gzipSync } from "node:zlib";
import { chromium } from "playwright-core";
import { clip, items, ran, said, StandIn } from "./stand-in.mjs";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let browser;
let hub;
let page;
/** What the browser complained of, and where it went. */
let complaints;
let addresses;

before(async () => {
  browser = await chromium.launch({ executablePath: process.env.SABIR_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
});
after(() => browser.close());

beforeEach(async () => {
  hub = await new StandIn().start();
  page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  page.setDefaultTimeout(30_000);
  [complaints, addresses] = [[], []];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => message.type() === "error" && /Content Security Policy/i.test(message.text()) && complaints.push(message.text()));
  page.on("request", (request) => addresses.push(request.url()));
});
afterEach(async () => {
  await page.close();
  await hub.stop();
  assert.deepEqual(complaints, [], "nothing went wrong in the page");
  assert.deepEqual(addresses.filter((address) => !address.startsWith(hub.address) && !address.startsWith("data:")), [], "no request leaves the origin");
});

const go = (hash) => page.goto(`${hub.address}/${hash}`);
const row = (text) => page.locator(".row", { hasText: text });
const rows = () => page.locator(".row").evaluateAll((all) => all.map((one) => one.dataset.id));

test("a new run comes into the list, and keys open it", async () => {
  await go("#/");
  await page.getByText("No runs yet").waitFor();
  hub.add("first", items({ kind: "run", agent: "claude-code" }), { phase: "running", title: "Mend the fence" });
  await page.getByRole("link", { name: "Mend the fence" }).waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(/#\/run\/first$/);
  await row("claude-code").waitFor();
});

test("an agent whose runs are too old for the list can be chosen", async () => {
  hub.add("old", items(said("long ago")), { agent: "pi", title: "Old" });
  for (let number = 0; number < 120; number += 1) hub.add(`new ${number}`, [], { agent: "codex", title: `New ${number}` });
  await go("#/");
  // The last row of the list is drawn later than those that are seen at once.
  await page.getByRole("link", { name: "New 20", exact: true }).waitFor();
  assert.equal(await page.getByRole("link", { name: "Old" }).count(), 0);
  await page.getByLabel("Agent").selectOption("pi");
  await page.getByRole("link", { name: "Old" }).waitFor();
});

test("filters and search narrow the list, and say when nothing is left", async () => {
  hub.add("one", items(said("about apples")), { agent: "codex", title: "Apples" });
  hub.add("two", items(said("about pears")), { agent: "gemini", title: "Pears", phase: "error" });
  await go("#/");
  await page.getByRole("link", { name: "Apples" }).waitFor();
  await page.getByLabel("Agent").selectOption("gemini");
  await page.getByRole("link", { name: "Apples" }).waitFor({ state: "detached" });
  await page.getByLabel("Agent").selectOption("");
  await page.keyboard.press("/");
  await page.keyboard.type("apples");
  await page.getByRole("link", { name: "Pears" }).waitFor({ state: "detached" });
  await page.getByRole("link", { name: "Apples" }).waitFor();
  await page.getByLabel("Status").selectOption("error");
  await page.getByText("No matching runs").waitFor();
  await page.getByRole("button", { name: "Clear filters" }).click();
  await page.getByRole("link", { name: "Pears" }).waitFor();
});

test("a live run is followed until somebody scrolls up", async () => {
  hub.add("live", items(...Array.from({ length: 60 }, (_, place) => said(`word ${place}`))), { phase: "running" });
  await go("#/run/live");
  await row("word 59").waitFor();
  hub.tell("live", 61, [{ put: items(...Array(60).fill(said("")), said("and now this"))[60] }]);
  await row("and now this").waitFor();
  hub.tell("live", 62, [{ grow: { id: 60, last: 62, text: " grows" } }]);
  await row("and now this grows").waitFor();
  await page.locator(".feed").hover();
  await page.mouse.wheel(0, -2000);
  await page.getByRole("button", { name: "Follow" }).waitFor();
  const before = await page.locator(".feed").evaluate((feed) => feed.scrollTop);
  hub.tell("live", 63, [{ put: { ...items(said("late"))[0], id: 61, first: 63, last: 63 } }]);
  await page.waitForFunction(() => document.querySelector(".row")?.getAttribute("aria-setsize") === "62");
  assert.equal(await page.locator(".feed").evaluate((feed) => feed.scrollTop), before);
  await page.getByRole("button", { name: "Follow" }).click();
  await row("late").waitFor();
});

test("after the hub was away nothing is lost and nothing is doubled", async () => {
  const all = items(...Array.from({ length: 8 }, (_, place) => said(`part ${place}`)));
  hub.add("cut", all.slice(0, 3), { phase: "running" });
  await go("#/run/cut");
  await row("part 2").waitFor();
  await hub.stop();
  await page.getByText("connection lost").waitFor();
  hub.tell("cut", 4, [{ put: all[3] }, { put: { ...all[2], last: 4, what: said("part 2 and more") } }]);
  await hub.start();
  await row("part 2 and more").waitFor();
  hub.tell("cut", 5, [{ put: all[4] }]);
  await row("part 4").waitFor();
  assert.deepEqual(hub.asked.slice(0, 1), [0]);
  assert.equal(hub.asked.at(-1), 3);
  assert.deepEqual(await rows(), ["0", "1", "2", "3", "4"]);
  assert.deepEqual(await page.locator(".said").allTextContents(), ["part 0", "part 1", "part 2 and more", "part 3", "part 4"]);
});

test("a link leads to its event, errors are stepped through, words are found", async () => {
  const many = Array.from({ length: 400 }, (_, place) => (place % 100 === 50 ? ran(`job ${place}`, "it broke", { status: "error", exitCode: 2 }) : said(`line ${place}`)));
  hub.add("long", items(...many));
  await go("#/run/long/301");
  await row("line 300").waitFor();
  assert.match(await row("line 300").first().getAttribute("class"), /is-selected/);
  await page.keyboard.press("n");
  await row("job 350").waitFor();
  await page.keyboard.press("N");
  await row("job 250").waitFor();
  assert.match(await row("job 250").innerText(), /failed[\s\S]*exit 2/);
  await page.keyboard.press("/");
  await page.keyboard.type("line 12");
  await page.getByText(/^1 \/ 11$/).waitFor();
  await row("line 12").first().waitFor();
  assert.ok(await page.evaluate(() => CSS.highlights.get("found").size > 0), "the words are marked");
  await page.keyboard.press("Enter");
  await page.getByText(/^2 \/ 11$/).waitFor();
});

test("the number of an event opens it, as the command line prints it", async () => {
  // Messages of a log have other numbers than the events in them.
  const all = items(...Array.from({ length: 200 }, (_, place) => said(`line ${place}`))).map((item) => ({ ...item, first: item.id * 3 + 5, last: item.id * 3 + 6, seq: item.id * 2 + 1, lastSeq: item.id * 2 + 2 }));
  hub.add("numbers", all);
  const selected = page.locator(".row.is-selected");
  for (const [event, words] of [[301, "line 150"], [302, "line 150"], [41, "line 20"]]) {
    await go(`#/run/numbers?event=${event}`);
    await page.locator(".row.is-selected", { hasText: new RegExp(`${words}$`) }).waitFor();
    assert.ok(await selected.evaluate((one) => one.getBoundingClientRect().top > 0 && one.getBoundingClientRect().bottom < innerHeight), "it is in sight");
  }
  const time = selected.locator("a.row-time");
  assert.equal(await time.getAttribute("href"), "#/run/numbers?event=41");
  assert.match(await time.getAttribute("title"), /^Event 41 /);
  // A link of an older version has the number of a message.
  await go("#/run/numbers/65");
  // The row was selected before: the page has read the link once it writes it in the new form.
  await page.waitForFunction(() => location.hash.endsWith("event=41"));
  await page.locator(".row.is-selected", { hasText: /line 20$/ }).waitFor();
  await page.keyboard.press("j");
  await page.waitForFunction(() => location.hash.endsWith("event=43"));
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.keyboard.press("y");
  await page.getByText("Link copied").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), `${hub.address}/#/run/numbers?event=43`);
  await page.locator("dt:text-is('Events') + dd", { hasText: /^400$/ }).waitFor();
});

test("Back and reload keep filters, search, rows and the place", async () => {
  const lines = Array.from({ length: 300 }, (_, place) => said(`apples ${place}`));
  for (let number = 0; number < 260; number += 1) hub.add(`run ${number}`, number === 100 ? items(...lines) : items(said("apples")), { agent: number % 2 ? "codex" : "pi", title: `Run ${number}` });
  await go("#/");
  await page.getByRole("link", { name: "Run 259" }).waitFor();
  await page.getByLabel("Agent").selectOption("pi");
  await page.getByLabel("Status").selectOption("success");
  await page.getByRole("searchbox").fill("apples");
  await page.waitForURL(/agent=pi&status=success&q=apples$/);
  await page.getByRole("button", { name: "Show older runs" }).click();
  const link = page.getByRole("link", { name: "Run 100", exact: true });
  await link.scrollIntoViewIfNeeded();
  const top = () => page.locator(".runs-box").evaluate((box) => box.scrollTop);
  const list = await top();
  assert.ok(list > 1000, `${list}`);
  const isAsItWas = async () => {
    await page.waitForFunction((list) => Math.abs(document.querySelector(".runs-box")?.scrollTop - list) < 2, list);
    assert.deepEqual([await page.getByLabel("Agent").inputValue(), await page.getByLabel("Status").inputValue(), await page.getByRole("searchbox").inputValue()], ["pi", "success", "apples"]);
    assert.ok(await link.isVisible());
  };
  await link.click();

  // The words are searched for in the run.
  await page.getByText("1 / 300").waitFor();
  const feed = page.locator(".feed");
  await page.keyboard.press("Escape");
  await page.getByLabel("Show").selectOption("talk");
  await row("apples 3").first().click();
  await page.waitForURL(/event=\d+&show=talk$/);
  await feed.hover();
  await page.mouse.wheel(0, 4000);
  const seen = () => page.evaluate(() => [...document.querySelectorAll(".row")].filter((one) => one.getBoundingClientRect().top >= document.querySelector(".feed").getBoundingClientRect().top)[0].dataset.id);
  // The wheel moves the list for some frames; then the entry has the row at its upper edge.
  await page.waitForFunction(() => {
    const feed = document.querySelector(".feed");
    const first = [...feed.querySelectorAll(".row")].find((one) => one.getBoundingClientRect().bottom > feed.getBoundingClientRect().top + 1);
    return feed.scrollTop > 3000 && history.state?.place?.top === Number(first?.dataset.id);
  });
  const [place, url] = [await seen(), page.url()];
  await page.reload();
  await page.waitForFunction((place) => document.querySelector(`.row[data-id="${place}"]`) !== null, place);
  assert.equal(page.url(), url);
  assert.equal(await seen(), place);
  assert.equal(await page.getByLabel("Show").inputValue(), "talk");

  await page.goBack();
  await isAsItWas();
  await page.reload();
  await isAsItWas();
  await page.goForward();
  await page.waitForFunction((place) => document.querySelector(`.row[data-id="${place}"]`) !== null, place);
  assert.equal(await seen(), place);
  // The button of the screen leads to the same list.
  await page.getByRole("link", { name: "All runs" }).click();
  await isAsItWas();

  await go("#/spend");
  await page.getByLabel("Range").selectOption("");
  await page.waitForURL(/spend\?range=all$/);
  await page.reload();
  assert.equal(await page.getByLabel("Range").inputValue(), "");
});

test("cancel asks first, and the keyboard is enough", async () => {
  hub.add("long", items(said("it goes on")), { phase: "running" }, { takes: ["cancel"] });
  await go("#/run/long");
  const cancel = page.getByRole("button", { name: "Cancel", exact: true });
  const dialog = page.getByRole("dialog", { name: "Cancel this run?" });
  for (const no of ["Escape", "Enter"]) {
    await cancel.focus();
    await page.keyboard.press("Enter");
    await dialog.waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Keep running");
    await page.keyboard.press(no);
    await dialog.waitFor({ state: "detached" });
  }
  assert.deepEqual(hub.orders, []);
  await cancel.focus();
  await page.keyboard.press("Enter");
  await dialog.waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  // The message is shown for a moment only.
  await page.locator("[role=status]", { hasText: /^Cancelled$/ }).waitFor({ state: "attached" });
  assert.deepEqual(hub.orders.map(({ order }) => order.kind), ["cancel"]);
});

test("a cancelled run has no errors", async () => {
  hub.add("stopped", items({ kind: "run", agent: "codex" }, ran("sleep 9", "", { status: "unfinished", exitCode: null }), { kind: "end", outcome: "cancelled" }), { phase: "cancelled" });
  await go("#/");
  await page.locator("tr", { hasText: "stopped" }).locator(".status.is-off", { hasText: "Cancelled" }).waitFor();
  await go("#/run/stopped");
  await page.locator(".row-end").waitFor();
  await page.locator("dt:text-is('Errors') + dd", { hasText: /^0$/ }).waitFor();
  await page.getByRole("img", { name: /1 tool calls, 0 errors/ }).waitFor();
  assert.ok(!(await page.locator("button.errors").isVisible()));
  assert.equal(await page.locator(".row.is-trouble").count(), 0);
});

test("a replay shows the details of that moment", async () => {
  const turn = (total) => ({ kind: "turn", tokens: { total, uncachedInput: total, cacheRead: 0, cacheWrite: 0, output: 0, source: "reported" }, costUsd: total / 1000 });
  const file = (path) => ({ kind: "file", path, change: "create", source: "reported", added: 1, removed: 0 });
  hub.add("two turns", items({ kind: "run", agent: "codex" }, turn(100), ran("a", "x", { status: "error" }), file("one.rs"), turn(300), ran("b", "x", { status: "error" }), file("two.rs")), { tokens: 400, costUsd: 0.4, costSource: "reported", toolCalls: 2, turns: 2 });
  await go("#/run/two turns");
  const details = () => page.locator(".facts-list dt").evaluateAll((all) => Object.fromEntries(all.map((one) => [one.textContent, one.nextElementSibling.textContent])));
  const shows = (tokens) => page.locator("dt:text-is('Tokens') + dd", { hasText: new RegExp(`^${tokens}$`) }).waitFor();
  const some = ({ Cost, Turns, "Tool calls": calls, Errors, Events, Duration }) => [Cost, Turns, calls, Errors, Events, Duration];
  await shows(400);
  const whole = some(await details());
  assert.deepEqual(whole.slice(0, 5), ["$0.40 reported", "2", "2", "2", "7"]);
  await page.getByRole("slider").fill("4");
  await shows(100);
  assert.deepEqual(some(await details()), ["$0.10 reported", "1", "1", "1", "4", "3.0 s"]);
  await page.getByText("1 turn ·").waitFor();
  assert.equal(await page.locator(".facts-file").count(), 1);
  assert.match(await page.locator("button.errors").innerText(), /^1/);
  await page.keyboard.press("Escape");
  await shows(400);
  assert.deepEqual(some(await details()), whole);
});

test("the beginning of an id opens its run, and one of several asks which", async () => {
  for (const id of ["abc-1", "abd-2", "x"]) hub.add(id, items(said(`this is ${id}`)));
  await go("#/run/abc?event=1");
  await page.locator(".row.is-selected", { hasText: "this is abc-1" }).waitFor();
  assert.match(page.url(), /#\/run\/abc-1\?event=1$/);
  await go("#/run/ab");
  await page.getByText("Several runs match").waitFor();
  await page.getByRole("link", { name: "abd-2" }).click();
  await row("this is abd-2").waitFor();
});

test("nothing is cut off on a screen of 390 pixels", async () => {
  const [first, second, last] = items({ kind: "run", agent: "codex" }, said("hm"), { kind: "permission", request: "q", title: "May I?" });
  const late = { ...last, first: 90_000, last: 90_000, seq: 12_677_100, lastSeq: 12_677_100, at: "2026-01-01T15:12:00Z" };
  hub.add("narrow", [first, second, late], { phase: "asking", title: "A title that is longer than the screen is wide" }, { takes: ["prompt", "cancel", "permission"] });
  await page.setViewportSize({ width: 390, height: 844 });
  for (const hash of ["#/", "#/run/narrow", "#/spend"]) {
    await go(hash);
    await page.locator(hash === "#/spend" ? ".empty" : hash === "#/" ? "tbody tr" : ".row").first().waitFor();
    if (hash === "#/run/narrow") await page.getByText("15:12:00 · 12,677,100 / 12,677,100").waitFor();
    const outside = await page.evaluate(() => [...document.querySelectorAll("header *, footer *, .filters *")].filter((one) => one.checkVisibility() && one.getBoundingClientRect().width > 1 && !one.closest(".skip, .sr-only")).filter((one) => one.getBoundingClientRect().right > innerWidth + 0.5 || one.getBoundingClientRect().bottom > innerHeight + 0.5 || (one.childElementCount === 0 && getComputedStyle(one).overflowX === "visible" && one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0)).map((one) => `${one.className} ${one.textContent}`));
    assert.deepEqual(outside, [], hash);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), hash);
  }
});

test("only rows in sight exist, in a run of a hundred thousand items too", async () => {
  hub.add("huge", items(...Array.from({ length: 100_000 }, (_, place) => said(`entry ${place}`))));
  await go("#/run/huge/100000");
  await row("entry 99999").waitFor();
  assert.ok((await rows()).length < 120);
  await page.keyboard.press("g");
  await row(/^\D*0:00\D*entry 0$/).first().waitFor();
  assert.ok((await rows()).length < 120);
});

test("the scrubber shows the run as it was", async () => {
  const [first, tool, last] = items(said("begin"), ran("make", "all done"), said("end"));
  hub.add("old", [first, { ...tool, last: 4 }, { ...last, first: 5, last: 5 }]);
  await go("#/run/old");
  await row("end").waitFor();
  await page.getByRole("slider").fill("3");
  await row("end").waitFor({ state: "detached" });
  await row("running").waitFor();
  assert.equal(await page.getByText("all done").count(), 0);
  await page.getByRole("slider").fill("5");
  await page.getByText("all done").waitFor();
  await page.getByLabel("Replay speed").selectOption("200");
  await page.getByRole("button", { name: "To the beginning" }).click();
  await row("end").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Play", exact: true }).click();
  await row("end").waitFor();
});

test("prompt, cancel and answers go to the run, where it takes them", async () => {
  const ask = { kind: "permission", request: "q1", title: "May I?", options: [] };
  hub.add("asks", items(said("hm"), ask), { phase: "asking" }, { takes: ["prompt", "cancel", "permission"] });
  await go("#/run/asks");
  await page.getByRole("button", { name: "Allow" }).click();
  await page.getByText("Allowed", { exact: true }).waitFor();
  await page.getByLabel("Prompt").fill("go on");
  await page.keyboard.press("Enter");
  await page.getByText("Sent", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByRole("button", { name: "Cancel run" }).click();
  await page.getByText("Cancelled", { exact: true }).waitFor();
  const given = hub.orders.map(({ order: { order: _, ...rest } }) => rest);
  assert.deepEqual(given, [{ kind: "permission", requestId: "q1", decision: "allow" }, { kind: "prompt", text: "go on" }, { kind: "cancel" }]);
});

test("who may only look has no buttons", async () => {
  hub.me = { ...hub.me, readOnly: true, scope: "watch" };
  hub.add("asks", items({ kind: "permission", request: "q1", title: "May I?", options: [] }), { phase: "asking" }, { takes: ["prompt", "cancel", "permission"] });
  await go("#/run/asks");
  await page.getByText("Waiting for an answer").waitFor();
  assert.equal(await page.getByRole("button", { name: /Allow|Cancel|Send/ }).count(), 0);
});

test("of a run that is not there nothing but that is shown", async () => {
  await go("#/run/gone");
  await page.getByRole("heading", { name: "This run doesn't exist or was deleted" }).waitFor();
  for (const part of [".waterfall", ".run-tools", ".run-foot", ".link-state"]) assert.ok(!(await page.locator(part).isVisible()), part);
  await page.getByRole("link", { name: "All runs" }).click();
  await page.getByText("No runs yet").waitFor();
});

test("what an agent prints does nothing", async () => {
  const evil = `<script>window.hit=1</script><img src=x onerror="window.hit=1"><svg onload="window.hit=1">`;
  hub.add("evil", items(
    { kind: "run", agent: evil, cwd: evil, model: evil },
    { kind: "prompt", text: clip(evil) },
    said(`${evil}\n[x](javascript:window.hit=1) [y](https://example.org/${evil})\n# ${evil}\n\`\`\`html\n${evil}\n\`\`\``),
    ran(evil, `${evil}\u001b[31m${evil}\u001b[0m\u001b]8;;javascript:window.hit=1\u0007click\u001b]8;;\u0007 abc\u202edef`),
    { kind: "file", path: `${evil}/\u202egpj.exe`, change: "create", source: "reported", diff: clip(`@@ -0,0 +1 @@\n+${evil}`), added: 1, removed: 0 },
    { kind: "permission", request: "q", title: evil, options: [{ id: "x", label: evil }] },
    { kind: "plan", items: [{ text: evil, status: "pending" }] },
    { kind: "error", message: evil, fatal: false },
    { kind: "unrecognized", type: evil, raw: clip(evil) },
  ), { title: evil, phase: "asking", model: evil, agent: evil });
  await go("#/");
  await page.getByRole("link", { name: /window\.hit/ }).waitFor();
  await go("#/run/evil");
  await row("Unrecognized line").waitFor();
  for (const one of await page.locator(".head").all()) await one.click();
  assert.equal(await page.evaluate(() => window.hit), undefined);
  assert.equal(await page.locator("#app script, #app img, #app svg[onload], #app a[href^='javascript']").count(), 0);
  assert.ok((await page.locator(".hidden-mark", { hasText: "U+202E" }).count()) >= 2, "what turns the direction is shown");
});

test("a line of five megabytes is shown at its ends, and whole on demand", async () => {
  const line = "x".repeat(5 << 20);
  const output = { text: "x".repeat(2048), tail: "x".repeat(2048), size: line.length };
  hub.add("wide", items(ran("cat big", "", { output }), said("after it")));
  hub.events.set(1, { kind: "toolEnd", toolCallId: "c", output: line });
  await go("#/run/wide");
  await page.locator(".head").first().click();
  await page.getByRole("button", { name: "Load 5.0 MB more" }).click();
  await page.waitForFunction(() => (document.querySelector(".output")?.textContent?.length ?? 0) > 2_000_000);
  await page.keyboard.press("G");
  await row("after it").waitFor();
});

test("an item is seen as an event, and says where raw lines are", async () => {
  hub.add("plain", items(said("look at me")));
  hub.events.set(1, { kind: "text", delta: "look at me", seq: 1 });
  await go("#/run/plain/1");
  await row("look at me").waitFor();
  await page.keyboard.press("r");
  await page.getByText("\"delta\": \"look at me\"").waitFor();
  await page.getByRole("button", { name: "Raw" }).click();
  await page.getByText("Raw lines stay with the shell.").waitFor();
});

test("what was used is added up by agent, model or project", async () => {
  const tokens = (total) => ({ total, uncachedInput: total, cacheRead: null, cacheWrite: null, output: null });
  hub.usage = [
    { day: "2026-01-01", agent: "codex", model: "m1", project: "p", sessions: 2, tokens: tokens(1000), costUsd: 1.5 },
    { day: "2026-01-03", agent: "codex", model: "m2", project: "p", sessions: 1, tokens: tokens(500), costUsd: null },
  ];
  await go("#/spend");
  await page.getByRole("cell", { name: "$1.50+" }).waitFor();
  assert.ok(await page.locator(".spend-chart canvas").isVisible());
  await page.getByLabel("By", { exact: true }).selectOption("model");
  await page.getByRole("rowheader", { name: "m2" }).waitFor();
  // Uncached input alone has its full name in the tooltip of a turn.
  assert.deepEqual((await page.locator("thead th").allInnerTexts()).slice(2, 5), ["New input", "Cache read", "Output"]);
  assert.deepEqual(await page.locator("tbody tr").allInnerTexts(), ["m1\t2\t1.0k\t0\t0\t1.0k\t$1.50", "m2\t1\t500\t0\t0\t500\t—"]);
});

test("no serious fault for those who can't see or use a mouse", async () => {
  const turn = { kind: "turn", tokens: { total: 10, uncachedInput: 5, cacheRead: 2, cacheWrite: 1, output: 2, reasoning: null, source: "reported" }, costUsd: 0.1 };
  const diff = { kind: "file", path: "a.rs", change: "update", source: "reported", diff: clip("@@ -1 +1 @@\n-let a = 1;\n+let a = \"two\"; // x"), added: 1, removed: 1 };
  hub.add("full", items({ kind: "run", agent: "codex" }, { kind: "prompt", text: clip("do it") }, turn, { kind: "thinking", text: clip("hm") }, ran("make", "\u001b[32mok\u001b[0m"),
    ran("fail", "no", { status: "error", exitCode: 1 }), diff, { kind: "plan", items: [{ text: "one", status: "completed" }] }, { kind: "permission", request: "q", title: "May I?" }, said("# T\n- a `b`\n\n```rs\nlet a = 1;\n```"),
    { kind: "end", outcome: "failed" }), { phase: "asking" }, { takes: ["prompt", "cancel", "permission"] });
  hub.usage = [{ day: "2026-01-01", agent: "codex", model: "m", project: "p", sessions: 1, tokens: { total: 9 }, costUsd: 1 }];
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const [hash, ready] of [["#/", "tbody tr"], ["#/run/full", ".row-end"], ["#/spend", "tbody tr"]]) {
      await go(hash);
      await page.reload();
      await page.locator(ready).first().waitFor();
      // What is selected has another ground.
      await page.keyboard.press("j");
      // Not as a script of the page: its policy would not let it in.
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run());
      const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
      const levels = await page.locator(":is(h1, h2, h3, h4):visible").evaluateAll((all) => all.map((one) => Number(one.tagName[1])));
      assert.ok(levels.every((level, place) => level <= (levels[place - 1] ?? 0) + 1), `headings of ${hash}: ${levels}`);
      assert.deepEqual(serious.map(({ id, nodes }) => `${scheme} ${hash} ${id}: ${nodes[0].html.slice(0, 200)} ${nodes[0].failureSummary}`), []);
    }
  }
});

test("a file of its own shows its run, and asks nobody", async () => {
  hub.add("kept", items({ kind: "run", agent: "codex" }, said("</script>kept")));
  const { shape, messages } = hub.sessions.get("kept");
  const run = JSON.stringify({ session: shape, items: messages.map((one) => one.changes[0].put) }).replaceAll("<", "\\u003c");
  const index = await readFile(new URL("../../../assets/index.html", import.meta.url), "utf8");
  const body = index.replace("</body>", () => `<script type="application/json" id="run">${run}</script></body>`);
  await page.route(`${hub.address}/kept.html`, (route) => route.fulfill({ body, contentType: "text/html" }));
  await go("kept.html");
  await row("kept").waitFor();
  assert.equal(await page.getByRole("link", { name: "All runs" }).count(), 0);
  assert.deepEqual(addresses.filter((address) => address.includes("/v1/")), []);
});

test("the page is light", async () => {
  const sizes = await Promise.all(["index.html", "app.js", "style.css"].map(async (name) => gzipSync(await readFile(new URL(`../../../assets/${name}`, import.meta.url))).length));
  assert.ok(sizes.reduce((sum, size) => sum + size, 0) < 150 * 1024, `${sizes}`);
});
