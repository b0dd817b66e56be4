// Bundles src/ into ../assets: one script, one style, one page. `--out FOLDER` writes elsewhere.
//
// Names are stable. The hub puts a hash of the content into the addresses when it serves them.

import { build } from "esbuild";
import { copyFile, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const asked = process.argv.indexOf("--out");
const out = asked > 0 ? process.argv[asked + 1] : join(here, "../assets");

await mkdir(out, { recursive: true });
const common = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  charset: "utf8",
  // Licences of what is bundled stay with it.
  legalComments: "eof",
  target: ["chrome123", "firefox128", "safari17.5"],
};
await build({ ...common, entryPoints: ["src/main.ts"], outfile: join(out, "app.js"), format: "iife" });
await build({ ...common, entryPoints: ["style/main.css"], outfile: join(out, "style.css") });
await copyFile(join(here, "index.html"), join(out, "index.html"));
