// Characters that nobody sees, but that change what is seen: they are shown as what they are.

const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;

/** Joins the parts of emoji; alone it does no harm. */
const JOINER = "\u200d";

export type Piece = { text: string; mark: boolean };

/** A text in pieces: as it is, or a mark in place of one hidden character. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match[0] === JOINER) continue;
    if (match.index > from) found.push({ text: text.slice(from, match.index), mark: false });
    found.push({ text: name(match[0]), mark: true });
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push({ text: text.slice(from), mark: false });
  return found;
}

function name(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  // As terminals write control characters: not every font has pictures of them.
  if (code < 0x20 || code === 0x7f) return `^${String.fromCodePoint(code ^ 0x40)}`;
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Adds a text with marks to an element. */
export function show(parent: Node, text: string): void {
  for (const piece of pieces(text)) {
    if (!piece.mark) {
      parent.appendChild(document.createTextNode(piece.text));
      continue;
    }
    const mark = document.createElement("span");
    mark.className = "hidden-mark";
    mark.textContent = piece.text;
    parent.appendChild(mark);
  }
}

/** The text with marks, for places that take no elements: tooltips, names for screen readers, drawings. */
export function plain(text: string): string {
  return pieces(text).map((piece) => piece.text).join("");
}
