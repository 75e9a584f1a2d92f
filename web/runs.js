// SPDX-License-Identifier: Apache-2.0
// The runs that go on and the last that ended, and one of them in full.
import { getJson, remove } from "/page/api.js";
import { $, ago, badge, button, bytes, duration, element, textOf } from "/page/dom.js";

let runs = [], shown = null;

function row(run, say) {
  const running = run.state === "running", id = run.id || run.request;
  return element("tr", {},
    element("td", {}, badge(running ? "running" : run.verdict || "ended")),
    element("td", {}, element("span", { class: "what" }, run.what || "?")),
    element("td", { class: "less" }, run.caller),
    element("td", { class: "num" }, running ? duration(Date.now() - run.started_ms) : duration(run.duration_ms)),
    element("td", { class: "num less" }, ago(run.started_ms)),
    element("td", { class: "num" },
      running ? button("Cancel", () => remove(`/v1/runs/${encodeURIComponent(id)}`).catch(say), { "aria-label": `Cancel run ${id}` })
              : button("Show", () => showRun(id).catch(say), { "aria-label": `Show run ${id}` })));
}

const wanted = (run) => {
  const verdict = $("runs-verdict").value, words = $("runs-search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const about = [run.id, run.request, run.caller, run.what, run.verdict, run.state].join(" ").toLowerCase();
  return (!verdict || (run.state === "running" ? "running" : run.verdict) === verdict) && words.every((w) => about.includes(w));
};

function draw(say) {
  const order = (r) => r.state === "running" ? 0 : 1;
  const list = runs.filter(wanted).sort((a, b) => order(a) - order(b) || b.started_ms - a.started_ms);
  const focus = document.activeElement?.getAttribute("aria-label");
  $("runs").replaceChildren(...list.map((r) => row(r, say)));
  if (focus) for (const b of $("runs").querySelectorAll("button")) if (b.getAttribute("aria-label") === focus) b.focus();
  $("none").hidden = list.length > 0;
  $("none").textContent = runs.length ? "No run is like that." : "No run yet. Start one in the playground, or with curl.";
  const going = runs.filter((r) => r.state === "running").length;
  $("shown").textContent = runs.length ? `${list.length} of the last ${runs.length}, ${going} running` : "";
}

const size = (v) => v === undefined || v === null ? undefined : typeof v === "number" ? bytes(v) : v;
const time = (v) => typeof v === "number" ? duration(v) : v;

// Some kernels count it in ticks of up to 10 ms.
const processor = (ms) => ms > 0 ? duration(ms) : "under 10 ms";

function facts(run) {
  const result = run.result || {}, usage = result.usage || {}, asked = run.asked || {};
  return [["Verdict", run.verdict || run.state], ["Exit code", result.exit_code], ["Took", duration(run.duration_ms)],
    ["Processor time", processor((usage.cpu_user_ms || 0) + (usage.cpu_system_ms || 0))],
    ["Memory, most", bytes(usage.memory_peak_bytes || 0)], ["Limits touched", (result.limits_hit || []).join(", ") || "none"],
    ["Time limit asked for", time(asked.timeout)], ["Memory asked for", size(asked.memory)], ["Caller", run.caller],
    ["Started", new Date(run.started_ms).toLocaleString()], ["Vessel was", result.start === "warm" ? "waiting" : result.start && "made for it"],
    ["Driver", result.driver], ["Isolation", result.isolation?.level], ["Layers", (result.isolation?.layers || []).join(", ")],
    ["Limits by", result.isolation?.limits_by]];
}

async function showRun(id) {
  const run = shown = await getJson(`/v1/runs/${encodeURIComponent(id)}`);
  const result = run.result || {}, code = textOf(run.asked?.program);
  $("detail-title").textContent = `${run.what || "run"} · ${run.id || run.request}`;
  $("facts").replaceChildren(...facts(run).filter(([, v]) => v !== null && v !== undefined && v !== "")
    .map(([k, v]) => element("div", String(v).length > 40 ? { class: "long" } : {}, element("dt", {}, k), element("dd", {}, String(v)))));
  $("detail-code").textContent = code || "(not kept)";
  $("again").hidden = !run.asked?.language || !code;
  $("detail-out").textContent = textOf(run.stdout) || "(nothing)";
  $("detail-err").textContent = (textOf(run.stderr) || "(nothing)") + (result.error?.message ? `\n${result.error.code}: ${result.error.message}` : "");
  $("detail-json").textContent = JSON.stringify(result, null, 2);
  $("detail").showModal();
}

export async function lookAtRuns(say) {
  runs = await getJson("/v1/runs?all=1&limit=200");
  draw(say);
}

// AGAIN gets a program that is to be opened in the playground.
export function startRuns(say, again) {
  $("runs-search").addEventListener("input", () => draw(say));
  $("runs-verdict").addEventListener("change", () => draw(say));
  $("again").addEventListener("click", () => {
    $("detail").close();
    again({ language: shown.asked.language, code: textOf(shown.asked.program) });
  });
}
