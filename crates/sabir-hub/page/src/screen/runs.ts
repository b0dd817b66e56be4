// All runs, the newest first, as they are now.

import { format, replace, runAddress, saveSoon, visit, type Address } from "../address";
import { hub, type Choice } from "../api";
import { button, el, frame, options, say, within } from "../dom";
import { about, ago, base, count, duration, exact, fromWhere, millis, modelName, plural, UNKNOWN, whole } from "../format";
import { icon } from "../icons";
import { plain } from "../invisible";
import type { Deeds } from "../keys";
import { isLive } from "../run/facts";
import { empty, failure, type Screen } from "../screen";
import { isHere, PHASES, statusOf } from "../status";
import { follow } from "../stream";
import type { Me, Session } from "../types";

const SINCE: [string, string][] = [
  ["", "Any time"],
  ["3600", "Last hour"],
  ["86400", "Last day"],
  ["604800", "Last week"],
  ["2592000", "Last 30 days"],
];

/** What a history entry of the list was: the selected row, the scroll position, and how many rows there were. */
interface Place {
  selected: string;
  top: number;
  rows: number;
}

/** The list that was shown last, for links back to it. */
let last: { hash: string; place: Place | null } = { hash: "#/", place: null };

/** The address of the list that was shown last. */
export function listAddress(): string {
  return last.hash;
}

/** Rows of one answer, and of the largest. */
const [PAGE, LARGEST] = [100, 500];
const agents = new Set<string>();
/** So many rows are made at a time, about as many as a screen has: the others when these are seen. */
const AT_ONCE = 30;

export class RunsScreen implements Screen {
  readonly name = "runs";
  readonly title = "Runs";
  readonly element: HTMLElement;
  readonly deeds: Deeds;
  private sessions = new Map<string, Session>();
  private order: string[] = [];
  private next: string | null = null;
  private readonly rows = new Map<string, Row>();
  private readonly end = new AbortController();
  private asked = new AbortController();
  private loaded = false;
  private looking = false;
  private local = false;
  private typing = 0;
  private readonly kept = { agent: "", status: "", since: "", text: "", selected: "" };
  /** Where the list was before Back or a reload, until its rows are there. */
  private place: Place | null = null;
  private readonly search = el("input", { type: "search", placeholder: "Search all runs", "aria-label": "Search all runs", spellcheck: "false", autocomplete: "off" });
  private readonly agent = el("select", { "aria-label": "Agent" });
  private readonly status = el("select", { "aria-label": "Status" });
  private readonly since = el("select", { "aria-label": "Since" });
  private readonly summary = el("div", { class: "runs-summary figure", role: "status" });
  private readonly body = el("tbody");
  private readonly box = el("div", { class: "runs-box" });
  private readonly table: HTMLElement;
  private readonly more = button("more", { class: "runs-more", hidden: true }, "Show older runs");
  private readonly ask = frame(() => this.draw());
  private readonly clock = window.setInterval(this.ask, 1_000);

  constructor(
    private readonly me: Promise<Me>,
    { query }: Address,
  ) {
    const columns = [["status", "Status"], ["run", "Run"], ["project", "Project"], ["now", "Now"], ["time", "Duration"], ["tokens", "Tokens"], ["cost", "Cost"], ["last", "Last activity"]];
    this.table = el(
      "table",
      { class: "runs-table" },
      el("thead", null, el("tr", null, ...columns.map(([name, words]) => el("th", { scope: "col", class: `col-${name}` }, words)))),
      this.body,
    );
    this.box.append(this.table, this.more);
    const filters = el("div", { class: "filters", role: "search" }, el("div", { class: "find" }, icon("search"), this.search), this.agent, this.status, this.since, this.summary);
    this.element = el("main", { class: "runs" }, el("h1", { class: "sr-only" }, "Runs"), filters, this.box);
    this.read(query);
    this.fillFilters();
    this.hears();
    this.deeds = {
      next: () => this.step(1),
      previous: () => this.step(-1),
      open: () => this.kept.selected !== "" && this.open(this.kept.selected),
      search: () => this.search.select(),
      more: () => void this.load(true),
      clear: () => this.clear(),
      again: () => void this.load(false),
    };
    void this.load(false).then(() => this.learn());
    void follow("/v1/sessions/events", (told) => {
      for (const { type, data } of told) if (type === "session") this.hear(JSON.parse(data) as Session);
      this.ask();
    }, (link, error) => {
      this.element.dataset.link = link;
      if (error === null && link === "open" && this.loaded) void this.load(false);
    }, this.end.signal);
  }

  /** Takes up what the address says, and where its history entry was. */
  private read(query: URLSearchParams): void {
    const among = (name: string, known: [string, string][]) => known.find(([value]) => value === query.get(name))?.[0] ?? "";
    Object.assign(this.kept, { agent: query.get("agent") ?? "", status: among("status", PHASES), since: among("since", SINCE), text: query.get("q") ?? "" });
    const state = (history.state as { list?: Place } | null)?.list ?? (last.hash === this.hash() ? last.place : null);
    if (state && typeof state.top === "number" && typeof state.rows === "number") {
      this.place = state;
      this.kept.selected = String(state.selected);
    }
    if (this.kept.agent !== "") agents.add(this.kept.agent);
    last = { hash: this.hash(), place: this.place };
  }

  private hash(): string {
    const { agent, status, since, text } = this.kept;
    return format("", { agent, status, since, q: text });
  }

  /** Keeps what is chosen in the address, and the position in its history entry. */
  private save(): void {
    last = { hash: this.hash(), place: { selected: this.kept.selected, top: this.box.scrollTop, rows: this.order.length } };
    const { hash, place } = last;
    saveSoon(() => replace(hash, { list: place }));
  }

  leave(): void {
    this.end.abort();
    clearTimeout(this.typing);
    this.asked.abort();
    clearInterval(this.clock);
  }

  private choice(): Partial<Choice> {
    const { kept } = this;
    const seconds = Number(kept.since);
    const since = seconds > 0 ? new Date(Date.now() - seconds * 1000).toISOString() : "";
    return { agent: kept.agent, status: kept.status, since, text: kept.text };
  }

  private async load(more: boolean): Promise<void> {
    this.asked.abort();
    this.asked = new AbortController();
    // What is loaded anew has as many rows as before.
    const limit = more ? PAGE : Math.min(LARGEST, Math.max(PAGE, this.place?.rows ?? 0, this.order.length));
    // To look through everything that was ever said may take a moment: what is shown until then is not the answer.
    const slow = window.setTimeout(() => this.looks(true), 250);
    try {
      const [{ sessions, next }, { local }] = await Promise.all([hub.sessions(this.choice(), limit, more ? this.next : null, this.asked.signal), this.me]);
      this.local = local;
      if (!more) [this.sessions, this.order] = [new Map(), []];
      for (const session of sessions) {
        if (!this.sessions.has(session.session)) this.order.push(session.session);
        this.sessions.set(session.session, session);
        this.know([session.overview.agent]);
      }
      this.next = next;
      this.loaded = true;
      this.box.querySelector(".empty")?.remove();
      this.ask();
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") return;
      this.table.hidden = true;
      this.box.querySelector(".empty")?.remove();
      this.box.append(failure(error, "again"));
    } finally {
      clearTimeout(slow);
      this.looks(false);
    }
  }

  /** Asks for the agents of runs that are not in the list yet. Nobody waits for that. */
  private async learn(): Promise<void> {
    if (!this.loaded) return;
    try {
      this.know(await hub.agents());
    } catch {
      // Those of the list are known.
    }
  }

  private looks(now: boolean): void {
    this.looking = now;
    this.ask();
  }

  /** A session changed. One that is not on this page comes on it only when it surely belongs there. */
  private hear(session: Session): void {
    const { agent, phase } = session.overview;
    this.know([agent]);
    const known = this.sessions.has(session.session);
    const { kept } = this;
    const fits = (kept.agent === "" || agent === kept.agent) && (kept.status === "" || phase === kept.status);
    if (known && fits) {
      this.sessions.set(session.session, session);
    } else if (known) {
      this.sessions.delete(session.session);
      this.order = this.order.filter((id) => id !== session.session);
    } else if (fits && kept.text === "" && this.loaded && this.isNew(session)) {
      this.sessions.set(session.session, session);
      this.order.unshift(session.session);
    }
  }

  private isNew(session: Session): boolean {
    const first = this.sessions.get(this.order[0] ?? "");
    return first === undefined || session.created >= first.created;
  }

  private know(names: (string | null | undefined)[]): void {
    const before = agents.size;
    for (const name of names) if (name) agents.add(name);
    if (agents.size > before) this.fillFilters();
  }

  private fillFilters(): void {
    options(this.agent, [["", "Any agent"], ...[...agents].sort().map((agent) => [agent, agent] as [string, string])], this.kept.agent);
    if (this.status.options.length > 0) return;
    options(this.status, [["", "Any status"], ...PHASES], this.kept.status);
    options(this.since, SINCE, this.kept.since);
    this.search.value = this.kept.text;
  }

  private hears(): void {
    const changed = () => {
      Object.assign(this.kept, { agent: this.agent.value, status: this.status.value, since: this.since.value, text: this.search.value.trim() });
      this.renew();
    };
    this.box.addEventListener("scroll", () => this.place === null && this.save(), { passive: true });
    for (const select of [this.agent, this.status, this.since]) select.addEventListener("change", changed);
    this.search.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = window.setTimeout(changed, 180);
    });
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.search.blur();
      if (event.key === "Enter" || event.key === "ArrowDown") {
        this.search.blur();
        this.step(1);
      }
    });
    this.body.addEventListener("click", (event) => {
      const row = within(event, "data-session");
      // A link opens itself, also in another tab.
      if (row && !within(event, "href")) this.open(row.dataset.session ?? "");
    });
  }

  private open(id: string): void {
    visit(runAddress(id, { q: this.kept.text }));
  }

  /** Other filters: another list, from its beginning. */
  private renew(): void {
    this.place = null;
    this.box.scrollTop = 0;
    this.save();
    void this.load(false);
  }

  private clear(): void {
    Object.assign(this.kept, { agent: "", status: "", since: "", text: "" });
    [this.agent.value, this.status.value, this.since.value, this.search.value] = ["", "", "", ""];
    this.renew();
  }

  private step(by: number): void {
    if (this.order.length === 0) return;
    const { kept } = this;
    const place = this.order.indexOf(kept.selected);
    const to = place < 0 ? (by > 0 ? 0 : this.order.length - 1) : Math.max(0, Math.min(this.order.length - 1, place + by));
    kept.selected = this.order[to] as string;
    this.draw();
    const row = this.rows.get(kept.selected);
    row?.element.scrollIntoView({ block: "nearest" });
    row?.title.focus({ preventScroll: true });
    this.save();
  }

  private draw(): void {
    if (!this.loaded) return;
    const now = Date.now();
    const nothing = this.order.length === 0;
    this.table.hidden = nothing;
    this.more.hidden = this.next === null;
    if (nothing && !this.box.querySelector(".empty")) this.box.append(this.nothing());
    if (!nothing) this.box.querySelector(".empty")?.remove();
    let next = this.body.firstElementChild;
    let made = 0;
    for (const id of this.order) {
      const session = this.sessions.get(id) as Session;
      let row = this.rows.get(id);
      if (!row) {
        made += 1;
        if (made > AT_ONCE) {
          this.ask();
          continue;
        }
        row = new Row();
        this.rows.set(id, row);
      }
      row.fill(session, now, id === this.kept.selected, runAddress(id, { q: this.kept.text }));
      if (row.element === next) next = next.nextElementSibling;
      else this.body.insertBefore(row.element, next);
    }
    while (next) {
      const after: Element | null = next.nextElementSibling;
      next.remove();
      next = after;
    }
    if (this.place !== null && made <= AT_ONCE) {
      // All rows are there, so the list is as high as it was.
      this.box.scrollTop = this.place.top;
      this.place = null;
    }
    const all = [...this.sessions.values()];
    const running = all.filter((one) => isLive(one) && isHere(one)).length;
    const asks = all.filter((one) => one.overview.phase === "asking" && isHere(one)).length;
    const words = [this.next === null ? plural(all.length, "run") : `${whole(all.length)}+ runs`, running > 0 ? `${running} live` : "", asks > 0 ? `${asks} need${asks === 1 ? "s" : ""} approval` : ""];
    // Without a run that does something now, its column is room for the others.
    this.table.classList.toggle("is-quiet", !all.some((one) => isLive(one) && one.overview.tool));
    say(this.summary, this.looking ? "Searching…" : nothing ? "" : words.filter(Boolean).join(" · "));
  }

  private nothing(): HTMLElement {
    const { kept } = this;
    if (kept.agent || kept.status || kept.since || kept.text) {
      return empty("No matching runs", "Try different words or clear filters", button("clear", {}, "Clear filters"));
    }
    const hub = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}`;
    const command = this.local ? "sabir run claude \"say hello\"" : `sabir shell --hub ${hub} --session first -- localexec "make test"`;
    const words = this.local
      ? "Runs of the agents on this machine appear here, old ones too. To start one:"
      : "Runs appear here when a runner connects. To start one:";
    const demo = this.local ? [el("p", null, "Or try the demo (no agent needed):"), el("pre", { class: "command" }, "sabir demo")] : [];
    return empty("No runs yet", words, el("pre", { class: "command" }, command), ...demo);
  }
}

/** A row of the table. */
class Row {
  readonly element: HTMLElement;
  readonly title = el("a", { class: "runs-title" });
  private readonly status = el("span", { class: "status" });
  private readonly agent = el("span", { class: "runs-agent" });
  private readonly project = el("td", { class: "col-project" });
  private readonly now = el("td", { class: "col-now" });
  private readonly time = el("td", { class: "col-time" });
  private readonly tokens = el("td", { class: "col-tokens" });
  private readonly cost = el("td", { class: "col-cost" });
  private readonly last = el("td", { class: "col-last" });

  constructor() {
    const [status, run] = [el("td", { class: "col-status" }, this.status), el("td", { class: "col-run" }, this.title, this.agent)];
    this.element = el("tr", null, status, run, this.project, this.now, this.time, this.tokens, this.cost, this.last);
  }

  fill(session: Session, now: number, selected: boolean, address: string): void {
    const { overview } = session;
    const status = statusOf(session);
    this.status.className = `status is-${status.look}`;
    say(this.status, status.words, status.detail);
    if (this.title.getAttribute("href") !== address) this.title.setAttribute("href", address);
    this.element.dataset.session = session.session;
    this.element.classList.toggle("is-selected", selected);
    this.element.classList.toggle("is-asking", status.look === "asks");
    const title = plain(overview.title ?? session.session);
    say(this.title, title, title);
    say(this.agent, plain([overview.agent, modelName(overview.model)].filter(Boolean).join(" · ")), plain(overview.model ?? ""));
    const folder = overview.cwd ?? overview.workspace;
    say(this.project, plain(base(folder)) || UNKNOWN, plain(folder ?? ""));
    const live = isLive(session);
    say(this.now, live ? plain(overview.tool ?? "") : "");
    const [from, until] = [millis(overview.started), millis(overview.last)];
    // A log that tells one moment alone does not say how long it took.
    say(this.time, from === null || (!live && until === from) ? UNKNOWN : duration((live && isHere(session) ? now : (until ?? now)) - from));
    say(this.tokens, count(overview.tokens));
    say(this.cost, about(overview.costUsd, overview.costSource), overview.costUsd == null ? "" : fromWhere(overview.costSource));
    const last = overview.last ?? session.updated;
    say(this.last, ago(last, now), exact(last));
  }
}
