// What frames the rest: the beginning of a run, its turns, its end.

import { el } from "../dom";
import { count, dollars, duration, millis, plural, spaced, whole } from "../format";
import { show } from "../invisible";
import type { Item, Of, TokensReport } from "../types";

export function runHead(what: Of<"run">): HTMLElement {
  const facts = el("span", { class: "fact" });
  show(facts, [what.agentVersion, what.model, what.cwd].filter(Boolean).join(" · "));
  return el("div", { class: "line run-head" }, el("strong", null, what.agent), facts);
}

/** A turn is a rule across the list, with what it used. */
export function turn(item: Item, what: Of<"turn">): HTMLElement {
  const [from, until] = [millis(item.at), millis(item.until)];
  // A log has one time for a message; how long it took is not known then.
  const took = from !== null && until !== null && until > from ? duration(until - from) : null;
  const tokens = what.tokens ? el("span", { title: explain(what.tokens) }, `${count(what.tokens.total)} tokens`) : null;
  const cost = what.costUsd == null ? null : el("span", null, dollars(what.costUsd));
  const stop = what.stopReason && !["end_turn", "stop", "tool_use", "completed"].includes(what.stopReason) ? el("span", null, what.stopReason) : null;
  return el(
    "div",
    { class: "turn" },
    el("span", { class: "turn-name" }, `Turn ${item.turn ?? ""}`),
    el("span", { class: "turn-facts" }, stop, took !== null && el("span", null, took), tokens, cost),
  );
}

/** The parts of a figure. */
export function explain(tokens: TokensReport): string {
  const parts: [string, number | null | undefined][] = [
    ["uncached input", tokens.uncachedInput],
    ["cache read", tokens.cacheRead],
    ["cache write", tokens.cacheWrite],
    ["output", tokens.output],
    ["of it reasoning", tokens.reasoning],
  ];
  return parts.filter(([, value]) => value != null).map(([name, value]) => `${whole(value)} ${name}`).join(", ");
}

const OUTCOMES: Record<string, string> = {
  completed: "Completed",
  failed: "Failed",
  limited: "Stopped by a limit",
  refused: "Refused by the model",
  cancelled: "Cancelled",
  timedOut: "Timed out",
  crashed: "Crashed",
  incomplete: "Incomplete: the stream ended with no sign that the agent was done",
  startFailed: "Could not start",
};

export function end(what: Of<"end">): HTMLElement {
  const facts = [
    what.cause && what.cause !== "unknown" ? spaced(what.cause) : null,
    what.exitCode == null ? null : `exit code ${what.exitCode}`,
    what.signal ? `signal ${what.signal}` : null,
    what.durationMs == null ? null : duration(what.durationMs),
    what.tokens ? plural(what.tokens.total ?? 0, "token") : null,
    what.costUsd == null ? null : dollars(what.costUsd),
  ];
  return el(
    "div",
    { class: "line end" },
    el("strong", null, OUTCOMES[what.outcome] ?? what.outcome),
    el("span", { class: "fact", title: what.tokens ? explain(what.tokens) : null }, facts.filter(Boolean).join(" · ")),
  );
}
