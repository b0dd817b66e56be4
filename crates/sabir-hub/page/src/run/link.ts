// Addresses of events.

import { toast } from "../screen";

/** Puts a link to an event where it can be pasted from, and into the address bar. */
export async function copyLink(session: string, number: number): Promise<void> {
  const address = `${location.origin}${location.pathname}#/run/${encodeURIComponent(session)}/${number}`;
  history.replaceState(null, "", address);
  try {
    await navigator.clipboard.writeText(address);
    toast("The link is copied.");
  } catch {
    toast("The link is in the address bar.");
  }
}
