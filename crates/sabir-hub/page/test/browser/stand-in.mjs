// A hub that tells what a test wants it to tell: the same addresses, the same streams, no log behind them.

import { readFile } from "node:fs/promises";
import http from "node:http";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const assets = join(dirname(fileURLToPath(import.meta.url)), "../../../assets");
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8" };

export class StandIn {
  sessions = new Map();
  events = new Map();
  orders = [];
  usage = [];
  /** How often the timeline was asked for, and after which message. */
  asked = [];
  me = { readOnly: false, scope: "operate", version: "0.0.0", local: false };
  #streams = new Set();
  #lists = new Set();
  #server;
  #port = 0;

  async start() {
    this.#server = http.createServer((request, answer) => void this.#answer(request, answer));
    await new Promise((resolve) => this.#server.listen(this.#port, "127.0.0.1", resolve));
    this.#port = this.#server.address().port;
    return this;
  }

  /** As a hub that is killed: every connection ends. */
  async stop() {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    this.#streams.clear();
    this.#lists.clear();
  }

  get address() {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** A session with these items; `overview` says more of it. */
  add(session, items, overview = {}, more = {}) {
    const now = new Date().toISOString();
    const known = {
      agent: "claude-code", agentVersion: "1", agentSessionId: null, model: "some-model", cwd: "/src/thing", workspace: null, title: session, phase: "success",
      tool: null, runs: 1, turns: 1, toolCalls: 1, fileChanges: 0, errors: 0, tokens: 1234, costUsd: null, costSource: "unknown", started: now, last: now, ...overview,
    };
    const shape = { session, connected: true, last: items.length, folded: items.length, overview: known, shell: "sabir", takes: [], created: now, updated: now, ...more };
    this.sessions.set(session, { shape, messages: items.map((item) => ({ number: item.last, changes: [{ put: item }] })) });
    for (const stream of this.#lists) stream.write(`event: session\ndata: ${JSON.stringify(shape)}\n\n`);
  }

  /** One more message of a session. */
  tell(session, number, changes) {
    const known = this.sessions.get(session);
    known.messages.push({ number, changes });
    known.shape.last = number;
    for (const { stream, of } of this.#streams) if (of === session) stream.write(message({ number, changes }));
  }

  async #answer(request, answer) {
    const { pathname, searchParams } = new URL(request.url, "http://hub");
    answer.setHeader("Content-Security-Policy", POLICY);
    answer.setHeader("X-Content-Type-Options", "nosniff");
    const json = (value, status = 200) => answer.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    const file = /^\/(?:assets\/)?(index\.html|app\.js|style\.css)?$/.exec(pathname);
    if (file) {
      const name = file[1] ?? "index.html";
      return answer.writeHead(200, { "content-type": TYPES[name.split(".")[1]] }).end(await readFile(join(assets, name)));
    }
    if (pathname === "/v1/me") return json(this.me);
    if (pathname === "/v1/usage") return json({ schema: "sabir.usage-cube/1", rows: this.usage });
    if (pathname === "/v1/agents") return json({ agents: [...new Set([...this.sessions.values()].map(({ shape }) => shape.overview.agent))] });
    if (pathname === "/v1/sessions") return json(this.#list(searchParams));
    if (pathname === "/v1/sessions/events") {
      answer.writeHead(200, { "content-type": "text/event-stream" }).write("event: reset\ndata: {}\n\n");
      this.#lists.add(answer);
      return answer.on("close", () => this.#lists.delete(answer));
    }
    const [, , , id, what, number] = pathname.split("/");
    const known = this.sessions.get(decodeURIComponent(id ?? ""));
    if (!known) return json({ code: "notFound", message: "there is no such session" }, 404);
    if (what === undefined) return json(known.shape);
    if (what === "timeline") return this.#watch(known, request, answer);
    if (what === "events") {
      const event = this.events.get(Number(number));
      return event ? json(event) : json({ code: "notFound", message: "there is no such event" }, 404);
    }
    if (what === "lines") return json({ code: "notFound", message: "Raw lines stay with the shell." }, 404);
    if (what === "orders" && request.method === "POST") {
      let body = "";
      for await (const piece of request) body += piece;
      const order = this.orders.length + 1;
      this.orders.push({ order: { order, ...JSON.parse(body) }, taken: { accepted: true } });
      return json({ order }, 201);
    }
    if (what === "orders") return json({ orders: this.orders.filter((one) => one.order.order > Number(searchParams.get("after"))) });
    return json({ code: "notFound", message: "there is nothing here" }, 404);
  }

  #list(wanted) {
    const fits = ({ shape, messages }) =>
      (!wanted.get("agent") || shape.overview.agent === wanted.get("agent")) &&
      (!wanted.get("prefix") || shape.session.startsWith(wanted.get("prefix"))) &&
      (!wanted.get("status") || shape.overview.phase === wanted.get("status")) &&
      (!wanted.get("text") || JSON.stringify(messages).includes(wanted.get("text")));
    const [found, many] = [[...this.sessions.values()].filter(fits).map((one) => one.shape).reverse(), Number(wanted.get("limit") ?? 100)];
    return { sessions: found.slice(0, many), next: found.length > many ? "more" : null };
  }

  #watch(known, request, answer) {
    const after = Number(request.headers["last-event-id"] ?? 0);
    this.asked.push(after);
    answer.writeHead(200, { "content-type": "text/event-stream" }).write("retry: 2000\n\n");
    known.messages.filter((one) => one.number > after).forEach((one) => answer.write(message(one)));
    answer.write(`event: live\ndata: {"last":${known.shape.last}}\n\n`);
    const entry = { stream: answer, of: known.shape.session };
    this.#streams.add(entry);
    answer.on("close", () => this.#streams.delete(entry));
  }
}

function message({ number, changes }) {
  return `id: ${number}\ndata: ${JSON.stringify(changes)}\n\n`;
}

/** Items of a run, numbered as they come. */
export function items(...whats) {
  const begin = Date.parse("2026-01-01T00:00:00Z");
  return whats.map((what, id) => ({ id, first: id + 1, last: id + 1, seq: id + 1, lastSeq: id + 1, line: id + 1, at: new Date(begin + id * 1000).toISOString(), run: 1, what }));
}

export const clip = (text) => ({ text, size: Buffer.byteLength(text) });
export const said = (text) => ({ kind: "text", text: clip(text), answer: false });
export const ran = (command, output, more = {}) => ({
  kind: "tool", call: command, name: "Bash", toolKind: "execute", input: clip(JSON.stringify({ command })), output: clip(output), status: "ok", exitCode: 0, durationMs: 1200, ...more,
});
