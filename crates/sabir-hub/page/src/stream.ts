// Server-sent events over `fetch`: the browser's own reader of them does not tell why a hub refused.
//
//   connect ──► events ──► the end, or silence ──► wait a little ──► connect again, after the last id ──► …

import { ask, Refused } from "./api";

export interface Told {
  type: string;
  id: string | null;
  data: string;
}

export type Link = "connecting" | "open" | "lost";

/** The hub says something at least every 15 seconds. Who is silent for longer is gone. */
const SILENCE = 40_000;
const LONGEST_WAIT = 10_000;

/** Takes a stream apart. What is not whole yet stays inside. */
export class Reader {
  private rest = "";
  private readonly decoder = new TextDecoder();

  push(bytes: Uint8Array): Told[] {
    const text = this.rest + this.decoder.decode(bytes, { stream: true });
    const end = text.lastIndexOf("\n\n");
    if (end < 0) {
      this.rest = text;
      return [];
    }
    this.rest = text.slice(end + 2);
    const told: Told[] = [];
    for (const block of text.slice(0, end).split("\n\n")) {
      const one = read(block);
      if (one) told.push(one);
    }
    return told;
  }
}

function read(block: string): Told | null {
  let [type, id] = ["message", null as string | null];
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const field = line.slice(0, colon);
    const value = line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") data.push(value);
    else if (field === "event") type = value;
    else if (field === "id") id = value;
  }
  return data.length === 0 ? null : { type, id, data: data.join("\n") };
}

/** Follows a stream until it is told to stop. A refusal that no further try would change ends it. */
export async function follow(
  path: string,
  hear: (told: Told[]) => void,
  state: (link: Link, error: Refused | null) => void,
  signal: AbortSignal,
): Promise<void> {
  let last: string | null = null;
  let tries = 0;
  while (!signal.aborted) {
    state("connecting", null);
    const one = new AbortController();
    const stop = () => one.abort();
    signal.addEventListener("abort", stop);
    let timer = setTimeout(stop, SILENCE);
    try {
      const answer = await ask(path, { headers: last === null ? {} : { "Last-Event-ID": last }, signal: one.signal, cache: "no-store" });
      if (!answer.body) throw new Refused(0, "The answer is empty.", null);
      state("open", null);
      const reader = answer.body.getReader();
      const parts = new Reader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        tries = 0;
        clearTimeout(timer);
        timer = setTimeout(stop, SILENCE);
        const told = parts.push(value);
        if (told.length === 0) continue;
        hear(told);
        // Only what was heard counts as seen.
        last = told.findLast((event) => event.id !== null)?.id ?? last;
      }
    } catch (error) {
      if (error instanceof Refused && [400, 401, 403, 404].includes(error.status)) {
        state("lost", error);
        return;
      }
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", stop);
    }
    if (signal.aborted) return;
    state("lost", null);
    tries += 1;
    const wait = Math.min(LONGEST_WAIT, 300 * 2 ** tries) * (0.5 + Math.random() / 2);
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}
