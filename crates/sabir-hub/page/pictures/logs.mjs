// Stories as the logs that agents keep: the same files in the same places, so that Sabir reads them as it reads real ones.

import { createHash } from "node:crypto";
import { mkdir, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

/** An id that is the same for the same story. */
function uuid(...parts) {
  const hex = createHash("sha256").update(parts.join("/")).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** Dice that fall the same way each time. */
export function dice(seed) {
  let state = parseInt(createHash("sha256").update(seed).digest("hex").slice(0, 8), 16);
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const cwdOf = (story) => `/home/user/${story.project}`;
const iso = (at) => new Date(at).toISOString();

/** Responses and calls with their times and figures, whoever logs them. The end of it all is `story.ago` minutes ago. */
function happened(story, seed, now) {
  const roll = dice(seed);
  // A story that is told to the second is not stretched.
  const pace = () => (story.exact ? 1 : 0.5 + roll() * 4);
  let [clock, held, number] = [1_000, story.grown, 0];
  const responses = story.steps.map((step, place) => {
    const begin = clock;
    clock += step.took * pace();
    const fresh = place === 0 ? held : Math.round(400 + roll() * 2_600);
    const usage = { fresh, cached: place === 0 ? 0 : held, output: Math.round(90 + step.took / 12 + roll() * 120), thought: step.think ? 80 : 0 };
    held += place === 0 ? 0 : fresh;
    const said = clock;
    const calls = (step.calls ?? []).map((call, order) => ({ ...call, id: `toolu_${uuid(seed, number += 1).slice(0, 12)}`, begin: said + order * 60, end: said + order * 60 + call.took * pace() }));
    clock = Math.max(said, ...calls.map((call) => call.end)) + 150;
    return { ...step, begin, said, calls, usage, id: `msg_${uuid(seed, "response", place).slice(0, 16)}` };
  });
  const start = now - story.ago * 60_000 - clock;
  const at = (after) => iso(start + after);
  return { responses, at, start, end: start + clock };
}

/** Writes the log of a story beneath a home, and says which session it is. */
export async function log(home, story, now, seed = story.prompt) {
  const session = uuid(seed, story.agent);
  const told = happened(story, seed, now);
  const files = WRITERS[story.agent](story, session, told, now);
  for (const [name, lines] of Object.entries(files)) {
    const file = join(home, name);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    // A log that was written to lately would be one that goes on.
    await utimes(file, told.end / 1000, told.end / 1000);
  }
  return session;
}

const WRITERS = { "claude-code": claude, codex, gemini, pi };

function claude(story, session, told) {
  const cwd = cwdOf(story);
  const folder = `.claude/projects/${cwd.replaceAll("/", "-")}`;
  const files = {};
  const write = (name, { responses, at }, prompt, agent) => {
    const lines = [];
    files[name] = lines;
    const line = (after, more) => lines.push({ parentUuid: lines.at(-1)?.uuid ?? null, isSidechain: agent !== null, ...(agent && { agentId: agent }), userType: "external", cwd, sessionId: session, version: "2.1.325", gitBranch: "main", timestamp: at(after), uuid: uuid(name, lines.length), ...more });
    line(0, { type: "user", message: { role: "user", content: prompt } });
    for (const { id, said, begin, think, say, calls, usage } of responses) {
      const content = [think && { type: "thinking", thinking: think, signature: "" }, say && { type: "text", text: say }, ...calls.map((call) => ({ type: "tool_use", id: call.id, name: call.name ?? (call.look ? "Read" : "Bash"), input: inputOf(call, cwd) }))].filter(Boolean);
      const counted = { input_tokens: 4, cache_creation_input_tokens: usage.fresh, cache_read_input_tokens: usage.cached, output_tokens: usage.output, cache_creation: { ephemeral_5m_input_tokens: usage.fresh, ephemeral_1h_input_tokens: 0 } };
      content.forEach((part, place) => {
        const last = place === content.length - 1;
        const when = part.type === "tool_use" ? calls.find((call) => call.id === part.id).begin : begin + ((said - begin) * (place + 1)) / content.length;
        line(when, { type: "assistant", requestId: `req_${id}`, message: { model: story.model, id, type: "message", role: "assistant", content: [part], stop_reason: last ? (calls.length > 0 ? "tool_use" : "end_turn") : null, stop_sequence: null, usage: counted } });
      });
      for (const call of [...calls].sort((a, b) => a.end - b.end)) {
        const helper = call.beneath && `a${call.id.slice(6, 13)}`;
        if (helper) write(`${folder}/${session}/subagents/agent-${helper}.jsonl`, within(call, at), call.input.prompt, helper);
        const result = call.patch ? { filePath: call.input.file_path, oldString: "", newString: "", originalFile: null, structuredPatch: hunks(call.patch), userModified: false, replaceAll: false } : helper ? { status: "completed", agentId: helper } : undefined;
        line(call.end, { type: "user", message: { role: "user", content: [{ tool_use_id: call.id, type: "tool_result", content: call.output ?? "", is_error: call.failed === true }] }, ...(result && { toolUseResult: result }) });
      }
    }
  };
  write(`${folder}/${session}.jsonl`, told, story.prompt, null);
  return files;
}

/** What a sub-agent did, while the call that started it went on. */
function within(call, at) {
  const inner = happened({ steps: call.beneath, grown: 6_200, ago: 0, exact: true }, call.id, 0);
  return { responses: inner.responses, at: (after) => at(call.begin + after) };
}

function inputOf(call, cwd) {
  if (call.input) return call.input;
  return call.look ? { file_path: `${cwd}/${call.look}` } : { command: call.command };
}

/** A diff as Claude Code keeps it. */
function hunks(patch) {
  const lines = patch.split("\n");
  const [, oldStart, oldLines, newStart, newLines] = /@@ -(\d+),(\d+) \+(\d+),(\d+) @@/.exec(lines[0]).map(Number);
  return [{ oldStart, oldLines, newStart, newLines, lines: lines.slice(1).filter((line) => line !== "") }];
}

function codex(story, session, { responses, at }) {
  const lines = [];
  const line = (after, type, payload) => lines.push({ timestamp: at(after), type, payload });
  const sum = { input_tokens: 0, cached_input_tokens: 0, output_tokens: 0, reasoning_output_tokens: 0, total_tokens: 0 };
  line(0, "session_meta", { id: session, timestamp: at(0), cwd: cwdOf(story), originator: "codex_exec", cli_version: "0.44.0", source: "exec" });
  line(0, "response_item", { type: "message", role: "user", content: [{ type: "input_text", text: story.prompt }] });
  line(0, "event_msg", { type: "user_message", message: story.prompt, kind: "plain" });
  line(0, "turn_context", { cwd: cwdOf(story), approval_policy: "never", sandbox_policy: { mode: "workspace-write" }, model: story.model, summary: "auto" });
  for (const { said, say, calls, usage } of responses) {
    const one = { input_tokens: usage.fresh + usage.cached, cached_input_tokens: usage.cached, output_tokens: usage.output, reasoning_output_tokens: usage.thought, total_tokens: usage.fresh + usage.cached + usage.output };
    for (const name of Object.keys(sum)) sum[name] += one[name];
    line(said, "event_msg", { type: "token_count", info: { total_token_usage: { ...sum }, last_token_usage: one, model_context_window: 272_000 }, rate_limits: null });
    if (say) {
      line(said, "event_msg", { type: "agent_message", message: say });
      line(said, "response_item", { type: "message", role: "assistant", content: [{ type: "output_text", text: say }] });
    }
    for (const call of calls) {
      const command = call.look ? `sed -n 1,120p ${call.look}` : call.command;
      line(call.begin, "response_item", { type: "function_call", name: "shell", arguments: JSON.stringify({ command: ["bash", "-lc", command] }), call_id: call.id });
      line(call.end, "response_item", { type: "function_call_output", call_id: call.id, output: JSON.stringify({ output: call.output ?? "", metadata: { exit_code: 0, duration_seconds: call.took / 1000 } }) });
    }
  }
  const last = responses.at(-1);
  const over = Math.max(last.said, ...last.calls.map((call) => call.end)) + 100;
  const failure = story.failed && { error: { message: story.failed, codex_error_info: "usage_limit_exceeded" } };
  line(over, "event_msg", { type: "task_complete", turn_id: uuid(session), last_agent_message: story.failed ? null : last.say, ...failure });
  return { [`.codex/sessions/${at(0).slice(0, 10).replaceAll("-", "/")}/rollout-${at(0).slice(0, 19).replaceAll(":", "-")}-${session}.jsonl`]: lines };
}

function gemini(story, session, { responses, at }) {
  const lines = [{ sessionId: session, projectHash: "", startTime: at(0), lastUpdated: at(0), kind: "main" }];
  lines.push({ $set: { messages: [{ id: uuid(session, "context"), timestamp: at(0), type: "user", content: [{ text: `<session_context>\n- **Workspace Directories:**\n  - ${cwdOf(story)}\n</session_context>` }] }], lastUpdated: at(0) } });
  lines.push({ id: uuid(session, "prompt"), timestamp: at(0), type: "user", content: [{ text: story.prompt }] });
  for (const { id, said, say, calls, usage } of responses) {
    const tokens = { input: usage.fresh + usage.cached, output: usage.output, cached: usage.cached, thoughts: usage.thought, tool: 0, total: usage.fresh + usage.cached + usage.output + usage.thought };
    const toolCalls = calls.map((call) => {
      const name = call.look ? "read_file" : "run_shell_command";
      return { id: call.id, name, args: call.look ? { file_path: call.look } : { command: call.command }, result: [{ functionResponse: { id: call.id, name, response: { output: call.output ?? "" } } }], status: "success", timestamp: at(call.end), resultDisplay: call.output ?? "" };
    });
    lines.push({ id, timestamp: at(said), type: "gemini", content: say ?? "", thoughts: [], tokens, model: story.model, ...(toolCalls.length > 0 && { toolCalls }) });
    lines.push({ $set: { lastUpdated: at(Math.max(said, ...calls.map((call) => call.end))) } });
  }
  return { [`.gemini/tmp/${story.project}/chats/session-${at(0).slice(0, 16).replaceAll(":", "-")}-${session.slice(0, 8)}.jsonl`]: lines };
}

function pi(story, session, { responses, at, start }) {
  const lines = [{ type: "session", version: 3, id: session, timestamp: at(0), cwd: cwdOf(story) }];
  const message = (after, value) => lines.push({ type: "message", id: uuid(session, lines.length).slice(0, 8), parentId: lines.at(-1).id.slice(0, 8), timestamp: at(after), message: { ...value, timestamp: Math.round(start + after) } });
  message(0, { role: "user", content: [{ type: "text", text: story.prompt }] });
  for (const { id, said, say, calls, usage } of responses) {
    const content = [say && { type: "text", text: say }, ...calls.map((call) => ({ type: "toolCall", id: call.id, name: call.look ? "read" : "bash", arguments: call.look ? { path: call.look } : { command: call.command } }))].filter(Boolean);
    const counted = { input: 4, output: usage.output, cacheRead: usage.cached, cacheWrite: usage.fresh, totalTokens: 4 + usage.output + usage.cached + usage.fresh };
    const cost = (usage.fresh * 1.25 + usage.cached * 0.1 + usage.output * 5) / 1e6;
    message(said, { role: "assistant", content, api: "anthropic-messages", provider: "anthropic", model: story.model, usage: { ...counted, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: cost } }, stopReason: calls.length > 0 ? "toolUse" : "stop", responseId: id });
    for (const call of calls) message(call.end, { role: "toolResult", toolCallId: call.id, toolName: call.look ? "read" : "bash", content: [{ type: "text", text: call.output ?? "" }], isError: false });
  }
  return { [`.pi/agent/sessions/--home-user-${story.project}--/${at(0).replace(/[:.]/g, "-")}_${session}.jsonl`]: lines };
}
