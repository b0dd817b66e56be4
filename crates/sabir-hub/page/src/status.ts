// What a session does, in a word.

import type { Phase, Session } from "./types";

const WORDS: Record<Phase, [words: string, look: string]> = {
  starting: ["Starting", "live"],
  running: ["Running", "live"],
  asking: ["Needs approval", "asks"],
  success: ["Done", "done"],
  error: ["Failed", "bad"],
  cancelled: ["Cancelled", "off"],
  timeout: ["Timed out", "bad"],
  incomplete: ["Incomplete", "bad"],
};

export const PHASES = Object.entries(WORDS).map(([phase, [words]]) => [phase, words] as [string, string]);

/** Whether somebody would tell what happens now: its shell, or, of a run that has none, the log that it writes on this machine. */
export function isHere(session: Session): boolean {
  return session.connected || session.shell == null;
}

export function statusOf(session: Session): { words: string; look: string; detail: string } {
  const [words, look] = WORDS[session.overview.phase] ?? ["Unknown", "off"];
  const away = (look === "live" || look === "asks") && !isHere(session);
  return { words: away ? "Disconnected" : words, look: away ? "away" : look, detail: away ? `${words}; the runner is not connected` : words };
}
