// Heights of rows that nobody has seen yet.

import type { Item } from "../types";

/** About how high a row is. */
export function guess(item: Item): number {
  const what = item.what;
  switch (what.kind) {
    case "turn":
      return 36;
    case "text":
    case "prompt":
      return 34 + Math.min(1_500, (what.text.text.length / 90) * 20);
    case "tool":
      return what.toolKind === "execute" && what.output ? 120 : 36;
    case "file":
      return what.diff ? 220 : 40;
    default:
      return 34;
  }
}
