// What keys and buttons do on the screen of a run.

import type { Deeds } from "../keys";
import type { RunScreen } from "../screen/run";

export function deedsOf(run: RunScreen): Deeds {
  const { find, looks, orders, replay, timeline, element } = run;
  return {
    next: () => run.step(1),
    previous: () => run.step(-1),
    toggle: () => run.selected >= 0 && looks.toggle(run.selected),
    search: () => find.input.select(),
    "find-next": () => find.step(1),
    "find-previous": () => find.step(-1),
    "next-error": () => run.step(1, timeline.trouble(), "center"),
    "previous-error": () => run.step(-1, timeline.trouble(), "center"),
    "next-turn": () => run.step(1, timeline.turns(), "center"),
    "previous-turn": () => run.step(-1, timeline.turns(), "center"),
    first: () => run.edge("first"),
    last: () => run.edge("last"),
    follow: () => {
      if (replay.until !== null) replay.end();
      run.follow(!run.following);
    },
    raw: () => run.selected >= 0 && looks.turn(run.selected, null, run.exported === null),
    "copy-link": () => void run.copyLink(),
    timeline: () => run.focus(),
    waterfall: () => element.classList.toggle("no-waterfall"),
    facts: () => element.classList.toggle("other-facts"),
    play: () => replay.play(),
    "replay-first": () => replay.first(),
    slower: () => replay.faster(-1),
    faster: () => replay.faster(1),
    leave: () => (find.active ? find.clear() : replay.until !== null ? replay.end() : undefined),
    "show-all": () => run.filter("all"),
    cancel: () => void orders.stop(),
  };
}
