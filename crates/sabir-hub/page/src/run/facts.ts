// The run in short, beside its timeline: who, how long, how much, the plan, the files.

import { plan } from "../card/ask";
import { button, el, type Child } from "../dom";
import { base, count, dollars, duration, exact, fromWhere, millis, modelName, UNKNOWN, whole } from "../format";
import { isHere } from "../status";
import { plain, show } from "../invisible";
import { asOf, type Timeline } from "../timeline";
import type { Item, Session } from "../types";
import { Meter } from "./meter";

export class Facts {
  readonly element: HTMLElement;
  private readonly list = el("dl", { class: "facts-list" });
  private readonly plan = el("section", { "aria-label": "Plan", class: "facts-plan" });
  private readonly files = el("section", { "aria-label": "Files", class: "facts-files" });
  readonly meter: Meter;
  /** What a replay shows of the run, or null for all of it. */
  private replayed: Replayed | null = null;

  constructor(pick: (id: number) => void) {
    this.meter = new Meter(pick);
    this.element = el("aside", { class: "facts", "aria-label": "Details" }, this.list, this.meter.element, this.plan, this.files);
  }

  /** Shows the run as it was at message `until` of its log, or as it is now. */
  set(session: Session | null, timeline: Timeline, now: number, until: number | null): void {
    const items = until === null ? timeline.items : itemsAt(timeline, until);
    this.replayed = until === null ? null : { until, items };
    this.summary(session, timeline, now);
    this.meter.set(items);
    let steps: Item | null = null;
    const files = new Map<string, { item: Item; added: number; removed: number; times: number }>();
    for (const item of items) {
      const what = item.what;
      if (what.kind === "plan") steps = item;
      if (what.kind !== "file") continue;
      const known = files.get(what.path);
      files.set(what.path, {
        item,
        added: (known?.added ?? 0) + (what.added ?? 0),
        removed: (known?.removed ?? 0) + (what.removed ?? 0),
        times: (known?.times ?? 0) + 1,
      });
    }
    this.plan.hidden = steps === null;
    if (steps?.what.kind === "plan") this.plan.replaceChildren(el("h2", null, "Plan"), plan(steps.what.items).querySelector("ol") ?? "");
    this.files.hidden = files.size === 0;
    const rows = [...files].slice(-200).map(([path, { item, added, removed }]) => {
      const name = el("span", { class: "facts-path" });
      show(name, base(path));
      return el(
        "li",
        null,
        button(
          "go",
          { class: "facts-file plain", "data-id": item.id, title: plain(path) },
          name,
          el("span", { class: "added figure" }, added > 0 ? `+${added}` : ""),
          el("span", { class: "removed figure" }, removed > 0 ? `−${removed}` : ""),
        ),
      );
    });
    this.files.replaceChildren(el("h2", null, "Files ", el("span", { class: "fact" }, String(files.size))), el("ul", null, ...rows));
  }

  /** Time goes on, also when nothing comes. */
  tick(session: Session | null, timeline: Timeline): void {
    this.summary(session, timeline, Date.now());
  }

  private summary(session: Session | null, timeline: Timeline, now: number): void {
    if (session === null) return;
    const { overview } = session;
    // What a sub-agent did is told last, with times before the end.
    const ends = [millis(overview.last), millis(timeline.latest)].filter((time) => time !== null);
    const [from, until] = [millis(overview.started) ?? timeline.start(), ends.length > 0 ? Math.max(...ends) : null];
    const live = isLive(session);
    // A log that tells one moment alone does not say how long it took.
    const took = from === null || (!live && until === from) ? null : (live && isHere(session) ? now : (until ?? now)) - from;
    const replayed = this.replayed && totals(timeline, this.replayed);
    const cost = replayed ? replayed.cost : overview.costUsd;
    const tokens = replayed ? replayed.tokens : overview.tokens;
    const rows: [string, Child, string?][] = [
      ["Agent", [overview.agent ?? UNKNOWN, overview.agentVersion].filter(Boolean).join(" ")],
      ["Model", modelName(overview.model) ?? UNKNOWN, plain(overview.model ?? "")],
      ["Working directory", overview.cwd ?? overview.workspace ?? UNKNOWN],
      ["Started", exact(overview.started ?? session.created) || UNKNOWN],
      ["Duration", duration(replayed ? replayed.took : took)],
      ["Tokens", count(tokens), whole(tokens)],
      ["Cost", costWords(cost, overview.costSource), fromWhere(overview.costSource)],
      // A log that is listed in short does not say how many there are.
      ["Turns", whole(replayed ? replayed.turns : Math.max(overview.turns ?? 0, timeline.turnCount()))],
      ["Tool calls", whole(replayed ? replayed.calls : overview.toolCalls)],
      ["Errors", whole(timeline.troubleAt(this.replayed?.until ?? null).length)],
      ["Events", whole(timeline.eventCount(this.replayed?.until ?? null))],
    ];
    this.list.replaceChildren(
      ...rows.map(([name, value, title]) => {
        const told = el("dd", { title: title ?? (typeof value === "string" ? plain(value) : null) });
        if (typeof value === "string") show(told, value);
        return el("div", null, el("dt", null, name), told);
      }),
    );
  }
}

interface Replayed {
  until: number;
  items: Item[];
}

/** The items that had begun by a message of the log, as they were then. */
function itemsAt(timeline: Timeline, until: number): Item[] {
  return timeline.items.map(({ id }) => asOf(timeline, id, until)).filter((item) => item !== null);
}

/** What had been used by then, as far as the turns say. */
function totals(timeline: Timeline, { items }: Replayed): { tokens: number | null; cost: number | null; turns: number; calls: number; took: number | null } {
  const add = (sum: number | null, more: number | null | undefined) => (more == null ? sum : (sum ?? 0) + more);
  let [tokens, cost, turns, calls, latest]: [number | null, number | null, number, number, number | null] = [null, null, 0, 0, null];
  for (const item of items) {
    const what = item.what;
    if (what.kind === "turn") [turns, tokens, cost] = [turns + 1, add(tokens, what.tokens?.total), add(cost, what.costUsd)];
    if (what.kind === "tool") calls += 1;
    const at = millis(item.until ?? item.at);
    if (at !== null && (latest === null || at > latest)) latest = at;
  }
  const start = timeline.start();
  return { tokens, cost, turns, calls, took: start === null || latest === null ? null : latest - start };
}

function costWords(cost: number | null | undefined, source: Session["overview"]["costSource"]): string {
  if (cost == null) return UNKNOWN;
  return source === "computed" ? `≈${dollars(cost)} (list prices)` : `${dollars(cost)} ${source}`;
}

/** Whether a run goes on. */
export function isLive(session: Session): boolean {
  return ["starting", "running", "asking"].includes(session.overview.phase);
}
