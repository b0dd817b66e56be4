// Making elements. Every text goes through a text node, so nothing that an agent prints is ever read as markup.

export type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined>;

function fill(element: Element, attributes: Attributes | null, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, ...children);
}

/** An element with attributes and what is in it. */
export function el<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes | null = null,
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

/** A shape in a drawing. */
export function shape(tag: string, attributes: Attributes, ...children: Child[]): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(element, attributes, children);
  return element;
}

export function add(parent: Node, ...children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** A button that says what it does by `data-do`; one listener of the screen hears all of them. */
export function button(deed: string, attributes: Attributes, ...children: Child[]): HTMLButtonElement {
  return el("button", { type: "button", "data-do": deed, ...attributes }, ...children);
}

/** Changes a text, and what is said of it, only where they differ, so that a screen reader and a selection are left alone. */
export function say(node: HTMLElement, text: string, title: string | null = null): void {
  if (node.textContent !== text) node.textContent = text;
  if (title !== null && node.title !== title) node.title = title;
}

/** The element with this attribute that an event happened in. */
export function within(event: Event, attribute: string): HTMLElement | null {
  return event.target instanceof Element ? event.target.closest<HTMLElement>(`[${attribute}]`) : null;
}

/** Options of a select. */
export function options(select: HTMLSelectElement, choices: [value: string, words: string][], chosen: string): void {
  select.replaceChildren(...choices.map(([value, words]) => el("option", { value, selected: value === chosen }, words)));
  select.value = chosen;
}

/** Runs something at the next frame, however often it is asked for before. */
export function frame(work: () => void): () => void {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      work();
    });
  };
}
