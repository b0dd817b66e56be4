// Pictures made small: a page has few colours, so a table of them and a byte for each point are enough.

import { deflateSync, inflateSync } from "node:zlib";

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/** The same picture with at most so many colours. */
export function small(png, most = 96) {
  const { width, height, points } = decode(png);
  const { colours, places } = reduce(points, most);
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) rows[y * (width + 1) + 1 + x] = places.get(points[y * width + x]);
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  const table = Buffer.from(colours.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]));
  return Buffer.concat([SIGNATURE, chunk("IHDR", head), chunk("PLTE", table), chunk("IDAT", deflateSync(rows, { level: 9, memLevel: 9 })), chunk("IEND", Buffer.alloc(0))]);
}

/** Points as 0xRRGGBB. A browser writes eight bits a channel, with or without transparency, and no interlace. */
function decode(png) {
  const parts = [];
  let [width, height, size] = [0, 0, 3];
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at);
    const name = png.toString("latin1", at + 4, at + 8);
    const body = png.subarray(at + 8, at + 8 + length);
    if (name === "IHDR") [width, height, size] = [body.readUInt32BE(0), body.readUInt32BE(4), body[9] === 6 ? 4 : 3];
    if (name === "IDAT") parts.push(body);
    at += length + 12;
  }
  const raw = inflateSync(Buffer.concat(parts));
  const stride = width * size;
  const points = new Uint32Array(width * height);
  let above = Buffer.alloc(stride);
  for (let y = 0; y < height; y += 1) {
    const kind = raw[y * (stride + 1)];
    const line = raw.subarray(y * (stride + 1) + 1, (y + 1) * (stride + 1));
    for (let place = 0; place < stride; place += 1) {
      const [left, up, corner] = [place < size ? 0 : line[place - size], above[place], place < size ? 0 : above[place - size]];
      line[place] += [0, left, up, (left + up) >> 1, paeth(left, up, corner)][kind];
    }
    for (let x = 0; x < width; x += 1) points[y * width + x] = (line[x * size] << 16) | (line[x * size + 1] << 8) | line[x * size + 2];
    above = line;
  }
  return { width, height, points };
}

function paeth(left, up, corner) {
  const guess = left + up - corner;
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)];
  return a <= b && a <= c ? left : b <= c ? up : corner;
}

/** The colours that stay, and for each colour the place of the one that stands for it. */
function reduce(points, most) {
  const counts = new Map();
  for (const point of points) counts.set(point, (counts.get(point) ?? 0) + 1);
  // Boxes of colours; the one whose colours differ most, by how many points have them, is halved until there are enough.
  let boxes = [[...counts]];
  while (boxes.length < most) {
    const widest = boxes.map((box) => ({ box, ...spread(box) })).sort((a, b) => b.worth - a.worth)[0];
    if (!widest || widest.worth === 0) break;
    const sorted = widest.box.sort(([a], [b]) => channel(a, widest.channel) - channel(b, widest.channel));
    const middle = sorted.reduce((sum, [colour, count]) => sum + channel(colour, widest.channel) * Math.sqrt(count), 0) / sorted.reduce((sum, [, count]) => sum + Math.sqrt(count), 0);
    const cut = Math.max(1, Math.min(sorted.length - 1, sorted.findIndex(([colour]) => channel(colour, widest.channel) > middle)));
    boxes = boxes.filter((box) => box !== widest.box).concat([sorted.slice(0, cut), sorted.slice(cut)]);
  }
  const places = new Map();
  const colours = boxes.map((box, place) => {
    for (const [colour] of box) places.set(colour, place);
    // The most frequent colour stays what it is: grounds are large, and must not change.
    return box.reduce((best, one) => (one[1] > best[1] ? one : best))[0];
  });
  return { colours, places };
}

const channel = (colour, which) => (colour >> (which * 8)) & 255;

function spread(box) {
  if (box.length < 2) return { worth: 0, channel: 0 };
  const ranges = [0, 1, 2].map((which) => {
    const values = box.map(([colour]) => channel(colour, which));
    return values.reduce((high, value) => Math.max(high, value)) - values.reduce((low, value) => Math.min(low, value));
  });
  const most = Math.max(...ranges);
  return { worth: most * Math.sqrt(box.reduce((sum, [, count]) => sum + Math.sqrt(count), 0)), channel: ranges.indexOf(most) };
}

function chunk(name, body) {
  const named = Buffer.concat([Buffer.from(name, "latin1"), body]);
  const out = Buffer.alloc(body.length + 12);
  out.writeUInt32BE(body.length, 0);
  named.copy(out, 4);
  out.writeUInt32BE(sum(named), body.length + 8);
  return out;
}

const TABLE = Uint32Array.from({ length: 256 }, (_, start) => {
  let value = start;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value >>> 0;
});

function sum(bytes) {
  let value = 0xffffffff;
  for (const byte of bytes) value = TABLE[(value ^ byte) & 255] ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}
