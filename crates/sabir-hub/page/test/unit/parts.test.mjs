// The parts of the page that need no browser.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const source = join(dirname(fileURLToPath(import.meta.url)), "../../src");
let folder;
let page;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "sabir-page-"));
  const names = ["ansi", "diff", "format", "invisible", "rows", "stream", "syntax", "timeline", "status", "run/spans", "card/tool", "address"];
  const contents = names.map((name) => `export * as ${name.split("/").at(-1)} from "./${name}";`).join("\n");
  await build({ stdin: { contents, resolveDir: source, loader: "ts" }, bundle: true, format: "esm", outfile: join(folder, "parts.mjs"), logLevel: "error" });
  page = await import(pathToFileURL(join(folder, "parts.mjs")));
});
after(() => rm(folder, { recursive: true }));

const item = (id, first, what, more = {}) => ({ id, first, last: first, run: 1, what, ...more });
const clip = (text) => ({ text, size: Buffer.byteLength(text) });

test("colours are kept, everything else that a terminal obeys is dropped", () => {
  const text = "a\u001b[1;31mred\u001b[0m b\u001b[2J\u001b]0;title\u0007c\u001b]8;;http://x\u001b\\link\u001b]8;;\u001b\\\u001b[38;5;196mx\u001b[48;2;1;2;3my";
  const runs = page.ansi.runs(text);
  assert.equal(runs.map((run) => run.text).join(""), "ared bclinkxy");
  assert.deepEqual(runs.filter((run) => run.look.fg).map((run) => [run.text, run.look.fg, run.look.bold]), [["red", "1", true], ["x", "rgb(255 0 0)", false], ["y", "rgb(255 0 0)", false]]);
  assert.equal(runs.at(-1).look.bg, "rgb(1 2 3)");
});

test("a sequence without an end is dropped, a line that was written over is as it stood last", () => {
  assert.equal(page.ansi.runs("\u001b[31").map((run) => run.text).join(""), "");
  assert.equal(page.ansi.runs("10%\r50%\r100%\nnext").map((run) => run.text).join(""), "100%\nnext");
});

test("characters that turn the direction or can't be seen are shown", () => {
  assert.equal(page.invisible.plain("a\u202eb\u200bc\u0000d\ue000"), "aU+202EbU+200Bc^@d\ue000");
  assert.equal(page.invisible.plain("tab\tand\nline 👩\u200d💻"), "tab\tand\nline 👩\u200d💻");
});

test("tokens of a line are the line", () => {
  for (const line of ["let x = \"a // b\"; // c", "def f('it''s'): # x", "fn a<'a>(x: &'a str) -> u8 { 0xff }", "/* open", "\u0000\u202e"]) {
    for (const family of ["c", "script", "json", "sql", "markup", "data", "style"]) {
      assert.equal(page.syntax.tokens(line, family)[0].map((token) => token.text).join(""), line);
    }
  }
  const [, left] = page.syntax.tokens("a /* b", "c");
  assert.deepEqual(page.syntax.tokens("c */ if", "c", left)[0].map((token) => token.is), ["comment", null, "keyword"]);
});

test("lines of a diff have the numbers of both files", () => {
  const found = page.diff.lines("--- a/x\n+++ b/x\n@@ -3,2 +3,3 @@\n same\n-old\n+new\n+more\n");
  assert.deepEqual(found.map(({ sign, old, now }) => [sign, old, now]), [["@", null, null], [" ", 3, 3], ["-", 4, null], ["+", null, 4], ["+", null, 5]]);
});

test("lines that only name the files are left out, hunks without numbers are hunks", () => {
  const signs = (diff) => page.diff.lines(diff).map(({ sign, text, now }) => [sign, text, now]);
  assert.deepEqual(signs("Index: calc.py\n===================================================================\n--- calc.py\tCurrent\n+++ calc.py\tProposed\n@@ -1 +1 @@\n-a\n+b\n"), [["@", "@@ -1 +1 @@", null], ["-", "a", null], ["+", "b", 1]]);
  assert.deepEqual(signs("@@\n-a\n+b\n@@ fn main()\n same\n"), [["@", "@@", null], ["-", "a", null], ["+", "b", null], ["@", "@@ fn main()", null], [" ", "same", null]]);
});

test("a call that is about a file says which", () => {
  const title = (toolKind, fields, title) => page.tool.titleOf({ name: "view", toolKind, title }, { fields, text: "" });
  assert.equal(title("read", { path: "/src/a.rs" }, "Viewing file"), "/src/a.rs");
  assert.equal(title("edit", {}, "Editing file"), "Editing file");
  assert.equal(title("search", { pattern: "fn main", path: "/src" }), "fn main");
});

test("changes make the same items as in the fold", () => {
  const timeline = new page.timeline.Timeline();
  timeline.apply({ put: item(0, 1, { kind: "run", agent: "x" }) });
  timeline.apply({ put: item(1, 2, { kind: "text", text: clip("Hel"), answer: false }) });
  timeline.apply({ grow: { id: 1, last: 3, text: "lo ✓" } });
  timeline.apply({ put: item(5, 9, { kind: "activity", message: "names no place" }) });
  assert.equal(timeline.items.length, 2);
  assert.deepEqual(timeline.items[1].what.text, { text: "Hello ✓", size: 9 });
  assert.equal(timeline.last, 3);
  assert.equal(timeline.of(3), 1);
  assert.equal(timeline.of(1), 0);
  for (let more = 0; more < 40; more += 1) timeline.apply({ grow: { id: 1, last: 4 + more, text: "y".repeat(16 << 10) } });
  const { text, tail, size } = timeline.items[1].what.text;
  assert.equal(size, 9 + 40 * (16 << 10));
  assert.ok(text.length + tail.length < 4 * (64 << 10), "a text that grows for ever is not kept whole");
});

test("what is beneath a call follows it, and is hidden with it", () => {
  const timeline = new page.timeline.Timeline();
  const tool = { kind: "tool", call: "c", name: "Task", toolKind: "delegate" };
  timeline.apply({ put: item(0, 1, tool) });
  timeline.apply({ put: item(1, 2, { kind: "activity", message: "main" }) });
  timeline.apply({ put: item(2, 3, { ...tool, name: "Read", toolKind: "read", status: "error" }, { parent: 0 }) });
  timeline.apply({ put: item(3, 4, { kind: "file", path: "x", change: "update", source: "reported", tool: 2 }) });
  assert.deepEqual(page.rows.rowsOf(timeline, "all", new Set(), Infinity), [0, 2, 3, 1]);
  assert.deepEqual(page.rows.rowsOf(timeline, "all", new Set([0]), Infinity), [0, 1]);
  assert.deepEqual(page.rows.rowsOf(timeline, "all", new Set(), 2), [0, 1]);
  assert.deepEqual(page.rows.rowsOf(timeline, "errors", new Set(), Infinity), [2]);
  assert.deepEqual(timeline.trouble(), [2]);
});

test("the replay shows a call that had not ended as open", () => {
  const timeline = new page.timeline.Timeline();
  const tool = { kind: "tool", call: "c", name: "Bash", toolKind: "execute", status: "error", output: clip("x"), exitCode: 1 };
  timeline.apply({ put: item(0, 1, tool, { last: 5 }) });
  timeline.apply({ put: item(1, 2, { kind: "text", text: clip("abcd"), answer: false }, { last: 5 }) });
  assert.equal(page.timeline.asOf(timeline, 0, 5).what.status, "error");
  assert.equal(page.timeline.asOf(timeline, 0, 3).what.status, undefined);
  assert.equal(page.timeline.asOf(timeline, 1, 3).what.text.text, "ab");
  assert.equal(page.timeline.asOf(timeline, 1, 1), null);
});

test("a stream that comes in pieces is the same stream", () => {
  const whole = Buffer.from("retry: 2000\n\n: hello\n\nid: 7\ndata: [\"ü\"]\n\nevent: live\ndata: {\ndata: }\n\n");
  for (const size of [1, 2, 3, 7, 1000]) {
    const reader = new page.stream.Reader();
    const told = [];
    for (let from = 0; from < whole.length; from += size) told.push(...reader.push(whole.subarray(from, from + size)));
    assert.deepEqual(told, [{ type: "message", id: "7", data: "[\"ü\"]" }, { type: "live", id: null, data: "{\n}" }]);
  }
});

test("what is not known is a dash", () => {
  const { count, dollars, duration } = page.format;
  assert.deepEqual([dollars(null), count(undefined), duration(null)], ["—", "—", "—"]);
  const { about } = page.format;
  assert.deepEqual([about(null, "unknown"), about(2, "reported"), about(2, "computed")], ["—", "$2.00", "≈$2.00"]);
  assert.deepEqual([dollars(0), dollars(0.0042), dollars(1234.5)], ["$0.00", "$0.0042", "$1,234.50"]);
  assert.deepEqual([duration(999), duration(9_940), duration(65_000), duration(3_700_000)], ["999 ms", "9.9 s", "1:05", "1:01:40"]);
});

test("names are said as people say them", () => {
  const { modelName, spaced, beneath } = page.format;
  assert.deepEqual([modelName("claude-sonnet-4-5-20250929"), modelName("gpt-5.2-codex"), modelName(null)], ["claude-sonnet-4-5", "gpt-5.2-codex", null]);
  assert.deepEqual([spaced("rateLimited"), spaced("max_turns")], ["rate limited", "max turns"]);
  assert.deepEqual([beneath("/src/a", "/src/a/b.rs"), beneath("/src/a/", "/src/a/b.rs"), beneath("/src/a", "/src/ab/c.rs"), beneath(null, "/x")], ["b.rs", "b.rs", "/src/ab/c.rs", "/x"]);
});

test("a command is shown without the shell that it is handed to", () => {
  const command = (value) => page.tool.commandOf({ fields: { command: value }, text: "" });
  assert.equal(command(["bash", "-lc", "make test"]), "make test");
  assert.equal(command("/bin/bash -lc 'git tag | head -3'"), "git tag | head -3");
  assert.equal(command("sh -c \"ls\""), "ls");
  assert.equal(command("bashful -c x"), "bashful -c x");
  assert.equal(command("bash -c 'a' && echo 'b'"), "bash -c 'a' && echo 'b'");
});

test("a run without a shell is never away", () => {
  const session = (connected, shell) => ({ connected, shell, overview: { phase: "running" } });
  const words = [session(true, "sabir"), session(false, "sabir"), session(false, null)].map((one) => page.status.statusOf(one).words);
  assert.deepEqual(words, ["Running", "Disconnected", "Running"]);
});

test("items without a time stand where they happened, and a run ends when its last item does", () => {
  const timeline = new page.timeline.Timeline();
  const at = (second) => `2026-01-01T00:00:${String(second).padStart(2, "0")}.000Z`;
  const put = (...rest) => timeline.apply({ put: item(...rest) });
  put(0, 1, { kind: "run", agent: "x", cwd: "/src" });
  put(1, 2, { kind: "text", text: clip("a") }, { at: at(5) });
  put(2, 3, { kind: "text", text: clip("b") });
  put(3, 4, { kind: "text", text: clip("main, late") }, { at: at(40) });
  put(4, 5, { kind: "text", text: clip("sub-agent, told last") }, { at: at(20) });
  put(5, 6, { kind: "end", outcome: "completed" });
  const seconds = timeline.items.map((one) => (timeline.when(one) - Date.parse(at(0))) / 1000);
  assert.deepEqual(seconds, [5, 5, 5, 40, 20, 40]);
  assert.deepEqual([timeline.latest, timeline.folder], [at(40), "/src"]);
});

test("that a run failed is an error only where nothing says why", () => {
  const failed = (...whats) => {
    const timeline = new page.timeline.Timeline();
    whats.forEach((what, id) => timeline.apply({ put: item(id, id + 1, what) }));
    return timeline.trouble();
  };
  assert.deepEqual(failed({ kind: "end", outcome: "failed" }), [0]);
  assert.deepEqual(failed({ kind: "error", message: "429", fatal: true }, { kind: "end", outcome: "failed" }), [0]);
});

test("an event is found by its number in its run, whatever the numbers of messages are", () => {
  const timeline = new page.timeline.Timeline();
  const put = (id, seq, what, more = {}) => timeline.apply({ put: item(id, seq * 3, what, { seq, lastSeq: seq, ...more }) });
  put(0, 1, { kind: "run", agent: "x" }, { lastSeq: 2 });
  timeline.apply({ put: item(1, 5, { kind: "prompt", text: clip("from the runner") }) });
  put(2, 3, { kind: "turn" }, { lastSeq: 9 });
  put(3, 4, { kind: "text", text: clip("a"), answer: false });
  timeline.apply({ grow: { id: 3, last: 20, seq: 6, text: "b" } });
  put(4, 7, { kind: "tool", call: "c", name: "Bash", toolKind: "execute" }, { lastSeq: 8 });
  put(5, 1, { kind: "run", agent: "x" }, { run: 2 });
  const found = [1, 2, 3, 4, 5, 6, 7, 8, 9, 99].map((seq) => timeline.withEvent(seq, 1));
  assert.deepEqual(found, [0, 0, 2, 3, 3, 3, 4, 4, 2, 4]);
  assert.deepEqual([timeline.withEvent(1, 2), timeline.withEvent(1, 3)], [5, -1]);
  assert.equal(timeline.eventCount(), 10, "nine of the first run, one of the second");
});

test("what was cancelled is no error", () => {
  const left = (outcome) => {
    const timeline = new page.timeline.Timeline();
    const tool = (status) => ({ kind: "tool", call: "c", name: "Bash", toolKind: "execute", status });
    [tool("unfinished"), tool("cancelled"), tool("error"), { kind: "end", outcome }].forEach((what, id) => timeline.apply({ put: item(id, id + 1, what) }));
    const { spans } = page.spans.spansOf(timeline, false, 0);
    return [timeline.trouble(), spans.filter((span) => span.colour === "bad").map((span) => span.id), page.rows.rowsOf(timeline, "errors", new Set(), Infinity)];
  };
  assert.deepEqual(left("cancelled"), [[2], [2], [2]]);
  assert.deepEqual(left("failed"), [[0, 2], [0, 2, 3], [0, 2, 3]]);
});

test("a run whose items have one time each has an axis of time", () => {
  const timeline = new page.timeline.Timeline();
  const at = (second) => new Date(second * 1000).toISOString();
  [1, 3, 8].forEach((second, id) => timeline.apply({ put: item(id, id + 1, { kind: "text", text: clip("x") }, { at: at(second) }) }));
  const { timed, from, until } = page.spans.spansOf(timeline, false, 0);
  assert.deepEqual([timed, from, until], [true, 1000, 8000]);
  const still = new page.timeline.Timeline();
  [1, 2].forEach((seq, id) => still.apply({ put: item(id, seq * 10, { kind: "text", text: clip("x") }, { seq, lastSeq: seq, at: at(1) }) }));
  const axis = page.spans.spansOf(still, false, 0);
  assert.deepEqual([axis.timed, axis.from, axis.until], [false, 1, 2], "the numbers are those of events");
});

test("labels of an axis differ, however far it is zoomed", () => {
  const { offset } = page.format;
  for (const step of [1, 2, 5, 10, 20, 50, 100, 200, 500]) {
    const labels = Array.from({ length: 40 }, (_, place) => offset(64_000 + place * step, step));
    assert.equal(new Set(labels).size, labels.length, `${step} ms: ${labels.slice(0, 3)}`);
  }
  assert.deepEqual([offset(200, 100), offset(65_250, 50), offset(59_999.9, 500)], ["0:00.2", "1:05.25", "1:00.0"]);
});

test("an address is read as it was written", () => {
  const { parse, runAddress, format } = page.address;
  const hash = runAddress("a/b?c#d %", { event: 7, run: null, show: "", q: "two words & more" });
  const { page: name, id, message, query } = parse(hash);
  assert.deepEqual([name, id, message, Object.fromEntries(query)], ["run", "a/b?c#d %", null, { event: "7", q: "two words & more" }]);
  assert.deepEqual([parse("#/run/s/12").message, parse("#/run/s/x").message, parse("").page, parse("#/run/%E0").id], [12, null, "", "%E0"]);
  assert.equal(format("", { agent: "" }), "#/");
});

test("the time before a message is the model's, the time before a prompt is not", () => {
  const timeline = new page.timeline.Timeline();
  const at = (second) => new Date(second * 1000).toISOString();
  const put = (...rest) => timeline.apply({ put: item(...rest) });
  put(0, 1, { kind: "prompt", text: clip("go") }, { at: at(0) });
  put(1, 2, { kind: "text", text: clip("I will") }, { at: at(4) });
  put(2, 3, { kind: "tool", toolKind: "execute", status: "ok", durationMs: 3000 }, { at: at(6), until: at(9) });
  put(3, 4, { kind: "prompt", text: clip("more") }, { at: at(60) });
  const { spans } = page.spans.spansOf(timeline, false, 0);
  const told = spans.map((span) => [span.id, span.from / 1000, span.until / 1000, span.lane, span.colour]);
  assert.deepEqual(told, [[0, 0, 0, 0, "ask"], [1, 0, 4, 0, "model"], [2, 4, 6, 0, "model"], [2, 6, 9, 1, "act"], [3, 60, 60, 0, "ask"]]);
});
