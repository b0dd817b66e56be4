// Addresses of events.

import { replace, runAddress } from "../address";
import { toast } from "../screen";
import type { Item } from "../types";

/** The address of an item: by the number of its event, or of its message where it was made from no event. */
export function itemAddress(session: string, item: Item, more: Record<string, string> = {}): string {
  if (item.seq == null) return `#/run/${encodeURIComponent(session)}/${item.first}`;
  return runAddress(session, { event: item.seq, run: item.run > 1 ? item.run : null, ...more });
}

/** Puts a link to an item where it can be pasted from, and into the address bar. */
export async function copyLink(session: string, item: Item): Promise<void> {
  const hash = itemAddress(session, item);
  replace(hash, history.state);
  try {
    await navigator.clipboard.writeText(`${location.origin}${location.pathname}${hash}`);
    toast("Link copied");
  } catch {
    toast("Copy the link from the address bar");
  }
}
