// What somebody waits for who looks at the page: `cargo xtask bench page` starts this with the address of a page.
//
//   node test/figures.mjs ADDRESS [SESSION]     prints JSON; times are in milliseconds

import { chromium } from "playwright-core";

const [address, session] = process.argv.slice(2);
/** How many times, and how far, the wheel is turned. */
const [TURNS, FAR] = [240, 400];
/** How often the list is loaded. The first time, a browser that was only just started is busy with itself. */
const LOADS = 10;

const args = ["--no-sandbox", "--enable-precise-memory-info"];
const browser = await chromium.launch({ executablePath: process.env.SABIR_CHROMIUM ?? "/usr/bin/chromium", args });
try {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  page.setDefaultTimeout(120_000);
  // The page itself takes the time: a question from here is answered when the browser has nothing else to do.
  await page.addInitScript(() => {
    const look = () =>
      document.querySelector("a[href^='#/run/']") ? requestAnimationFrame(() => (window.listed = performance.now())) : requestAnimationFrame(look);
    look();
  });
  let weight = 0;
  const lists = [];
  for (let load = 0; load < LOADS; load += 1) {
    await (load === 0 ? page.goto(address) : page.reload());
    await page.waitForFunction(() => window.listed !== undefined);
    // What has come for the page itself, as it came. Later it is in the browser's cache.
    if (load === 0) weight = await page.evaluate(weigh);
    lists.push(await page.evaluate(() => Math.max(0, window.listed - performance.getEntriesByType("navigation")[0].loadEventEnd)));
  }
  if (session === undefined) {
    console.log(JSON.stringify({ weight, lists }));
  } else {
    // As if a link was clicked: the page is there, the run is not.
    const from = await page.evaluate((session) => {
      location.hash = `#/run/${encodeURIComponent(session)}`;
      return performance.now();
    }, session);
    const rows = await seen(page, ".row", from);
    const whole = await seen(page, "[role=feed][aria-busy=false]", from);
    await page.keyboard.press("g");
    const frames = (await page.evaluate(scroll, [TURNS, FAR])).sort((one, other) => one - other);
    const at = (share) => frames[Math.min(frames.length - 1, Math.floor(frames.length * share))];
    await page.requestGC();
    const memory = await page.evaluate(() => performance.memory.usedJSHeapSize);
    const exist = await page.locator(".row").count();
    console.log(JSON.stringify({ weight, lists, rows, whole, p50: at(0.5), p99: at(0.99), most: at(1), memory, exist }));
  }
} finally {
  await browser.close();
}

/** How many bytes the page, its style and its script were on their way. */
function weigh() {
  const parts = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
  return parts.filter(({ name }) => !new URL(name).pathname.startsWith("/v1/")).reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0);
}

/** Waits for the frame in which something is on the screen; how long after that time it was. */
function seen(page, what, from) {
  return page.evaluate(
    ([what, from]) =>
      new Promise((resolve) => {
        const look = () => (document.querySelector(what) ? requestAnimationFrame(() => resolve(performance.now() - from)) : requestAnimationFrame(look));
        look();
      }),
    [what, from],
  );
}

/** Scrolls through the run; the time between each frame and the next. */
function scroll([turns, far]) {
  const scroller = document.querySelector(".row").closest("[role=feed]");
  return new Promise((resolve) => {
    const frames = [];
    let last = null;
    const frame = (now) => {
      if (last !== null) frames.push(now - last);
      last = now;
      if (frames.length === turns) return resolve(frames);
      scroller.scrollTop += far;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
}
