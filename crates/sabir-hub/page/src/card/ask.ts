// Plans, and questions that somebody may answer.

import type { Context } from "../card";
import { button, el } from "../dom";
import { show } from "../invisible";
import type { Item, Of, Step } from "../types";

const WORDS: Record<string, string> = { pending: "to do", inProgress: "in progress", completed: "done", cancelled: "skipped" };

export function plan(steps: Step[]): HTMLElement {
  const done = steps.filter((step) => step.status === "completed").length;
  const list = el("ol", { class: "plan" });
  for (const step of steps) {
    const text = el("span");
    show(text, step.text);
    list.append(
      el("li", { class: `step is-${step.status}` }, el("span", { class: "step-mark", "aria-hidden": "true" }), text, el("span", { class: "sr-only" }, `, ${WORDS[step.status] ?? step.status}`)),
    );
  }
  return el("div", null, el("div", { class: "line" }, el("strong", null, "Plan"), el("span", { class: "fact" }, `${done} of ${steps.length} done`)), list);
}

/** Whether a question can be answered here and now. */
export function answerable(what: Of<"permission">, context: Context): boolean {
  return what.decision == null && context.live && context.mayAnswer;
}

export function question(item: Item, what: Of<"permission">, may: boolean, context: Context): HTMLElement {
  const title = el("span", { class: "line-text" });
  show(title, what.title);
  const open = what.decision == null;
  const box = el("div", { class: open && context.live ? "question is-open" : "question" }, el("div", { class: "line" }, el("strong", null, "Permission requested"), title));
  const sent = context.sent(what.request);
  if (!open) {
    const answer = el("span", { class: "badge" });
    show(answer, what.decision ?? "");
    box.firstElementChild?.append(answer);
  } else if (sent !== null) {
    box.append(el("div", { class: "fact" }, sent));
  } else if (may) {
    box.append(
      el(
        "div",
        { class: "answers" },
        button("answer", { class: "primary", "data-request": what.request, "data-decision": "allow" }, "Allow"),
        button("answer", { "data-request": what.request, "data-decision": "deny" }, "Deny"),
      ),
    );
  } else if (context.live) {
    const labels = (what.options ?? []).map((option) => option.label).join(" · ");
    box.append(el("div", { class: "fact" }, labels === "" ? "Waiting for an answer" : `Waiting for an answer: ${labels}`));
  }
  void item;
  return box;
}
