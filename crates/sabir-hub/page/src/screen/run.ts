// One run: its timeline, and everything around it.
//
//   stream of changes ──► Timeline ──► rows ──► VirtualList ──► cards
//                             └──► waterfall, facts, search, replay          once per frame, however much came

import { numberOf, replace, runAddress, saveSoon, type Address } from "../address";
import { at, hub, Refused } from "../api";
import { card, nameOf, type Context, type Mode } from "../card";
import { button, el, frame, options, say, within } from "../dom";
import { base } from "../format";
import { icon } from "../icons";
import { plain } from "../invisible";
import type { Deeds } from "../keys";
import { moreRows, rowsOf, SHOWS, type Show } from "../rows";
import { deedsOf } from "../run/deeds";
import { Facts, isLive } from "../run/facts";
import { Find } from "../run/find";
import { Fresh } from "../run/fresh";
import { guess } from "../run/guess";
import { layout } from "../run/layout";
import { copyLink, itemAddress } from "../run/link";
import { Looks } from "../run/looks";
import { missing, nothing } from "../run/nothing";
import { Orders } from "../run/orders";
import { Replay } from "../run/replay";
import { scrolls } from "../run/scrolls";
import { Waterfall } from "../run/waterfall";
import { empty, type Screen } from "../screen";
import { statusOf } from "../status";
import { follow, type Link, type Told } from "../stream";
import { onTheme } from "../theme";
import { asOf, Timeline } from "../timeline";
import { listAddress } from "./runs";
import type { Exported, Item, Me, Session, TimelineChange } from "../types";
import { VirtualList } from "../virtual";

/** An event that the address names: by its `seq`, or by the number of its message in the log. */
type Wanted = { seq: number; run: number } | { message: number };

/** Where a history entry was scrolled to: the row at the upper edge, and how far down in it the edge was. */
interface Place {
  top: number;
  into: number;
}

/** Facts and drawings are made anew at most so often. */
const CALM = 400;

export class RunScreen implements Screen {
  readonly name = "run";
  title = "Run";
  readonly element: HTMLElement;
  readonly deeds: Deeds;
  readonly timeline = new Timeline();
  private session: Session | null = null;
  private rows: number[] = [];
  private counted = 0;
  private show: Show = "all";
  selected = -1;
  following = false;
  private live = false;
  /** An event that the address names, until it is there. */
  private wanted: Wanted | null = null;
  /** Where the list was before Back or a reload, until that row is there. */
  private place: Place | null = null;
  private readonly folded = new Set<number>();
  private readonly end = new AbortController();
  private readonly list: VirtualList;
  readonly find: Find;
  readonly replay: Replay;
  private readonly facts: Facts;
  private readonly waterfall: Waterfall;
  readonly orders: Orders;
  readonly looks: Looks;
  private readonly feed = el("div", { class: "feed", role: "feed", tabindex: 0, "aria-label": "Timeline", "aria-busy": "true" });
  private readonly heading = el("h1", null, "…");
  private readonly status = el("span", { class: "status" });
  private readonly link = el("span", { class: "link-state", role: "status" });
  /** Says to a screen reader what was chosen. */
  private readonly chosen = el("div", { class: "sr-only", role: "status" });
  private readonly jump = button("follow", { class: "jump", hidden: true }, icon("down"), el("span", null, "Follow"));
  private readonly errors = button("next-error", { class: "errors", hidden: true, title: "Next error (n)" });
  private readonly shows = el("select", { "aria-label": "Show" });
  private readonly ask = frame(() => this.refresh());
  private calmed = 0;
  private calmLast = -1;
  private pause = CALM;
  private later = 0;
  private readonly clock = window.setInterval(() => this.live && this.facts.tick(this.session, this.timeline), 1_000);
  private readonly fresh = new Fresh(() => hub.session(this.id).then((session) => this.take(session), () => undefined));
  private readonly unhear = onTheme(() => this.waterfall.ask());

  constructor(
    private readonly id: string,
    address: Address | null,
    me: Promise<Me>,
    readonly exported: Exported | null,
  ) {
    this.orders = new Orders(id, me, () => this.list.ask());
    this.looks = new Looks(id, this.timeline, () => this.list.ask());
    this.facts = new Facts((item) => this.go(item));
    this.waterfall = new Waterfall((item) => plain(nameOf(this.timeline.items[item] as Item)), (item) => this.go(item));
    this.find = new Find(this.timeline, (item) => this.go(item), () => this.list.ask());
    this.replay = new Replay(this.timeline, (until) => this.moved(until));
    this.element = layout({
      back: exported === null ? listAddress() : null,
      title: [this.heading, this.status, this.link, this.orders.cancel],
      tools: [this.find.element, this.shows, this.errors],
      body: [this.waterfall.element, el("div", { class: "run-main" }, el("div", { class: "feed-box" }, this.feed, this.chosen, this.jump), this.facts.element)],
      foot: [this.replay.element, this.orders.element],
    });
    this.list = new VirtualList(this.feed, {
      make: (key, place) => card(this.item(key), place, this.rows.length, this.context()),
      version: (key) => `${this.timeline.versions[key]}.${this.looks.version(key)}.${key === this.selected}.${this.replayed(key)}.${this.live}`,
      guess: (key) => guess(this.timeline.items[key] as Item),
      drawn: () => this.drawn(),
    });
    this.deeds = deedsOf(this);
    this.hears();
    if (address) this.read(address);
    if (exported) this.open(exported);
    else void this.load();
  }

  leave(): void {
    this.end.abort();
    clearInterval(this.clock);
    clearTimeout(this.later);
    this.fresh.stop();
    this.replay.pause();
    this.list.destroy();
    this.waterfall.destroy();
    this.facts.meter.destroy();
    this.unhear();
  }

  /** Takes up what an address of this run says, and where its history entry was scrolled to. */
  read({ query, message }: Address): void {
    const seq = numberOf(query.get("event"));
    this.wanted = seq !== null ? { seq, run: numberOf(query.get("run")) ?? 1 } : message !== null ? { message } : null;
    const place = (history.state as { place?: Place } | null)?.place;
    this.place = place && typeof place.top === "number" && typeof place.into === "number" ? place : null;
    const show = SHOWS.find(([name]) => name === query.get("show"))?.[0] ?? "all";
    if (show !== this.show) this.filter(show);
    const words = query.get("q") ?? "";
    if (words !== this.find.input.value) this.find.begun(words, this.wanted !== null || this.place !== null);
    if (this.wanted === null) this.selected = -1;
    this.ask();
  }

  /** Keeps what is chosen in the address, and the position in its history entry. */
  private save(): void {
    if (this.exported) return;
    saveSoon(() => {
      // What the address names is not there yet.
      if (this.wanted !== null || this.place !== null || this.timeline.items.length === 0) return;
      const more = { show: this.show === "all" ? "" : this.show, q: this.find.input.value.trim() };
      const item = this.timeline.items[this.selected];
      const position = this.following ? null : this.list.position();
      const hash = item ? itemAddress(this.id, item, more) : runAddress(this.id, more);
      replace(hash, position && { place: { top: position[0], into: position[1] } });
    });
  }

  focus(): void {
    this.feed.focus();
  }

  private open({ session, items }: Exported): void {
    for (const item of items) this.timeline.apply({ put: item });
    this.take(session);
    this.link.hidden = true;
    this.feed.setAttribute("aria-busy", "false");
    this.ask();
  }

  private async load(): Promise<void> {
    // Both at once: the list need not wait for the head.
    void follow(at(this.id, "/timeline"), (told) => this.hear(told), (link, error) => this.linked(link, error), this.end.signal);
    try {
      this.take(await hub.session(this.id));
      this.follow(this.live && this.wanted === null && this.place === null && this.selected < 0);
    } catch {
      // The stream says the same, and says it again when it works again.
    }
  }

  private linked(link: Link, error: Refused | null): void {
    if (error) {
      if (error.status === 401) return;
      if (error.status === 404) void this.resolve(error);
      else missing(this.element, this.heading, this.feed, error);
      return;
    }
    this.link.dataset.link = link;
    if (link === "open" && this.live) this.fresh.want();
    say(this.link, link === "lost" ? "connection lost, trying again" : link === "connecting" ? "connecting" : "");
  }

  /** Opens the one run whose id starts so. */
  private async resolve(error: Refused): Promise<void> {
    const { sessions, next } = await hub.sessions({ prefix: this.id }, 20, null, this.end.signal).catch(() => ({ sessions: [], next: null }));
    if (this.end.signal.aborted) return;
    const [only, ...others] = sessions;
    if (only?.session === this.id) {
      // It began meanwhile.
      void this.load();
      return;
    }
    if (only && others.length === 0) {
      location.replace(location.hash.replace(/^#\/run\/[^/?]*/, `#/run/${encodeURIComponent(only.session)}`));
      return;
    }
    missing(this.element, this.heading, this.feed, error);
    if (!only) return;
    const links = sessions.map(({ session, overview }) => el("li", null, el("a", { href: runAddress(session) }, plain(session)), " ", plain(overview.title ?? "")));
    const list = el("ul", { class: "choices" }, ...links, next !== null && el("li", null, "…"));
    this.feed.parentElement?.replaceChildren();
    this.element.querySelector(".feed-box")?.replaceChildren(empty("Several runs match", `Their ids start with ${plain(this.id)}.`, list));
  }

  private hear(told: Told[]): void {
    for (const { type, data } of told) {
      if (type === "live") this.feed.setAttribute("aria-busy", "false");
      else if (type === "message") for (const change of JSON.parse(data) as TimelineChange[]) this.timeline.apply(change);
    }
    this.ask();
  }

  private take(session: Session): void {
    this.session = session;
    const { overview } = session;
    const wasLive = this.live;
    this.live = isLive(session);
    const words = overview.title ?? (overview.agent ? `${overview.agent} in ${base(overview.cwd)}` : session.session);
    say(this.heading, plain(words), plain(words));
    this.title = plain(words).slice(0, 80);
    document.title = `${this.title} · Sabir`;
    const status = statusOf(session);
    this.status.className = `status is-${status.look}`;
    say(this.status, status.words);
    this.orders.set(session);
    // The hub adds up what it has a moment after it has it.
    if (this.live && !this.exported && session.folded < session.last) this.fresh.want();
    if (wasLive && !this.live) this.follow(false);
    this.ask();
  }

  private refresh(): void {
    const [items, until] = [this.timeline.items, this.replay.until ?? Infinity];
    const plainly = !this.timeline.reordered && until === Infinity && this.folded.size === 0;
    if (plainly && this.counted > 0) {
      const same = this.rows.length;
      moreRows(this.timeline, this.show, this.rows, this.counted);
      this.list.set(this.rows, same);
    } else {
      this.rows = rowsOf(this.timeline, this.show, this.folded, until);
      this.list.set(this.rows);
    }
    this.counted = items.length;
    this.replay.grown();
    this.find.grown();
    this.reach();
    const now = performance.now();
    if (now - this.calmed >= this.pause) this.calm(now);
    else if (this.later === 0) {
      this.later = window.setTimeout(() => {
        this.later = 0;
        this.ask();
      }, this.pause);
    }
    nothing(this.feed, this.rows.length, this.show, this.live);
  }

  private calm(now: number): void {
    this.calmed = now;
    if (this.timeline.last !== this.calmLast) {
      this.calmLast = this.timeline.last;
      if (!this.exported && (this.live || this.session === null)) this.fresh.want();
    }
    this.waterfall.set(this.timeline, this.live);
    this.facts.set(this.session, this.timeline, Date.now(), this.replay.until);
    const count = this.timeline.troubleAt(this.replay.until).length;
    this.errors.hidden = count === 0;
    this.errors.replaceChildren(icon("warning"), String(count), el("span", { class: "errors-word" }, count === 1 ? "error" : "errors"));
    // Of a very long run they take longer, and then they come less often.
    this.pause = Math.max(CALM, 8 * (performance.now() - now));
  }

  /** Goes to the event that the address names, once it is known. */
  private reach(): void {
    if ((this.wanted === null && this.place === null) || this.timeline.items.length === 0) return;
    const busy = this.feed.getAttribute("aria-busy") === "true";
    const { wanted, place } = this;
    if (wanted !== null) {
      const known = "seq" in wanted ? this.timeline.seqOf(wanted.run) >= wanted.seq : this.timeline.last >= wanted.message;
      if (!known && busy) return;
    }
    if (place !== null && busy && this.timeline.items.length <= place.top) return;
    [this.wanted, this.place] = [null, null];
    const id = wanted === null ? -1 : "seq" in wanted ? this.timeline.withEvent(wanted.seq, wanted.run) : this.timeline.of(wanted.message);
    if (place !== null && this.rows.includes(place.top)) {
      this.follow(false);
      this.selected = id;
      this.list.reveal(place.top, place.into);
    } else if (id >= 0) {
      this.go(id);
    }
  }

  private item(key: number): Item {
    const item = this.timeline.items[key] as Item;
    return this.replay.until === null ? item : (asOf(this.timeline, key, this.replay.until) ?? item);
  }

  private replayed(key: number): number {
    const { until } = this.replay;
    const item = this.timeline.items[key] as Item;
    return until === null || item.last <= until ? 0 : until;
  }

  private context(): Context {
    return {
      link: (item) => (this.exported ? null : itemAddress(this.id, item)),
      trouble: (id) => this.timeline.isTrouble(id),
      start: this.timeline.start(),
      when: (item) => this.timeline.when(item), folder: this.timeline.folder,
      selected: this.selected,
      opened: (id, part) => this.looks.opened(id, part),
      whole: (id, part) => this.looks.whole(id, part),
      mode: (id) => this.looks.mode(id),
      fetched: (id) => this.looks.fetched(id),
      online: this.exported === null,
      mayAnswer: this.orders.may("permission"),
      folded: this.folded,
      beneath: (id) => this.timeline.beneath.get(id)?.filter((one) => this.timeline.items[one]?.parent === id).length ?? 0,
      depth: (id) => this.timeline.depths[id] ?? 0,
      live: this.live || this.replay.until !== null,
      sent: (request) => this.orders.answers.get(request) ?? null,
    };
  }

  private drawn(): void {
    this.waterfall.look(this.list.inSight(), this.selected);
    const drawn = [...this.list.drawnRows()].map(([, made]) => made.element);
    this.find.mark(drawn);
    for (const row of drawn) if (row.getAttribute("aria-setsize") !== String(this.rows.length)) row.setAttribute("aria-setsize", String(this.rows.length));
    this.jump.hidden = this.following || this.list.atEnd() || !this.live;
  }

  filter(show: Show): void {
    this.show = show;
    this.shows.value = show;
    this.rows = rowsOf(this.timeline, show, this.folded, this.replay.until ?? Infinity);
    this.list.set(this.rows);
    this.feed.parentElement?.querySelector(".empty")?.remove();
    this.save();
    this.ask();
  }

  /** Follows what comes, at the end of the list. */
  follow(on: boolean): void {
    this.following = on;
    this.list.stick(on);
    this.jump.hidden = on || !this.live;
  }

  /** Chooses an item and brings it into sight. */
  go(id: number, where: "center" | "near" = "center"): void {
    if (this.replay.until !== null && (this.timeline.items[id]?.first ?? 0) > this.replay.until) this.replay.end();
    if (!this.rows.includes(id)) this.unhide(id);
    this.follow(false);
    this.selected = id;
    if (this.find.active) this.looks.open(id);
    this.list.reveal(id, where);
    say(this.chosen, plain(nameOf(this.timeline.items[id] as Item)).slice(0, 200));
    this.save();
  }

  /** What hides an item gives way when somebody wants to see it. */
  private unhide(id: number): void {
    for (let above: number | null | undefined = this.timeline.items[id]?.parent; above != null; above = this.timeline.items[above]?.parent) this.folded.delete(above);
    if (!rowsOf(this.timeline, this.show, this.folded, Infinity).includes(id)) this.filter("all");
    this.rows = rowsOf(this.timeline, this.show, this.folded, this.replay.until ?? Infinity);
    this.list.set(this.rows);
  }

  private moved(until: number | null): void {
    this.follow(false);
    this.element.classList.toggle("is-replay", until !== null);
    this.waterfall.at(until === null ? null : this.timeline.of(until));
    this.rows = rowsOf(this.timeline, this.show, this.folded, until ?? Infinity);
    this.list.set(this.rows);
    const last = until === null ? undefined : this.rows.includes(this.timeline.of(until)) ? this.timeline.of(until) : this.rows.at(-1);
    if (last !== undefined) this.list.reveal(last, "near");
    // Details and the number of errors are those of that moment.
    this.ask();
  }

  step(by: number, among: number[] | null = null, where: "center" | "near" = "near"): void {
    const ids = among ?? this.rows;
    if (ids.length === 0) return;
    if (among !== null) {
      const here = this.selected >= 0 ? this.selected : by > 0 ? -1 : Infinity;
      const next = by > 0 ? ids.find((id) => id > here) : ids.findLast((id) => id < here);
      const wrapped = next ?? (by > 0 ? ids[0] : ids.at(-1));
      if (wrapped !== undefined) this.go(wrapped, where);
      return;
    }
    const place = this.selected >= 0 ? ids.indexOf(this.selected) : ids.indexOf(this.list.inSight()[0]) - by;
    this.go(ids[Math.max(0, Math.min(ids.length - 1, place + by))] as number, where);
  }

  /** To one of the two ends. */
  edge(which: "first" | "last"): void {
    const id = which === "first" ? this.rows[0] : this.rows.at(-1);
    if (which === "last" && this.live) this.follow(true);
    else if (id !== undefined) this.go(id, "near");
  }

  async copyLink(): Promise<void> {
    const item = this.timeline.items[this.selected >= 0 ? this.selected : this.list.inSight()[0]];
    if (item && !this.exported) await copyLink(this.id, item);
  }

  private hears(): void {
    options(this.shows, SHOWS, "all");
    this.shows.addEventListener("change", () => this.filter(this.shows.value as Show));
    scrolls(this.feed, {
      atEnd: () => this.list.atEnd(),
      leave: () => this.follow(false),
      reach: () => this.live && !this.following && this.replay.until === null && this.selected < 0 && this.follow(true),
    });
    this.feed.addEventListener("scroll", () => this.save(), { passive: true });
    this.find.input.addEventListener("input", () => this.save());
    this.element.addEventListener("click", (event) => {
      const pressed = within(event, "data-do");
      const row = within(event, "data-id");
      const id = row ? Number(row.dataset.id) : -1;
      if (pressed) this.press(pressed, id, event);
      else if (row?.classList.contains("row") && window.getSelection()?.isCollapsed !== false) this.choose(id);
    });
  }

  private choose(id: number): void {
    this.selected = id === this.selected ? -1 : id;
    if (this.selected >= 0) this.follow(false);
    this.save();
    this.list.ask();
  }

  /** Buttons within cards. Those of the screen are deeds, as keys are. */
  private press(pressed: HTMLElement, id: number, event: Event): void {
    const { part, mode, request, decision } = pressed.dataset;
    switch (pressed.dataset.do) {
      case "toggle":
        this.looks.toggle(id);
        break;
      case "go":
        this.go(id);
        break;
      case "fold":
        if (!this.folded.delete(id)) this.folded.add(id);
        this.looks.touch(id);
        this.rows = rowsOf(this.timeline, this.show, this.folded, this.replay.until ?? Infinity);
        this.list.set(this.rows);
        break;
      case "load":
        void this.looks.load(id, part ?? "output");
        break;
      case "mode":
        this.looks.turn(id, mode as Mode, true);
        break;
      case "answer":
        void this.orders.answer(request ?? "", decision ?? "deny").then(() => this.looks.touch(id));
        break;
      default:
        return;
    }
    event.stopPropagation();
  }
}
