// The page begins here: a run in a file of its own, or everything that a hub has.
//
//   #/              all runs
//   #/run/ID        one run
//   #/run/ID/N      one run, at event N
//   #/spend         what it cost

import { enter, hub, keepToken, Refused } from "./api";
import { add, button, el, within } from "./dom";
import { icon } from "./icons";
import { deedOf, help } from "./keys";
import { failure, type Screen } from "./screen";
import { RunScreen } from "./screen/run";
import { RunsScreen } from "./screen/runs";
import { SpendScreen } from "./screen/spend";
import { nextTheme, themeButton } from "./theme";
import type { Exported, Me } from "./types";

const app = document.getElementById("app") as HTMLElement;
let screen: Screen | null = null;

const OFFLINE: Me = { readOnly: true, scope: "watch", version: "", local: false };

/** What is around every screen. Who the reader is need not be known yet; `null` is somebody who has this page alone. */
function frame(me: Promise<Me> | null): HTMLElement {
  const place = el("div", { class: "place" });
  const notes = el("span");
  void me?.then(({ local, readOnly }) => {
    for (const [is, words] of [[local, "this machine"], [readOnly, "read-only"]] as const) add(notes, is && el("span", { class: "fact top-note" }, words));
  }, () => undefined);
  const nav = el("nav", { "aria-label": "Pages" }, el("a", { href: "#/" }, "Runs"), el("a", { href: "#/spend" }, "Spend"));
  const bar = el(
    "header",
    { class: "top" },
    el("a", { class: "brand", href: "#/", "aria-label": "Sabir" }, el("span", { class: "brand-mark", "aria-hidden": "true" }), "Sabir"),
    me !== null && nav,
    el("span", { class: "spacer" }),
    notes,
    button("help", { class: "square plain", "aria-label": "Keys", title: "Keys (?)" }, icon("question")),
    themeButton(),
  );
  app.replaceChildren(bar, place);
  return place;
}

function show(place: HTMLElement, next: Screen): void {
  screen?.leave();
  screen = next;
  place.replaceChildren(next.element);
  document.title = next.title === "Run" ? "Sabir" : `${next.title} · Sabir`;
  for (const link of app.querySelectorAll("nav a")) {
    const here = link.getAttribute("href") === (next.name === "spend" ? "#/spend" : "#/");
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

let shown = "";

function route(place: HTMLElement, me: Promise<Me>): void {
  const [, page, id, number] = location.hash.split("/");
  if (page === "run" && id) {
    const at = number && /^\d+$/.test(number) ? Number(number) : null;
    if (screen instanceof RunScreen && shown === id) {
      screen.jumpTo(at);
      return;
    }
    shown = id;
    show(place, new RunScreen(decode(id), at, me, null));
    return;
  }
  shown = "";
  show(place, page === "spend" ? new SpendScreen() : new RunsScreen(me));
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function hears(): void {
  const act = (deed: string): boolean => {
    if (deed === "help") help(screen?.name ?? "runs");
    else if (deed === "theme") nextTheme();
    else if (deed === "runs") location.hash = "#/";
    else if (deed === "spend") location.hash = "#/spend";
    else if (screen?.deeds[deed]) screen.deeds[deed]();
    else return false;
    return true;
  };
  document.addEventListener("keydown", (event) => {
    if (screen === null) return;
    const deed = deedOf(event, screen.name);
    if (deed !== null && act(deed)) event.preventDefault();
  });
  app.addEventListener("click", (event) => {
    const deed = within(event, "data-do")?.dataset.do;
    if (deed) act(deed);
  });
}

/** Asks for a token, where the hub wants one. */
function door(error: unknown): void {
  screen?.leave();
  screen = null;
  window.onhashchange = null;
  const place = frame(null);
  if (!(error instanceof Refused) || error.status !== 401) {
    place.append(el("main", null, failure(error)));
    return;
  }
  const input = el("input", { type: "password", "aria-label": "Token", autocomplete: "off", required: true, placeholder: "Token" });
  const form = el("form", { class: "door" });
  add(
    form,
    el("h1", null, "A token is needed"),
    el("p", null, "Whoever runs this hub makes one:"),
    el("pre", { class: "command" }, "sabir hub token new --scope operate"),
    el("div", { class: "door-row" }, input, el("button", { type: "submit", class: "primary" }, "Enter")),
    el("p", { class: "fact" }, "It is kept while this tab is open, and sent to this hub only."),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keepToken(input.value.trim());
    void begin();
  });
  place.append(el("main", { class: "door-place" }, form));
  input.focus();
}

async function begin(): Promise<void> {
  try {
    await enter();
    // Nobody waits for the answer: what is shown first is asked for beside it.
    const me = hub.me();
    const place = frame(me);
    const again = () => route(place, me);
    window.onhashchange = again;
    again();
    await me;
  } catch (error) {
    door(error);
  }
}

hears();
const run = document.getElementById("run");
if (run) {
  const exported = JSON.parse(run.textContent ?? "") as Exported;
  show(frame(null), new RunScreen(exported.session.session, null, Promise.resolve(OFFLINE), exported));
} else {
  void begin();
}
