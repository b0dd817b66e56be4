// The address of the page: the screen, and what is chosen on it.
//
//   #/?agent=codex&status=error&since=86400&q=words     all runs, filtered
//   #/run/ID?event=N&run=R&show=errors&q=words          one run at the event whose `seq` is N; R where it is not the first run
//   #/run/ID/N                                          the same at message N of the log: links of older versions
//   #/spend?by=model&measure=tokens&range=7
//
// What is chosen replaces the address of the history entry that is shown. Scroll positions are in the entry's state, so that
// Back and reload find them.

export interface Address {
  page: string;
  /** The id of a run, or the beginning of one. */
  id: string;
  /** A message of the log. */
  message: number | null;
  query: URLSearchParams;
}

export function parse(hash: string): Address {
  const [path = "", query] = hash.replace(/^#/, "").split("?", 2);
  const [, page = "", id = "", message] = path.split("/");
  return { page, id: decode(id), message: numberOf(message), query: new URLSearchParams(query) };
}

/** A hash with a query of what is not empty. */
export function format(path: string, query: Record<string, string | number | null>): string {
  const chosen = Object.entries(query).filter(([, value]) => value !== null && value !== "");
  const text = new URLSearchParams(chosen.map(([name, value]) => [name, String(value)])).toString();
  return `#/${path}${text === "" ? "" : `?${text}`}`;
}

/** The hash of a run. */
export function runAddress(id: string, query: Record<string, string | number | null> = {}): string {
  return format(`run/${encodeURIComponent(id)}`, query);
}

/** The whole number from 0 in a text. */
export function numberOf(text: string | null | undefined): number | null {
  return text && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Browsers refuse to change the history more often than about 20 times a second. */
const PAUSE = 150;
let timer = 0;
let pending: (() => void) | null = null;

/** Saves soon what is chosen and where the screen is scrolled to. */
export function saveSoon(save: () => void): void {
  pending = save;
  if (timer === 0) timer = window.setTimeout(settle, PAUSE);
}

/** Saves now what was to be saved soon: the entry is about to be left. */
export function settle(): void {
  const save = pending;
  forget();
  save?.();
}

/** The entry is no longer that of the screen that wanted to save. */
export function forget(): void {
  clearTimeout(timer);
  [timer, pending] = [0, null];
}

export function replace(hash: string, state: unknown): void {
  history.replaceState(state, "", hash);
}

/** Goes to another address, as a link does. */
export function visit(hash: string): void {
  settle();
  location.hash = hash;
}
