// What runs used and cost, by day.

import uPlot from "uplot";
import { format, replace, type Address } from "../address";
import { hub } from "../api";
import { el, options } from "../dom";
import { count, dollars, plural, UNKNOWN, whole } from "../format";
import { plain, show } from "../invisible";
import type { Deeds } from "../keys";
import { themed } from "../paint";
import { empty, failure, type Screen } from "../screen";
import { onTheme } from "../theme";
import type { Usage, UsageRow } from "../types";

type By = "agent" | "model" | "project";
type Measure = "cost" | "tokens";

const RANGES: [string, string][] = [
  ["7", "7 days"],
  ["30", "30 days"],
  ["90", "90 days"],
  ["", "All time"],
];
/** More kinds than this are one kind in the plot. */
const MOST = 7;

interface Group {
  name: string;
  sessions: number;
  tokens: number;
  input: number;
  cache: number;
  output: number;
  cost: number | null;
  /** Whether the cost of a part is not known. */
  partly: boolean;
}

const BY: [By, string][] = [["agent", "By agent"], ["model", "By model"], ["project", "By project"]];
const MEASURES: [Measure, string][] = [["cost", "Cost"], ["tokens", "Tokens"]];
/** What is chosen when the address does not say. */
const DEFAULTS = { by: "agent" as By, measure: "cost" as Measure, range: "30" };

export class SpendScreen implements Screen {
  readonly name = "spend";
  readonly title = "Spend";
  readonly element: HTMLElement;
  readonly deeds: Deeds = { again: () => void this.load() };
  private usage: Usage | null = null;
  private plot: uPlot | null = null;
  /** What the plot tells apart, the dearest first. */
  private names: string[] = [];
  private readonly by = el("select", { "aria-label": "By" });
  private readonly measure = el("select", { "aria-label": "Measure" });
  private readonly range = el("select", { "aria-label": "Range" });
  private readonly totals = el("div", { class: "spend-totals" });
  private readonly chart = el("div", { class: "spend-chart" });
  private readonly legend = el("div", { class: "legend" });
  private readonly table = el("table", { class: "spend-table" });
  private readonly note = el("p", { class: "fact" });
  private readonly content: HTMLElement;
  private readonly resized = new ResizeObserver(() => this.plot?.setSize(this.size()));
  private readonly unhear = onTheme(() => this.draw());

  private readonly kept: typeof DEFAULTS;

  constructor({ query }: Address) {
    const among = <Name extends string>(name: string, known: [Name, string][], otherwise: Name) => known.find(([value]) => value === (query.get(name) === "all" ? "" : query.get(name)))?.[0] ?? otherwise;
    const kept = { by: among("by", BY, DEFAULTS.by), measure: among("measure", MEASURES, DEFAULTS.measure), range: among("range", RANGES, DEFAULTS.range) };
    this.kept = kept;
    options(this.measure, MEASURES, kept.measure);
    options(this.by, BY, kept.by);
    options(this.range, RANGES, kept.range);
    this.content = el("div", { class: "spend-content" }, this.totals, el("figure", { class: "spend-figure" }, this.chart, this.legend), el("div", { class: "spend-scroll" }, this.table), this.note);
    this.element = el("main", { class: "spend" }, el("h1", { class: "sr-only" }, "Spend"), el("div", { class: "filters" }, this.measure, this.by, this.range), this.content);
    for (const select of [this.by, this.measure]) {
      select.addEventListener("change", () => {
        [kept.by, kept.measure] = [this.by.value as By, this.measure.value as Measure];
        this.save();
        this.draw();
      });
    }
    this.range.addEventListener("change", () => {
      kept.range = this.range.value;
      this.save();
      void this.load();
    });
    this.resized.observe(this.chart);
    void this.load();
  }

  leave(): void {
    this.resized.disconnect();
    this.unhear();
    this.plot?.destroy();
  }

  private save(): void {
    const { by, measure, range } = this.kept;
    const other = (value: string, usual: string) => (value === usual ? "" : value || "all");
    replace(format("spend", { by: other(by, DEFAULTS.by), measure: other(measure, DEFAULTS.measure), range: other(range, DEFAULTS.range) }), null);
  }

  private size(): { width: number; height: number } {
    return { width: Math.max(200, this.chart.clientWidth), height: Math.max(160, Math.min(440, Math.round(window.innerHeight * 0.42))) };
  }

  private async load(): Promise<void> {
    const days = Number(this.kept.range);
    const since = days > 0 ? new Date(Date.now() - (days - 1) * 86_400_000).toISOString().slice(0, 10) : null;
    try {
      this.usage = await hub.usage(since);
      this.draw();
    } catch (error) {
      this.element.querySelector(".empty")?.remove();
      this.content.hidden = true;
      this.element.append(failure(error, "again"));
    }
  }

  private draw(): void {
    if (!this.usage) return;
    const { rows, note } = this.usage;
    this.element.querySelector(".empty")?.remove();
    this.content.hidden = rows.length === 0;
    if (rows.length === 0) {
      this.element.append(empty("No usage yet", "Usage appears here when a run reports tokens"));
      return;
    }
    const groups = sum(rows, (row) => row[this.kept.by] ?? UNKNOWN);
    const [all] = sum(rows, () => "");
    this.totals.replaceChildren(
      total("Cost", all?.partly ? `${dollars(all.cost)}+` : dollars(all?.cost), all?.partly ? "The cost of a part is unknown" : null),
      total("Tokens", count(all?.tokens), whole(all?.tokens)),
      total("Output", count(all?.output), null),
      total("Sessions", whole(all?.sessions), null),
    );
    const ranked = [...groups].sort((a, b) => (this.kept.measure === "cost" ? (b.cost ?? 0) - (a.cost ?? 0) : b.tokens - a.tokens)).map((group) => group.name);
    this.names = ranked.length > MOST ? [...ranked.slice(0, MOST - 1), "others"] : ranked;
    this.drawTable(groups);
    this.drawPlot(rows);
    this.note.textContent = note ?? "";
  }

  /** The colour of a group: the same in the plot and in the table. */
  private series(name: string): number {
    const place = this.names.indexOf(name);
    return place >= 0 ? place : this.names.length - 1;
  }

  private drawTable(groups: Group[]): void {
    const names: Record<By, string> = { agent: "Agent", model: "Model", project: "Project" };
    const heads = [names[this.kept.by], "Sessions", "New input", "Cache read", "Output", "Tokens", "Cost"];
    const rows = groups.map((group) => {
      const label = el("span");
      show(label, group.name);
      const name = el("th", { scope: "row" }, el("span", { class: `swatch series-${this.series(group.name)}`, "aria-hidden": "true" }), label);
      const figures = [whole(group.sessions), count(group.input), count(group.cache), count(group.output), count(group.tokens)];
      const cost = group.partly && group.cost !== null ? `${dollars(group.cost)}+` : dollars(group.cost);
      return el("tr", null, name, ...figures.map((figure, place) => el("td", { class: place > 0 && place < 4 ? "is-part" : null }, figure)), el("td", null, cost));
    });
    const head = el("thead", null, el("tr", null, ...heads.map((name, place) => el("th", { scope: "col", class: place > 1 && place < 5 ? "is-part" : null }, name))));
    this.table.replaceChildren(el("caption", { class: "sr-only" }, `Totals by ${this.kept.by}`), head, el("tbody", null, ...rows));
  }

  private drawPlot(rows: UsageRow[]): void {
    const value = (row: UsageRow) => (this.kept.measure === "cost" ? (row.costUsd ?? 0) : (row.tokens.total ?? 0));
    const names = this.names;
    const days = everyDay(rows);
    const places = new Map(days.map((day, place) => [day, place]));
    const layers = names.map(() => new Array<number>(days.length).fill(0));
    for (const row of rows) {
      const name = row[this.kept.by] ?? UNKNOWN;
      const layer = layers[names.includes(name) ? names.indexOf(name) : names.length - 1];
      const place = places.get(row.day);
      if (layer && place !== undefined) layer[place] = (layer[place] ?? 0) + value(row);
    }
    // Each layer stands on those before it; the highest is drawn first, and the others over it.
    const stacked: number[][] = [];
    layers.forEach((layer, place) => stacked.push(layer.map((one, day) => one + (stacked[place - 1]?.[day] ?? 0))));
    const colours = names.map((_, place) => themed(`series-${place}`));
    const bars = uPlot.paths.bars?.({ size: [0.7, 48], align: 0 });
    const words = (figure: number) => (this.kept.measure === "cost" ? dollars(figure) : count(Math.round(figure)));
    const axis = { stroke: themed("muted"), grid: { stroke: themed("line"), width: 1 }, ticks: { show: false }, font: `11px ${getComputedStyle(document.body).fontFamily}` };
    this.plot?.destroy();
    this.plot = new uPlot(
      {
        ...this.size(),
        legend: { show: false },
        cursor: { y: false, points: { show: false } },
        scales: { x: { time: true, range: (_, from, until) => [from - 43_200, until + 43_200] }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] } },
        axes: [
          { ...axis, size: 30, grid: { show: false }, values: (_, splits) => splits.map((at) => (at % 86_400 === 0 ? dayWords(at) : "")), incrs: [1, 2, 3, 5, 7, 14, 30, 60, 120, 365].map((step) => step * 86_400) },
          { ...axis, size: 62, values: (_, splits) => splits.map(words) },
        ],
        series: [{}, ...names.map((name, place) => ({ label: plain(name), fill: colours[place], stroke: colours[place], width: 0, paths: bars, points: { show: false } })).reverse()] as uPlot.Series[],
        hooks: { setCursor: [(plot) => this.tell(plot.cursor.idx ?? null, days, names, layers, words)] },
        tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      },
      [days.map((day) => Date.parse(`${day}T00:00:00Z`) / 1000), ...stacked.toReversed()] as uPlot.AlignedData,
      this.chart,
    );
    this.chart.setAttribute("role", "img");
    this.chart.setAttribute("aria-label", `${this.kept.measure === "cost" ? "Cost" : "Tokens"} by day and ${this.kept.by}, ${plural(days.length, "day")}`);
    this.tell(null, days, names, layers, words);
  }

  /** The legend; of the day under the cursor, with its figures. */
  private tell(day: number | null, days: string[], names: string[], layers: number[][], words: (figure: number) => string): void {
    const entries = names.map((name, place) => {
      const label = el("span");
      show(label, name);
      const figure = day === null ? null : el("span", { class: "figure" }, words(layers[place]?.[day] ?? 0));
      return el("span", { class: "legend-entry" }, el("span", { class: `swatch series-${place}`, "aria-hidden": "true" }), label, figure);
    });
    this.legend.replaceChildren(el("span", { class: "legend-day figure" }, day === null ? "" : (days[day] ?? "")), ...entries);
  }
}

function total(name: string, figure: string, title: string | null): HTMLElement {
  return el("div", { title }, el("span", { class: "spend-figure-name" }, name), el("span", { class: "spend-figure-value figure" }, figure));
}

/** Adds rows up by a name, the dearest first. */
function sum(rows: UsageRow[], name: (row: UsageRow) => string): Group[] {
  const groups = new Map<string, Group>();
  for (const row of rows) {
    const key = name(row);
    const group = groups.get(key) ?? { name: key, sessions: 0, tokens: 0, input: 0, cache: 0, output: 0, cost: null, partly: false };
    const { tokens } = row;
    group.sessions += row.sessions;
    group.tokens += tokens.total ?? 0;
    group.input += (tokens.uncachedInput ?? 0) + (tokens.cacheWrite ?? 0);
    group.cache += tokens.cacheRead ?? 0;
    group.output += tokens.output ?? 0;
    if (row.costUsd !== null) group.cost = (group.cost ?? 0) + row.costUsd;
    else if ((tokens.total ?? 0) > 0) group.partly = true;
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) => (b.cost ?? -1) - (a.cost ?? -1) || b.tokens - a.tokens);
}

/** All days from the first to the last, also those with nothing. */
function everyDay(rows: UsageRow[]): string[] {
  const known = rows.map((row) => row.day).sort();
  const [from, until] = [Date.parse(known[0] ?? ""), Date.parse(known.at(-1) ?? "")];
  const days: string[] = [];
  for (let at = from; at <= until && days.length < 4_000; at += 86_400_000) days.push(new Date(at).toISOString().slice(0, 10));
  return days;
}

function dayWords(at: number): string {
  return new Date(at * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
}
