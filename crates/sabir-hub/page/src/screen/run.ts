// One run: its timeline, and everything around it.
//
//   stream of changes ──► Timeline ──► rows ──► VirtualList ──► cards
//                             └──► waterfall, facts, search, replay          once per frame, however much came

import { at, hub, Refused } from "../api";
import { card, nameOf, type Context, type Mode } from "../card";
import { button, el, frame, options, say, within } from "../dom";
import { base } from "../format";
import { icon } from "../icons";
import { plain } from "../invisible";
import type { Deeds } from "../keys";
import { moreRows, rowsOf, SHOWS, type Show } from "../rows";
import { Facts, isLive } from "../run/facts";
import { Find } from "../run/find";
import { Looks } from "../run/looks";
import { Orders } from "../run/orders";
import { Replay } from "../run/replay";
import { Waterfall } from "../run/waterfall";
import { empty, failure, toast, type Screen } from "../screen";
import { statusOf } from "../status";
import { follow, type Link, type Told } from "../stream";
import { onTheme } from "../theme";
import { asOf, Timeline } from "../timeline";
import type { Exported, Item, Me, Session, TimelineChange } from "../types";
import { VirtualList } from "../virtual";

/** Facts and drawings are made anew at most so often. */
const CALM = 400;

export class RunScreen implements Screen {
  readonly name = "run";
  title = "Run";
  readonly element: HTMLElement;
  readonly deeds: Deeds;
  private readonly timeline = new Timeline();
  private session: Session | null = null;
  private rows: number[] = [];
  private counted = 0;
  private show: Show = "all";
  private selected = -1;
  private following = false;
  private live = false;
  /** An event that the address names, until it is there. */
  private wanted: number | null;
  private readonly folded = new Set<number>();
  private readonly end = new AbortController();
  private readonly list: VirtualList;
  private readonly find: Find;
  private readonly replay: Replay;
  private readonly facts: Facts;
  private readonly waterfall: Waterfall;
  private readonly orders: Orders;
  private readonly looks: Looks;
  private readonly feed = el("div", { class: "feed", role: "feed", tabindex: 0, "aria-label": "Timeline", "aria-busy": "true" });
  private readonly heading = el("h1", null, "…");
  private readonly status = el("span", { class: "status" });
  private readonly link = el("span", { class: "link-state", role: "status" });
  private readonly jump = button("follow", { class: "jump", hidden: true }, icon("down"), el("span", null, "Follow"));
  private readonly errors = button("next-error", { class: "errors", hidden: true });
  private readonly ask = frame(() => this.refresh());
  private calmed = 0;
  private calmLast = -1;
  private pause = CALM;
  private later = 0;
  private readonly clock = window.setInterval(() => this.live && this.facts.tick(this.session, this.timeline), 1_000);
  private fetched = 0;
  private unhear: () => void;

  constructor(
    private readonly id: string,
    number: number | null,
    me: Me,
    private readonly exported: Exported | null,
  ) {
    this.wanted = number;
    this.orders = new Orders(id, me, () => this.look());
    this.looks = new Looks(id, this.timeline, () => this.look());
    this.facts = new Facts((item) => this.go(item));
    this.waterfall = new Waterfall((item) => plain(nameOf(this.timeline.items[item] as Item)), (item) => this.go(item));
    this.find = new Find(this.timeline, (item) => this.go(item), () => this.list.ask());
    this.replay = new Replay(this.timeline, (until) => this.moved(until));
    this.element = this.build();
    this.list = new VirtualList(this.feed, {
      make: (key, place) => card(this.item(key), place, this.rows.length, this.context()),
      version: (key) => `${this.timeline.versions[key]}.${this.looks.version(key)}.${key === this.selected}.${this.replayed(key)}.${this.live}`,
      guess: (key) => guess(this.timeline.items[key] as Item),
      drawn: () => this.drawn(),
    });
    this.deeds = this.makeDeeds();
    this.hears();
    this.unhear = onTheme(() => this.waterfall.ask());
    if (exported) this.open(exported);
    else void this.load();
  }

  leave(): void {
    this.end.abort();
    clearInterval(this.clock);
    clearTimeout(this.later);
    this.replay.pause();
    this.list.destroy();
    this.waterfall.destroy();
    this.facts.meter.destroy();
    this.unhear();
  }

  /** Goes to another event of the same run. */
  jumpTo(number: number | null): void {
    this.wanted = number;
    this.ask();
  }

  private build(): HTMLElement {
    const show = el("select", { "aria-label": "Show" });
    options(show, SHOWS, "all");
    show.addEventListener("change", () => this.filter(show.value as Show));
    const head = el(
      "header",
      { class: "run-bar" },
      this.exported === null && el("a", { class: "button square plain", href: "#/", "aria-label": "All runs", title: "All runs (u)" }, icon("back")),
      el("div", { class: "run-title" }, this.heading, this.status, this.link),
      this.orders.cancel,
      el("div", { class: "run-tools" }, this.find.element, show, this.errors, button("facts", { class: "square", "aria-label": "Facts", title: "Facts (i)" }, icon("facts"))),
    );
    const main = el("div", { class: "run-main" }, el("div", { class: "feed-box" }, this.feed, this.jump), this.facts.element);
    const foot = el("footer", { class: "run-foot" }, this.replay.element, this.orders.element);
    return el("main", { class: "run" }, head, this.waterfall.element, main, foot);
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
      this.follow(this.live && this.wanted === null && this.selected < 0);
    } catch {
      // The stream says the same, and says it again when it works again.
    }
  }

  private fail(error: Refused): void {
    this.feed.parentElement?.replaceChildren(failure(error));
  }

  private linked(link: Link, error: Refused | null): void {
    if (error) {
      this.fail(error);
      return;
    }
    this.link.dataset.link = link;
    say(this.link, link === "lost" ? "connection lost, trying again" : link === "connecting" ? "connecting" : "");
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
    say(this.heading, plain(words));
    this.heading.title = plain(words);
    this.title = plain(words).slice(0, 80);
    document.title = `${this.title} · Sabir`;
    const status = statusOf(session);
    this.status.className = `status is-${status.look}`;
    say(this.status, status.words);
    this.orders.set(session);
    if (wasLive && !this.live) this.follow(false);
    this.ask();
  }

  /** Asks for the session again when it may have changed. */
  private freshen(now: number): void {
    if (this.exported || now - this.fetched < 1_000) return;
    this.fetched = now;
    hub.session(this.id).then((session) => this.take(session), () => undefined);
  }

  private refresh(): void {
    const { items } = this.timeline;
    const until = this.replay.until ?? Infinity;
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
    this.nothing();
  }

  private calm(now: number): void {
    this.calmed = now;
    if (this.timeline.last !== this.calmLast) {
      this.calmLast = this.timeline.last;
      if (this.live || this.session === null) this.freshen(now);
    }
    this.waterfall.set(this.timeline, this.live);
    this.facts.set(this.session, this.timeline, Date.now());
    const count = this.timeline.trouble().length;
    this.errors.hidden = count === 0;
    this.errors.replaceChildren(icon("warning"), String(count), el("span", { class: "errors-word" }, count === 1 ? "error" : "errors"));
    this.errors.title = "Next error (n)";
    // Of a very long run they take longer, and then they come less often.
    this.pause = Math.max(CALM, 8 * (performance.now() - now));
  }

  private nothing(): void {
    const box = this.feed.parentElement;
    const old = box?.querySelector(".empty");
    if (this.rows.length > 0 || this.feed.getAttribute("aria-busy") === "true") {
      old?.remove();
      return;
    }
    if (old || !box) return;
    const filtered = this.show !== "all";
    box.append(
      filtered
        ? empty("Nothing of this kind", "", button("show-all", {}, "Show everything"))
        : empty("Nothing has happened yet", this.live ? "What the agent does appears here as it happens." : "The log of this session has no events."),
    );
  }

  /** Goes to the event that the address names, once it is known. */
  private reach(): void {
    if (this.wanted === null || this.timeline.items.length === 0) return;
    if (this.timeline.last < this.wanted && this.feed.getAttribute("aria-busy") === "true") return;
    const id = this.timeline.of(this.wanted);
    this.wanted = null;
    if (id >= 0) this.go(id);
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
      link: this.exported ? null : `#/run/${encodeURIComponent(this.id)}`,
      start: this.timeline.start(),
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
    const end = this.list.atEnd();
    this.jump.hidden = this.following || end || !this.live;
  }

  private look(): void {
    this.list.ask();
  }

  private filter(show: Show): void {
    this.show = show;
    const select = this.element.querySelector<HTMLSelectElement>("select[aria-label=Show]");
    if (select) select.value = show;
    this.rows = rowsOf(this.timeline, show, this.folded, this.replay.until ?? Infinity);
    this.list.set(this.rows);
    this.feed.parentElement?.querySelector(".empty")?.remove();
    this.ask();
  }

  /** Follows what comes, at the end of the list. */
  private follow(on: boolean): void {
    this.following = on;
    this.list.stick(on);
    this.jump.hidden = on || !this.live;
  }

  /** Chooses an item and brings it into sight. */
  private go(id: number, where: "center" | "near" = "center"): void {
    if (this.replay.until !== null && (this.timeline.items[id]?.first ?? 0) > this.replay.until) this.replay.end();
    if (!this.rows.includes(id)) this.unhide(id);
    this.follow(false);
    this.selected = id;
    if (this.find.active) this.looks.open(id);
    this.list.reveal(id, where);
    this.feed.setAttribute("aria-activedescendant", `item-${id}`);
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
  }

  private step(by: number, among: number[] | null = null, where: "center" | "near" = "near"): void {
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

  private turns(): number[] {
    return this.timeline.items.filter((item) => item.what.kind === "turn" || item.what.kind === "prompt").map((item) => item.id);
  }

  private async copyLink(): Promise<void> {
    const item = this.timeline.items[this.selected] ?? this.timeline.items[this.list.inSight()[0]];
    if (!item || this.exported) return;
    const address = `${location.origin}${location.pathname}#/run/${encodeURIComponent(this.id)}/${item.first}`;
    history.replaceState(null, "", address);
    try {
      await navigator.clipboard.writeText(address);
      toast("The link is copied.");
    } catch {
      toast("The link is in the address bar.");
    }
  }

  private makeDeeds(): Deeds {
    const lookAt = (by?: Mode) => this.selected >= 0 && this.looks.turn(this.selected, by ?? null, this.exported === null);
    return {
      next: () => this.step(1),
      previous: () => this.step(-1),
      toggle: () => this.selected >= 0 && this.looks.toggle(this.selected),
      search: () => this.find.input.select(),
      "find-next": () => this.find.step(1),
      "find-previous": () => this.find.step(-1),
      "next-error": () => this.step(1, this.timeline.trouble(), "center"),
      "previous-error": () => this.step(-1, this.timeline.trouble(), "center"),
      "next-turn": () => this.step(1, this.turns(), "center"),
      "previous-turn": () => this.step(-1, this.turns(), "center"),
      first: () => this.rows[0] !== undefined && this.go(this.rows[0], "near"),
      last: () => (this.live ? this.follow(true) : this.rows.length > 0 && this.go(this.rows.at(-1) as number, "near")),
      follow: () => {
        if (this.replay.until !== null) this.replay.end();
        this.follow(!this.following);
      },
      raw: () => lookAt(),
      "copy-link": () => void this.copyLink(),
      waterfall: () => this.element.classList.toggle("no-waterfall"),
      facts: () => this.element.classList.toggle("other-facts"),
      play: () => this.replay.play(),
      "replay-first": () => this.replay.first(),
      slower: () => this.replay.faster(-1),
      faster: () => this.replay.faster(1),
      leave: () => (this.find.active ? this.find.clear() : this.replay.until !== null ? this.replay.end() : undefined),
      "show-all": () => this.filter("all"),
      cancel: () => void this.orders.stop(),
    };
  }

  private hears(): void {
    // Who scrolls up wants to read, not to follow.
    this.feed.addEventListener("wheel", (event) => event.deltaY < 0 && this.follow(false), { passive: true });
    this.feed.addEventListener("touchmove", () => !this.list.atEnd() && this.follow(false), { passive: true });
    this.feed.addEventListener("keydown", (event) => ["PageUp", "ArrowUp", "Home"].includes(event.key) && this.follow(false));
    this.feed.addEventListener("scroll", () => this.live && !this.following && this.replay.until === null && this.list.atEnd() && this.selected < 0 && this.follow(true), { passive: true });
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
    this.look();
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

/** About how high a row is. */
function guess(item: Item): number {
  const what = item.what;
  switch (what.kind) {
    case "turn":
      return 36;
    case "text":
    case "prompt":
      return 34 + Math.min(1_500, (what.text.text.length / 90) * 20);
    case "tool":
      return what.toolKind === "execute" && what.output ? 120 : 36;
    case "file":
      return what.diff ? 220 : 40;
    default:
      return 34;
  }
}
