// A machine on which agents were used for a month: their logs, beneath a home of its own, and a run that goes on.

import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { dice, log } from "./logs.mjs";
import { FEATURED, LIVE, OTHERS } from "./stories.mjs";

/** Writes everything, and says which session is to be looked at. */
export async function furnish(home, now) {
  const featured = await log(home, FEATURED, now);
  for (const story of OTHERS) await log(home, story, now);
  await weeks(home, now);
  await liveAgent(home);
  return featured;
}

/** The same work on the days before, more of it on some and less at weekends, so that the figures by day have a shape. */
async function weeks(home, now) {
  const roll = dice("weeks");
  const usual = OTHERS.filter((story) => !story.failed);
  for (let day = 3; day < 29; day += 1) {
    const weekend = [0, 6].includes(new Date(now - day * 86_400_000).getDay());
    const runs = weekend ? Math.floor(roll() * 2) : 2 + Math.floor(roll() * 5);
    for (let run = 0; run < runs; run += 1) {
      const story = usual[Math.floor(roll() * usual.length)];
      const rounds = 2 + Math.floor(roll() * 9);
      const steps = Array.from({ length: rounds }, () => story.steps.slice(0, 2)).flat().concat(story.steps.slice(2));
      await log(home, { ...story, steps, ago: day * 1440 + roll() * 600 }, now, `${story.prompt}/${day}/${run}`);
    }
  }
}

/** A program named `claude` that begins the live run, and then works until it is ended. */
async function liveAgent(home) {
  const cwd = join(home, LIVE.project);
  const usage = { input_tokens: 4, cache_creation_input_tokens: 21_300, cache_read_input_tokens: 0, output_tokens: 212 };
  const message = (content) => ({ type: "assistant", message: { model: LIVE.model, id: "msg_live", type: "message", role: "assistant", content: [content], stop_reason: null, stop_sequence: null, usage }, parent_tool_use_id: null, session_id: "5d0f7a5e-6c1b-4c8e-9f53-2b7f0a4de0aa" });
  const lines = [
    { type: "system", subtype: "init", cwd: `/home/user/${LIVE.project}`, session_id: "5d0f7a5e-6c1b-4c8e-9f53-2b7f0a4de0aa", tools: ["Bash", "Edit", "Read"], mcp_servers: [], model: LIVE.model, permissionMode: "acceptEdits", claude_code_version: "2.1.325" },
    message({ type: "text", text: LIVE.said }),
    message({ type: "tool_use", id: "toolu_live", name: "Bash", input: { command: LIVE.command } }),
  ];
  await mkdir(join(home, "bin"), { recursive: true });
  await mkdir(cwd, { recursive: true });
  const script = join(home, "bin/claude");
  const printed = lines.map((line) => JSON.stringify(line)).join("\n");
  await writeFile(script, `#!/bin/sh\nif [ "$1" = --version ]; then echo '2.1.325 (Claude Code)'; exit; fi\ncat <<'EOT'\n${printed}\nEOT\nexec sleep 600\n`);
  await chmod(script, 0o755);
}
