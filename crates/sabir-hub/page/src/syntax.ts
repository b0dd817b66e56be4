// Colours for code: words, strings, comments and numbers, by the family of the language. Simple on purpose: it can be wrong
// about a word, never about what the text is.

import { show } from "./invisible";

type Class = "keyword" | "string" | "comment" | "number";
export type Token = { text: string; is: Class | null };

interface Family {
  line: string[];
  block: [open: string, close: string][];
  quotes: string;
  words: Set<string>;
}

const family = (line: string[], block: [string, string][], quotes: string, words: string): Family => ({
  line,
  block,
  quotes,
  words: new Set(words.split(" ")),
});

const C_WORDS =
  "abstract as async await bool boolean break byte case catch char class const constexpr continue default defer delete do double " +
  "else enum export extends extern false final finally float fn for from func function go goto if impl implements import in " +
  "instanceof int interface internal let long loop match mod move mut namespace new nil null nullptr operator override package " +
  "private protected pub public ref return self short sizeof static string struct super switch template this throw throws trait " +
  "true try type typedef typename typeof undefined union unsafe unsigned use using val var virtual void volatile when where while yield";
const SCRIPT_WORDS =
  "False None True alias and as assert async await begin break case class continue def del do done elif else elsif end ensure " +
  "esac except export false fi finally for from function global if import in is lambda let local module next nil nonlocal not " +
  "null or pass raise require rescue return self set then true try unless until while with yield";

const FAMILIES: Record<string, Family> = {
  c: family(["//"], [["/*", "*/"]], "\"'`", C_WORDS),
  script: family(["#"], [['"""', '"""'], ["'''", "'''"]], "\"'`", SCRIPT_WORDS),
  data: family(["#"], [], "\"'", "true false null yes no on off"),
  json: family([], [], '"', "true false null"),
  sql: family(
    ["--"],
    [["/*", "*/"]],
    "'\"",
    "select from where and or not null insert into values update set delete create table index view drop alter join left right inner outer on as order by group having limit union all distinct primary key references default begin commit",
  ),
  markup: family([], [["<!--", "-->"]], "\"'", ""),
  style: family([], [["/*", "*/"]], "\"'", "important from to"),
};

const EXTENSIONS: Record<string, keyof typeof FAMILIES> = {};
for (const [name, extensions] of Object.entries({
  c: "rs c h cc cpp hpp cs java js jsx mjs cjs ts tsx mts go swift kt kts scala php dart zig m proto groovy gradle",
  script: "py pyi rb sh bash zsh fish pl pm r ex exs nim cmake mk dockerfile makefile",
  data: "toml yaml yml ini cfg conf env properties lock",
  json: "json jsonc jsonl json5",
  sql: "sql",
  markup: "html htm xml svg vue",
  style: "css scss less",
})) {
  for (const extension of extensions.split(" ")) EXTENSIONS[extension] = name;
}

/** The family of a file's language, or of a language's name; null where there is none. */
export function familyOf(path: string): string | null {
  const name = path.slice(Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")) + 1).toLowerCase();
  const extension = name.slice(name.lastIndexOf(".") + 1);
  const named: Record<string, string> = {
    rust: "c", javascript: "c", typescript: "c", cpp: "c", golang: "c", kotlin: "c",
    python: "script", ruby: "script", shell: "script", console: "script", perl: "script", elixir: "script",
  };
  return EXTENSIONS[extension] ?? named[extension] ?? null;
}

/** What a line ended in the middle of: the place of a block in its family's list, or -1. */
export type Left = number;
export const NOWHERE: Left = -1;

/** A line in tokens. Very long lines are left as they are. */
export function tokens(line: string, name: string, left: Left = NOWHERE): [tokens: Token[], left: Left] {
  const rules = FAMILIES[name];
  if (!rules || line.length > 2_000) return [[{ text: line, is: null }], NOWHERE];
  const out: Token[] = [];
  let plainFrom = 0;
  let at = 0;
  const put = (until: number, is: Class) => {
    if (plainFrom < at) out.push({ text: line.slice(plainFrom, at), is: null });
    out.push({ text: line.slice(at, until), is });
    at = plainFrom = until;
  };
  if (left !== NOWHERE) {
    const close = rules.block[left]?.[1] ?? "";
    const end = line.indexOf(close);
    if (end < 0) return [[{ text: line, is: "comment" }], left];
    put(end + close.length, "comment");
  }
  while (at < line.length) {
    const character = line[at] as string;
    const block = rules.block.findIndex(([open]) => line.startsWith(open, at));
    if (block >= 0) {
      const [open, close] = rules.block[block] as [string, string];
      const end = line.indexOf(close, at + open.length);
      if (end < 0) {
        put(line.length, "comment");
        return [out, block];
      }
      put(end + close.length, "comment");
    } else if (rules.line.some((mark) => line.startsWith(mark, at))) {
      put(line.length, "comment");
    } else if (rules.quotes.includes(character)) {
      put(endOfString(line, at), "string");
    } else if (/[0-9]/.test(character)) {
      const number = /^[0-9][0-9a-zA-Z_.]*/.exec(line.slice(at, at + 64))?.[0] ?? character;
      put(at + number.length, "number");
    } else if (/[A-Za-z_$]/.test(character)) {
      const word = /^[A-Za-z_$][A-Za-z0-9_$]*/.exec(line.slice(at, at + 128))?.[0] ?? character;
      if (rules.words.has(name === "sql" ? word.toLowerCase() : word)) put(at + word.length, "keyword");
      else at += word.length;
    } else {
      at += 1;
    }
  }
  if (plainFrom < line.length) out.push({ text: line.slice(plainFrom), is: null });
  return [out, NOWHERE];
}

/** Where a string ends; one that does not end is only its quote (an apostrophe, a lifetime). */
function endOfString(line: string, from: number): number {
  const quote = line[from];
  for (let at = from + 1; at < line.length; at += 1) {
    if (line[at] === "\\") at += 1;
    else if (line[at] === quote) return at + 1;
  }
  return from + 1;
}

/** Adds a line of code to an element, and says what it ended in the middle of. */
export function code(parent: Node, line: string, name: string | null, left: Left = NOWHERE): Left {
  if (name === null) {
    show(parent, line);
    return NOWHERE;
  }
  const [found, then] = tokens(line, name, left);
  for (const token of found) {
    if (token.is === null) {
      show(parent, token.text);
      continue;
    }
    const span = document.createElement("span");
    span.className = `code-${token.is}`;
    show(span, token.text);
    parent.appendChild(span);
  }
  return then;
}
