// The run in short, beside its timeline: who, how long, how much, the plan, the files.

import { plan } from "../card/ask";
import { button, el, type Child } from "../dom";
import { base, count, dollars, duration, exact, fromWhere, millis, modelName, UNKNOWN, whole } from "../format";
import { isHere } from "../status";
import { plain, show } from "../invisible";
import type { Timeline } from "../timeline";
import type { Item, Session } from "../types";
import { Meter } from "./meter";

export class Facts {
  readonly element: HTMLElement;
  private readonly list = el("dl", { class: "facts-list" });
  private readonly plan = el("section", { "aria-label": "Plan", class: "facts-plan" });
  private readonly files = el("section", { "aria-label": "Files", class: "facts-files" });
  readonly meter: Meter;

  constructor(pick: (id: number) => void) {
    this.meter = new Meter(pick);
    this.element = el("aside", { class: "facts", "aria-label": "Facts of the run" }, this.list, this.meter.element, this.plan, this.files);
  }

  set(session: Session | null, timeline: Timeline, now: number): void {
    this.summary(session, timeline, now);
    this.meter.set(timeline);
    let steps: Item | null = null;
    const files = new Map<string, { item: Item; added: number; removed: number; times: number }>();
    for (const item of timeline.items) {
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
    if (steps?.what.kind === "plan") this.plan.replaceChildren(el("h3", null, "Plan"), plan(steps.what.items).querySelector("ol") ?? "");
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
    this.files.replaceChildren(el("h3", null, `Files `, el("span", { class: "fact" }, String(files.size))), el("ul", null, ...rows));
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
    const rows: [string, Child, string?][] = [
      ["Agent", [overview.agent ?? UNKNOWN, overview.agentVersion].filter(Boolean).join(" ")],
      ["Model", modelName(overview.model) ?? UNKNOWN, plain(overview.model ?? "")],
      ["Folder", overview.cwd ?? overview.workspace ?? UNKNOWN],
      ["Began", exact(overview.started ?? session.created) || UNKNOWN],
      ["Took", duration(took)],
      ["Tokens", count(overview.tokens), whole(overview.tokens)],
      ["Cost", overview.costUsd == null ? UNKNOWN : `${dollars(overview.costUsd)} ${overview.costSource}`, fromWhere(overview.costSource)],
      // A log that is listed in short does not say how many there are.
      ["Turns", whole(Math.max(overview.turns ?? 0, timeline.turnCount()))],
      ["Tool calls", whole(overview.toolCalls)],
      ["Errors", whole(timeline.trouble().length)],
      ["Events", whole(timeline.last)],
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

/** Whether a run goes on. */
export function isLive(session: Session): boolean {
  return ["starting", "running", "asking"].includes(session.overview.phase);
}
