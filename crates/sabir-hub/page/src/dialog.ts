// Dialogs.

import { el } from "./dom";

/** Asks before something that can't be undone. Escape is "no", and so is the button that has the focus. */
export function confirm(question: string, details: string, yes: string, no: string): Promise<boolean> {
  const refuse = el("button", { type: "button", autofocus: true }, no);
  const accept = el("button", { type: "button", class: "danger" }, yes);
  const dialog = el(
    "dialog",
    { class: "dialog confirm", "aria-labelledby": "confirm-question", "aria-describedby": "confirm-details" },
    el("h2", { id: "confirm-question" }, question),
    el("p", { id: "confirm-details" }, details),
    el("div", { class: "confirm-row" }, refuse, accept),
  );
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    refuse.addEventListener("click", () => dialog.close());
    accept.addEventListener("click", () => dialog.close("yes"));
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    document.body.append(dialog);
    dialog.showModal();
  });
}
