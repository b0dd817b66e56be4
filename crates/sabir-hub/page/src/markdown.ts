// What agents say is often Markdown. This reads the part of it that helps reading, and leaves the rest as it stands.

import { el } from "./dom";
import { show } from "./invisible";
import { code, familyOf, NOWHERE } from "./syntax";

/** Adds a text to an element. */
export function markdown(parent: HTMLElement, text: string): void {
  const lines = text.split("\n");
  let paragraph: string[] = [];
  const flush = () => {
    if (paragraph.length > 0) parent.append(inline(el("p"), paragraph.join("\n")));
    paragraph = [];
  };
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] as string;
    const fence = /^\s{0,3}(```+|~~~+)\s*([^\s`]*)/.exec(line);
    if (fence) {
      flush();
      const body: string[] = [];
      const close = fence[1] as string;
      for (at += 1; at < lines.length && !(lines[at] as string).trim().startsWith(close); at += 1) body.push(lines[at] as string);
      parent.append(block(body, fence[2] ?? ""));
      continue;
    }
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    if (heading) {
      flush();
      // Headings of an answer are not headings of the page.
      parent.append(inline(el("div", { class: `md-heading md-heading-${Math.min(4, (heading[1] as string).length)}` }), heading[2] ?? ""));
      continue;
    }
    if (/^\s*([-*+]|\d{1,9}[.)])\s+\S/.test(line)) {
      flush();
      const list: string[] = [];
      for (; at < lines.length && isOfList(lines[at] as string, list.length > 0); at += 1) list.push(lines[at] as string);
      at -= 1;
      listed(parent, list);
      continue;
    }
    if (/^\s*\|.*\|\s*$/.test(line) && /^\s*\|[\s:|-]+\|\s*$/.test(lines[at + 1] ?? "")) {
      flush();
      const rows: string[] = [];
      for (; at < lines.length && /^\s*\|/.test(lines[at] as string); at += 1) rows.push(lines[at] as string);
      at -= 1;
      parent.append(table(rows));
      continue;
    }
    if (/^\s*(---+|\*\*\*+|___+)\s*$/.test(line)) {
      flush();
      parent.append(el("hr"));
      continue;
    }
    const quote = /^>\s?(.*)$/.exec(line);
    if (quote) {
      flush();
      const said: string[] = [];
      for (; at < lines.length && (lines[at] as string).startsWith(">"); at += 1) said.push((lines[at] as string).replace(/^>\s?/, ""));
      at -= 1;
      parent.append(inline(el("blockquote"), said.join("\n")));
      continue;
    }
    if (line.trim() === "") flush();
    else paragraph.push(line);
  }
  flush();
}

function isOfList(line: string, begun: boolean): boolean {
  return /^\s*([-*+]|\d{1,9}[.)])\s+\S/.test(line) || (begun && /^\s{2,}\S/.test(line));
}

/** Lists are shown by their indentation: nested ones need no tree of their own. */
function listed(parent: HTMLElement, lines: string[]): void {
  const list = el("ul", { class: "md-list" });
  for (const line of lines) {
    const found = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/.exec(line);
    const last = list.lastElementChild;
    if (!found) {
      if (last) {
        last.append("\n");
        inline(last as HTMLElement, line.trim());
      }
      continue;
    }
    const depth = Math.min(4, Math.floor((found[1] as string).replaceAll("\t", "  ").length / 2));
    const mark = /\d/.test(found[2] as string) ? (found[2] as string) : "•";
    const task = /^\[([ xX])\]\s+(.*)$/.exec(found[3] as string);
    const text = el("span", { class: "md-item" });
    inline(text, task ? (task[2] as string) : (found[3] as string));
    const sign = task ? (task[1] === " " ? "☐" : "☑") : mark;
    list.append(el("li", { class: `md-depth-${depth}` }, el("span", { class: "md-mark" }, sign), text));
  }
  parent.append(list);
}

function block(lines: string[], language: string): HTMLElement {
  const name = language === "" ? null : familyOf(`.${language}`);
  const inside = el("code");
  let left = NOWHERE;
  lines.forEach((line, place) => {
    if (place > 0) inside.append("\n");
    left = code(inside, line, name, left);
  });
  return el("pre", { class: "md-code", tabindex: 0, role: "group", "aria-label": "Code" }, inside);
}

function table(rows: string[]): HTMLElement {
  const cells = (row: string) => row.trim().replace(/^\|/, "").replace(/\|$/, "").split("|").map((cell) => cell.trim());
  const [head, , ...rest] = rows;
  const line = (row: string, tag: "th" | "td") => el("tr", null, ...cells(row).map((cell) => inline(el(tag), cell)));
  const whole = el("table", { class: "md-table" }, el("thead", null, line(head ?? "", "th")), el("tbody", null, ...rest.map((row) => line(row, "td"))));
  return el("div", { class: "md-scroll" }, whole);
}

// Code first: nothing inside it means anything else.
const INLINE = /(`+)([^`]|[^`].*?[^`])\1(?!`)|\*\*(?=\S)(.+?)(?<=\S)\*\*|(?<![\w*])\*(?=[^\s*])([^*\n]+?)(?<=\S)\*(?![\w*])|\[([^\]\n]{1,300})\]\((\S{1,2000}?)\)|(https?:\/\/[^\s<>"'`)\]]{1,2000})/s;

function inline<Kind extends HTMLElement>(parent: Kind, text: string): Kind {
  let rest = text;
  while (rest !== "") {
    const found = INLINE.exec(rest);
    if (!found) break;
    show(parent, rest.slice(0, found.index));
    rest = rest.slice(found.index + found[0].length);
    const [whole, , quoted, bold, slanted, label, target, bare] = found;
    if (quoted !== undefined) {
      const span = el("code");
      show(span, quoted.trim() === "" ? quoted : quoted.replace(/^ (.*) $/s, "$1"));
      parent.append(span);
    } else if (bold !== undefined) {
      parent.append(inline(el("strong"), bold));
    } else if (slanted !== undefined) {
      parent.append(inline(el("em"), slanted));
    } else if (label !== undefined && target !== undefined) {
      link(parent, label, target, whole);
    } else if (bare !== undefined) {
      // A full stop at the end is of the sentence.
      const address = bare.replace(/[.,;:!?]+$/, "");
      link(parent, address, address, address);
      show(parent, bare.slice(address.length));
    }
  }
  show(parent, rest);
  return parent;
}

/** Only addresses of the web can be followed; where they lead is in the tooltip. */
function link(parent: HTMLElement, label: string, target: string, asWritten: string): void {
  let address: URL | null = null;
  try {
    address = new URL(target);
  } catch {
    address = null;
  }
  if (address === null || (address.protocol !== "http:" && address.protocol !== "https:")) {
    show(parent, asWritten);
    return;
  }
  const anchor = el("a", { href: address.href, rel: "noreferrer noopener nofollow", target: "_blank", title: address.href });
  show(anchor, label);
  parent.append(anchor);
}
