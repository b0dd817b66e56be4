// Drawing on canvases in the colours of the theme.

import { onTheme } from "./theme";

const probe = document.createElement("span");
const known = new Map<string, string>();
onTheme(() => known.clear());

/** What a colour of the style sheet is now. Asking the browser makes it look at all styles, so it is asked once. */
export function themed(name: string): string {
  const before = known.get(name);
  if (before !== undefined) return before;
  if (!probe.isConnected) {
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(--${name})`;
  const colour = getComputedStyle(probe).color;
  known.set(name, colour);
  return colour;
}

/** A canvas as large as its place, in the pixels of the screen; null while it is not shown. */
export function surface(canvas: HTMLCanvasElement): { draw: CanvasRenderingContext2D; width: number; height: number } | null {
  const { clientWidth: width, clientHeight: height } = canvas;
  const draw = canvas.getContext("2d");
  if (width === 0 || height === 0 || !draw) return null;
  const scale = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  draw.setTransform(scale, 0, 0, scale, 0, 0);
  draw.clearRect(0, 0, width, height);
  return { draw, width, height };
}
