// SPDX-License-Identifier: Apache-2.0
import { getJson, getText, parseMetrics, Refused, remove, stream, token } from "/page/api.js";
import { bar, plot } from "/page/plot.js";

const STEP_S = 2, COUNT = 151; // five minutes
const $ = (id) => document.getElementById(id);
const history = { rate: [], median: [], tail: [] };
let before = null, timer = 0, controller = null;

// Making elements: text is always text.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null) made.setAttribute(key, value);
  }
  made.append(...children.filter((c) => c !== null && c !== undefined));
  return made;
}

const number = (n) => n >= 1e6 ? `${(n / 1e6).toFixed(1)} M` : n >= 1e4 ? `${(n / 1e3).toFixed(1)} k` : String(Math.round(n));
const few = (n) => n >= 100 ? n.toFixed(0) : String(Number(n.toPrecision(2)));
const duration = (ms) => ms === null || ms === undefined ? "–" : ms < 1 ? `${ms.toFixed(2)} ms` : ms < 100 ? `${ms.toFixed(1)} ms` : ms < 10000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
const axis = (s) => s === 0 ? "0" : s < 1 ? `${few(s * 1000)} ms` : `${few(s)} s`;
const bytes = (n) => n >= 2 ** 30 ? `${(n / 2 ** 30).toFixed(1)} GiB` : n >= 2 ** 20 ? `${(n / 2 ** 20).toFixed(1)} MiB` : n >= 1024 ? `${(n / 1024).toFixed(0)} KiB` : `${n} B`;
const ago = (ms) => { const s = Math.max(0, (Date.now() - ms) / 1000); return s < 5 ? "now" : s < 90 ? `${Math.round(s)} s ago` : s < 5400 ? `${Math.round(s / 60)} min ago` : new Date(ms).toLocaleString(); };

// Quantile Q of what a histogram gained between two looks, in seconds; null: nothing.
function quantile(now, then, name, q) {
  const gained = [];
  for (const [key, value] of now) {
    const match = key.startsWith(`${name}_bucket{le="`) && key.slice(name.length + 12, -2);
    if (match) gained.push([match === "+Inf" ? Infinity : Number(match), value - (then?.get(key) || 0)]);
  }
  gained.sort((a, b) => a[0] - b[0]);
  const total = gained.at(-1)?.[1] || 0;
  if (total <= 0) return null;
  let low = 0, seen = 0;
  for (const [bound, below] of gained) {
    if (below >= q * total) {
      if (bound === Infinity) return low;
      return low + (bound - low) * (below === seen ? 1 : (q * total - seen) / (below - seen));
    }
    low = bound; seen = below;
  }
  return low;
}

function totalRuns(metrics) {
  let sum = 0;
  for (const [key, value] of metrics) if (key.startsWith("vial_runs_total{")) sum += value;
  return sum;
}

function push(list, value) {
  list.push(value);
  if (list.length > COUNT) list.shift();
}

function showMetrics(m) {
  const total = totalRuns(m);
  const gained = before ? total - totalRuns(before) : 0;
  const median = quantile(m, before, "vial_run_seconds", 0.5);
  push(history.rate, before ? Math.max(0, gained) / STEP_S : null);
  push(history.median, before ? median : null);
  push(history.tail, before ? quantile(m, before, "vial_run_seconds", 0.95) : null);
  before = m;
  const get = (name) => m.get(`vial_${name}`) || 0;
  const ever = quantile(m, null, "vial_run_seconds", 0.5), worst = quantile(m, null, "vial_run_seconds", 0.95);
  $("running").textContent = number(get("runs_active"));
  $("waiting").textContent = `${number(get("queue_length"))} waiting`;
  $("total").textContent = number(total);
  $("rate").textContent = `${few(history.rate.at(-1) || 0)} a second`;
  $("median").textContent = ever === null ? "–" : duration(ever * 1000);
  $("tail").textContent = worst === null ? "" : `95 %: ${duration(worst * 1000)}`;
  $("vessels").textContent = `${number(get("vessels"))} vessels on this host`;
  $("sessions").textContent = number(get("sessions_open"));
  $("connections").textContent = `${number(get("http_connections"))} connections`;
  drawPlots();
  showVerdicts(m, total);
}

function drawPlots() {
  plot($("throughput"), [{ name: "one", values: history.rate }], { count: COUNT, stepS: STEP_S, show: few, name: "Runs a second" });
  plot($("latency"), [{ name: "one", values: history.median }, { name: "two", values: history.tail }],
       { count: COUNT, stepS: STEP_S, show: axis, name: "Time a program runs, median and 95th percentile" });
}

const kind = (verdict) => verdict === "ok" ? "" : ["nonzero", "signal", "cancelled", "output_limit"].includes(verdict) ? "warn" : "worse";

function showVerdicts(m, total) {
  const rows = [];
  for (const [key, value] of m) {
    const verdict = key.startsWith("vial_runs_total{") && key.match(/verdict="(\w+)"/)?.[1];
    if (verdict && value > 0) rows.push([verdict, value]);
  }
  rows.sort((a, b) => b[1] - a[1]);
  $("verdicts").replaceChildren(...(rows.length ? rows.map(([verdict, value]) =>
    element("div", { class: `meter ${kind(verdict)}` }, element("span", {}, verdict), bar(value / total), element("span", {}, number(value))))
    : [element("p", { class: "empty" }, "Nothing has run yet.")]));
}

function showPool(pool) {
  const shapes = pool?.shapes || [];
  $("pooled").textContent = number(shapes.reduce((sum, s) => sum + (s.idle || 0), 0));
  if (!shapes.length) {
    $("pool").replaceChildren(element("p", { class: "empty" }, "No vessel waits: what is asked for again becomes warm."));
    return;
  }
  $("pool").replaceChildren(...shapes.map((s) => {
    const taken = s.taken || 0, asked = taken + (s.missed || 0);
    return element("div", { class: "meter", title: `${taken} of ${asked} runs were warm; a refill takes ${duration(s.refill_ms)}` },
      element("span", {}, s.language || s.image || "command"), bar(s.wanted ? Math.min(1, s.idle / s.wanted) : 0),
      element("span", {}, `${s.idle} / ${s.wanted}`));
  }));
}

function runRow(run) {
  const running = run.state === "running", verdict = running ? "running" : run.verdict || "ended";
  const id = run.id || run.request;
  return element("tr", {},
    element("td", {}, element("span", { class: `badge ${verdict}` }, verdict)),
    element("td", {}, element("span", { class: "what" }, run.what || "?")),
    element("td", {}, run.caller),
    element("td", { class: "num" }, running ? duration(Date.now() - run.started_ms) : duration(run.duration_ms)),
    element("td", { class: "num" }, ago(run.started_ms)),
    element("td", { class: "num" },
      running ? element("button", { type: "button", onclick: () => remove(`/v1/runs/${encodeURIComponent(id)}`).then(look, say) }, "Cancel")
              : element("button", { type: "button", "aria-label": `Show run ${id}`, onclick: () => showRun(id) }, "Show")));
}

function showRuns(runs) {
  const order = (r) => r.state === "running" ? 0 : 1;
  const sorted = [...runs].sort((a, b) => order(a) - order(b) || b.started_ms - a.started_ms);
  const focus = document.activeElement?.getAttribute("aria-label");
  $("runs").replaceChildren(...sorted.map(runRow));
  if (focus) for (const b of $("runs").querySelectorAll("button")) if (b.getAttribute("aria-label") === focus) b.focus();
  $("none").hidden = runs.length > 0;
  const going = runs.filter((r) => r.state === "running").length;
  $("shown").textContent = runs.length ? `${going} running, the last ${runs.length} shown` : "";
}

async function showRun(id) {
  try {
    const run = await getJson(`/v1/runs/${encodeURIComponent(id)}`);
    const result = run.result || {}, usage = result.usage || {};
    const facts = [["Verdict", run.verdict || run.state], ["Exit code", result.exit_code], ["Took", duration(run.duration_ms)],
      ["Start", result.start], ["Cpu", duration((usage.cpu_user_ms || 0) + (usage.cpu_system_ms || 0))], ["Memory, most", bytes(usage.memory_peak_bytes || 0)],
      ["Driver", result.driver], ["Isolation", result.isolation?.level], ["Limits touched", (result.limits_hit || []).join(", ") || "none"]];
    const text = (v) => typeof v === "string" ? v : v?.text ?? v?.data ?? "";
    $("detail-title").textContent = `${run.what || "run"} · ${run.id || run.request}`;
    $("facts").replaceChildren(...facts.filter(([, v]) => v !== null && v !== undefined && v !== "")
      .map(([k, v]) => element("div", {}, element("dt", {}, k), element("dd", {}, String(v)))));
    $("detail-out").textContent = text(run.stdout) || "(nothing)";
    $("detail-err").textContent = (text(run.stderr) || "(nothing)") + (result.error?.message ? `\n${result.error.code}: ${result.error.message}` : "");
    $("detail-json").textContent = JSON.stringify(result, null, 2);
    $("detail").showModal();
  } catch (error) { say(error); }
}

function health(text, how) {
  $("health").textContent = text;
  $("health").className = `pill ${how}`;
}

function say(error) {
  if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
    health(error.status === 401 ? "token wanted" : "not allowed", "warn");
    if (error.status === 401 && !$("ask").open && !say.declined) askToken(token.get() ? error.message : "");
    return;
  }
  health(error instanceof Refused ? error.message : "unreachable", "bad");
}

function askToken(why) {
  $("ask-error").textContent = why;
  $("token").value = "";
  $("ask").showModal();
  $("token").focus();
}

// One look at everything; the next one comes when this is done.
async function look() {
  clearTimeout(timer);
  try {
    const [metrics, runs, pool] = await Promise.all([
      getText("/metrics"), getJson("/v1/runs?all=1&limit=100"), getJson("/v1/pool").catch(() => null)]);
    health("ready", "good");
    showMetrics(parseMetrics(metrics));
    showRuns(runs);
    showPool(pool);
  } catch (error) { say(error); }
  if (!$("ask").open) timer = setTimeout(look, STEP_S * 1000);
}

const samples = {
  python: "import sys, time\n\nfor i in range(1, 6):\n    print(f\"step {i}: {sum(range(i * 1000)):>12,}\", flush=True)\n    time.sleep(0.2)\nprint(\"this goes to stderr\", file=sys.stderr)\n",
  bash: "for i in 1 2 3; do echo \"line $i\"; sleep 0.3; done\nid; uname -n\n",
  node: "for (let i = 1; i <= 3; i++) console.log(`line ${i}`);\nconsole.error('this goes to stderr');\n",
};

async function loadLanguages() {
  let names = Object.keys(samples);
  try {
    const [languages, about] = await Promise.all([getJson("/v1/languages"), getJson("/v1/version")]);
    names = languages.filter((l) => l.usable).map((l) => l.name);
    $("version").textContent = `${about.version} · ${about.caller}`;
  } catch (error) { say(error); }
  const chosen = $("language").value || (names.includes("python") ? "python" : names[0]);
  $("language").replaceChildren(...names.map((n) => element("option", n === chosen ? { selected: "" } : {}, n)));
  if (!$("code").value) $("code").value = samples[chosen] || "";
}

function write(text, how) {
  const out = $("output"), stays = out.scrollTop + out.clientHeight >= out.scrollHeight - 8;
  if (out.textContent.length > 1e6) return;
  out.append(how ? element("span", { class: how }, text) : text);
  if (stays) out.scrollTop = out.scrollHeight;
}

function decode(event) {
  if (event.data !== undefined) return event.data;
  return new TextDecoder().decode(Uint8Array.from(atob(event.base64 || ""), (c) => c.charCodeAt(0)));
}

function hear(event) {
  if (event.event === "stdout") write(decode(event));
  else if (event.event === "stderr") write(decode(event), "err");
  else if (event.event === "error") finish("failed", event.error?.message || "it was refused");
  else if (event.event === "result") {
    const r = event.result;
    finish(r.verdict, `${duration(r.duration_ms)}${r.start ? `, ${r.start}` : ""}, ${bytes(r.usage?.memory_peak_bytes || 0)}`);
    if (r.error?.message) write(`${r.error.code}: ${r.error.message}\n`, "note");
  }
}

function finish(verdict, text) {
  $("verdict").replaceChildren(element("span", { class: `badge ${verdict}` }, verdict), " ", element("span", { class: "quiet" }, text));
}

async function run(event) {
  event?.preventDefault();
  if (controller) return;
  controller = new AbortController();
  $("run").hidden = true;
  $("stop").hidden = false;
  $("output").replaceChildren();
  $("verdict").replaceChildren(element("span", { class: "badge running" }, "running"));
  const request = { language: $("language").value, code: $("code").value, timeout: $("timeout").value, memory: $("memory").value };
  if ($("stdin").value) request.stdin = $("stdin").value;
  try { await stream(request, hear, controller.signal); } catch (error) {
    if (error.name === "AbortError") finish("cancelled", "stopped here");
    else { finish("failed", error.message); if (error.remedy) write(`${error.remedy}\n`, "note"); if (error.status === 401) say(error); }
  }
  controller = null;
  $("run").hidden = false;
  $("stop").hidden = true;
  look();
}

function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  try { name ? localStorage.setItem("vial-theme", name) : null; } catch { /* private */ }
}

function start() {
  try { setTheme(localStorage.getItem("vial-theme")); } catch { /* private */ }
  $("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    setTheme(dark ? "light" : "dark");
  });
  $("form").addEventListener("submit", run);
  $("stop").addEventListener("click", () => controller?.abort());
  $("key").addEventListener("click", () => askToken(""));
  $("ask-form").addEventListener("submit", () => { token.set($("token").value.trim()); say.declined = false; setTimeout(() => { look(); loadLanguages(); }); });
  $("ask").addEventListener("cancel", () => { say.declined = true; });
  for (const b of document.querySelectorAll("[data-close]")) b.addEventListener("click", () => { if (b.closest("dialog") === $("ask")) say.declined = true; b.closest("dialog").close(); });
  $("language").addEventListener("change", () => { if (Object.values(samples).includes($("code").value) || !$("code").value) $("code").value = samples[$("language").value] || ""; });
  $("code").addEventListener("keydown", (e) => {
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) run(e);
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
  new ResizeObserver(drawPlots).observe($("throughput"));
  look();
  loadLanguages();
}

start();
