// SPDX-License-Identifier: Apache-2.0
// The playground: a program, its output, and what it made.
import { getJson, stream } from "/page/api.js";
import { $, badge, bytes, duration, element, fromBase64, meaning, save } from "/page/dom.js";
import { openEditor } from "/page/editor.js";

const SHOWN_MAX = 4e6; // characters; all are kept for "Save"
const ROWS_MAX = 200;
const SAMPLES = {
  python: "import sys, time\n\nfor i in range(1, 6):\n    print(f\"step {i}: {sum(range(i * 1000)):>12,}\", flush=True)\n    time.sleep(0.2)\nprint(\"this goes to stderr\", file=sys.stderr)\n",
  bash: "for i in 1 2 3; do echo \"line $i\"; sleep 0.3; done\nid; uname -n\n",
  node: "for (let i = 1; i <= 3; i++) console.log(`line ${i}`);\nconsole.error('this goes to stderr');\n",
};
// What a person can do about a limit here.
const RAISE = { timeout: "; 'Time' below the code gives it more", oom: "; 'Memory' below the code gives it more" };
let editor = null, controller = null, printed = [], shown = 0, pictures = [];

function request() {
  const made = { language: $("language").value, code: editor.get() };
  for (const name of ["timeout", "memory", "stdin"]) if ($(name).value) made[name] = $(name).value;
  return made;
}

// Everything that was printed is kept; what is too much to show is told, and can be saved.
function write(text, how) {
  const out = $("output"), stays = out.scrollTop + out.clientHeight >= out.scrollHeight - 8;
  printed.push(text);
  shown += text.length;
  if (shown > SHOWN_MAX) {
    $("more").hidden = false;
    $("more-text").textContent = `${(shown / 1e6).toFixed(1)} million characters were printed; the first ${SHOWN_MAX / 1e6} million are shown.`;
    return;
  }
  out.append(how ? element("span", { class: how }, text) : text);
  if (stays) out.scrollTop = out.scrollHeight;
}

const decode = (event) => event.data !== undefined ? event.data : new TextDecoder().decode(fromBase64(event.base64));

function finish(verdict, text) {
  $("verdict").replaceChildren(badge(verdict), " ", element("span", { class: "quiet" }, text));
}

function picture(made) {
  const url = URL.createObjectURL(new Blob([fromBase64(made.content_base64)], { type: made.type }));
  pictures.push(url);
  return element("img", { src: url, alt: `picture ${made.path}` });
}

// Commas, quotes and doubled quotes; no more is meant to be understood.
function cells(line, by) {
  const row = [];
  for (const [, quoted, bare] of line.matchAll(by === "\t" ? /()([^\t]*)(?:\t|$)/g : /(?:"((?:[^"]|"")*)"|([^,]*))(?:,|$)/g))
    row.push(quoted ? quoted.replaceAll('""', '"') : bare || "");
  return row.slice(0, -1).length ? row.slice(0, -1) : row;
}

function table(made) {
  const lines = new TextDecoder().decode(fromBase64(made.content_base64)).split(/\r?\n/).filter(Boolean);
  const rows = lines.slice(0, ROWS_MAX + 1).map((line) => cells(line, made.type.includes("tab") ? "\t" : ","));
  const [head = [], ...body] = rows;
  return element("div", { class: "scroll" },
    element("table", {}, element("thead", {}, element("tr", {}, ...head.map((c) => element("th", {}, c)))),
            element("tbody", {}, ...body.map((row) => element("tr", {}, ...row.map((c) => element("td", {}, c)))))),
    lines.length > ROWS_MAX + 1 ? element("p", { class: "quiet" }, `the first ${ROWS_MAX} of ${lines.length - 1} rows`) : null);
}

const isTable = (made) => /^text\/(csv|tab-separated-values)/.test(made.type || "");

// Pictures and tables first; what a library keeps for itself, such as .cache, is not meant.
const seen = (made) => made.content_base64 && (made.type.startsWith("image/") || isTable(made));
const meant = (list) => list.filter((made) => !/(^|\/)\.cache\//.test(made.path)).sort((a, b) => !!seen(b) - !!seen(a));

function showMade(all) {
  const list = meant(all);
  for (const url of pictures.splice(0)) URL.revokeObjectURL(url);
  $("made").replaceChildren(...list.map((made) => element("figure", {},
    !seen(made) ? null : isTable(made) ? table(made) : picture(made),
    element("figcaption", {}, element("code", {}, made.path), ` ${bytes(made.bytes)}`))));
  $("made").hidden = list.length === 0;
}

function hear(event) {
  if (event.event === "stdout") write(decode(event));
  else if (event.event === "stderr") write(decode(event), "err");
  else if (event.event === "error") finish("failed", event.error?.message || "it was refused");
  else if (event.event === "result") {
    const r = event.result;
    finish(r.verdict, `${r.exit_code ? `exit code ${r.exit_code}, ` : ""}${duration(r.duration_ms)}, ${bytes(r.usage?.memory_peak_bytes || 0)}`);
    if (r.error?.message) write(`${r.error.message}\n${r.error.remedy ? `${r.error.remedy}\n` : ""}`, "note");
    else if (!["ok", "nonzero"].includes(r.verdict)) write(`${meaning(r.verdict)}${RAISE[r.verdict] || ""}\n`, "note");
    showMade(r.artifacts || []);
  }
}

async function run(ended, refused) {
  if (controller) return;
  controller = new AbortController();
  printed = []; shown = 0;
  $("run").hidden = true;
  $("stop").hidden = false;
  $("more").hidden = true;
  $("output").replaceChildren();
  showMade([]);
  $("verdict").replaceChildren(badge("running"));
  try { await stream("/v1/run?stream=ndjson", { ...request(), artifacts: "." }, hear, controller.signal); } catch (error) {
    if (error.name === "AbortError") finish("cancelled", "stopped here");
    else { finish(error.status >= 400 && error.status < 500 ? "denied" : "failed", error.message); if (error.remedy) write(`${error.remedy}\n`, "note"); if (error.status === 401) refused(error); }
  }
  controller = null;
  $("run").hidden = false;
  $("stop").hidden = true;
  ended();
}

// The same program elsewhere. A link has it behind "#", which browsers send to nobody.
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const encode = (value) => btoa(String.fromCharCode(...new TextEncoder().encode(JSON.stringify(value)))).replaceAll("+", "-").replaceAll("/", "_");
const decodeLink = (text) => JSON.parse(new TextDecoder().decode(fromBase64(text.replaceAll("-", "+").replaceAll("_", "/"))));
const WAYS = {
  link: (r) => `${location.origin}/#play=${encode(r)}`,
  curl: (r) => `curl -s ${location.origin}/v1/run -H "Authorization: Bearer $TOKEN" \\\n  -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(r))}`,
  command: (r) => `printf %s ${quoted(r.code)} | vial run${r.timeout ? ` --timeout ${quoted(r.timeout)}` : ""}${r.memory ? ` --memory ${quoted(r.memory)}` : ""}${r.stdin ? ` --stdin ${quoted(r.stdin)}` : ""} ${quoted(r.language)} -`,
  python: (r) => `import json, os, urllib.request\n\nrequest = urllib.request.Request(${JSON.stringify(`${location.origin}/v1/run`)},\n    data=json.dumps(${JSON.stringify(r, null, 4)}).encode(),\n    headers={"Authorization": "Bearer " + os.environ["TOKEN"], "Content-Type": "application/json"})\nprint(json.load(urllib.request.urlopen(request))["stdout"])`,
};

function share() {
  const show = () => { $("share-text").value = WAYS[document.querySelector("#share input:checked").value](request()); };
  for (const radio of document.querySelectorAll("#share input")) radio.onchange = show;
  show();
  $("share").showModal();
}

async function copy() {
  $("share-text").select();
  try { await navigator.clipboard.writeText($("share-text").value); } catch { document.execCommand("copy"); }
  $("copied").textContent = "copied";
  setTimeout(() => { $("copied").textContent = ""; }, 2000);
}

// Puts a program into the playground; fields that it lacks stay. It may come from a
// stranger's link: a language is one of those that the daemon named.
export function openProgram(program) {
  if ([...$("language").options].some((o) => o.value === program.language)) $("language").value = program.language;
  for (const name of ["timeout", "memory", "stdin"]) if (typeof program[name] === "string") $(name).value = program[name];
  if (typeof program.code === "string") editor.set(program.code);
  editor.language($("language").value);
}

export function openLink(hash) {
  try { openProgram(decodeLink(hash.slice("#play=".length))); } catch { finish("failed", "this link holds no program"); }
}

export async function loadLanguages() {
  const languages = await getJson("/v1/languages");
  const names = languages.filter((l) => l.usable).map((l) => l.name);
  const chosen = $("language").value || (names.includes("python") ? "python" : names[0]);
  $("language").replaceChildren(...names.map((n) => element("option", n === chosen ? { selected: "" } : {}, n)));
  if (!editor.get()) editor.set(SAMPLES[chosen] || "");
  editor.language(chosen);
}

export async function startPlay(ended, refused) {
  const act = () => run(ended, refused);
  editor = await openEditor($("code"), act);
  $("form").addEventListener("submit", (e) => { e.preventDefault(); act(); });
  $("stop").addEventListener("click", () => controller?.abort());
  $("share-open").addEventListener("click", share);
  $("copy").addEventListener("click", copy);
  $("save").addEventListener("click", () => save("output.txt", printed, "text/plain"));
  $("language").addEventListener("change", () => {
    if (!editor.get() || Object.values(SAMPLES).includes(editor.get())) editor.set(SAMPLES[$("language").value] || "");
    editor.language($("language").value);
  });
}
