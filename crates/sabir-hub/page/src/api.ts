// Requests to the hub. The browser authenticates them by the session cookie, which no script can read; the one-time token
// that `sabir serve` puts behind the `#` is exchanged for it.

import type { Me, Placed, Session, Sessions, Usage } from "./types";

/** Where older versions kept the token of a tab. */
const STORED = "sabir-token";

/** What the hub answers when it does not do what it was asked. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly hint: string | null,
  ) {
    super(message);
  }
}

/** Signs in with a token, or with the one-time token of an address. */
export async function signIn(token: string): Promise<void> {
  await ask("/v1/login", { method: "POST", body: JSON.stringify({ token }) });
}

/** Signs in with the one-time token in the address, or with a token that an older version stored. */
export async function enter(): Promise<void> {
  const once = /^#token=([^&]+)/.exec(location.hash)?.[1];
  const stored = sessionStorage.getItem(STORED);
  sessionStorage.removeItem(STORED);
  if (once !== undefined) {
    history.replaceState(null, "", `${location.pathname}${location.search}#/`);
    await signIn(decodeURIComponent(once));
  } else if (stored !== null) {
    await signIn(stored);
  }
}

/** Whether an address or a token signs in here. */
export async function loginMethod(): Promise<"address" | "token"> {
  const { method } = await json<{ method: string }>("/v1/login");
  return method === "address" ? method : "token";
}

let signedOut: () => void = () => undefined;

/** Calls when the hub no longer knows who asks. */
export function onSignedOut(hear: () => void): void {
  signedOut = hear;
}

/** A request; an answer that is a refusal is thrown. */
export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const typed: Record<string, string> = init.body === undefined ? {} : { "Content-Type": "application/json" };
  let answer: Response;
  try {
    answer = await fetch(path, { ...init, headers: { ...typed, ...(init.headers as Record<string, string>) } });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Refused(0, "The hub doesn't answer.", "Is it still running?");
  }
  if (answer.status === 401 && path !== "/v1/login") signedOut();
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

export async function refusal(answer: Response): Promise<Refused> {
  let said: { message?: unknown; hint?: unknown; error?: unknown } = {};
  try {
    said = (await answer.json()) as typeof said;
  } catch {
    // Not every refusal is JSON: a proxy may stand between.
  }
  const inner = typeof said.error === "object" && said.error !== null ? (said.error as typeof said) : said;
  const message = typeof inner.message === "string" ? inner.message : `The hub answered ${answer.status}.`;
  return new Refused(answer.status, message, typeof inner.hint === "string" ? inner.hint : null);
}

async function json<Kind>(path: string, signal?: AbortSignal): Promise<Kind> {
  return (await (await ask(path, signal ? { signal } : {})).json()) as Kind;
}

export interface Choice {
  agent: string;
  status: string;
  since: string;
  text: string;
  /** The beginning of an id. */
  prefix: string;
}

export const hub = {
  me: () => json<Me>("/v1/me"),
  logout: () => ask("/v1/logout", { method: "POST" }),
  sessions(choice: Partial<Choice>, limit: number, cursor: string | null, signal: AbortSignal): Promise<Sessions> {
    const query = new URLSearchParams({ limit: String(limit) });
    for (const [name, value] of Object.entries(choice)) if (value !== "") query.set(name, value);
    if (cursor !== null) query.set("cursor", cursor);
    return json(`/v1/sessions?${query}`, signal);
  },
  agents: async () => (await json<{ agents: string[] }>("/v1/agents")).agents,
  session: (id: string) => json<Session>(at(id)),
  usage: (since: string | null) => json<Usage>(since === null ? "/v1/usage" : `/v1/usage?since=${encodeURIComponent(since)}`),
  event: (id: string, number: number) => json<Record<string, unknown>>(at(id, `/events/${number}`)),
  line: async (id: string, number: number) => (await ask(at(id, `/lines/${number}`))).text(),
  order: async (id: string, order: Record<string, string>) =>
    (await (await ask(at(id, "/orders"), { method: "POST", body: JSON.stringify(order) })).json()) as { order: number },
  orders: (id: string, after: number) => json<{ orders: Placed[] }>(at(id, `/orders?after=${after}`)),
};

/** The address of a session. */
export function at(session: string, rest = ""): string {
  return `/v1/sessions/${encodeURIComponent(session)}${rest}`;
}
