// What a session does, in a word.

import type { Phase, Session } from "./types";

const WORDS: Record<Phase, [words: string, look: string]> = {
  starting: ["starting", "live"],
  running: ["running", "live"],
  asking: ["asks", "asks"],
  success: ["done", "done"],
  error: ["failed", "bad"],
  cancelled: ["cancelled", "off"],
  timeout: ["timed out", "bad"],
  incomplete: ["incomplete", "bad"],
};

export const PHASES = Object.entries(WORDS).map(([phase, [words]]) => [phase, words] as [string, string]);

/** Whether somebody would tell what happens now: its shell, or, of a run that has none, the log that it writes on this machine. */
export function isHere(session: Session): boolean {
  return session.connected || session.shell == null;
}

export function statusOf(session: Session): { words: string; look: string; detail: string } {
  const [words, look] = WORDS[session.overview.phase] ?? ["unknown", "off"];
  const away = (look === "live" || look === "asks") && !isHere(session);
  return { words: away ? "away" : words, look: away ? "away" : look, detail: away ? `${words}; its shell is not connected` : words };
}
