// SPDX-License-Identifier: Apache-2.0
// Vessels that stay open: a list, and of one its terminal, files and interpreters.
import { getBytes, getJson, post, remove, send } from "/page/api.js";
import { $, button, bytes, duration, element, empty, fromBase64, save } from "/page/dom.js";
import { openEditor } from "/page/editor.js";

const ENDED_SHOWN = 5; // the youngest of those that the daemon still knows
let current = null, directory = ".", cellEditor = null, say = () => {};
const base = () => `/v1/sessions/${encodeURIComponent(current)}`;
const where = (name) => directory === "." ? name : `${directory}/${name}`;
const filePath = (path) => `${base()}/files/${path.split("/").map(encodeURIComponent).join("/")}`;

function row(s) {
  return element("tr", s.id === current ? { class: "chosen" } : {},
    element("td", {}, element("code", {}, s.id)),
    element("td", {}, s.paused ? "paused" : s.outcome === "completed" ? "ended" : s.outcome),
    element("td", { class: "less" }, `${s.driver}, ${s.level}`),
    element("td", { class: "num less" }, String(s.execs)),
    element("td", { class: "num less" }, duration(s.age_ms)),
    element("td", { class: "num" }, s.outcome === "open" ? button("Open", () => { location.hash = `sessions/${s.id}`; }, { "aria-label": `Open session ${s.id}` }) : null, " ",
      s.outcome === "open" ? button(s.paused ? "Resume" : "Pause", () => freeze(s), { "aria-label": `${s.paused ? "Resume" : "Pause"} session ${s.id}` }) : null, " ",
      s.outcome === "open" ? button("End", () => end(s.id), { "aria-label": `End session ${s.id}` }) : null));
}

export async function lookAtSessions() {
  const list = await getJson("/v1/sessions");
  const focus = document.activeElement?.getAttribute("aria-label");
  const open = list.filter((s) => s.outcome === "open");
  const ended = list.filter((s) => s.outcome !== "open").sort((a, b) => a.age_ms - b.age_ms).slice(0, ENDED_SHOWN);
  $("session-rows").replaceChildren(...[...open, ...ended].map(row));
  if (focus) for (const b of $("session-rows").querySelectorAll("button")) if (b.getAttribute("aria-label") === focus) b.focus();
  $("session-none").hidden = list.length > 0;
  if (current && !list.some((s) => s.id === current && s.outcome === "open")) { close(); location.hash = "sessions"; }
}

async function begin() {
  try {
    const made = await (await post("/v1/sessions", { memory: $("session-memory").value || "256m", idle: $("session-idle").value || "30m" })).json();
    location.hash = `sessions/${made.id}`;
    await lookAtSessions();
  } catch (error) { say(error); }
}

async function freeze(s) {
  try {
    await post(`/v1/sessions/${encodeURIComponent(s.id)}/${s.paused ? "resume" : "pause"}`, {});
  } catch (error) { say(error); }
  await lookAtSessions();
}

async function end(id) {
  try { await remove(`/v1/sessions/${encodeURIComponent(id)}`); await lookAtSessions(); } catch (error) { say(error); }
}

function close() {
  current = null;
  $("session-one").hidden = true;
  $("terminal").replaceChildren();
}

// What of a session is shown: terminal, files or cells.
function choose(name) {
  for (const tab of document.querySelectorAll("#session-tabs button")) tab.setAttribute("aria-selected", String(tab.dataset.panel === name));
  for (const panel of document.querySelectorAll("#session-one [role=tabpanel]")) panel.hidden = panel.id !== `panel-${name}`;
  if (name === "terminal" && !$("terminal").firstChild)
    $("terminal").append(element("iframe", { src: `/page/terminal.html#${current}`, title: `Terminal in ${current}` }));
  if (name === "files") lookAtFiles().catch(say);
}

export function openSession(id) {
  if (id === current) return;
  close();
  if (!id) return;
  current = id;
  directory = ".";
  $("session-one").hidden = false;
  $("session-title").textContent = id;
  $("cell-list").replaceChildren();
  choose("terminal");
}

function fileRow(entry) {
  const name = entry.path.split("/").at(-1), path = where(name), folder = entry.type === "dir" || entry.type === "directory";
  return element("tr", {},
    element("td", {}, folder ? button(`${name}/`, () => { directory = path; lookAtFiles().catch(say); }, { class: "plain" }) : element("code", {}, name)),
    element("td", { class: "num" }, folder ? "" : bytes(entry.size)),
    element("td", { class: "num" }, folder ? null : button("Save", () => getBytes(filePath(path)).then((data) => save(name, [data]), say), { "aria-label": `Save ${name}` }), " ",
      button("Remove", () => remove(`${filePath(path)}${folder ? "?deep=1" : ""}`).then(lookAtFiles).catch(say), { "aria-label": `Remove ${name}` })));
}

async function lookAtFiles() {
  const entries = await getJson(`${base()}/list?path=${encodeURIComponent(directory)}`);
  const up = directory === "." ? [] : [element("tr", {}, element("td", { colspan: "3" }, button("../", () => {
    directory = directory.split("/").slice(0, -1).join("/") || ".";
    lookAtFiles().catch(say);
  }, { class: "plain" })))];
  $("file-where").textContent = directory === "." ? "/work" : `/work/${directory}`;
  $("file-rows").replaceChildren(...up, ...entries.sort((a, b) => a.path.localeCompare(b.path)).map(fileRow));
  $("file-none").hidden = entries.length > 0;
}

async function upload(event) {
  try {
    for (const file of event.target.files) await send("PUT", filePath(where(file.name)), file);
    await lookAtFiles();
  } catch (error) { say(error); }
  event.target.value = "";
}

function shownValue(value) {
  const picture = ["image/png", "image/jpeg", "image/svg+xml"].find((type) => value?.[type]);
  if (!picture) return value?.["text/plain"] ? element("pre", { class: "value" }, value["text/plain"]) : null;
  const data = picture === "image/svg+xml" ? [value[picture]] : [fromBase64(value[picture].replaceAll("\n", ""))];
  return element("img", { alt: "a picture that the cell shows", src: URL.createObjectURL(new Blob(data, { type: picture })) });
}

function cell(code, language, answer) {
  const error = answer.error;
  return element("li", {}, element("pre", { class: "code" }, code),
    answer.stdout ? element("pre", {}, answer.stdout) : null,
    answer.stderr ? element("pre", { class: "err" }, answer.stderr) : null,
    ...(answer.displays || []).map(shownValue), shownValue(answer.value),
    error ? element("pre", { class: "err" }, error.traceback || `${error.name || error.code || "error"}: ${error.value || error.message || ""}`) : null);
}

async function runCell() {
  const code = cellEditor.get(), language = $("cell-language").value;
  if (!code.trim()) return;
  $("cell-run").disabled = true;
  try {
    const answer = await (await post(`${base()}/contexts/${language}/run`, { code })).json();
    $("cell-list").append(cell(code, language, answer));
    cellEditor.set("");
    $("cell-list").lastElementChild.scrollIntoView({ block: "nearest" });
  } catch (error) { say(error); $("cell-list").append(element("li", {}, empty(error.message))); }
  $("cell-run").disabled = false;
}

export async function startSessions(refused) {
  say = refused;
  cellEditor = await openEditor($("cell-code"), runCell);
  cellEditor.language("python");
  $("session-form").addEventListener("submit", (e) => { e.preventDefault(); begin(); });
  for (const tab of document.querySelectorAll("#session-tabs button")) tab.addEventListener("click", () => choose(tab.dataset.panel));
  $("file-up").addEventListener("change", upload);
  $("cell-run").addEventListener("click", runCell);
  $("cell-language").addEventListener("change", () => cellEditor.language($("cell-language").value));
}
