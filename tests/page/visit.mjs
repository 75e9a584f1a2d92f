// SPDX-License-Identifier: Apache-2.0
// visit.mjs URL TOKEN SHOTS PROFILE: goes through the page as a person would, in a real
// Chromium, and prints what it saw as JSON. It judges nothing; test_page.py does.
import { readdirSync, readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const [url, token, shots, profile] = process.argv.slice(2);
const saw = { origins: [], errors: [], failed: [], verdicts: {} };
const patience = { timeout: 60000 };

const context = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  headless: true, chromiumSandbox: false, timeout: 120000,
  viewport: { width: 1280, height: 900 }, colorScheme: "light", deviceScaleFactor: 1,
  args: ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--no-first-run"],
});
context.setDefaultTimeout(patience.timeout);
const page = context.pages()[0] || await context.newPage();
page.on("pageerror", (error) => saw.errors.push(String(error)));
page.on("console", (m) => { if (m.type() === "error" && !/status of 40[01]/.test(m.text())) saw.errors.push(m.text()); });
page.on("request", (r) => { const o = new URL(r.url()).origin; if (!saw.origins.includes(o)) saw.origins.push(o); });

const text = (id) => page.locator(id).innerText();
const verdict = async (not = "running") => {
  await page.waitForFunction((n) => { const t = document.querySelector("#verdict .badge")?.textContent; return t && t !== n; }, not, patience);
  return page.locator("#verdict .badge").innerText();
};
async function play(code, timeout = "10s") {
  await page.fill("#code", code);
  await page.fill("#timeout", timeout);
  await page.click("#run");
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
await page.fill("#memory", "9999g");
await play("print(1)");
saw.verdicts.refused = await verdict();
saw.refusal = await text("#verdict");
await page.fill("#memory", "256m");

// Stopping here ends it there.
await play("import time\nprint('up', flush=True)\ntime.sleep(600)", "20m");
await page.waitForFunction(() => document.getElementById("output").textContent.includes("up"), null, patience);
await page.waitForSelector("#runs .badge.running", patience);
const mine = page.locator("#runs tr", { hasText: "token:page", has: page.locator(".badge.running") });
await mine.waitFor(patience);
saw.listed = await mine.innerText();
await page.click("#stop");
saw.verdicts.stopped = await verdict();
await page.waitForSelector("#runs .badge.cancelled", patience);

// From the keyboard alone.
await page.fill("#timeout", "10s");
await page.fill("#code", "for i in range(1, 9):\n    print(f\"{i:>3} squared is {i * i:>3}\")\n");
await page.focus("#code");
await page.keyboard.press("Control+Enter");
await page.waitForFunction(() => document.getElementById("output").textContent.includes("8 squared"), null, patience);
saw.verdicts.keyboard = await verdict();

// One run in full.
await page.waitForSelector("#runs .badge.ok", patience);
await page.locator("#runs tr", { has: page.locator(".badge.ok") }).first().getByRole("button").click();
await page.waitForSelector("#detail[open]", patience);
saw.detail = { facts: await text("#facts"), out: await text("#detail-out") };
await page.screenshot({ path: `${shots}/run.png` });
await page.keyboard.press("Escape");

// What assistive programs find.
saw.nameless = await page.evaluate(() => [...document.querySelectorAll("button, input, textarea, select, img")]
  .filter((e) => !(e.ariaLabel || e.labels?.length || e.textContent.trim() || e.hasAttribute("alt"))).map((e) => e.outerHTML));
saw.headings = await page.locator("h1").count();
saw.charts = await page.evaluate(() => [...document.querySelectorAll(".chart svg")].map((s) => s.getAttribute("aria-label")));

// Some minutes of looks would make a finer plot; a few are enough to see lines.
await page.waitForFunction(() => document.querySelector("#throughput .line")?.getAttribute("d").split("L").length > 8, null, patience);
await page.waitForFunction(() => Number(document.getElementById("pooled").textContent) > 0, null, patience);
saw.pool = await text("#pool");
saw.tiles = await page.locator(".tile").allInnerTexts();
await page.evaluate(() => document.activeElement?.blur());
await page.screenshot({ path: `${shots}/light.png`, fullPage: true });
await page.emulateMedia({ colorScheme: "dark" });
await page.waitForFunction(() => getComputedStyle(document.body).backgroundColor === "rgb(12, 19, 23)", null, patience);
await page.screenshot({ path: `${shots}/dark.png`, fullPage: true });
await page.click("#theme");
saw.toggled = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
await page.setViewportSize({ width: 390, height: 844 });
await page.waitForFunction(() => document.querySelector("#throughput svg").viewBox.baseVal.width < 390, null, patience);
saw.overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
await page.screenshot({ path: `${shots}/narrow.png`, fullPage: true });

await context.close();
console.log(JSON.stringify(saw));
