// What somebody waits for who looks at the page: `cargo xtask bench page` starts this with the address of a page.
//
//   node test/figures.mjs ADDRESS [SESSION]     prints JSON; times are in milliseconds

import { chromium } from "playwright-core";

const [address, session] = process.argv.slice(2);
/** How many times, and how far, the wheel is turned. */
const [TURNS, FAR] = [240, 400];

const args = ["--no-sandbox", "--enable-precise-memory-info"];
const browser = await chromium.launch({ executablePath: process.env.SABIR_CHROMIUM ?? "/usr/bin/chromium", args });
try {
  // A browser that was only just started is busy with itself.
  await (await browser.newPage()).goto("about:blank");
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  page.setDefaultTimeout(120_000);
  // The page itself takes the time: a question from here is answered when the browser has nothing else to do.
  await page.addInitScript(() => {
    const look = () =>
      document.querySelector("a[href^='#/run/']") ? requestAnimationFrame(() => (window.listed = performance.now())) : requestAnimationFrame(look);
    look();
  });
  await page.goto(address);
  await page.waitForFunction(() => window.listed !== undefined);
  const list = await page.evaluate(() => Math.max(0, window.listed - performance.getEntriesByType("navigation")[0].loadEventEnd));
  if (session === undefined) {
    console.log(JSON.stringify({ list }));
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
    console.log(JSON.stringify({ list, rows, whole, p50: at(0.5), p99: at(0.99), most: at(1), memory, exist }));
  }
} finally {
  await browser.close();
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
