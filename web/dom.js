// SPDX-License-Identifier: Apache-2.0
// Making elements (text is always text), and numbers as people read them.

export const $ = (id) => document.getElementById(id);

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((c) => c !== null && c !== undefined));
  return made;
}

export const button = (text, onclick, attributes = {}) => element("button", { type: "button", onclick, ...attributes }, text);
export const empty = (text) => element("p", { class: "empty" }, text);

export const number = (n) => n >= 1e6 ? `${(n / 1e6).toFixed(1)} M` : n >= 1e4 ? `${(n / 1e3).toFixed(1)} k` : String(Math.round(n));
export const few = (n) => n >= 100 ? n.toFixed(0) : String(Number(n.toPrecision(2)));
export const duration = (ms) => ms === null || ms === undefined ? "–" : ms < 1 ? `${ms.toFixed(2)} ms` : ms < 100 ? `${ms.toFixed(1)} ms` : ms < 1000 ? `${Math.round(ms)} ms` : ms < 10000 ? `${(ms / 1000).toFixed(2)} s` : ms < 120000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 60000)} min`;
export const bytes = (n) => n >= 2 ** 30 ? `${(n / 2 ** 30).toFixed(1)} GiB` : n >= 2 ** 20 ? `${(n / 2 ** 20).toFixed(1)} MiB` : n >= 1024 ? `${(n / 1024).toFixed(0)} KiB` : `${n} B`;
export const ago = (ms) => { const s = Math.max(0, (Date.now() - ms) / 1000); return s < 5 ? "now" : s < 90 ? `${Math.round(s)} s ago` : s < 5400 ? `${Math.round(s / 60)} min ago` : new Date(ms).toLocaleString(); };

// What a run's verdict means, for who sees it for the first time.
const MEANING = {
  ok: "it ended by itself, with exit code 0", nonzero: "it ended by itself, with another exit code",
  signal: "a signal ended it", timeout: "it ran longer than its time limit", cpu_timeout: "it used more processor time than allowed",
  oom: "it needed more memory than allowed", disk: "it filled its disk", pids: "it started too many processes",
  output_limit: "it printed more than allowed", denied: "the request was refused", cancelled: "somebody stopped it",
  failed: "vial itself failed", running: "it runs",
};
export const meaning = (verdict) => MEANING[verdict] || "";
export const badge = (verdict) => element("span", { class: `badge ${verdict}`, title: meaning(verdict) }, verdict);

// Bytes as text where they are; the daemon says the rest in base64.
export const fromBase64 = (text) => Uint8Array.from(atob(text || ""), (c) => c.charCodeAt(0));
export const textOf = (v) => typeof v === "string" ? v : v?.text ?? v?.data ?? (v?.base64 !== undefined ? new TextDecoder().decode(fromBase64(v.base64)) : "");

export function save(name, parts, type = "application/octet-stream") {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const link = element("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
