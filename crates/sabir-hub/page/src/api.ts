// Asking the hub. The token never is in an address, but for the one-time token that `sabir serve` puts behind the `#`.

import type { Me, Placed, Session, Sessions, Usage } from "./types";

const KEPT = "sabir-token";

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

function token(): string | null {
  return sessionStorage.getItem(KEPT);
}

export function keepToken(value: string): void {
  sessionStorage.setItem(KEPT, value);
}

export function headers(more: Record<string, string> = {}): Record<string, string> {
  const known = token();
  return known === null ? more : { ...more, Authorization: `Bearer ${known}` };
}

/** Changes the one-time token of the address into one that is kept while the tab is open. */
export async function enter(): Promise<void> {
  const found = /^#token=([^&]+)/.exec(location.hash)?.[1];
  if (found === undefined) return;
  history.replaceState(null, "", `${location.pathname}${location.search}#/`);
  const answer = await ask("/v1/enter", { method: "POST", body: JSON.stringify({ token: decodeURIComponent(found) }) });
  keepToken(((await answer.json()) as { token: string }).token);
}

/** A request; an answer that is a refusal is thrown. */
export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const typed: Record<string, string> = init.body === undefined ? {} : { "Content-Type": "application/json" };
  let answer: Response;
  try {
    answer = await fetch(path, { ...init, headers: headers({ ...typed, ...(init.headers as Record<string, string>) }) });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Refused(0, "The hub does not answer.", "Is it still running?");
  }
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
}

export const hub = {
  me: () => json<Me>("/v1/me"),
  sessions(choice: Choice, cursor: string | null, signal: AbortSignal): Promise<Sessions> {
    const query = new URLSearchParams({ limit: "100" });
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
