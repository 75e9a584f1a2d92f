// SPDX-License-Identifier: Apache-2.0
// What the daemon does now and did in the last five minutes.
import { getJson, getText, parseMetrics } from "/page/api.js";
import { $, bytes, duration, element, empty, few, number } from "/page/dom.js";
import { bar, plot } from "/page/plot.js";

let recent = null;
const axis = (ms) => ms === 0 ? "0" : ms < 1000 ? `${few(ms)} ms` : `${few(ms / 1000)} s`;

// The mean of each value and the four before it: one run makes no spike.
const smooth = (values) => values.map((_, i) => { const some = values.slice(Math.max(0, i - 4), i + 1); return some.reduce((a, b) => a + b, 0) / some.length; });

export function drawPlots() {
  if (!recent) return;
  const stepS = recent.slot_ms / 1000, count = recent.ended.length;
  plot($("throughput"), [{ name: "one", values: smooth(recent.ended.map((n) => n / stepS)) }], { count, stepS, show: few, name: "Runs a second" });
  plot($("latency"), [{ name: "one", values: recent.median_ms }, { name: "two", values: recent.p95_ms }],
       { count, stepS, show: axis, name: "How long runs took, median and 95th percentile" });
}

const kind = (verdict) => verdict === "ok" ? "" : ["nonzero", "signal", "cancelled", "output_limit"].includes(verdict) ? "warn" : "worse";

function meter(name, part, text, how = "", title = null) {
  return element("div", { class: `meter ${how}`, title }, element("span", {}, name), bar(part), element("span", {}, text));
}

function showVerdicts(rows, total) {
  rows.sort((a, b) => b[1] - a[1]);
  $("verdicts").replaceChildren(...(rows.length ? rows.map(([verdict, value]) => meter(verdict, value / total, number(value), kind(verdict)))
    : [empty("Nothing has run yet.")]));
}

// What a reader cannot tell apart, such as the vessels that wait for one caller, is one row.
function showPool(shapes) {
  const rows = new Map();
  for (const s of shapes.filter((shape) => shape.wanted > 0)) {
    const name = `${s.language || s.image || "command"}, ${bytes(s.memory_bytes || 0)}`;
    const sum = rows.get(name) || { wanted: 0, idle: 0, taken: 0, asked: 0 };
    rows.set(name, { wanted: sum.wanted + s.wanted, idle: sum.idle + s.idle, taken: sum.taken + (s.taken || 0),
                     asked: sum.asked + (s.taken || 0) + (s.missed || 0), refill: s.refill_ms });
  }
  $("pool").replaceChildren(...(rows.size ? [...rows].map(([name, s]) =>
    meter(name, Math.min(1, s.idle / s.wanted), `${s.idle} of ${s.wanted}`, "",
          `${s.taken} of ${s.asked} runs found one waiting; making one takes ${duration(s.refill)}`))
    : [empty("None waits. Vessels are made ahead for what is asked for often.")]));
}

// A batch is seen while it runs: how far it is, how fast, and what came of its runs.
function showBatches(batches) {
  $("batches-card").hidden = batches.length === 0;
  $("batches").replaceChildren(...batches.map((b) => {
    const good = b.verdicts.ok || 0, others = Object.entries(b.verdicts).filter(([name]) => name !== "ok").sort((a, c) => c[1] - a[1]);
    const pace = b.active ? `${few(b.per_second)} a second` : `ended, ${few(b.seconds)} s`;
    return meter(b.name, b.runs ? good / b.runs : 0, `${number(b.runs)} runs, ${pace}: ` +
                 [["ok", good], ...others].map(([name, value]) => `${name} ${number(value)}`).join(", "),
                 b.verdicts.failed ? "worse" : others.length ? "warn" : "", `asked for by ${b.caller}`);
  }));
}

export async function lookAtOverview() {
  const [text, now, pool] = await Promise.all([getText("/metrics"), getJson("/v1/recent"), getJson("/v1/pool").catch(() => null)]);
  const metrics = parseMetrics(text), get = (name) => metrics.get(`vial_${name}`) || 0, shapes = pool?.shapes || [];
  const verdicts = [...metrics].map(([key, value]) => [key.match(/^vial_runs_total\{.*verdict="(\w+)"/)?.[1], value]).filter(([name, value]) => name && value > 0);
  const total = verdicts.reduce((sum, [, value]) => sum + value, 0);
  recent = now;
  $("running").textContent = number(get("runs_active"));
  $("waiting").textContent = `${number(get("queue_length"))} wait for their turn`;
  $("total").textContent = number(total);
  $("rate").textContent = `${number(now.all.ended)} in five minutes`;
  $("median").textContent = duration(now.all.median_ms);
  $("tail").textContent = now.all.p95_ms === null ? "in five minutes" : `95 % within ${duration(now.all.p95_ms)}`;
  $("pooled").textContent = number(shapes.reduce((sum, s) => sum + (s.idle || 0), 0));
  $("vessels").textContent = "ready for the next run";
  $("sessions-open").textContent = number(get("sessions_open"));
  $("connections").textContent = `${number(get("http_connections"))} connections`;
  drawPlots();
  showVerdicts(verdicts, total);
  showPool(shapes);
  showBatches(now.batches || []);
}
