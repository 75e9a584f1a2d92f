// SPDX-License-Identifier: Apache-2.0
// The daemon's API: every call carries the token of this tab, if there is one.

const KEY = "vial-token";

export class Refused extends Error {
  constructor(status, error) {
    super(error?.message || `the daemon answered ${status}`);
    this.status = status;
    this.code = error?.code || "";
    this.remedy = error?.remedy || "";
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEY) || "",
  set: (text) => text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY),
};

export async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  const answer = await fetch(path, { ...options, headers, cache: "no-store" });
  if (answer.ok) return answer;
  let error = null;
  try { error = (await answer.json()).error; } catch { /* not ours */ }
  throw new Refused(answer.status, error);
}

const asJson = (value) => ({ method: "POST", body: JSON.stringify(value), headers: { "Content-Type": "application/json" } });

export const getJson = async (path) => (await ask(path)).json();
export const getText = async (path) => (await ask(path)).text();
export const getBytes = async (path) => (await ask(path)).arrayBuffer();
export const remove = (path) => ask(path, { method: "DELETE" });
export const post = (path, value) => ask(path, asJson(value));
export const send = (method, path, body) => ask(path, { method, body, headers: { "Content-Type": "application/octet-stream" } });

// Sends VALUE; HEAR gets each event of the answer as it comes.
export async function stream(path, value, hear, signal) {
  const answer = await ask(path, { ...asJson(value), signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value: text, done } = await reader.read();
    if (done) break;
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line) hear(JSON.parse(line));
  }
  if (rest) hear(JSON.parse(rest));
}

// Prometheus text into a map: "name{label}" to number.
export function parseMetrics(text) {
  const found = new Map();
  for (const line of text.split("\n")) {
    if (!line || line.startsWith("#")) continue;
    const at = line.lastIndexOf(" ");
    found.set(line.slice(0, at), Number(line.slice(at + 1)));
  }
  return found;
}
