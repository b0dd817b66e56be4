// Changed files, with what changed in them.

import type { Context } from "../card";
import { countLines, showDiff } from "../diff";
import { el, type Child } from "../dom";
import { base, beneath, plural } from "../format";
import { icon } from "../icons";
import { plain, show } from "../invisible";
import { leftOut } from "../timeline";
import type { Item, Of } from "../types";
import { gapOf, more } from "./speech";

const PEEK = 16;
const MOST = 3_000;

const WORDS = { create: "new", update: "changed", delete: "deleted", rename: "renamed" };

export function file(item: Item, what: Of<"file">, context: Context): Child[] {
  const open = context.opened(item.id, "body");
  const name = el("span", { class: "file-path" });
  const path = beneath(context.folder, what.path);
  const short = base(path);
  const folder = el("span", { class: "file-folder" });
  show(folder, path.slice(0, path.length - short.length));
  name.title = plain(what.path);
  const last = el("span", { class: "file-name" });
  show(last, short);
  name.append(folder, last);
  const was = what.from ? el("span", { class: "fact" }) : null;
  if (was && what.from) show(was, `was ${beneath(context.folder, what.from)}`);
  const head = el(
    "div",
    { class: "file-head" },
    name,
    was,
    el(
      "span",
      { class: "head-facts" },
      el("span", { class: `badge is-${what.change}` }, WORDS[what.change] ?? what.change),
      what.added != null && el("span", { class: "added figure" }, `+${what.added}`),
      what.removed != null && el("span", { class: "removed figure" }, `−${what.removed}`),
    ),
  );
  const loaded = context.whole(item.id, "diff");
  const diff = loaded ?? what.diff?.text ?? "";
  if (diff === "") return [head];
  const total = countLines(diff);
  const long = total > PEEK + 6;
  const out: Child[] = [head, showDiff(diff, what.path, long && open !== true ? PEEK : MOST)];
  const missing = loaded === null && what.diff ? leftOut(what.diff) : 0;
  if (missing > 0 && (open === true || !long)) out.push(gapOf(missing, "diff", context.online));
  if (long) out.push(more(open === true, missing > 0 ? "the diff" : plural(total, "line")));
  return out;
}

/** Edits that are only proposed. */
export function edits(what: Of<"edits">): Child[] {
  return what.edits.map((edit) => {
    const path = el("span", { class: "file-path" });
    show(path, edit.filePath);
    const text = el("pre", { class: "argument-text" });
    show(text, edit.replacement);
    return el("div", null, el("div", { class: "file-head" }, icon("edit"), path, edit.title && el("span", { class: "fact" }, edit.title)), text);
  });
}
