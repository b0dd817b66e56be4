// What a reader may want of a run that goes on: another prompt, its end, an answer. And what became of it.

import { hub, Refused } from "../api";
import { confirm } from "../dialog";
import { button, el } from "../dom";
import { icon } from "../icons";
import type { Me, Session } from "../types";
import { isLive } from "./facts";

export class Orders {
  readonly element: HTMLElement;
  readonly cancel = button("cancel", { class: "danger", hidden: true }, icon("stop"), "Cancel");
  private readonly text = el("textarea", { rows: 1, placeholder: "Message the agent…", "aria-label": "Prompt" });
  private readonly send = el("button", { type: "submit", class: "primary" }, "Send");
  private readonly told = el("div", { class: "told", role: "status" });
  /** What became of answers, by the question. */
  readonly answers = new Map<string, string>();
  private session: Session | null = null;
  /** Nobody may do anything before the hub says so. */
  private allowed = false;

  constructor(
    private readonly id: string,
    me: Promise<Me>,
    private readonly changed: () => void,
  ) {
    void me.then(({ readOnly, scope }) => {
      this.allowed = !readOnly && scope !== "watch";
      if (this.session) this.set(this.session);
      changed();
    }, () => undefined);
    this.element = el("form", { class: "orders", hidden: true }, this.text, this.send, this.told);
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.prompt();
    });
    this.text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        void this.prompt();
      } else if (event.key === "Escape") {
        this.text.blur();
      }
    });
  }

  /** Whether an order of this kind can be given. */
  may(kind: string): boolean {
    return this.allowed && (this.session?.takes.includes(kind) ?? false);
  }

  set(session: Session): void {
    this.session = session;
    this.element.hidden = !this.may("prompt");
    this.cancel.hidden = !(this.may("cancel") && isLive(session));
  }

  private async prompt(): Promise<void> {
    const text = this.text.value;
    if (text.trim() === "") return;
    this.send.disabled = true;
    const went = await this.give({ kind: "prompt", text }, (words) => this.tell(words));
    this.send.disabled = false;
    if (went) this.text.value = "";
  }

  async stop(): Promise<void> {
    if (this.cancel.hidden) return;
    const details = "The agent is stopped. What it has done so far stays.";
    if (!(await confirm("Cancel this run?", details, "Cancel run", "Keep running"))) return;
    this.cancel.disabled = true;
    await this.give({ kind: "cancel" }, (words) => this.tell(words));
    this.cancel.disabled = false;
  }

  async answer(requestId: string, decision: string): Promise<void> {
    await this.give({ kind: "permission", requestId, decision }, (words) => {
      this.answers.set(requestId, words);
      this.changed();
    });
  }

  private tell(words: string): void {
    this.element.hidden = false;
    this.text.hidden = this.send.hidden = !this.may("prompt");
    this.told.textContent = words;
  }

  /** Puts an order, and tells until the shell says what became of it. */
  private async give(order: Record<string, string>, tell: (words: string) => void): Promise<boolean> {
    const { doing, done } = wordsOf(order);
    try {
      const { order: number } = await hub.order(this.id, order);
      tell(`${doing}…`);
      for (let wait = 200; wait < 30_000; wait *= 1.6) {
        await new Promise((resolve) => setTimeout(resolve, Math.min(wait, 3_000)));
        const { orders } = await hub.orders(this.id, number - 1);
        const taken = orders.find((one) => one.order.order === number)?.taken;
        if (!taken) continue;
        tell(taken.accepted ? done : ["Refused", taken.reason].filter(Boolean).join(": "));
        return taken.accepted;
      }
      tell("Sent. The runner has not answered yet.");
      return true;
    } catch (error) {
      tell(`${doing} failed: ${error instanceof Refused ? error.message : "the request could not be sent"}`);
      return false;
    }
  }
}

/** An order in words, before and after the runner took it. */
function wordsOf({ kind, decision }: Record<string, string>): { doing: string; done: string } {
  if (kind === "cancel") return { doing: "Cancelling", done: "Cancelled" };
  if (kind === "prompt") return { doing: "Sending", done: "Sent" };
  return { doing: "Answering", done: decision === "allow" ? "Allowed" : decision === "deny" ? "Denied" : `Answered: ${decision}` };
}
