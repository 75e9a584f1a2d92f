// SPDX-License-Identifier: Apache-2.0
// visit.mjs URL TOKEN SHOTS PROFILE: goes through the page as a person would, in a real
// Chromium, and prints what it saw as JSON. It judges nothing; test_page.py does.
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { browse } from "./chromium.mjs";

const [url, token, shots, profile] = process.argv.slice(2);
const saw = { origins: [], errors: [], failed: [], verdicts: {}, axe: [] };
const patience = { timeout: 60000 };
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const context = await browse(profile);
let checking = false;
context.setDefaultTimeout(patience.timeout);
const page = context.pages()[0] || await context.newPage();
page.on("pageerror", (error) => saw.errors.push(String(error)));
page.on("console", (m) => { if (m.type() === "error" && !checking && !/status of 40[01]/.test(m.text())) saw.errors.push(m.text()); });
page.on("request", (r) => { const o = new URL(r.url()).origin; if (!saw.origins.includes(o)) saw.origins.push(o); });

const text = (id) => page.locator(id).innerText();
const verdict = async (not = "running") => {
  await page.waitForFunction((n) => { const t = document.querySelector("#verdict .badge")?.textContent; return t && t !== n; }, not, patience);
  return page.locator("#verdict .badge").innerText();
};
async function fill(code, host = "#code-editor") {
  await page.locator(`${host} .cm-content`).focus();
  await page.keyboard.press("Control+A");
  await page.keyboard.press("Backspace");
  await page.keyboard.insertText(code);
}
async function play(code, timeout = "10s") {
  await fill(code);
  await page.fill("#timeout", timeout);
  await page.click("#run");
}
const visit = async (name) => { await page.locator("nav a", { hasText: name }).click(); };
// What a checker of accessibility finds in what is shown now.
async function check(name) {
  checking = true; // the checker tries styles that the page forbids
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  checking = false;
  for (const v of found.violations) saw.axe.push(`${name}: ${v.id}: ${v.nodes.map((n) => n.target.join(" ")).join(", ")}`);
}
async function shoot(name) {
  await page.evaluate(() => document.activeElement?.blur());
  await page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });
}

// Who is not known is asked for a token.
const first = await page.goto(url);
saw.headers = first.headers();
await page.waitForSelector("#ask[open]", patience);
await page.fill("#token", "vial_wrong");
await page.click("#ask-form .main");
await page.waitForSelector("#ask[open]", patience);
saw.wrong = await text("#ask-error");
await page.fill("#token", token);
await page.click("#ask-form .main");
await page.waitForFunction(() => document.getElementById("health").textContent === "ready", null, patience);
await page.waitForFunction(() => document.getElementById("language").options.length > 1, null, patience);
saw.languages = await page.locator("#language option").allInnerTexts();
await page.waitForSelector("#code-editor .cm-content", patience);

// The editor indents, counts lines and knows the language.
await fill("");
await page.locator("#code-editor .cm-content").click();
await page.keyboard.type("def f(x):\nreturn x");
saw.editor = { text: await page.locator("#code-editor .cm-content").innerText(), lines: await page.locator("#code-editor .cm-lineNumbers").innerText(),
  coloured: await page.locator("#code-editor .cm-line span[class]").count() };

// Output comes while the program runs, which goes on until it is let go.
const mark = `vial-page-${process.pid}`;
const held = () => readdirSync("/proc").filter((pid) => {
  try { return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, "latin1").startsWith(mark); } catch { return false; }
});
await play(`import subprocess, sys\nprint('first', flush=True)\nsys.stdin.read()\nsubprocess.run(['bash', '-c', 'exec -a ${mark} sleep 600'])\nprint('last')`, "60s");
await page.waitForFunction(() => document.getElementById("output").textContent.includes("first"), null, patience);
saw.while_running = { output: await text("#output"), verdict: await text("#verdict"), stop: await page.isVisible("#stop") };
while (held().length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
for (const pid of held()) process.kill(Number(pid));
saw.verdicts.ok = await verdict();
saw.output = await text("#output");

await play("import sys\nprint('<img src=x onerror=\"window.pwned=1\">')\nprint('\\u001b[2Jsad', file=sys.stderr)\nsys.exit(3)");
saw.verdicts.nonzero = await verdict();
saw.stderr = await page.locator("#output .err").allInnerTexts();
saw.markup = await text("#output");
saw.pwned = await page.evaluate(() => window.pwned ?? null);

await play("while True: pass", "1s");
saw.verdicts.timeout = await verdict();
await play("x = 'a' * (10 ** 10)");
saw.verdicts.oom = await verdict();
saw.why = await text("#output");
await page.fill("#memory", "9999g");
await play("print(1)");
saw.verdicts.refused = await verdict();
saw.refusal = await text("#verdict");
await page.fill("#memory", "256m");

// Nothing of a long output is lost without a word.
await play("import sys\nfor i in range(50): sys.stdout.write('x' * 99999 + '\\n')\nprint('the end')", "60s");
saw.verdicts.long = await verdict();
const download = page.waitForEvent("download");
await page.click("#save");
const saved = readFileSync(await (await download).path(), "utf8");
saw.long = { told: await text("#more-text"), length: saved.length, end: saved.slice(-8) };

// Pictures and tables stand beside the output.
const PICTURE = "import base64\nopen('dot.png', 'wb').write(base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='))\n";
await play(`${PICTURE}import os\nos.makedirs('.cache/lib')\nopen('.cache/lib/kept', 'w').write('x')\nopen('a-note.txt', 'w').write('x')\nopen('ages.csv', 'w').write('name,age\\n"Doe, ""J""",42\\nRoe,7\\n')\nprint('made')`);
saw.verdicts.made = await verdict();
await page.waitForFunction(() => document.querySelector("#made img")?.naturalWidth === 1, null, patience);
saw.table = await page.locator("#made table").innerText();
saw.made = await text("#made");

// The same program by a link, and in words for elsewhere.
await page.click("#share-open");
saw.ways = {};
for (const way of ["curl", "command", "python", "link"]) {
  await page.check(`#share input[value=${way}]`);
  saw.ways[way] = await page.inputValue("#share-text");
}
await check("share");
await page.keyboard.press("Escape");
await fill("print('something else')");
await page.evaluate((hash) => { location.hash = hash; }, new URL(saw.ways.link).hash);
await page.waitForFunction(() => !document.querySelector("#code-editor").shadowRoot.querySelector(".cm-content").textContent.includes("something else"), null, patience);
saw.linked = await page.locator("#code-editor .cm-content").innerText();

// A stranger's link is data, wherever it is put.
const evil = Buffer.from(JSON.stringify({ language: "python x; touch /tmp/never; #", timeout: "1s'; false #", code: "print('`it`')" })).toString("base64url");
await page.evaluate((hash) => { location.hash = hash; }, `#play=${evil}`);
await page.waitForFunction(() => document.querySelector("#code-editor").shadowRoot.querySelector(".cm-content").textContent.includes("`it`"), null, patience);
await page.click("#share-open");
await page.check("#share input[value=command]");
saw.evil = await page.inputValue("#share-text");
await page.keyboard.press("Escape");
await page.evaluate(() => { location.hash = "#play"; });

// Stopping here ends it there.
await play("import time\nprint('up', flush=True)\ntime.sleep(600)", "20m");
await page.waitForFunction(() => document.getElementById("output").textContent.includes("up"), null, patience);
await visit("Runs");
const mine = page.locator("#runs tr", { hasText: "token:page", has: page.locator(".badge.running") });
await mine.waitFor(patience);
saw.listed = await mine.innerText();
await visit("Playground");
await page.click("#stop");
saw.verdicts.stopped = await verdict();
await visit("Runs");
await page.waitForSelector("#runs .badge.cancelled", patience);

// From the keyboard alone.
await visit("Playground");
await page.fill("#timeout", "10s");
await fill("for i in range(1, 9):\n    print(f\"{i:>3} squared is {i * i:>3}\")\n");
await page.locator("#code-editor .cm-content").focus();
await page.keyboard.press("Control+Enter");
await page.waitForFunction(() => document.getElementById("output").textContent.includes("8 squared"), null, patience);
saw.verdicts.keyboard = await verdict();
await check("playground");
await shoot("play");

// Runs are found again, and shown in full.
await visit("Runs");
await page.waitForSelector("#runs .badge.ok", patience);
await page.selectOption("#runs-verdict", "oom");
saw.only = await page.locator("#runs .badge").allInnerTexts();
await page.selectOption("#runs-verdict", "ok");
await page.fill("#runs-search", "token:page python");
await page.locator("#runs tr").first().getByRole("button").click();
await page.waitForSelector("#detail[open]", patience);
saw.detail = { facts: await text("#facts"), out: await text("#detail-out"), code: await text("#detail-code") };
await check("run");
await page.screenshot({ path: `${shots}/run.png` });
await page.click("#again");
saw.again = await page.locator("#code-editor .cm-content").innerText();
await visit("Runs");
await page.fill("#runs-search", "");
await page.selectOption("#runs-verdict", "");
await check("runs");
await shoot("runs");

// A session: a terminal, files, an interpreter.
await visit("Sessions");
await page.click("#session-new");
await page.waitForSelector("#terminal iframe", patience);
const frame = page.frameLocator("#terminal iframe");
await frame.locator(".xterm-helper-textarea").waitFor({ state: "attached", ...patience });
await frame.locator(".xterm-screen").click();
const screen = () => frame.locator(".xterm-accessibility").innerText();
const seen = async (what) => { for (let i = 0; i < 600 && !(await screen()).includes(what); i++) await page.waitForTimeout(100); return screen(); };
await seen("$");
await page.keyboard.type("echo $((6*7))-$(tput cols)-made > answer.txt; cat answer.txt; test -t 0 && echo a-terminal\n");
saw.terminal = await seen("a-terminal\n");
await shoot("terminal");
await check("terminal");
await page.click("#session-tabs button[data-panel=files]");
await page.waitForFunction(() => document.getElementById("file-rows").textContent.includes("answer.txt"), null, patience);
const answer = page.waitForEvent("download");
await page.getByRole("button", { name: "Save answer.txt" }).click();
saw.file = readFileSync(await (await answer).path(), "utf8");
await page.setInputFiles("#file-up", { name: "up.txt", mimeType: "text/plain", buffer: Buffer.from("from the browser") });
await page.waitForFunction(() => document.getElementById("file-rows").textContent.includes("up.txt"), null, patience);
await shoot("files");
await page.click("#session-tabs button[data-panel=cells]");
await fill("x = open('up.txt').read()", "#cell-code-editor");
await page.click("#cell-run");
await page.waitForFunction(() => document.querySelectorAll("#cell-list li").length === 1, null, patience);
await fill("print('so: ' + x)\nlen(x)", "#cell-code-editor");
await page.click("#cell-run");
await page.waitForFunction(() => document.querySelectorAll("#cell-list li").length === 2, null, patience);
saw.cell = await page.locator("#cell-list li").last().innerText();
await check("cells");
await shoot("cells");
const session = (await page.evaluate(() => location.hash)).split("/")[1];
await page.getByRole("button", { name: `End session ${session}` }).click();
await page.waitForFunction((id) => ![...document.querySelectorAll("#session-rows tr")].some((r) => r.textContent.includes(id) && r.textContent.includes("open")), session, patience);
saw.ended = await page.isVisible("#session-one");
saw.ended_row = await page.locator("#session-rows tr", { hasText: session }).innerText();

// The last five minutes are there at once.
await visit("Overview");
await page.waitForFunction(() => document.querySelector("#throughput .line")?.getAttribute("d").split("L").length > 8, null, patience);
await page.waitForFunction(() => Number(document.getElementById("pooled").textContent) > 0, null, patience);
saw.charts = await page.evaluate(() => [...document.querySelectorAll(".chart svg")].map((s) => s.getAttribute("aria-label")));
saw.pool = await text("#pool");
await page.waitForFunction(() => document.querySelectorAll("#batches .meter").length > 0, null, patience);
saw.batches = await text("#batches");
// One of them still runs: its count grows while one looks.
const grown = async (seen) => (await page.waitForFunction((before) => {
  const now = [...document.querySelectorAll("#batches > *")].map((e) => e.innerText).find((t) => t.includes("day-set"));
  return now && /nonzero/.test(now) && now !== before ? now : false;
}, seen, patience)).jsonValue();
const before = await grown("");
saw.running = [before, await grown(before)];
await shoot("batches");
saw.tiles = await page.locator(".tile").allInnerTexts();
await check("overview");

// What assistive programs find.
saw.nameless = await page.evaluate(() => [...document.querySelectorAll("button, input, textarea, select, img")]
  .filter((e) => !(e.ariaLabel || e.labels?.length || e.textContent.trim() || e.hasAttribute("alt"))).map((e) => e.outerHTML));
saw.headings = await page.locator("h1").count();

// Light, dark and narrow.
await shoot("light");
await page.emulateMedia({ colorScheme: "dark" });
await page.waitForFunction(() => getComputedStyle(document.body).backgroundColor === "rgb(12, 19, 23)", null, patience);
await check("dark");
await shoot("dark");
await visit("Playground");
await check("dark playground");
await shoot("dark-play");
await page.click("#theme");
saw.toggled = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
await page.setViewportSize({ width: 390, height: 844 });
saw.overflow = {};
for (const name of ["Playground", "Sessions", "Runs", "Overview"]) {
  await visit(name);
  if (name === "Sessions") {
    await page.click("#session-new");
    await page.waitForSelector("#session-rows button", patience);
  }
  await page.waitForTimeout(300);
  // Neither the page nor a table in it is wider than what is seen of it.
  saw.overflow[name] = await page.evaluate(() => Math.max(document.documentElement.scrollWidth - window.innerWidth,
    ...[...document.querySelectorAll(".scroll")].map((e) => e.scrollWidth - e.clientWidth)));
  await shoot(`narrow-${name.toLowerCase()}`);
}

await context.close();
console.log(JSON.stringify(saw));
