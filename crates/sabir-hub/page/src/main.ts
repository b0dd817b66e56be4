// The page begins here: a run in a file of its own, or everything that a hub has.
// `address.ts` says how a screen is addressed.

import { forget, parse, settle, visit } from "./address";
import { enter, hub, loginMethod, onSignedOut, Refused, signIn } from "./api";
import { add, button, el, within } from "./dom";
import { icon } from "./icons";
import { deedOf, help } from "./keys";
import { failure, toast, type Screen } from "./screen";
import { RunScreen } from "./screen/run";
import { listAddress, RunsScreen } from "./screen/runs";
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
  void me?.then(({ local, readOnly, cookie }) => {
    for (const [is, words] of [[local, "This machine"], [readOnly, "Read-only"]] as const) add(notes, is && el("span", { class: "fact top-note" }, words));
    add(notes, cookie && button("logout", { class: "plain" }, "Log out"));
  }, () => undefined);
  const nav = el("nav", { "aria-label": "Pages" }, el("a", { href: "#/" }, "Runs"), el("a", { href: "#/spend" }, "Spend"));
  const bar = el(
    "header",
    { class: "top" },
    el("a", { class: "brand", href: "#/", "aria-label": "Sabir" }, el("span", { class: "brand-mark", "aria-hidden": "true" }), "Sabir"),
    me !== null && nav,
    el("span", { class: "spacer" }),
    notes,
    button("help", { class: "square plain", "aria-label": "Keyboard shortcuts", title: "Keyboard shortcuts (?)" }, icon("question")),
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
  const [runs, spend] = app.querySelectorAll("nav a");
  runs?.setAttribute("href", listAddress());
  for (const link of [runs, spend]) {
    if (!link) continue;
    const here = (link === spend) === (next.name === "spend");
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

let shown = "";

function isEntrance(): boolean {
  return location.hash.startsWith("#token=");
}

function route(place: HTMLElement, me: Promise<Me>): void {
  if (isEntrance()) return;
  // What the screen before wanted to save is of another history entry.
  forget();
  const address = parse(location.hash);
  const { page, id } = address;
  if (page === "run" && id) {
    if (screen instanceof RunScreen && shown === id) {
      screen.read(address);
      return;
    }
    shown = id;
    show(place, new RunScreen(id, address, me, null));
    return;
  }
  shown = "";
  show(place, page === "spend" ? new SpendScreen(address) : new RunsScreen(me, address));
}

function hears(): void {
  const act = (deed: string): boolean => {
    if (deed === "help") help(screen?.name ?? "runs");
    else if (deed === "theme") nextTheme();
    else if (deed === "runs") visit(listAddress());
    else if (deed === "spend") visit("#/spend");
    else if (deed === "logout") void logOut();
    else if (screen?.deeds[deed]) screen.deeds[deed]();
    else return false;
    return true;
  };
  document.addEventListener("keydown", (event) => {
    if (screen === null) return;
    const deed = deedOf(event, screen.name);
    if (deed !== null && act(deed)) event.preventDefault();
  });
  // Somebody pasted a new address over the one that is shown.
  window.addEventListener("hashchange", () => {
    if (!isEntrance()) return;
    asks = false;
    void begin();
  });
  // A link leaves the history entry, and so does a reload.
  document.addEventListener("click", settle, true);
  window.addEventListener("pagehide", settle);
  app.addEventListener("click", (event) => {
    const deed = within(event, "data-do")?.dataset.do;
    if (deed) act(deed);
  });
}

/** Leaves what is shown for something that needs no hub. */
function clear(): HTMLElement {
  forget();
  screen?.leave();
  screen = null;
  window.onhashchange = null;
  return frame(null);
}

/** Whether the form to sign in is shown. */
let asks = false;

/** Shows the form to sign in. The address stays, so that one comes to what was wanted. */
async function askToSignIn(trouble: Refused | null = null): Promise<void> {
  if (asks) return;
  asks = true;
  const place = clear();
  const method = await loginMethod().catch(() => "token" as const);
  const input = el("input", { type: method === "address" ? "text" : "password", spellcheck: "false", "aria-label": method === "address" ? "Address" : "Token", autocomplete: "off", required: true });
  const message = el("p", { class: "is-bad", role: "alert" });
  const form = el("form", { class: "door" });
  const tell = (error: unknown) => (message.textContent = whyNot(error, method));
  add(form, el("h1", null, "Sign in"));
  if (method === "address") add(form, el("p", null, "Open the address that Sabir printed in its terminal last, or paste it here:"));
  else add(form, el("p", null, "Ask the hub's administrator for a token, or create one:"), el("pre", { class: "command" }, "sabir hub token new --scope operate"));
  add(
    form,
    el("div", { class: "door-row" }, input, el("button", { type: "submit", class: "primary" }, "Sign in")),
    message,
    el("p", { class: "fact" }, "All tabs stay signed in until you log out or close the browser."),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = input.value.trim();
    message.textContent = "";
    signIn(/#token=([^&\s]+)/.exec(text)?.[1] ?? text).then(
      () => {
        asks = false;
        void begin();
      },
      (error: unknown) => {
        tell(error);
        input.select();
      },
    );
  });
  place.append(el("main", { class: "door-place" }, form));
  if (trouble) tell(trouble);
  input.focus();
}

function whyNot(error: unknown, method: "address" | "token"): string {
  if (!(error instanceof Refused)) return "Something went wrong. Reload the page to try again.";
  if (error.status !== 401) return [error.message, error.hint].filter(Boolean).join(" ");
  return method === "address" ? "This address was already used, or is from another run of Sabir." : "Wrong token. Check that it is complete and not revoked.";
}

async function logOut(): Promise<void> {
  try {
    await hub.logout();
    await askToSignIn();
  } catch (error) {
    toast(error instanceof Refused ? error.message : "Something went wrong");
  }
}

async function begin(): Promise<void> {
  // An address that was used already does no harm where the browser is signed in.
  const trouble = await enter().then(() => null, (error: unknown) => error);
  try {
    if (trouble instanceof Refused && trouble.status !== 401) throw trouble;
    // Nobody waits for the answer: what is shown first is asked for beside it.
    const me = hub.me();
    onSignedOut(() => void askToSignIn(trouble instanceof Refused ? trouble : null));
    const place = frame(me);
    const again = () => route(place, me);
    window.onhashchange = again;
    again();
    await me;
  } catch (error) {
    if (error instanceof Refused && error.status === 401) return;
    clear().append(el("main", null, failure(error)));
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
